package experiment

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"llmprof/input"
)

// parseTOML reads a TOML file. Its reader gives no places of what is right, so
// that those of values are found in the text.
func parseTOML(s *source) (*node, error) {
	if err := s.within(input.Limits.TOML); err != nil {
		return nil, err
	}
	var tree map[string]any
	meta, err := toml.Decode(s.text, &tree)
	if err != nil {
		var parse toml.ParseError
		if errors.As(err, &parse) {
			p := parse.Position
			return nil, place{s, p.Line, p.Col, p.Len}.mistake("%s", parse.Message)
		}
		return nil, place{source: s}.mistake("%s", strings.TrimPrefix(err.Error(), "toml: "))
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
	source *source
	keys   map[string]place // of a key with the numbers of the tables on its way: "points[1].batch"
	values map[string]place // of what follows it
	order  map[string]int   // of a key in the file
}

// node converts a value; path is its key with the numbers of list items, key
// without them.
func (t *tomlTree) node(path, key string, v any) *node {
	n := &node{at: t.find(t.values, path)}
	switch v := v.(type) {
	case map[string]any:
		n.kind = tableKind
		for k, value := range v {
			at := join(path, k)
			n.pairs = append(n.pairs, pair{k, t.find(t.keys, at), t.node(at, join(key, k), value)})
		}
		slices.SortFunc(n.pairs, func(a, b pair) int {
			if d := t.order[join(key, quoted(a.key))] - t.order[join(key, quoted(b.key))]; d != 0 {
				return d
			}
			return strings.Compare(a.key, b.key)
		})
	case []map[string]any:
		n.kind = listKind
		for i, item := range v {
			n.items = append(n.items, t.node(fmt.Sprintf("%s[%d]", path, i), key, item))
		}
	case []any:
		n.kind = listKind
		for i, item := range v {
			n.items = append(n.items, t.node(fmt.Sprintf("%s[%d]", path, i), key, item))
		}
	case string, bool, int64, float64:
		n.scalar = v
	default: // dates
		n.scalar = fmt.Sprint(v)
	}
	return n
}

// quoted is a key as toml.Key.String writes it.
func quoted(key string) string { return toml.Key{key}.String() }

func join(path, key string) string { return strings.TrimPrefix(path+"."+key, ".") }

// find is the place of a key, else that of the nearest above it.
func (t *tomlTree) find(in map[string]place, path string) place {
	for path != "" {
		if at, ok := in[path]; ok {
			return at
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return place{source: t.source}
}

// findKeys finds the lines of a file that set a key or open a table.
func findKeys(s *source) (keys, values map[string]place) {
	header := regexp.MustCompile(`^\s*(\[\[?)([^\[\]]+)\]`)
	assign := regexp.MustCompile(`^\s*([A-Za-z0-9_."' -]+?)\s*=\s*`)
	keys, values = map[string]place{}, map[string]place{}
	counts, table := map[string]int{}, ""
	add := func(path string, key, value place) {
		if _, ok := keys[path]; !ok {
			keys[path], values[path] = key, value
		}
	}
	i := 0
	for line := range strings.Lines(s.text) {
		i++
		line = strings.TrimRight(line, "\r\n")
		if m := header.FindStringSubmatchIndex(line); m != nil {
			table = plainKey(line[m[4]:m[5]])
			at := place{s, i, 1 + runes(line[:m[4]]), m[5] - m[4]}
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
			add(join(table, plainKey(key)), place{s, i, 1 + runes(line[:m[2]]), runes(key)}, place{s, i, 1 + runes(line[:m[1]]), width})
		}
	}
	return keys, values
}

func runes(s string) int { return len([]rune(s)) }

// plainKey drops the blanks and quotes that TOML allows in a key.
func plainKey(key string) string {
	return strings.NewReplacer(" ", "", "\t", "", `"`, "", "'", "").Replace(key)
}
