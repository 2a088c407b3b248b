package render

import (
	"bytes"
	"encoding/csv"
	"io"
	"math"
	"testing"

	"llmprof/unit"
)

// FuzzRender checks that a page of any texts and numbers is written in all forms,
// and that a program that reads the table finds as many cells as were put in.
func FuzzRender(f *testing.F) {
	f.Add("a model", "a | b\n<c>", 1.5, uint16(40), true)
	f.Add("=cmd()", "\x1b[31m\x00```", math.NaN(), uint16(0), false)
	f.Add("\xff", "%s", math.Inf(-1), uint16(9999), false)
	f.Fuzz(func(t *testing.T, title, text string, x float64, width uint16, flag bool) {
		table := Table{Title: title, Columns: []Column{
			{Title: title, Key: "key", Left: true, Max: int(width % 100)}, {Title: text, Key: "x", Unit: "B", Drop: 1}, {Title: "y", Key: "y"},
			{Title: "z", Key: "z", Fixed: flag, Unit: "%"},
		}, Rows: []Row{
			{Cells: []any{text, unit.Bytes(x), unit.Seconds(x), x}}, {Kind: Group, Cells: []any{title}},
			{Kind: Total, Cells: []any{nil, nil, Painted{Value: text, Color: Bad}, Bar(x)}},
		}}
		page := &Document{Title: title, Blocks: []Block{
			table, Fields{Title: text, Rows: []Field{{Name: title, Lines: []string{text, title}}}}, Notes{Title: title, Items: []string{text}},
			Verbatim{Title: text, Lines: []string{title, text}},
		}}
		style := Style{Width: int(width % 300), Color: flag, Binary: flag}
		if err := Text(io.Discard, page, style); err != nil {
			t.Error(err)
		}
		if err := Markdown(io.Discard, page, style); err != nil {
			t.Error(err)
		}
		for _, block := range page.Blocks[:3] {
			if _, err := HTML(block, style, flag); err != nil {
				t.Error(err)
			}
		}
		var b bytes.Buffer
		if err := CSV(&b, &table); err != nil {
			return // a number that is none
		}
		rows, err := csv.NewReader(&b).ReadAll()
		if err != nil || len(rows) == 0 || len(rows[0]) != len(table.Columns) {
			t.Errorf("%d rows, %v", len(rows), err)
		}
	})
}
