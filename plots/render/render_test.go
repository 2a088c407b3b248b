package render

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"llmprof/internal/testkit"
	"llmprof/unit"
)

// sample has every kind of row and of cell.
func sample() Table {
	return Table{
		Title: "Title",
		Columns: []Column{
			{Title: "name", Key: "name", Left: true, Max: 12}, {Title: "time", Key: "time_s", Unit: "s"},
			{Title: "size", Key: "size_bytes"}, {Title: "share", Key: "share", Unit: "%", Fixed: true, Drop: 1},
		},
		Rows: []Row{
			{Kind: Group, Cells: []any{"a group that is longer than its column"}},
			{Cells: []any{"first", unit.Seconds(1.25), unit.Bytes(2.5e9), 99.95}},
			{Cells: []any{"a_very_long_name", unit.Seconds(2e-9), unit.Bytes(12), 0.04}},
			{Cells: []any{"nothing", nil, nil, nil}},
			{Kind: Total, Cells: []any{"total", unit.Seconds(1.25), Painted{unit.Bytes(2.5e9), Good}, 100.0}},
		},
	}
}

func TestText(t *testing.T) {
	got := text(t, Style{Width: 80})
	want := `Title
name            time       size  share
                   s                 %
──────────────────────────────────────
a group that is longer than its column
first          1.250   2.500 GB  100.0
a_very…_name  <0.001  12     B     0.0
nothing        –       –           –
──────────────────────────────────────
total          1.250   2.500 GB  100.0
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func text(t *testing.T, s Style) string {
	t.Helper()
	var b strings.Builder
	testkit.Must(t, Text(&b, &Document{Blocks: []Block{sample(), Notes{}, Fields{}}}, s))
	return b.String()
}

// TestNarrow checks that a table gets closer, then loses its least column, and
// that it stays within the width.
func TestNarrow(t *testing.T) {
	for _, c := range []struct {
		width   int
		dropped bool
	}{{38, false}, {35, false}, {34, true}} {
		got := text(t, Style{Width: c.width})
		if strings.Contains(strings.Join(strings.Fields(got), " "), "columns left out at this width: share") != c.dropped {
			t.Errorf("at %d columns:\n%s", c.width, got)
		}
	}
}

func TestColorsDoNotMoveColumns(t *testing.T) {
	colored := text(t, Style{Width: 80, Color: true})
	if !strings.Contains(colored, "\x1b[32m") {
		t.Error("no colour")
	}
	for _, code := range []Color{Bold, Faint, Good} {
		colored = strings.ReplaceAll(colored, code.code(), "")
	}
	if diff := cmp.Diff(text(t, Style{Width: 80}), strings.ReplaceAll(colored, "\x1b[0m", "")); diff != "" {
		t.Error(diff)
	}
}

func TestBinary(t *testing.T) {
	if got := text(t, Style{Width: 80, Binary: true}); !strings.Contains(got, "2.328 GiB") {
		t.Error(got)
	}
}

func TestCSV(t *testing.T) {
	table := sample()
	table.Rows = append(table.Rows, Row{Cells: []any{`comma, "quote"`, math.NaN(), unit.Bytes(1e21)}})
	var b strings.Builder
	testkit.Must(t, CSV(&b, &table))
	want := `name,time_s,size_bytes,share
first,1.25,2500000000,99.95
a_very_long_name,2e-09,12,0.04
nothing,,,
"comma, ""quote""",,1e+21,
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}

func TestMarkdown(t *testing.T) {
	table := sample()
	table.Rows = table.Rows[:3]
	d := &Document{Title: "a|b", Blocks: []Block{
		Fields{Rows: []Field{{Name: "F", Lines: []string{"one", "*two*"}}}}, table, Notes{Title: "N", Items: []string{"x_y"}}, Notes{},
	}}
	var b strings.Builder
	testkit.Must(t, Markdown(&b, d, Style{}))
	want := `# a\|b

- **F**: one<br>\*two\*

## Title

| name | time (s) | size | share (%) |
| --- | ---: | ---: | ---: |
| **a group that is longer than its column** |  |  |  |
| first | 1.250 | 2.500 GB | 100.0 |
| a\_very\_long\_name | \<0.001 | 12 B | 0.0 |

## N

- x\_y
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}

// TestJSONRefusesNonNumbers checks that what is no number is never printed.
func TestJSONRefusesNonNumbers(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1)} {
		if err := JSON(&strings.Builder{}, map[string]float64{"x": v}); err == nil {
			t.Errorf("%v was written", v)
		}
	}
}

// FuzzScale checks that a scaled column prints its greatest number in at most
// seven characters, and never as zero.
func FuzzScale(f *testing.F) {
	for _, v := range []float64{1, 999.9994, 999.9995, 999.9996, 1e-9, 1e18, 3.504126661210428} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v float64) {
		if !(v >= 1e-9 && v < 1e20) {
			return
		}
		for _, binary := range []bool{false, true} {
			got := scaleOf(&Column{Unit: "B"}, v, binary).text(v)
			if len(got) > 10 || got[0] == '0' && v >= 1 {
				t.Errorf("%v prints as %q", v, got)
			}
		}
	})
}

func TestWrap(t *testing.T) {
	got := Wrap("alpha beta  gamma delta-epsilon-zeta-eta-theta-iota", 20)
	want := []string{"alpha beta gamma", "delta-epsilon-zeta-eta-theta-iota"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestBar(t *testing.T) {
	for _, c := range []struct {
		share Bar
		want  string
	}{{0, ""}, {0.5, strings.Repeat("█", 10)}, {1.7, strings.Repeat("█", 20)}, {0.00625, "▏"}} {
		if got := c.share.String(); got != c.want {
			t.Errorf("%v is %q, want %q", float64(c.share), got, c.want)
		}
	}
}

// TestVerbatim checks that lines keep their spaces, and that none of them can end
// the block in Markdown.
func TestVerbatim(t *testing.T) {
	d := &Document{Blocks: []Block{Verbatim{Title: "Mistakes", Lines: []string{"a:1:3: no", "      x  y", "      ^", "```"}}, Verbatim{
		Title: "None"}}}
	var text, markdown strings.Builder
	testkit.Must(t, errors.Join(Text(&text, d, Style{Width: 20}), Markdown(&markdown, d, Style{})))
	if want := "Mistakes\na:1:3: no\n      x  y\n      ^\n```\n"; text.String() != want {
		t.Errorf("got %q, want %q", text.String(), want)
	}
	if want := "## Mistakes\n\n````\na:1:3: no\n      x  y\n      ^\n```\n````\n"; markdown.String() != want {
		t.Errorf("got %q, want %q", markdown.String(), want)
	}
}
