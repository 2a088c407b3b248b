package experiment

import "fmt"

// A node is a value of a file, whatever form the file has: a scalar, a list or
// a table, and where it stands.
type node struct {
	at     place
	kind   kind
	scalar any // string, bool, int64, uint64, float64 or nil
	items  []*node
	pairs  []pair
	legacy bool // it stood under a name of LLM Energy Measure
}

// A pair is a key of a table with its value.
type pair struct {
	key   string
	at    place
	value *node
}

type kind uint8

const (
	scalarKind kind = iota
	listKind
	tableKind
)

// what names the node's type in errors.
func (n *node) what() string {
	switch n.kind {
	case listKind:
		return "a list"
	case tableKind:
		return "a table"
	}
	switch v := n.scalar.(type) {
	case nil:
		return "null"
	case string:
		return fmt.Sprintf("the text %.40q", v)
	case bool:
		return fmt.Sprint(v)
	}
	return fmt.Sprintf("the number %v", n.scalar)
}

// get is the value of a key, nil if the table has none.
func (n *node) get(key string) *node {
	for i := range n.pairs {
		if n.pairs[i].key == key {
			return n.pairs[i].value
		}
	}
	return nil
}

// take is get, and removes the key.
func (n *node) take(key string) *node {
	for i := range n.pairs {
		if n.pairs[i].key == key {
			v := n.pairs[i].value
			n.pairs = append(n.pairs[:i:i], n.pairs[i+1:]...)
			return v
		}
	}
	return nil
}

// put sets the value of a key.
func (n *node) put(p pair) {
	for i := range n.pairs {
		if n.pairs[i].key == p.key {
			n.pairs[i] = p
			return
		}
	}
	n.pairs = append(n.pairs, p)
}

// over lays n over base: tables are joined key by key, anything else replaces
// what was there. Neither is changed.
func (n *node) over(base *node) *node {
	if base == nil || n.kind != tableKind || base.kind != tableKind {
		return n
	}
	joined := &node{at: n.at, kind: tableKind, pairs: append([]pair(nil), base.pairs...)}
	for _, p := range n.pairs {
		p.value = p.value.over(base.get(p.key))
		joined.put(p)
	}
	return joined
}

// plain is n without places, for what is free of form.
func (n *node) plain() any {
	switch n.kind {
	case listKind:
		list := make([]any, len(n.items))
		for i, item := range n.items {
			list[i] = item.plain()
		}
		return list
	case tableKind:
		table := make(map[string]any, len(n.pairs))
		for _, p := range n.pairs {
			table[p.key] = p.value.plain()
		}
		return table
	}
	return n.scalar
}
