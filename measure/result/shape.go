package result

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"llmprof/internal/fileerror"
	"llmprof/internal/spelling"
)

// A shaper walks JSON along a Go type. encoding/json skips a key that it does
// not know, takes one in another case, and keeps the last of two; in a file that
// figures are taken from each of these is a mistake.
type shaper struct {
	data   []byte
	d      *json.Decoder
	absent []string // keys of later versions that are not there
}

// shape refuses keys of data that t has not, and misses those that may not be
// absent. Those that are marked late are not missed, since files that were written
// before they came have them not; shape says which.
func shape(data []byte, t reflect.Type) (absent []string, err error) {
	s := shaper{data: data, d: json.NewDecoder(bytes.NewReader(data))}
	s.d.UseNumber()
	if err := s.value("", t); err != nil {
		return nil, err
	}
	if err := end(s.d); err != nil {
		return nil, s.fail("%w", err)
	}
	return s.absent, nil
}

// fail is an error at the place that was read last.
func (s *shaper) fail(format string, args ...any) error {
	return fmt.Errorf("%d: %w", lineAt(s.data, s.d.InputOffset()), short{fmt.Errorf(format, args...)})
}

// A short error is an error whose text is cut to a length that is read.
type short struct{ error }

func (s short) Error() string { return fileerror.Short(s.error.Error()) }

func (s short) Unwrap() error { return s.error }

// value walks one value. Of those that t does not look into, the keys are free.
func (s *shaper) value(path string, t reflect.Type) error {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if elem := within(t, reflect.Slice); elem != nil && (elem.Kind() == reflect.Float64 || elem.Kind() == reflect.String) {
		var list json.RawMessage // a list has no keys, and may have millions of samples
		if err := s.d.Decode(&list); err != nil {
			return s.fail("%w", err)
		}
		return nil
	}
	token, err := s.d.Token()
	if err != nil {
		return s.fail("%w", err)
	}
	switch token {
	case json.Delim('{'):
		return s.object(path, t)
	case json.Delim('['):
		elem := within(t, reflect.Slice)
		for i := 0; s.d.More(); i++ {
			if err := s.value(fmt.Sprintf("%s[%d]", path, i), elem); err != nil {
				return err
			}
		}
		_, err = s.d.Token()
		return err
	}
	return nil
}

// within is the type of the elements of a type of the kind, else nil.
func within(t reflect.Type, kind reflect.Kind) reflect.Type {
	if t != nil && t.Kind() == kind && t != reflect.TypeFor[json.RawMessage]() {
		return t.Elem()
	}
	return nil
}

func (s *shaper) object(path string, t reflect.Type) error {
	known, fields := keysOf(t)
	seen := map[string]bool{}
	for s.d.More() {
		token, err := s.d.Token()
		if err != nil {
			return s.fail("%w", err)
		}
		key, _ := token.(string) // keys of objects are strings
		at := strings.TrimPrefix(path+"."+key, ".")
		if seen[key] {
			return s.fail("%s stands twice", at)
		}
		seen[key] = true
		elem := within(t, reflect.Map)
		if fields != nil {
			f, ok := fields[key]
			if !ok {
				return s.fail("%s is not a key of a result that this version knows, a newer one may; %s", at, spelling.Hint(key, known))
			}
			elem = f.Type
		}
		if err := s.value(at, elem); err != nil {
			return err
		}
	}
	if _, err := s.d.Token(); err != nil {
		return s.fail("%w", err)
	}
	for _, key := range known {
		at := strings.TrimPrefix(path+"."+key, ".")
		switch {
		case seen[key] || strings.Contains(fields[key].Tag.Get("json"), ",omitempty"):
		case fields[key].Tag.Get("late") != "":
			s.absent = append(s.absent, at)
		default:
			return s.fail("%s is missing", at)
		}
	}
	return nil
}

// keys are those of a struct that is written as an object, in order, with their fields.
type keys struct {
	known  []string
	fields map[string]reflect.StructField
}

// keysOfType has the keys of each struct type that was met, since reflection takes longer than
// reading the object.
var keysOfType sync.Map

// keysOf lists the keys of a struct that is written as an object, those of its
// embedded structs among them.
func keysOf(t reflect.Type) (known []string, fields map[string]reflect.StructField) {
	if t == nil || t.Kind() != reflect.Struct || t.PkgPath() == "time" {
		return nil, nil
	}
	if k, ok := keysOfType.Load(t); ok {
		return k.(keys).known, k.(keys).fields
	}
	fields = map[string]reflect.StructField{}
	for _, f := range reflect.VisibleFields(t) {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if key == "" || key == "-" || f.Anonymous {
			continue
		}
		known = append(known, key)
		fields[key] = f
	}
	keysOfType.Store(t, keys{known, fields})
	return known, fields
}
