//go:build !js

package render

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
)

//go:embed blocks.html
var blockTemplates string

// HTML is a block as a part of a web page. A table is in a container of its own
// that scrolls; where it is sortable, its columns have buttons, which need a
// script, and every number is in the data-value of its cell.
func HTML(block Block, s Style, sortable bool) (template.HTML, error) {
	if block.empty() {
		return "", nil
	}
	name, data := "", any(block)
	switch b := block.(type) {
	case Fields:
		name = "fields"
	case Notes:
		name = "notes"
	case Verbatim:
		name = "verbatim"
	case Table:
		name, data = "table", webTable(&b, s, sortable)
	default:
		return "", fmt.Errorf("a %T has no form for the web", block)
	}
	t, err := template.New("blocks").Parse(blockTemplates)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	if err := t.ExecuteTemplate(&out, name, data); err != nil {
		return "", err
	}
	return template.HTML(out.String()), nil //nolint:gosec // made by html/template, which escapes what it is given
}

// A web is a table with its texts made.
type web struct {
	Title    string
	Sortable bool
	Columns  []webColumn
	Body     []webRow
	Foot     []webRow
}

type webColumn struct {
	Title, Unit string
	Left        bool
}

type webRow struct {
	Group  string // title of a group of rows; it has no cells
	Within string // the group that the row is in, shown where rows are sorted
	Span   int
	Cells  []webCell
}

// A webCell is a text with what it is worth, and how it looks.
type webCell struct {
	Text  string
	Value string // number to sort by; "" for a text
	Class string
	Bar   string // width of the bar behind it in %, "" for none
	Left  bool
}

func webTable(t *Table, s Style, sortable bool) *web {
	w := &web{Title: t.Title, Sortable: sortable}
	scales := make([]scale, len(t.Columns))
	for i := range t.Columns {
		c := &t.Columns[i]
		scales[i] = scaleOf(c, greatest(t, i), s.Binary)
		column := webColumn{Title: c.Title, Left: c.Left}
		if c.Unit != "" {
			column.Unit = strings.TrimSpace(scales[i].unit)
		}
		w.Columns = append(w.Columns, column)
	}
	group := ""
	for _, r := range t.Rows {
		row := webRow{Span: len(t.Columns)}
		switch r.Kind {
		case Group:
			group = str(r.Cells[0])
			row.Group = group
		default:
			row.Within = group
			for j := range r.Cells {
				row.Cells = append(row.Cells, webCellOf(r.Cells[j], &t.Columns[j], scales[j], s))
			}
		}
		if r.Kind == Total {
			w.Foot = append(w.Foot, row)
			continue
		}
		w.Body = append(w.Body, row)
	}
	return w
}

func webCellOf(cell any, c *Column, sc scale, s Style) webCell {
	out := webCell{Left: c.Left}
	if p, ok := cell.(Painted); ok {
		out.Class = p.Color.class()
	}
	if b, ok := plain(cell).(Bar); ok {
		out.Bar = percent(float64(b))
		return out
	}
	out.Text = strings.TrimSpace(cellText(cell, c, sc, s))
	if v, ok := number(cell); ok && !math.IsNaN(v) && !math.IsInf(v, 0) {
		out.Value = strconv.FormatFloat(v, 'g', -1, 64)
		if c.Unit == "%" {
			out.Bar = percent(v / 100)
		}
	}
	return out
}

// percent is a share of one as CSS has it.
func percent(share float64) string {
	return strconv.FormatFloat(100*min(max(share, 0), 1), 'f', 1, 64) + "%"
}

// class names a colour in a style sheet.
func (c Color) class() string {
	names := [...]string{"", "strong", "faint", "good", "bad", "compute", "memory", "network", "launch"}
	return names[int(c)%len(names)]
}
