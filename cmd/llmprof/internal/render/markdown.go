package render

import (
	"io"
	"strings"

	"llmprof/printable"
)

// A markdownWriter gathers Markdown.
type markdownWriter struct {
	strings.Builder
	title int // level of the document's title
	style Style
}

// Markdown writes a document in GitHub's dialect.
func Markdown(w io.Writer, d *Document, s Style) error { return MarkdownBelow(w, d, s, 1) }

// MarkdownBelow writes a document whose title is a heading of that level: a part
// of a longer one, say.
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
