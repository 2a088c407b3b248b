package render

import (
	"encoding"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"llmprof/internal/printable"
)

type markdownWriter struct {
	strings.Builder
	title int // level of the document's title
	style Style
}

// Markdown writes a document in GitHub's dialect.
func Markdown(w io.Writer, d *Document, s Style) error { return MarkdownBelow(w, d, s, 1) }

// MarkdownBelow writes a document as a part of a longer one: its title is a heading of that level.
func MarkdownBelow(w io.Writer, d *Document, s Style, level int) error {
	b := &markdownWriter{title: level, style: s}
	b.heading(0, d.Title)
	for _, block := range d.Blocks {
		if !block.empty() {
			b.gap()
			block.markdown(b)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// gap leaves a line between two blocks.
func (b *markdownWriter) gap() {
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
}

// heading writes the document's title or, one below it, a block's.
func (b *markdownWriter) heading(below int, title string) {
	if title == "" {
		return
	}
	b.WriteString(strings.Repeat("#", b.title+below) + " " + Escape(title) + "\n")
	if below > 0 {
		b.WriteByte('\n')
	}
}

func (f Fields) markdown(b *markdownWriter) {
	b.heading(1, f.Title)
	for _, r := range f.Rows {
		lines := make([]string, len(r.Lines))
		for i, l := range r.Lines {
			lines[i] = Escape(l)
		}
		b.WriteString("- **" + Escape(r.Name) + "**: " + strings.Join(lines, "<br>") + "\n")
	}
}

// table is the fields as a table.
func (f Fields) table() Table {
	t := Table{Columns: []Column{{Left: true}, {Title: f.Title, Left: true}}}
	for _, r := range f.Rows {
		t.Add(r.Name, strings.Join(r.Lines, "; "))
	}
	return t
}

func (n Notes) markdown(b *markdownWriter) {
	b.heading(1, n.Title)
	for _, item := range n.Items {
		b.WriteString("- " + Escape(item) + "\n")
	}
}

// markdown writes the table; the unit of a scaled column stands in its title.
func (t Table) markdown(b *markdownWriter) {
	b.heading(1, t.Title)
	titles, rules := make([]string, len(t.Columns)), make([]string, len(t.Columns))
	scales := make([]scale, len(t.Columns))
	for i := range t.Columns {
		c := &t.Columns[i]
		scales[i] = scaleOf(c, greatest(&t, i), b.style.Binary)
		if titles[i] = Escape(c.Title); strings.TrimSpace(c.Unit) != "" {
			titles[i] += " (" + scales[i].unit + ")"
		}
		if rules[i] = "---:"; c.Left {
			rules[i] = "---"
		}
	}
	b.row(titles)
	b.row(rules)
	for i := range t.Rows {
		cells := make([]string, len(t.Columns))
		for j := range t.Rows[i].Cells {
			cells[j] = Escape(strings.TrimSpace(cellText(t.Rows[i].Cells[j], &t.Columns[j], scales[j], b.style)))
			if t.Rows[i].Kind != Plain && cells[j] != "" {
				cells[j] = "**" + cells[j] + "**"
			}
		}
		b.row(cells)
	}
}

func (b *markdownWriter) row(cells []string) {
	b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

// Escape keeps a text from being read as markup.
func Escape(s string) string {
	s = printable.Text(s)
	if !strings.ContainsAny(s, "|\\`*_<>[]\n") {
		return s
	}
	return strings.NewReplacer(`\`, `\\`, "|", `\|`, "`", "\\`", "*", `\*`, "_", `\_`,
		"<", `\<`, ">", `\>`, "[", `\[`, "]", `\]`, "\n", " ").Replace(s)
}

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
		case Fields:
			if !v.empty() {
				v.table().latex(&b, s)
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
	`\`, `\textbackslash{}`, "{", `\{`, "}", `\}`, "$", `\$`, "&", `\&`, "#", `\#`, "%", `\%`, "_", `\_`, "~", `\textasciitilde{}`, "^",
	`\textasciicircum{}`,
	"±", `$\pm$`, "×", `$\times$`, "·", `$\cdot$`, "µ", `\textmu{}`, "–", "--", "−", "$-$", "<", `\textless{}`, ">", `\textgreater{}`, "|",
	`\textbar{}`,
)

// latexText keeps a text from being read as commands.
func latexText(s string) string { return latexSpecial.Replace(printable.Line(s)) }

// CSV writes the plain rows of a table under its keys. A number is in the SI unit that its key names; a value that
// does not exist is an empty field.
func CSV(w io.Writer, t *Table) error {
	out := csv.NewWriter(w)
	record := make([]string, len(t.Columns))
	for i := range t.Columns {
		record[i] = t.Columns[i].Key
	}
	if err := out.Write(record); err != nil {
		return err
	}
	for i := range t.Rows {
		if t.Rows[i].Kind != Plain {
			continue
		}
		for j := range record {
			text, err := field(t.Rows[i].Cells, j)
			if err != nil {
				return fmt.Errorf("row %d, column %s: %w", i+1, t.Columns[j].Key, err)
			}
			record[j] = text
		}
		if err := out.Write(record); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func field(cells []any, j int) (string, error) {
	if j >= len(cells) || cells[j] == nil {
		return "", nil
	}
	if v, ok := number(cells[j]); ok {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return "", nil
		}
		return plainNumber(v), nil
	}
	switch v := plain(cells[j]).(type) {
	case string:
		return printable.Cell(v), nil
	case bool:
		return strconv.FormatBool(v), nil
	case encoding.TextMarshaler:
		text, err := v.MarshalText()
		return printable.Cell(string(text)), err
	default:
		return fmt.Sprint(v), nil
	}
}

// plainNumber is v as encoding/json writes it: without an exponent unless it is
// very small or very large.
func plainNumber(v float64) string {
	if abs := math.Abs(v); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		return strconv.FormatFloat(v, 'e', -1, 64)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// JSON writes v, indented.
func JSON(w io.Writer, v any) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return out.Encode(v)
}
