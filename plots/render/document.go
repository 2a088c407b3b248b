// Package render turns results into what people and programs read. A subcommand
// builds a Document or a Table, which are pure data; this package alone knows
// how text, Markdown, CSV and JSON look.
//
// People get quantities with four digits and a unit ("4.505 ms"), or a column of
// them in one unit with the decimal points aligned. Programs get plain numbers of
// the SI unit that the key names.
package render

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"llmprof/internal/printable"
	"llmprof/unit"
)

// A Document is a page for people: a title and blocks under it.
type Document struct {
	Title  string
	Width  int // most columns of it; 0 for those of the style
	Blocks []Block
}

// A Block is a part of a Document: Fields, a Table or Notes.
type Block interface {
	empty() bool
	text(w *textWriter)
	markdown(w *markdownWriter)
}

// Fields are named values, one under the other.
type Fields struct {
	Title string
	Rows  []Field
}

// A Field is a name and what it stands for, one paragraph a line.
type Field struct {
	Name  string
	Lines []string
	Color Color // colour of the name
}

// Add adds a field.
func (f *Fields) Add(name string, lines ...string) {
	f.Rows = append(f.Rows, Field{Name: name, Lines: lines})
}

// Notes are remarks under a result, numbered.
type Notes struct {
	Title string
	Items []string
}

// A Table is rows of cells under columns.
type Table struct {
	Title   string
	Columns []Column
	Rows    []Row
	Brief   bool // A terminal is not told which columns it has no room for.
}

// Keyed is a table for programs, whose columns have a key alone.
func Keyed(keys ...string) *Table {
	t := &Table{}
	for _, key := range keys {
		t.Columns = append(t.Columns, Column{Key: key})
	}
	return t
}

// LeaveOut removes a column.
func (t *Table) LeaveOut(i int) {
	t.Columns = slices.Delete(t.Columns, i, i+1)
	for j := range t.Rows {
		if r := &t.Rows[j]; r.Kind != Group {
			r.Cells = slices.Delete(r.Cells, i, i+1)
		}
	}
}

// Add adds a plain row.
func (t *Table) Add(cells ...any) { t.Rows = append(t.Rows, Row{Cells: cells}) }

// A Column says what its cells are.
type Column struct {
	Title  string  // heading that people read
	Key    string  // name of the column in CSV, with its unit
	Unit   string  // Cells are plain numbers of this unit, shown with one prefix; "" shows each by itself.
	Left   bool    // texts are aligned left, quantities by their decimal point
	Drop   int     // order in which columns are left out of a narrow table, the highest first; 0 for never
	Max    int     // most characters of a text; 0 for any
	Fixed  bool    // Unit takes no prefix and its numbers one decimal: a share in %
	By     float64 // factor of a Fixed unit: 1e9 for "GB"; 0 means 1
	Places int     // decimals of a Fixed column; 0 is 1
}

// A Row is the cells of one line.
type Row struct {
	Kind  RowKind
	Cells []any // nil where there is no value
}

// RowKind says what a row is in its table.
type RowKind uint8

// The kinds of rows.
const (
	Plain RowKind = iota
	Group         // a heading of the rows below: its first cell alone counts
	Total         // a sum of the rows above
)

// A Painted is a cell with a colour on a terminal.
type Painted struct {
	Value any
	Color Color
}

// A Bar is a share of one, drawn as a bar.
type Bar float64

func plain(cell any) any {
	if p, ok := cell.(Painted); ok {
		return p.Value
	}
	return cell
}

// number is the value of a cell that is a number or a quantity.
func number(cell any) (float64, bool) {
	v := reflect.ValueOf(plain(cell))
	switch _, bar := plain(cell).(Bar); {
	case bar:
	case v.CanFloat():
		return v.Float(), true
	case v.CanInt():
		return float64(v.Int()), true
	}
	return 0, false
}

// str is a cell for people that stands by itself.
func str(cell any) string { return printable.Line(raw(cell)) }

// raw is the cell's text as it came.
func raw(cell any) string {
	switch v := plain(cell).(type) {
	case nil:
		return missing
	case Bar:
		return v.String()
	case fmt.Stringer:
		return v.String()
	case encoding.TextMarshaler:
		text, err := v.MarshalText()
		if err != nil {
			return err.Error()
		}
		return string(text)
	case string:
		return v
	}
	return fmt.Sprint(plain(cell))
}

// missing is printed where there is no value.
const missing = "–"

const barWidth = 20

// String draws the bar in eighths of a character.
func (b Bar) String() string {
	if math.IsNaN(float64(b)) {
		return missing
	}
	eighths := int(min(max(float64(b), 0), 1)*8*barWidth + 0.5)
	bar := strings.Repeat("█", eighths/8)
	if part := eighths % 8; part > 0 {
		bar += string([]rune(" ▏▎▍▌▋▊▉")[part])
	}
	return bar
}

// A Count is a number of things that people read in three digits: "8.03B".
type Count int64

// String is the count in three digits.
func (c Count) String() string { return unit.Count(float64(c)) }

// A Percent is a share of one that people read in percent.
type Percent float64

// String is the share in percent, without the sign.
func (p Percent) String() string { return strconv.FormatFloat(100*float64(p), 'f', 1, 64) }

// Tenths is a number that people read with one decimal.
type Tenths float64

// String is the number with one decimal.
func (t Tenths) String() string { return strconv.FormatFloat(float64(t), 'f', 1, 64) }

// Verbatim is lines that keep their spaces: a file's text with a mistake marked.
type Verbatim struct {
	Title string
	Lines []string
}

func (v Verbatim) empty() bool { return len(v.Lines) == 0 }

func (v Verbatim) text(w *textWriter) {
	w.heading(v.Title)
	for _, l := range v.Lines {
		w.line(printable.Text(l))
	}
}

func (v Verbatim) markdown(b *markdownWriter) {
	b.heading(1, v.Title)
	fence := "```"
	for strings.Contains(strings.Join(v.Lines, "\n"), fence) {
		fence += "`"
	}
	b.WriteString(fence + "\n")
	for _, l := range v.Lines {
		b.WriteString(printable.Text(l) + "\n")
	}
	b.WriteString(fence + "\n")
}
