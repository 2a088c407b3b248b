package render

import (
	"llmprof/plots/colors"
	"llmprof/roofline"
)

// A Color is one of the few that have a meaning. Bounds have the same colours
// in every output.
type Color uint8

// The colours.
const (
	NoColor Color = iota
	Bold
	Faint
	Good
	Bad
	Compute
	Memory
	Network
	Launch
)

// code is the ANSI sequence of a colour: only the eight basic ones, which every
// theme makes legible on its ground.
func (c Color) code() string {
	switch c {
	case Bold:
		return "\x1b[1m"
	case Faint:
		return "\x1b[2m"
	case Good:
		return "\x1b[32m"
	case Bad:
		return "\x1b[31m"
	case Compute, Memory, Network, Launch:
		return colors.Terminal(roofline.ByCompute + roofline.Bound(c-Compute))
	}
	return ""
}

func (w *textWriter) paint(s string, c Color) string {
	if code := c.code(); w.Color && code != "" && s != "" {
		return code + s + "\x1b[0m"
	}
	return s
}

// colorOf is the colour of a cell: that of its own, or bold in a total.
func colorOf(r *Row, i int) Color {
	if i < len(r.Cells) {
		if p, ok := r.Cells[i].(Painted); ok {
			return p.Color
		}
	}
	return NoColor
}
