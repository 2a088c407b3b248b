package hardware

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"llmprof/internal/fileerror"
	"llmprof/internal/input"
	"llmprof/internal/spelling"
)

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
		return fileerror.New(file, "", fileerror.Span{}, "%s", problem)
	}
	field := ""
	if key, ok := strings.CutPrefix(parse.LastKey, "gpu."); ok {
		_, field, _ = strings.Cut(key, ".")
	}
	p := parse.Position
	return fileerror.New(file, line(text, p.Line), fileerror.Span{Line: p.Line, Column: p.Col, Width: p.Len}, "%s",
		strings.TrimPrefix(field+": "+parse.Message, ": "))
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
		return fileerror.New(file, line(text, excess.Line), fileerror.Span{Line: excess.Line, Column: excess.Column, Width: 1}, "%s",
			excess.Problem)
	}
	return err
}

func errorAt(file, text string, key []string, problem string) error {
	keys := fileerror.FindTOMLKeys(text)
	at := keys.Value(strings.TrimSuffix(strings.Join(key, "."), "."))
	return fileerror.New(file, line(text, at.Line), at, "%s", problem)
}

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
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if key := f.Tag.Get("toml"); key != "" && key != "-" {
			names = append(names, key)
		}
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
