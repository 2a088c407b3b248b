package hardware

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"llmprof/input"
	"llmprof/spelling"
)

// An Error is a mistake in a hardware file, with its place.
type Error struct {
	File         string
	Line, Column int    // from 1; Column 0: the whole line
	Text         string // the line
	Width        int    // how much of it, from Column
	Problem      string
}

// Error is the place, the problem and the line with the mistake marked.
func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Problem)
	}
	return fmt.Sprintf("%s:%d:%d: %s\n%s", e.File, e.Line, max(e.Column, 1), e.Problem, input.Excerpt(e.Text, e.Column, e.Width))
}

// readError gives an error of the TOML reader its place in the file.
func readError(file, text string, err error) error {
	var parse toml.ParseError
	if !errors.As(err, &parse) {
		// A value of another type: toml: line 2 (last key "gpu.x.name"): why
		problem := strings.TrimPrefix(err.Error(), "toml: ")
		_, rest, _ := strings.Cut(problem, `(last key "`)
		if key, why, ok := strings.Cut(rest, `"): `); ok {
			return errorAt(file, text, strings.Split(key, "."), why)
		}
		return &Error{File: file, Problem: input.Short(problem)}
	}
	p := parse.Position
	e := &Error{File: file, Line: p.Line, Column: p.Col, Width: p.Len, Text: line(text, p.Line), Problem: parse.Message}
	if field, ok := strings.CutPrefix(parse.LastKey, "gpu."); ok {
		_, field, _ = strings.Cut(field, ".")
		e.Problem = strings.TrimPrefix(field+": "+e.Problem, ": ")
	}
	e.Problem = input.Short(e.Problem)
	return e
}

// maxDepth and maxValues are limits of a hardware or calibration file, beyond a
// thousand GPUs.
const (
	maxDepth  = 16
	maxValues = 50_000
)

// within checks the text of a file against the limits before it is parsed.
func within(file, text string) error {
	err := input.Limits{Bytes: maxFile, Depth: maxDepth, Values: maxValues}.TOML(text)
	if excess, ok := errors.AsType[*input.Excess](err); ok {
		return &Error{File: file, Line: excess.Line, Column: excess.Column, Width: 1, Text: line(text, excess.Line), Problem: excess.Problem}
	}
	return err
}

// errorAt is an error at the value of a key of the file.
func errorAt(file, text string, key []string, problem string) error {
	n, column, width := locate(text, key)
	return &Error{File: file, Line: n, Column: column, Width: width, Text: line(text, n), Problem: input.Short(problem)}
}

// unknownKey says which keys there are.
func unknownKey(file, text string, key toml.Key) error {
	known, last := []string{"gpu"}, key[0]
	if key[0] == "gpu" && len(key) > 2 {
		known, last = keysIn[entry](), key[2]
		slices.Sort(known)
	}
	return errorAt(file, text, key, fmt.Sprintf("%.60q is not a key here; %s", last, spelling.Hint(last, known)))
}

// keysIn lists the keys of a table of TOML that is read into a T.
func keysIn[T any]() []string {
	var names []string
	for f := range reflect.TypeFor[T]().Fields() {
		names = append(names, f.Tag.Get("toml"))
	}
	return names
}

// line is the nth line of text, from 1.
func line(text string, n int) string {
	if n < 1 {
		return ""
	}
	for i := 1; i < n; i++ {
		_, text, _ = strings.Cut(text, "\n")
	}
	text, _, _ = strings.Cut(text, "\n")
	return strings.TrimSuffix(text, "\r")
}

// locate finds the line of a key: that of its own "name = value", else that of
// the nearest table above it. The column is of the value, or of the header.
func locate(text string, key []string) (n, column, width int) {
	table := ""
	want := strings.TrimSuffix(strings.Join(key, "."), ".")
	depth := -1
	for i, l := range strings.Split(text, "\n") {
		l = strings.TrimRight(l, "\r")
		trimmed := strings.TrimSpace(l)
		name, _, isPair := strings.Cut(trimmed, "=")
		isHeader := strings.HasPrefix(trimmed, "[") && !isPair
		switch {
		case isHeader:
			name, _, _ = strings.Cut(trimmed, "#")
			table = plainKey(strings.Trim(strings.TrimSpace(name), "[]"))
			name = table
		case isPair:
			name = strings.TrimPrefix(table+"."+plainKey(name), ".")
		default:
			continue
		}
		if (name == want || strings.HasPrefix(want, name+".")) && len(name) > depth {
			depth, n = len(name), i+1
			start := strings.Index(l, trimmed)
			if isPair {
				start = strings.Index(l, "=") + 1
				start += len(l[start:]) - len(strings.TrimLeft(l[start:], " \t"))
			}
			column, width = start+1, len([]rune(l[start:]))
			if rest, ok := strings.CutPrefix(l[start:], `"`); ok {
				inside, _, _ := strings.Cut(rest, `"`)
				column, width = start+2, len([]rune(inside))
			}
		}
	}
	return n, column, width
}

// plainKey drops the blanks and quotes that TOML allows in a key.
func plainKey(key string) string {
	return strings.NewReplacer(" ", "", "\t", "", `"`, "", "'", "").Replace(key)
}
