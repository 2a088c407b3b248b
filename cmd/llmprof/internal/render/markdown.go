package render

import (
	"io"
	"strings"
)

// Markdown writes a document in GitHub's dialect.
func Markdown(w io.Writer, d *Document, s Style) error {
	b := &strings.Builder{}
	if d.Title != "" {
		b.WriteString("# " + escape(d.Title) + "\n")
	}
	for _, block := range d.Blocks {
		if block.empty() {
			continue
		}
		if t, ok := block.(Table); ok {
			t.markdownIn(b, s)
			continue
		}
		block.markdown(b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func heading(b *strings.Builder, title string) {
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
	if title != "" {
		b.WriteString("## " + escape(title) + "\n\n")
	}
}

func (f Fields) markdown(b *strings.Builder) {
	heading(b, f.Title)
	for _, r := range f.Rows {
		lines := make([]string, len(r.Lines))
		for i, l := range r.Lines {
			lines[i] = escape(l)
		}
		b.WriteString("- **" + escape(r.Name) + "**: " + strings.Join(lines, "<br>") + "\n")
	}
}

func (n Notes) markdown(b *strings.Builder) {
	heading(b, n.Title)
	for _, item := range n.Items {
		b.WriteString("- " + escape(item) + "\n")
	}
}

func (t Table) markdown(b *strings.Builder) { t.markdownIn(b, Style{}) }

// markdownIn writes the table; the unit of a scaled column stands in its title.
func (t *Table) markdownIn(b *strings.Builder, s Style) {
	heading(b, t.Title)
	titles, rules := make([]string, len(t.Columns)), make([]string, len(t.Columns))
	scales := make([]scale, len(t.Columns))
	for i := range t.Columns {
		c := &t.Columns[i]
		scales[i] = scaleOf(c, greatest(t, i), s.Binary)
		if titles[i] = escape(c.Title); strings.TrimSpace(c.Unit) != "" {
			titles[i] += " (" + scales[i].unit + ")"
		}
		if rules[i] = "---:"; c.Left {
			rules[i] = "---"
		}
	}
	line(b, titles)
	line(b, rules)
	for i := range t.Rows {
		cells := make([]string, len(t.Columns))
		for j := range t.Rows[i].Cells {
			cells[j] = escape(strings.TrimSpace(cellText(t.Rows[i].Cells[j], &t.Columns[j], scales[j], s)))
			if t.Rows[i].Kind != Plain && cells[j] != "" {
				cells[j] = "**" + cells[j] + "**"
			}
		}
		line(b, cells)
	}
}

func line(b *strings.Builder, cells []string) {
	b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

// escape keeps a text from being read as markup.
func escape(s string) string {
	if !strings.ContainsAny(s, "|\\`*_<>[]\n") {
		return s
	}
	return strings.NewReplacer(`\`, `\\`, "|", `\|`, "`", "\\`", "*", `\*`, "_", `\_`,
		"<", `\<`, ">", `\>`, "[", `\[`, "]", `\]`, "\n", " ").Replace(s)
}
