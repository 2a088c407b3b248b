package render

import (
	"strings"
	"testing"
)

// TestLatex holds the form of a table in LaTeX, and that no text is read as a command.
func TestLatex(t *testing.T) {
	d := &Document{Title: "left out", Blocks: []Block{
		Table{Title: "A title", Columns: []Column{{Title: "model", Left: true}, {Title: "TTFT", Unit: "ms", Fixed: true, Places: 2}}, Rows: []Row{
			{Kind: Group, Cells: []any{"batch 1 & 50 % of \\input{x}"}}, {Cells: []any{"a_b", 1.5}}, {Cells: []any{"none", nil}},
			{Kind: Total, Cells: []any{"all", 1.5}},
		}},
		Notes{Items: []string{"a note\nof two lines"}},
	}}
	var b strings.Builder
	if err := Latex(&b, d, Style{Width: 80}); err != nil {
		t.Fatal(err)
	}
	want := `% A title
\begin{tabular}{lr}
\toprule
model & TTFT \\
 & (ms) \\
\midrule
\multicolumn{2}{l}{\emph{batch 1 \& 50 \% of \textbackslash{}input\{x\}}} \\
a\_b & 1.50 \\
none & -- \\
\midrule
all & 1.50 \\
\bottomrule
\end{tabular}
% a note\nof two lines
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}
