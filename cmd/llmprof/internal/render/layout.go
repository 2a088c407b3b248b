package render

import (
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
