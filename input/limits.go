package input

import (
	"fmt"
	"strings"
)

// Limits are what a text may have at most.
type Limits struct {
	Bytes  int
	Depth  int // tables and lists within each other, parts of a dotted key among them
	Values int // values, keys and tables together
}

// An Excess is where a text exceeds a limit.
type Excess struct {
	Line, Column int // from 1, in bytes
	Problem      string
}

func (e *Excess) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Problem)
}

// A counter counts the values of a text against the limits.
type counter struct {
	Limits
	text   string
	values int
}

func (l Limits) counter(text string) (*counter, error) {
	c := &counter{Limits: l, text: text}
	if len(text) > l.Bytes {
		return nil, &Excess{1, 1, fmt.Sprintf("the text has %d bytes; at most %d are read", len(text), l.Bytes)}
	}
	return c, nil
}

// at is an Excess at a byte of the text.
func (c *counter) at(offset int, format string, args ...any) error {
	before := c.text[:min(offset, len(c.text))]
	line := 1 + strings.Count(before, "\n")
	return &Excess{line, offset - strings.LastIndexByte(before, '\n'), fmt.Sprintf(format, args...)}
}

// deep refuses a depth.
func (c *counter) deep(offset, depth int) error {
	if depth > c.Depth {
		return c.at(offset, "nested more than %d deep", c.Depth)
	}
	return nil
}

// value counts one value more.
func (c *counter) value(offset int) error {
	if c.values++; c.values > c.Values {
		return c.at(offset, "more than %d values", c.Values)
	}
	return nil
}
