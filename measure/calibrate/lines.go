package calibrate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"

	"llmprof/internal/input"
	"llmprof/unit"
)

// most is longer than any file of rows.
const most = 64 << 20

// A RowFile is a file of rows (JSON Lines), which a head begins: what was measured. Rows are added to it whole, one by one. Without a
// file on the disk it keeps them in memory alone.
type RowFile[H, R any] struct {
	Head H
	Rows []R
	Torn int // bytes of a last line that was never finished

	file *os.File
}

// Rows are rows of operators, with the machine that they were measured on.
type Rows = RowFile[Machine, Row]

// ServedRows are points of a server, with what it runs.
type ServedRows = RowFile[Server, ServedPoint]

// A head is the first line of a file: a machine, or a server. Two files can be one if their heads agree in some keys.
type head interface {
	check() error
	is() (kind string, keys []string)
}

// A lineKind is what every line of a file of rows says of itself.
type lineKind struct{ Schema, Kind string }

// ReadRows reads a file of rows: Rows, or ServedRows. A last line without its end is left out: whoever wrote it was stopped.
func ReadRows[H, R any](path string) (*RowFile[H, R], error) {
	text, err := textOf(path)
	if err != nil {
		return nil, err
	}
	return parseRows[H, R](path, text)
}

func textOf(path string) ([]byte, error) {
	text, err := input.Read(path, most)
	if err != nil {
		return nil, fmt.Errorf("rows: %w (want a regular file of at most %v)", err, unit.Bytes(most).Binary())
	}
	return text, nil
}

// IsServed reports whether a file has points of a server, not rows of operators.
func IsServed(path string) bool {
	text, err := textOf(path)
	first, _, _ := bytes.Cut(text, []byte("\n"))
	var of lineKind
	return err == nil && json.Unmarshal(first, &of) == nil && of == lineKind{RowSchema, ServerKind}
}

// parseRows reads the lines of a file of rows, named file in messages.
func parseRows[H, R any](file string, text []byte) (*RowFile[H, R], error) {
	out, begun := &RowFile[H, R]{}, false
	for n := 1; len(text) > 0; n++ {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		if !whole {
			out.Torn = len(line)
			break
		}
		if text = rest; len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if err := out.parse(line, &begun); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, n, err)
		}
	}
	if kind, _ := out.head().is(); !begun {
		return nil, fmt.Errorf("%s: no line says what was measured: want one of kind %q first", file, kind)
	}
	return out, nil
}

func (f *RowFile[H, R]) head() head { return any(&f.Head).(head) }

// parse takes a line in: the head, which has to come first, or a row.
func (f *RowFile[H, R]) parse(line []byte, begun *bool) error {
	var of lineKind
	if err := json.Unmarshal(line, &of); err != nil {
		return fmt.Errorf("not a row: %w", err)
	}
	strict := json.NewDecoder(bytes.NewReader(line))
	strict.DisallowUnknownFields()
	switch kind, _ := f.head().is(); {
	case of.Schema != RowSchema:
		return fmt.Errorf("the schema is %.60q: want %q", of.Schema, RowSchema)
	case of.Kind == kind && *begun:
		return fmt.Errorf("a second line of the %s: rows of two are two files", kind)
	case of.Kind == kind:
		*begun = true
		if err := strict.Decode(&f.Head); err != nil {
			return err
		}
		return f.head().check()
	case !*begun && of.Kind == ServerKind:
		return fmt.Errorf("the rows are of a server: give --engine openai, or --rows alone")
	case !*begun:
		return fmt.Errorf("a row comes before the line of the %s", kind)
	case kind == ServerKind && of.Kind != ServedKind:
		return fmt.Errorf("a line of kind %.60q in a file of a server: want %q", of.Kind, ServedKind)
	}
	var r R
	if err := strict.Decode(&r); err != nil {
		return err
	}
	err := any(&r).(interface{ check(before []R) error }).check(f.Rows)
	f.Rows = append(f.Rows, r)
	return err
}

// OpenRows opens a file of rows to add to, and cuts off a torn last line. A new file begins with the head; one that exists has to have one
// like it.
func OpenRows[H, R any](path string, is H) (*RowFile[H, R], error) {
	out := &RowFile[H, R]{Head: is}
	if path == "" {
		return out, nil
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("rows: %w", err)
	}
	out.file = file
	if err := out.begin(path); err != nil {
		_ = file.Close() // the error says more
		return nil, err
	}
	return out, nil
}

func (f *RowFile[H, R]) begin(path string) error {
	info, err := f.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() == 0 {
		return f.write(f.Head)
	}
	had, err := ReadRows[H, R](path)
	if err != nil {
		return err
	}
	_, keys := f.head().is()
	was, is := fieldsOf(had.Head), fieldsOf(f.Head)
	for _, key := range keys {
		if !reflect.DeepEqual(was[key], is[key]) {
			return fmt.Errorf("%s has rows with %s %v; these have %v: give another file, or the flags that they were measured with", path, key,
				was[key], is[key])
		}
	}
	f.Head, f.Rows = had.Head, had.Rows
	end := info.Size() - int64(had.Torn)
	if err := f.file.Truncate(end); err != nil {
		return err
	}
	_, err = f.file.Seek(end, 0)
	return err
}

// fieldsOf are the values of a struct by their keys in JSON.
func fieldsOf(of any) map[string]any {
	text, _ := json.Marshal(of) // a head of a file can be written
	var fields map[string]any
	_ = json.Unmarshal(text, &fields)
	return fields
}

// Add keeps a row, on the disk before the next is measured.
func (f *RowFile[H, R]) Add(r R) error {
	f.Rows = append(f.Rows, r)
	return f.write(r)
}

func (f *RowFile[H, R]) write(v any) error {
	if f.file == nil {
		return nil
	}
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if _, err = f.file.Write(append(line, '\n')); err == nil {
		err = f.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("rows: %w; the last, which may lack there, is %s", err, line)
	}
	return nil
}

// Close closes the file, if there is one.
func (f *RowFile[H, R]) Close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}
