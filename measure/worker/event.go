package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
)

// MaxLine is the longest line that is taken from a worker, in bytes.
const MaxLine = 8 << 20

// ParseEvent reads one line that a worker wrote. It refuses an event whose
// field is not there, and values that no clock and no counter can have.
func ParseEvent(line []byte) (Event, error) {
	var e Event
	if err := json.Unmarshal(line, &e); err != nil {
		return Event{}, fmt.Errorf("not an event: %w", err)
	}
	v, known := reflect.ValueOf(&e).Elem(), false
	for f, field := range v.Fields() {
		if key, _, _ := strings.Cut(f.Tag.Get("json"), ","); key != e.Event || f.Name == "Event" {
			continue
		}
		if known = true; field.IsNil() {
			return Event{}, fmt.Errorf("event %q has no field %q", e.Event, e.Event)
		}
		err := possible(e.Event, field)
		if c, ok := field.Interface().(interface{ check() error }); ok && err == nil {
			err = c.check()
		}
		if err != nil {
			return Event{}, fmt.Errorf("event %q: %w", e.Event, err)
		}
	}
	if !known {
		return Event{}, fmt.Errorf("event %.40q is none of the protocol's", e.Event)
	}
	return e, nil
}

// possible refuses what no clock and no counter says: numbers below 0, and times that are not finite.
func possible(key string, v reflect.Value) error {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return possible(key, v.Elem())
		}
	case reflect.Struct:
		for f, field := range v.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if err := possible(name, field); err != nil {
				return err
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if err := possible(key, v.Index(i)); err != nil {
				return err
			}
		}
	case reflect.Int, reflect.Int64:
		why := "less than 0"
		if strings.HasSuffix(key, "_ns") {
			why = "before the clock did"
		} else if strings.HasSuffix(key, "_bytes") {
			why = fmt.Sprintf("a size of %d bytes", v.Int())
		}
		if v.Int() < 0 {
			return fmt.Errorf("%s is %d, %s", key, v.Int(), why)
		}
	case reflect.Float64:
		if !duration(v.Float()) {
			return fmt.Errorf("%s is %v, not a time", key, v.Float())
		}
	}
	return nil
}

func (h *Hello) check() error {
	if h.Protocol != Protocol {
		return fmt.Errorf("the worker speaks protocol %d, this program %d", h.Protocol, Protocol)
	}
	if h.Engine == "" {
		return errors.New("the engine has no name")
	}
	return nil
}

func (s *Step) check() error    { return span(s.StartNS, s.EndNS) }
func (p *PassEnd) check() error { return span(p.BeginNS, p.EndNS) }
func (d *Done) check() error    { return span(d.BeginNS, d.EndNS) }

func (t *Traced) check() error {
	if t.File == "" || t.Anchor == "" {
		return errors.New("it names no file, or no anchor in it")
	}
	return span(t.BeginNS, t.EndNS)
}

func (f *Failure) check() error {
	if f.Kind == "" || f.Message == "" {
		return errors.New("it has no kind, or no message")
	}
	return nil
}

func span(begin, end int64) error {
	if end < begin {
		return fmt.Errorf("time goes backwards: it begins at %d ns and ends at %d ns", begin, end)
	}
	return nil
}

func duration(s float64) bool { return s >= 0 && !math.IsInf(s, 0) }
