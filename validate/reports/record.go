package reports

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"llmprof/internal/fileerror"
	"llmprof/internal/input"
	"llmprof/internal/tree"
)

// An object is a record of a file: JSON's or YAML's.
type object map[string]any

// Most is the most bytes of a file that are read.
const Most = 32 << 20

// limits bound a file: each value takes some 50 bytes of memory.
var limits = input.Limits{Bytes: Most, Depth: 100, Values: 3 << 20}

// recordsOf are the objects of a text: one, several one after the other or in a list, or one in YAML.
func recordsOf(name string, text []byte) (all []object, err error) {
	if ext := filepath.Ext(name); ext == ".yaml" || ext == ".yml" {
		node, err := tree.ParseYAML(&tree.Source{Name: name, Text: string(noNumber.ReplaceAll(text, []byte("$1 null")))})
		if err != nil {
			return nil, err
		}
		return objects(node.Plain()), nil
	}
	text = withoutWords(bytes.TrimPrefix(text, []byte("\ufeff")))
	if err := limits.JSON(string(text)); err != nil {
		return nil, err
	}
	from := json.NewDecoder(bytes.NewReader(text))
	for {
		var value any
		switch err := from.Decode(&value); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("not JSON: %s", fileerror.Short(err.Error()))
		}
		all = append(all, objects(value)...)
	}
}

// noNumber is a value of YAML that JSON lacks, as the request rate of a closed loop in reports of llm-d.
var noNumber = regexp.MustCompile(`(?mi)(:|-) +[-+]?\.(inf|nan)$`)

// objects are those of a list, or the value itself if it is one.
func objects(value any) (all []object) {
	switch v := value.(type) {
	case map[string]any:
		return []object{v}
	case []any:
		for _, x := range v {
			if o, ok := x.(map[string]any); ok {
				all = append(all, o)
			}
		}
	}
	return all
}

// withoutWords puts null for the words that Python writes for numbers that JSON lacks.
func withoutWords(text []byte) []byte {
	if !bytes.Contains(text, []byte("NaN")) && !bytes.Contains(text, []byte("Infinity")) {
		return text
	}
	out, quoted := make([]byte, 0, len(text)), false
	for i := 0; i < len(text); i++ {
		c := text[i]
		if quoted && c == '\\' && i+1 < len(text) {
			out = append(out, c, text[i+1])
			i++
			continue
		}
		quoted = quoted != (c == '"')
		word := ""
		for _, w := range []string{"NaN", "Infinity", "-Infinity"} {
			if !quoted && strings.HasPrefix(string(text[i:min(i+len(w), len(text))]), w) {
				word = w
			}
		}
		if word == "" {
			out = append(out, c)
			continue
		}
		out = append(out, "null"...)
		i += len(word) - 1
	}
	return out
}

// at is the value that a path of keys leads to, nil for none.
func (o object) at(path string) any {
	value := any(map[string]any(o))
	for key := range strings.SplitSeq(path, ".") {
		within, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = within[key]
	}
	return value
}

// has reports whether all of some paths lead to a value.
func (o object) has(paths ...string) bool {
	for _, p := range paths {
		if o.at(p) == nil {
			return false
		}
	}
	return true
}

// number is the first finite number that some paths lead to, 0 for none.
func (o object) number(paths ...string) float64 {
	for _, p := range paths {
		if x, ok := number(o.at(p)); ok {
			return x
		}
	}
	return 0
}

func number(value any) (float64, bool) {
	x, ok := math.NaN(), true
	switch v := value.(type) {
	case float64:
		x = v
	case int64:
		x = float64(v)
	case uint64:
		x = float64(v)
	case string:
		var err error
		x, err = strconv.ParseFloat(v, 64)
		ok = err == nil
	}
	return x, ok && !math.IsNaN(x) && !math.IsInf(x, 0)
}

// mostCount is the most that is counted of anything.
const mostCount = 1 << 30

// count is a whole number that a path leads to, 0 for none.
func (o object) count(paths ...string) int { return int(min(max(o.number(paths...), 0), mostCount)) }

// text is the first text that some paths lead to, "" for none.
func (o object) text(paths ...string) string {
	for _, p := range paths {
		if s, ok := o.at(p).(string); ok && s != "" {
			return s
		}
	}
	return ""
}

// list is the objects of a list.
func (o object) list(path string) []object { return objects(o.at(path)) }

// numbers are those of a list; what is none of it is NaN.
func (o object) numbers(path string) (all []float64) {
	list, _ := o.at(path).([]any)
	for _, v := range list {
		x, ok := number(v)
		if !ok {
			x = math.NaN()
		}
		all = append(all, x)
	}
	return all
}

// each is a number of each of some objects, NaN where it has none, times a scale.
func each(all []object, scale float64, paths ...string) []float64 {
	out := make([]float64, len(all))
	for i, o := range all {
		out[i] = math.NaN()
		for _, p := range paths {
			if x, ok := number(o.at(p)); ok {
				out[i] = x * scale
				break
			}
		}
	}
	return out
}
