package render

import (
	"io"
	"strconv"
	"strings"

	"llmprof/printable"
)

// Latex writes the tables of a document as LaTeX, with the rules of package booktabs and
// one unit a column; notes become comments.
func Latex(w io.Writer, d *Document, s Style) error {
	var b strings.Builder
	for _, block := range d.Blocks {
		switch v := block.(type) {
		case Table:
			if !v.empty() {
				v.latex(&b, s)
			}
		case Notes:
			for _, item := range v.Items {
				b.WriteString("% " + printable.Line(item) + "\n")
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t Table) latex(b *strings.Builder, s Style) {
	spec, titles, units := "", make([]string, len(t.Columns)), make([]string, len(t.Columns))
	scales := make([]scale, len(t.Columns))
	for i := range t.Columns {
		c := &t.Columns[i]
		scales[i] = scaleOf(c, greatest(&t, i), s.Binary)
		titles[i] = latexText(c.Title)
		if unit := strings.TrimSpace(scales[i].unit); c.Unit != "" && unit != "" {
			units[i] = "(" + latexText(unit) + ")"
		}
		if c.Left {
			spec += "l"
		} else {
			spec += "r"
		}
	}
	if t.Title != "" {
		b.WriteString("% " + printable.Line(t.Title) + "\n")
	}
	b.WriteString("\\begin{tabular}{" + spec + "}\n\\toprule\n")
	latexRow(b, titles)
	latexRow(b, units)
	b.WriteString("\\midrule\n")
	for i := range t.Rows {
		r := &t.Rows[i]
		if r.Kind == Group {
			if i > 0 {
				b.WriteString("\\midrule\n")
			}
			latexRow(b, []string{"\\multicolumn{" + strconv.Itoa(len(t.Columns)) + "}{l}{\\emph{" + latexText(str(r.Cells[0])) + "}}"})
			continue
		}
		if r.Kind == Total && i > 0 && t.Rows[i-1].Kind != Total {
			b.WriteString("\\midrule\n")
		}
		cells := make([]string, len(t.Columns))
		for j := range r.Cells {
			cells[j] = latexText(strings.TrimSpace(cellText(r.Cells[j], &t.Columns[j], scales[j], s)))
		}
		latexRow(b, cells)
	}
	b.WriteString("\\bottomrule\n\\end{tabular}\n")
}

func latexRow(b *strings.Builder, cells []string) {
	if strings.Join(cells, "") == "" {
		return
	}
	b.WriteString(strings.Join(cells, " & ") + " \\\\\n")
}

// latexSpecial has what LaTeX reads as commands, and the signs that its fonts lack.
var latexSpecial = strings.NewReplacer(
	`\`, `\textbackslash{}`, "{", `\{`, "}", `\}`, "$", `\$`, "&", `\&`, "#", `\#`, "%", `\%`, "_", `\_`, "~", `\textasciitilde{}`, "^", `\textasciicircum{}`,
	"±", `$\pm$`, "×", `$\times$`, "·", `$\cdot$`, "µ", `\textmu{}`, "–", "--", "−", "$-$", "<", `\textless{}`, ">", `\textgreater{}`, "|", `\textbar{}`,
)

// latexText keeps a text from being read as commands.
func latexText(s string) string { return latexSpecial.Replace(printable.Line(s)) }
