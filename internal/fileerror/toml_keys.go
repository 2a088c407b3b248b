package fileerror

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"
)

// TOMLKeys are the places of the keys of a TOML text. A key has the numbers of the
// tables on its way: "points[1].batch".
type TOMLKeys struct{ keys, values map[string]Span }

var (
	tomlHeader = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\s*(\[\[?)([^\[\]]+)\]`) })
	tomlAssign = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\s*([A-Za-z0-9_."' -]+?)\s*=\s*`) })
)

// FindTOMLKeys finds the lines of a text that set a key or open a table. The TOML library
// gives the places of syntax errors alone.
func FindTOMLKeys(text string) TOMLKeys {
	t := TOMLKeys{map[string]Span{}, map[string]Span{}}
	counts, table, i := map[string]int{}, "", 0
	for line := range strings.Lines(text) {
		i++
		line = strings.TrimRight(line, "\r\n")
		part := func(from, to int) Span {
			return Span{i, 1 + utf8.RuneCountInString(line[:from]), utf8.RuneCountInString(line[from:to])}
		}
		if m := tomlHeader().FindStringSubmatchIndex(line); m != nil {
			table = plainKey(line[m[4]:m[5]])
			at := part(m[4], m[5])
			t.add(table, at, at)
			if line[m[2]:m[3]] == "[[" {
				n := counts[table]
				counts[table]++
				table = fmt.Sprintf("%s[%d]", table, n)
				t.add(table, at, at)
			}
			continue
		}
		if m := tomlAssign().FindStringSubmatchIndex(line); m != nil {
			key := strings.TrimPrefix(table+"."+plainKey(line[m[2]:m[3]]), ".")
			t.add(key, part(m[2], m[3]), part(m[1], max(m[1], len(strings.TrimRight(line, " \t")))))
		}
	}
	return t
}

// add notes where a key stands first.
func (t *TOMLKeys) add(path string, key, value Span) {
	if _, ok := t.keys[path]; !ok {
		t.keys[path], t.values[path] = key, value
	}
}

// Key is the place of a key, else of the nearest key above it.
func (t *TOMLKeys) Key(path string) Span { return nearest(t.keys, path) }

// Value is the place of what a key is set to, else of the nearest key above it.
func (t *TOMLKeys) Value(path string) Span { return nearest(t.values, path) }

func nearest(in map[string]Span, path string) Span {
	for path != "" {
		if at, ok := in[path]; ok {
			return at
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return Span{}
}

// plainKey drops the blanks and quotes that TOML allows in a key.
func plainKey(key string) string {
	return strings.NewReplacer(" ", "", "\t", "", `"`, "", "'", "").Replace(key)
}
