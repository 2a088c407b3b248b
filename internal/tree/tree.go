// Package tree parses files of settings, in TOML, YAML or JSON, to one tree of values, each
// with the place where it stands, so that a mistake in them can be shown.
package tree

import (
	"errors"
	"fmt"
	"slices"

	"llmprof/internal/input"
)

// A Node is a value of a file, whatever form the file has: a scalar, a list or
// a table, and where it stands.
type Node struct {
	At     Place
	Kind   Kind
	Scalar any // string, bool, int64, uint64, float64 or nil
	Items  []*Node
	Pairs  []Pair
	Legacy bool // The value stood under a name of LLM Energy Measure.
}

// A Pair is a key of a table with its value.
type Pair struct {
	Key   string
	At    Place
	Value *Node
}

// Kind is what a node is.
type Kind uint8

// The kinds.
const (
	ScalarKind Kind = iota
	ListKind
	TableKind
)

// What names the node's type in errors.
func (n *Node) What() string {
	switch n.Kind {
	case ListKind:
		return "a list"
	case TableKind:
		return "a table"
	}
	switch v := n.Scalar.(type) {
	case nil:
		return "null"
	case string:
		return fmt.Sprintf("the text %.40q", v)
	case bool:
		return fmt.Sprint(v)
	}
	return fmt.Sprintf("the number %v", n.Scalar)
}

// Get is the value of a key, nil if the table has none.
func (n *Node) Get(key string) *Node {
	if i := n.index(key); i >= 0 {
		return n.Pairs[i].Value
	}
	return nil
}

func (n *Node) index(key string) int {
	return slices.IndexFunc(n.Pairs, func(p Pair) bool { return p.Key == key })
}

// Take is get, and removes the key.
func (n *Node) Take(key string) *Node {
	i := n.index(key)
	if i < 0 {
		return nil
	}
	v := n.Pairs[i].Value
	n.Pairs = append(n.Pairs[:i:i], n.Pairs[i+1:]...)
	return v
}

// Put sets the value of a key.
func (n *Node) Put(p Pair) {
	if i := n.index(p.Key); i >= 0 {
		n.Pairs[i] = p
		return
	}
	n.Pairs = append(n.Pairs, p)
}

// Over lays n over base: tables are joined key by key, anything else replaces
// what was there. Neither is changed.
func (n *Node) Over(base *Node) *Node {
	if base == nil || n.Kind != TableKind || base.Kind != TableKind {
		return n
	}
	joined := &Node{At: n.At, Kind: TableKind, Pairs: append([]Pair(nil), base.Pairs...)}
	for _, p := range n.Pairs {
		p.Value = p.Value.Over(base.Get(p.Key))
		joined.Put(p)
	}
	return joined
}

// Plain is n without places, for values of any form.
func (n *Node) Plain() any {
	switch n.Kind {
	case ListKind:
		list := make([]any, len(n.Items))
		for i, item := range n.Items {
			list[i] = item.Plain()
		}
		return list
	case TableKind:
		table := make(map[string]any, len(n.Pairs))
		for _, p := range n.Pairs {
			table[p.Key] = p.Value.Plain()
		}
		return table
	}
	return n.Scalar
}

// Limits of one file: more than anybody writes by hand. A grid of a few lines gives
// as many points as may be run.
const (
	MostText   = 1 << 20
	deepest    = 64
	mostValues = 30_000
)

// within holds the text to the limits, as hold counts its form.
func (s *Source) within(check func(input.Limits, string) error) error {
	err := check(input.Limits{Bytes: MostText, Depth: deepest, Values: mostValues}, s.Text)
	if limit, ok := errors.AsType[*input.LimitError](err); ok {
		return s.place(limit.Line, limit.Column, 1).Errorf("%s", limit.Problem)
	}
	return err
}

// MostCount bounds what is counted: beyond any use.
const MostCount = 1 << 30

// Whole is a number without a fraction and not below 0.
func Whole(scalar any) (uint64, bool) {
	switch v := scalar.(type) {
	case int64:
		return uint64(max(v, 0)), v >= 0
	case uint64:
		return v, true
	}
	return 0, false
}
