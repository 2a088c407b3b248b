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

// readLines reads the text of a file of rows, which parse takes apart.
func readLines[T any](path string, parse func(path string, text []byte) (*T, error)) (*T, error) {
	text, err := input.Read(path, most)
	if err != nil {
		return nil, fmt.Errorf("rows: %w (want a regular file of at most %v)", err, unit.Bytes(most).Binary())
	}
	return parse(path, text)
}

// A lineKind is what every line of a file of rows says of itself.
type lineKind struct{ Schema, Kind string }

// eachLine reads the first line of a file of rows, which is of a kind, into head, and has row take each whole line after it. It
// returns the length of a last line without its end.
func eachLine(file string, text []byte, head interface{ check() error }, headKind string, row func(kind string, strict *json.Decoder) error,
) (torn int, err error) {
	begun := false
	for n := 1; len(text) > 0; n++ {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		if !whole {
			torn = len(line)
			break
		}
		text = rest
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var of lineKind
		err := json.Unmarshal(line, &of)
		strict := json.NewDecoder(bytes.NewReader(line))
		strict.DisallowUnknownFields()
		switch {
		case err != nil:
			err = fmt.Errorf("not a row: %w", err)
		case of.Schema != RowSchema:
			err = fmt.Errorf("the schema is %.60q: want %q", of.Schema, RowSchema)
		case of.Kind == headKind && begun:
			err = fmt.Errorf("a second line of the %s: rows of two are two files", headKind)
		case of.Kind == headKind:
			begun = true
			if err = strict.Decode(head); err == nil {
				err = head.check()
			}
		case !begun && of.Kind == serverKind:
			err = fmt.Errorf("the rows are of a server: give --engine openai, or --rows alone")
		case !begun:
			err = fmt.Errorf("a row comes before the line of the %s", headKind)
		default:
			err = row(of.Kind, strict)
		}
		if err != nil {
			return 0, fmt.Errorf("%s:%d: %w", file, n, err)
		}
	}
	if !begun {
		return 0, fmt.Errorf("%s: no line says what was measured: want one of kind %q first", file, headKind)
	}
	return torn, nil
}

// sameHead refuses to add rows of what one head says to those of another that differs in some of its keys.
func sameHead(path string, was, is any, keys ...string) error {
	a, b := fieldsOf(was), fieldsOf(is)
	for _, key := range keys {
		if !reflect.DeepEqual(a[key], b[key]) {
			return fmt.Errorf("%s has rows with %s %v; these have %v: give another file, or the flags that they were measured with", path, key,
				a[key], b[key])
		}
	}
	return nil
}

// fieldsOf are the values of a struct by their keys in JSON.
func fieldsOf(of any) map[string]any {
	text, _ := json.Marshal(of) // a head of a file can be written
	var fields map[string]any
	_ = json.Unmarshal(text, &fields)
	return fields
}

// A lineFile is one that rows are added to, each a whole line. Nil is none, which keeps nothing.
type lineFile struct{ *os.File }

// openLines opens a file to add lines to, and cuts off a torn last line, whose bytes read counts. A new file begins with the head.
func openLines(path string, head any, read func() (torn int, err error)) (*lineFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("rows: %w", err)
	}
	out := &lineFile{f}
	if err := out.begin(head, read); err != nil {
		_ = f.Close() // the error says more
		return nil, err
	}
	return out, nil
}

func (out *lineFile) begin(head any, read func() (torn int, err error)) error {
	info, err := out.Stat()
	if err != nil {
		return err
	}
	if info.Size() == 0 {
		return out.write(head)
	}
	torn, err := read()
	if err != nil {
		return err
	}
	end := info.Size() - int64(torn)
	if err := out.Truncate(end); err != nil {
		return err
	}
	_, err = out.Seek(end, 0)
	return err
}

// Close closes the file, if there is one.
func (out *lineFile) Close() error {
	if out == nil {
		return nil
	}
	return out.File.Close()
}

// write writes a row, or the head: whole, and to the disk, before the next is measured.
func (out *lineFile) write(v any) error {
	if out == nil {
		return nil
	}
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if _, err = out.Write(append(line, '\n')); err == nil {
		err = out.Sync()
	}
	if err != nil {
		return fmt.Errorf("rows: %w; the last, which may lack there, is %s", err, line)
	}
	return nil
}
