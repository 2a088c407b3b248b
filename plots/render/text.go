package render

import (
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"llmprof/internal/printable"
	"llmprof/plots/colors"
	"llmprof/roofline"
)

// A Style says how text looks.
type Style struct {
	Width  int  // columns of the terminal
	Color  bool // ANSI colours
	Binary bool // bytes in KiB, MiB, GiB
}

// mostProse is what a line of prose takes on the widest terminal; tables take what they need.
const mostProse = 100

func (s Style) prose() int { return min(s.Width, mostProse) }

// Text writes a document for a terminal.
func Text(w io.Writer, d *Document, s Style) error {
	if d.Width > 0 {
		s.Width = min(s.Width, d.Width)
	}
	t := &textWriter{Style: s}
	t.heading(d.Title)
	for _, b := range d.Blocks {
		if b.empty() {
			continue
		}
		if t.Len() > 0 {
			t.line("")
		}
		b.text(t)
	}
	_, err := io.WriteString(w, t.String())
	return err
}

type textWriter struct {
	strings.Builder
	Style
}

// line ends a line without spaces at its end.
func (w *textWriter) line(s string) {
	w.WriteString(strings.TrimRight(s, " "))
	w.WriteByte('\n')
}

func (w *textWriter) heading(title string) {
	if title == "" {
		return
	}
	for _, l := range Wrap(title, w.prose()) {
		w.line(w.paint(l, Bold))
	}
}

func (f Fields) text(w *textWriter) {
	w.heading(f.Title)
	name := 0
	for _, r := range f.Rows {
		name = max(name, width(printable.Line(r.Name)))
	}
	for _, r := range f.Rows {
		label := pad(printable.Line(r.Name), name)
		for _, paragraph := range r.Lines {
			for _, l := range Wrap(paragraph, w.prose()-name-2) {
				w.line(w.paint(label, r.Color) + "  " + l)
				label = strings.Repeat(" ", name)
			}
		}
	}
}

func (f Fields) empty() bool { return len(f.Rows) == 0 }
func (n Notes) empty() bool  { return len(n.Items) == 0 }
func (t Table) empty() bool  { return len(t.Rows) == 0 }

func (n Notes) text(w *textWriter) {
	w.heading(n.Title)
	for _, item := range n.Items {
		mark := "• "
		for _, l := range Wrap(item, w.prose()-2) {
			w.line(mark + l)
			mark = "  "
		}
	}
}

func (t Table) text(w *textWriter) {
	w.heading(t.Title)
	l := layOut(&t, w.Style)
	w.line(l.head(func(c *column) string { return c.title }))
	if l.units {
		w.line(l.head(func(c *column) string { return c.unit }))
	}
	w.line(strings.Repeat("─", l.width()))
	for i := range t.Rows {
		r := &t.Rows[i]
		switch r.Kind {
		case Group:
			w.line(w.paint(str(r.Cells[0]), Faint))
			continue
		case Total:
			if i > 0 && t.Rows[i-1].Kind != Total {
				w.line(strings.Repeat("─", l.width()))
			}
		}
		w.line(l.row(w, i, r))
	}
	if len(l.dropped) > 0 && !t.Brief {
		for _, line := range Wrap("columns left out at this width: "+strings.Join(l.dropped, ", "), w.prose()) {
			w.line(w.paint(line, Faint))
		}
	}
}

// Wrap breaks a text at its spaces into lines of at most n columns, and no fewer than 20.
func Wrap(s string, n int) []string {
	n = max(n, 20)
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(printable.Text(s)) {
		switch {
		case line == "":
			line = word
		case width(line)+1+width(word) <= n:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}

// width is how many columns s takes; colours are added after it was counted.
func width(s string) int { return utf8.RuneCountInString(s) }

func pad(s string, n int) string     { return s + strings.Repeat(" ", max(n-width(s), 0)) }
func padLeft(s string, n int) string { return strings.Repeat(" ", max(n-width(s), 0)) + s }

// greatest is the largest magnitude of a column's numbers.
func greatest(t *Table, col int) float64 {
	var g float64
	for i := range t.Rows {
		if t.Rows[i].Kind == Group || col >= len(t.Rows[i].Cells) {
			continue
		}
		if v, ok := number(t.Rows[i].Cells[col]); ok && !math.IsInf(v, 0) {
			g = max(g, math.Abs(v))
		}
	}
	return g
}

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
