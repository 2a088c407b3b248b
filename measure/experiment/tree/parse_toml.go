package tree

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"llmprof/input"
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
			return nil, Place{s, p.Line, p.Col, p.Len}.Mistake("%s", parse.Message)
		}
		return nil, Place{Source: s}.Mistake("%s", strings.TrimPrefix(err.Error(), "toml: "))
	}
	t := tomlTree{source: s, order: map[string]int{}}
	t.keys, t.values = findKeys(s)
	for i, key := range meta.Keys() {
		if at := key.String(); t.order[at] == 0 {
			t.order[at] = i + 1
		}
	}
	return t.node("", "", tree), nil
}

type tomlTree struct {
	source *Source
	keys   map[string]Place // of a key with the numbers of the tables on its way: "points[1].batch"
	values map[string]Place // of what follows it
	order  map[string]int   // of a key in the file
}

// node converts a value; path is its key with the numbers of list items, key
// without them.
func (t *tomlTree) node(path, key string, v any) *Node {
	n := &Node{At: t.find(t.values, path)}
	switch v := v.(type) {
	case map[string]any:
		n.Kind = TableKind
		for k, value := range v {
			at := join(path, k)
			n.Pairs = append(n.Pairs, Pair{k, t.find(t.keys, at), t.node(at, join(key, k), value)})
		}
		slices.SortFunc(n.Pairs, func(a, b Pair) int {
			if d := t.order[join(key, quoted(a.Key))] - t.order[join(key, quoted(b.Key))]; d != 0 {
				return d
			}
			return strings.Compare(a.Key, b.Key)
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

// quoted is a key as toml.Key.String writes it.
func quoted(key string) string { return toml.Key{key}.String() }

func join(path, key string) string { return strings.TrimPrefix(path+"."+key, ".") }

// find is the place of a key, else that of the nearest above it.
func (t *tomlTree) find(in map[string]Place, path string) Place {
	for path != "" {
		if at, ok := in[path]; ok {
			return at
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return Place{Source: t.source}
}

// findKeys finds the lines of a file that set a key or open a table.
func findKeys(s *Source) (keys, values map[string]Place) {
	header := regexp.MustCompile(`^\s*(\[\[?)([^\[\]]+)\]`)
	assign := regexp.MustCompile(`^\s*([A-Za-z0-9_."' -]+?)\s*=\s*`)
	keys, values = map[string]Place{}, map[string]Place{}
	counts, table := map[string]int{}, ""
	add := func(path string, key, value Place) {
		if _, ok := keys[path]; !ok {
			keys[path], values[path] = key, value
		}
	}
	i := 0
	for line := range strings.Lines(s.Text) {
		i++
		line = strings.TrimRight(line, "\r\n")
		if m := header.FindStringSubmatchIndex(line); m != nil {
			table = plainKey(line[m[4]:m[5]])
			at := Place{s, i, 1 + runes(line[:m[4]]), m[5] - m[4]}
			add(table, at, at)
			if line[m[2]:m[3]] == "[[" {
				n := counts[table]
				counts[table]++
				table = fmt.Sprintf("%s[%d]", table, n)
				add(table, at, at)
			}
			continue
		}
		if m := assign.FindStringSubmatchIndex(line); m != nil {
			value := line[m[1]:]
			width := runes(strings.TrimRight(value, " \t"))
			key := line[m[2]:m[3]]
			add(join(table, plainKey(key)), Place{s, i, 1 + runes(line[:m[2]]), runes(key)}, Place{s, i, 1 + runes(line[:m[1]]), width})
		}
	}
	return keys, values
}

func runes(s string) int { return len([]rune(s)) }

// plainKey drops the blanks and quotes that TOML allows in a key.
func plainKey(key string) string {
	return strings.NewReplacer(" ", "", "\t", "", `"`, "", "'", "").Replace(key)
}
