package worker

import (
	"fmt"
	"time"

	"llmprof/internal/child"
)

// Error says what kind of failure it was, and its message.
func (f *Failure) Error() string { return f.Kind + ": " + f.Message }

// Invalidf is the failure of a command that makes no sense.
func Invalidf(format string, args ...any) error {
	return &Failure{Kind: Invalid, Message: fmt.Sprintf(format, args...)}
}

// A Crash is the end of a worker that had not been asked to exit.
type Crash struct {
	Engine string   // name of the engine, or its program before hello
	State  string   // "exit status 3", "signal: killed"
	During string   // the command that was being done
	Log    []string // the last lines of its standard error, and the first of a dump
	GPU    string   // what the log says about a GPU that failed; "" for nothing
}

func (c *Crash) Error() string {
	hint := child.Hint(c.State)
	if c.GPU != "" {
		hint += "; " + c.GPU
	}
	return fmt.Sprintf("%s ended during %s: %s%s%s", c.Engine, c.During, c.State, hint, child.Quote(c.Log))
}

// A Hang is a worker that said nothing for too long, and was killed for it.
type Hang struct {
	Engine string
	During string
	After  time.Duration
	Log    []string
}

func (h *Hang) Error() string {
	return fmt.Sprintf("%s said nothing for %v during %s and was killed%s", h.Engine, h.After, h.During, child.Quote(h.Log))
}

// A Violation is a worker that does not keep to the protocol; it was killed.
type Violation struct {
	Engine string
	During string
	Err    error
	Line   string // the line that broke it, cut
	Log    []string
}

func (v *Violation) Error() string {
	line := ""
	if v.Line != "" {
		line = fmt.Sprintf(" in %q", v.Line)
	}
	return fmt.Sprintf("%s broke the protocol during %s: %v%s%s", v.Engine, v.During, v.Err, line, child.Quote(v.Log))
}

// Unwrap gives what was broken.
func (v *Violation) Unwrap() error { return v.Err }
