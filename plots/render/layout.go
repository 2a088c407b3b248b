package render

import (
	"cmp"
	"math"
	"strconv"
	"strings"

	"llmprof/unit"
)

// A layout is a table's texts with the widths of its columns.
type layout struct {
	columns []column
	units   bool // a line of units follows the titles
	gap     int  // between two columns
	dropped []string
}

// A column is one that is shown.
type column struct {
	title, unit string
	left        bool
	index       int      // in the table
	texts       []string // text of each row of the table
	width       int
}

// layOut makes the texts of a table. One that is too wide moves its columns
// together, then leaves out those that matter least.
func layOut(t *Table, s Style) *layout {
	keep := make([]bool, len(t.Columns))
	all := make([]column, len(t.Columns))
	for i := range t.Columns {
		all[i] = layColumn(t, i, s)
		keep[i] = true
	}
	l := &layout{gap: 2}
	if span(all, keep, l.gap) > s.Width {
		l.gap = 1
	}
	for span(all, keep, l.gap) > s.Width {
		worst := -1
		for i, c := range t.Columns {
			if keep[i] && c.Drop > 0 && (worst < 0 || c.Drop > t.Columns[worst].Drop) {
				worst = i
			}
		}
		if worst < 0 {
			break
		}
		keep[worst] = false
		l.dropped = append(l.dropped, t.Columns[worst].Title)
	}
	for i := range all {
		if keep[i] {
			l.columns = append(l.columns, all[i])
			l.units = l.units || all[i].unit != ""
		}
	}
	return l
}

func span(all []column, keep []bool, gap int) int {
	n := -gap
	for i := range all {
		if keep[i] {
			n += all[i].width + gap
		}
	}
	return n
}

// layColumn makes the texts of column i, quantities aligned by their points.
func layColumn(t *Table, i int, s Style) column {
	c := &t.Columns[i]
	scale := scaleOf(c, greatest(t, i), s.Binary)
	out := column{index: i, title: c.Title, left: c.Left, texts: make([]string, len(t.Rows))}
	if c.Unit != "" {
		out.unit = scale.unit
	}
	var whole, fraction, unit int
	for j := range t.Rows {
		if t.Rows[j].Kind == Group || i >= len(t.Rows[j].Cells) {
			continue
		}
		text := shorten(cellText(t.Rows[j].Cells[i], c, scale, s), c.Max)
		out.texts[j] = text
		if !c.Left {
			p := part(text)
			whole, fraction, unit = max(whole, width(p.whole)), max(fraction, width(p.fraction)), max(unit, width(p.unit))
		}
		out.width = max(out.width, width(text))
	}
	if !c.Left {
		for j, text := range out.texts {
			if p := part(text); text != "" {
				out.texts[j] = padLeft(p.whole, whole) + pad(p.fraction, fraction) + pad(p.unit, unit)
			}
		}
		out.width = whole + fraction + unit
	}
	out.width = max(out.width, width(out.title), width(out.unit))
	return out
}

func cellText(cell any, c *Column, scale scale, s Style) string {
	if v, ok := number(cell); ok && c.Unit != "" {
		return scale.text(v)
	}
	if b, ok := plain(cell).(unit.Bytes); ok && s.Binary {
		return b.Binary()
	}
	return str(cell)
}

// shorten cuts the middle out of a text of more than n columns; 0 is no limit.
func shorten(s string, n int) string {
	if n == 0 || width(s) <= n {
		return s
	}
	r := []rune(s)
	return string(r[:n/2]) + "…" + string(r[len(r)-(n-n/2-1):])
}

func (l *layout) width() int {
	n := -l.gap
	for i := range l.columns {
		n += l.columns[i].width + l.gap
	}
	return n
}

// head is the line of titles, or of units.
func (l *layout) head(text func(*column) string) string {
	parts := make([]string, len(l.columns))
	for i := range l.columns {
		c := &l.columns[i]
		if parts[i] = padLeft(text(c), c.width); c.left {
			parts[i] = pad(text(c), c.width)
		}
	}
	return strings.Join(parts, strings.Repeat(" ", l.gap))
}

// row is a line of cells, coloured after they were aligned.
func (l *layout) row(w *textWriter, i int, r *Row) string {
	var b strings.Builder
	for k := range l.columns {
		c := &l.columns[k]
		if k > 0 {
			b.WriteString(strings.Repeat(" ", l.gap))
		}
		text := padLeft(c.texts[i], c.width)
		if c.left {
			text = pad(c.texts[i], c.width)
		}
		b.WriteString(w.paint(text, colorOf(r, c.index)))
	}
	return b.String()
}

// A scale shows the numbers of one column in one unit, so that they compare at
// a glance.
type scale struct {
	unit   string
	by     float64
	fixed  bool
	places int // decimals if fixed
}

// decimals are those of a scaled column: with its greatest value below 1000,
// six orders of magnitude show.
const decimals = 3

// scaleOf chooses the prefix that brings the greatest number of a column to
// between 1 and 1000, once it is rounded.
func scaleOf(c *Column, greatest float64, binary bool) scale {
	if c.Fixed {
		return scale{unit: c.Unit, by: cmp.Or(c.By, 1), fixed: true, places: max(c.Places, 1)}
	}
	if greatest == 0 || math.IsNaN(greatest) || math.IsInf(greatest, 0) {
		return scale{unit: c.Unit, by: 1}
	}
	if binary && c.Unit == "B" {
		return binaryScale(greatest)
	}
	prefixes := []string{"n", "µ", "m", "", "k", "M", "G", "T", "P", "E"}
	by := 1e-9
	for i, p := range prefixes {
		if greatest < 999.9995*by || i == len(prefixes)-1 {
			return scale{unit: p + c.Unit, by: by}
		}
		by *= 1000
	}
	return scale{unit: c.Unit, by: 1}
}

func binaryScale(greatest float64) scale {
	by := 1.0
	for _, p := range []string{"", "Ki", "Mi", "Gi", "Ti"} {
		if greatest < 1023.9995*by {
			return scale{unit: p + "B", by: by}
		}
		by *= 1024
	}
	return scale{unit: "PiB", by: by}
}

// text is v in the scale's unit. What rounds to nothing is not printed as
// nothing.
func (s scale) text(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return missing
	case s.fixed:
		return strconv.FormatFloat(v/s.by, 'f', s.places, 64)
	case v == 0:
		return "0"
	}
	v /= s.by
	if math.Abs(v) < 0.0005 {
		return "<0.001"
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}

// A parted text is a number in the three parts that columns align: before the
// point, from the point on, and the unit. A text that is no number is all whole.
type parted struct{ whole, fraction, unit string }

func part(s string) parted {
	i := digits(s)
	if i == 0 {
		return parted{whole: s}
	}
	j := i
	if j < len(s) && s[j] == '.' {
		j += 1 + digits(s[j+1:])
	}
	if j < len(s) && s[j] != ' ' {
		return parted{whole: s[:i], fraction: s[i:]} // a letter that belongs to the number: 559M
	}
	return parted{s[:i], s[i:j], s[j:]}
}

// digits counts the digits that s begins with, a sign before them included.
func digits(s string) int {
	n := 0
	for n < len(s) && (s[n] >= '0' && s[n] <= '9' || n == 0 && (s[n] == '-' || s[n] == '+' || s[n] == '<')) {
		n++
	}
	return n
}
