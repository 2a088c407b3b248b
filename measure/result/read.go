package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"runtime/debug"
	"sync"
	"unsafe"

	"llmprof/internal/fileerror"
	"llmprof/internal/input"
)

// MaxBytes is how large a file of a result is at most, unpacked: what Encode makes is never larger, and
// Load reads no more. A hundred and fifty thousand requests fit.
const MaxBytes = 64 << 20

var limits = input.Limits{Bytes: MaxBytes, Depth: 32, Values: 5_000_000}

// Read reads the result in a file. One that is cut off, of another form, or
// that contradicts itself is an error.
func Read(file string) (*Result, error) {
	data, err := Load(file)
	if err != nil {
		return nil, err
	}
	return Decode(file, data)
}

// Load is the content of a file that may be a result's, for Decode.
func Load(file string) ([]byte, error) {
	data, err := input.Read(file, MaxBytes)
	if err != nil {
		return nil, fmt.Errorf("reading a result: %w", err)
	}
	return data, nil
}

// Files from a size on are decoded one after the other, with a heap that grows slowly meanwhile, since together
// they would take gigabytes.
const (
	large        = 8 << 20
	largePercent = 50
)

var oneLarge sync.Mutex

// Decode is Read of a file's content; the name serves errors.
func Decode(file string, data []byte) (*Result, error) {
	if len(data) > large {
		oneLarge.Lock()
		defer oneLarge.Unlock()
		defer debug.SetGCPercent(debug.SetGCPercent(largePercent))
	}
	if err := limits.JSON(unsafe.String(unsafe.SliceData(data), len(data))); err != nil { // A copy would take as much memory again.
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if err := foreign(data); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	absent, err := shape(data, reflect.TypeFor[Result]())
	if err != nil {
		return nil, fmt.Errorf("%s:%w", file, err)
	}
	var r Result
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, typeError(data, err))
	}
	explainAbsent(&r, absent)
	if err := Check(&r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &r, nil
}

// Earlier is the reason of a key that came after the file was written.
const Earlier = "the result is of a version of llmprof that did not measure it"

// explainAbsent gives the reason of keys that came after the file was written.
func explainAbsent(r *Result, absent []string) {
	for _, key := range absent {
		if r.Reasons == nil {
			r.Reasons = map[string]string{}
		}
		if r.Reasons[key] == "" {
			r.Reasons[key] = Earlier
		}
	}
}

// foreign separates files that are no results from results with a mistake.
func foreign(data []byte) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return errors.New("the file is empty: no result was written to it")
	}
	var head struct {
		Schema *string `json:"schema"`
	}
	err := json.Unmarshal(data, &head)
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax) && syntax.Offset >= int64(len(bytes.TrimRight(data, " \t\r\n"))):
		return fmt.Errorf("the file ends in the middle (%d bytes): it is cut off", len(data))
	case errors.As(err, &syntax):
		return fmt.Errorf("line %d: not JSON: %w", lineAt(data, syntax.Offset), err)
	case err != nil || head.Schema == nil:
		return fmt.Errorf("not a result of llmprof: it has no \"schema\": %q", Schema)
	case *head.Schema != Schema:
		return fmt.Errorf("schema %.60q: this version reads %q", *head.Schema, Schema)
	}
	return nil
}

// embedded is the name of an embedded struct in the path of a field, which no file has.
var embedded = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\b[A-Z]\w*\.`) })

// typeError says where a value of another type stands.
func typeError(data []byte, err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("line %d: %s is a %s: want %s", lineAt(data, wrong.Offset),
			fileerror.Short(embedded().ReplaceAllString(wrong.Field, "")), fileerror.Short(wrong.Value), wrong.Type)
	}
	return err
}

func lineAt(data []byte, offset int64) int {
	return 1 + bytes.Count(data[:min(max(offset, 0), int64(len(data)))], []byte("\n"))
}

// end refuses what follows the one value of a file.
func end(d *json.Decoder) error {
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more follows the result: want one JSON object")
	}
	return nil
}
