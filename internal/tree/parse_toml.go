package tree

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"llmprof/internal/fileerror"
	"llmprof/internal/input"
)

// ParseTOML reads a TOML file. Its reader gives no places of what is right, so
// that those of values are found in the text.
func ParseTOML(s *Source) (*Node, error) {
	if err := s.within(input.Limits.TOML); err != nil {
		return nil, err
	}
	var tree map[string]any
	meta, err := toml.Decode(s.Text, &tree)
	if err != nil {
		if parse, ok := errors.AsType[toml.ParseError](err); ok {
			p := parse.Position
			return nil, s.place(p.Line, p.Col, p.Len).Errorf("%s", parse.Message)
		}
		return nil, Place{Source: s}.Errorf("%s", strings.TrimPrefix(err.Error(), "toml: "))
	}
	t := tomlTree{source: s, keys: fileerror.FindTOMLKeys(s.Text), order: map[string]int{}}
	for i, key := range meta.Keys() {
		if at := key.String(); t.order[at] == 0 {
			t.order[at] = i + 1
		}
	}
	return t.node("", "", tree), nil
}

type tomlTree struct {
	source *Source
	keys   fileerror.TOMLKeys
	order  map[string]int // order of the keys in the file
}

// node converts a value; path is its key with the numbers of list items, key
// without them.
func (t *tomlTree) node(path, key string, v any) *Node {
	n := &Node{At: Place{t.source, t.keys.Value(path)}}
	switch v := v.(type) {
	case map[string]any:
		n.Kind = TableKind
		for k, value := range v {
			at := join(path, k)
			n.Pairs = append(n.Pairs, Pair{k, Place{t.source, t.keys.Key(at)}, t.node(at, join(key, k), value)})
		}
		slices.SortFunc(n.Pairs, func(a, b Pair) int {
			return cmp.Or(t.order[join(key, quoted(a.Key))]-t.order[join(key, quoted(b.Key))], strings.Compare(a.Key, b.Key))
		})
	case []map[string]any:
		n.Kind = ListKind
		for i, item := range v {
			n.Items = append(n.Items, t.node(fmt.Sprintf("%s[%d]", path, i), key, item))
		}
	case []any:
		n.Kind = ListKind
		for i, item := range v {
			n.Items = append(n.Items, t.node(fmt.Sprintf("%s[%d]", path, i), key, item))
		}
	case string, bool, int64, float64:
		n.Scalar = v
	default: // dates
		n.Scalar = fmt.Sprint(v)
	}
	return n
}

func quoted(key string) string { return toml.Key{key}.String() }

func join(path, key string) string { return strings.TrimPrefix(path+"."+key, ".") }
