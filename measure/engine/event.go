package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
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
	field, ok := e.fields()[e.Event]
	if !ok {
		return Event{}, fmt.Errorf("event %.40q is none of the protocol's", e.Event)
	}
	if !field.set {
		return Event{}, fmt.Errorf("event %q has no field %q", e.Event, e.Event)
	}
	if err := field.check(); err != nil {
		return Event{}, fmt.Errorf("event %q: %w", e.Event, err)
	}
	return e, nil
}

// A field is one of an event's fields, and the check of its value.
type field struct {
	set   bool
	check func() error
}

func (e *Event) fields() map[string]field {
	return map[string]field{
		"hello":  {e.Hello != nil, e.Hello.check},
		"ready":  {e.Ready != nil, e.Ready.check},
		"step":   {e.Step != nil, e.Step.check},
		"token":  {e.Token != nil, e.Token.check},
		"pass":   {e.Pass != nil, e.Pass.check},
		"done":   {e.Done != nil, e.Done.check},
		"size":   {e.Size != nil, e.Size.check},
		"op":     {e.Op != nil, e.Op.check},
		"traced": {e.Traced != nil, e.Traced.check},
		"timed":  {e.Timed != nil, e.Timed.check},
		"error":  {e.Error != nil, e.Error.check},
	}
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

func (r *Ready) check() error {
	if !duration(r.LoadS) {
		return fmt.Errorf("load_s is %v, not a time", r.LoadS)
	}
	return natural(count{"params", r.Params}, count{"prompt_len", int64(r.PromptLen)})
}

func (s *Step) check() error {
	if s.DeviceS != nil && !duration(*s.DeviceS) {
		return fmt.Errorf("device_s is %v, not a time", *s.DeviceS)
	}
	if err := span(s.StartNS, s.EndNS); err != nil {
		return err
	}
	return natural(count{"pass", int64(s.Pass)}, count{"index", int64(s.Index)}, count{"context", int64(s.Context)})
}

func (t *Token) check() error {
	return natural(count{"pass", int64(t.Pass)}, count{"index", int64(t.Index)}, count{"ns", t.NS})
}

func (p *PassEnd) check() error {
	if err := span(p.BeginNS, p.EndNS); err != nil {
		return err
	}
	return natural(count{"pass", int64(p.Pass)})
}

func (d *Done) check() error {
	if err := span(d.BeginNS, d.EndNS); err != nil {
		return err
	}
	return natural(count{"passes", int64(d.Passes)})
}

func (s *Sizes) check() error {
	for _, b := range []*int64{s.PeakBytes, s.Activations, s.Reserved} {
		if b != nil && *b < 0 {
			return fmt.Errorf("a size of %d bytes", *b)
		}
	}
	return natural(count{"params_bytes", s.ParamsBytes}, count{"buffers_bytes", s.BuffersBytes},
		count{"kv_bytes", s.KVBytes}, count{"state_bytes", s.StateBytes}, count{"kv_tokens", int64(s.KVTokens)})
}

func (t *Traced) check() error {
	if t.File == "" || t.Anchor == "" {
		return errors.New("it names no file, or no anchor in it")
	}
	if err := span(t.BeginNS, t.EndNS); err != nil {
		return err
	}
	return natural(count{"anchor_ns", t.AnchorNS})
}

func (f *Failure) check() error {
	if f.Kind == "" || f.Message == "" {
		return errors.New("it has no kind, or no message")
	}
	return nil
}

// A count is a whole number that cannot be negative, by its key.
type count struct {
	key   string
	value int64
}

func natural(counts ...count) error {
	for _, c := range counts {
		if c.value < 0 {
			return fmt.Errorf("%s is %d, less than 0", c.key, c.value)
		}
	}
	return nil
}

func span(begin, end int64) error {
	switch {
	case begin < 0:
		return fmt.Errorf("it begins at %d ns, before the clock did", begin)
	case end < begin:
		return fmt.Errorf("time goes backwards: it begins at %d ns and ends at %d ns", begin, end)
	}
	return nil
}

func duration(s float64) bool { return s >= 0 && !math.IsInf(s, 0) }
