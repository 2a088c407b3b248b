package render

import (
	"strings"

	"llmprof/printable"
)

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
