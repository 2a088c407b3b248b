package input

import (
	"fmt"
	"unicode/utf8"

	"llmprof/redact"
)

// A Span is a part of a line of a text.
type Span struct{ Line, Column, Width int } // from 1, in characters; Line 0 if it is not known

// A Mistake is what is wrong at one place of a file.
type Mistake struct {
	File string
	Span
	Text    string // the line
	Problem string
}

// NewMistake is a Mistake at a part of a line, without the secrets that the problem may repeat.
func NewMistake(file, line string, at Span, format string, args ...any) *Mistake {
	at.Width = min(at.Width, utf8.RuneCountInString(line)-at.Column+1)
	return &Mistake{file, at, line, Short(redact.Text(fmt.Sprintf(format, args...)))}
}

// Error is the place, the problem and the line with the mistake marked.
func (m *Mistake) Error() string {
	if m.Line == 0 {
		return fmt.Sprintf("%s: %s", m.File, m.Problem)
	}
	excerpt := Excerpt(m.Text, m.Column, m.Width)
	if shown := redact.Text(m.Text); shown != m.Text { // the columns are others without the secrets
		excerpt = Excerpt(shown, 1, 1)
	}
	return fmt.Sprintf("%s:%d:%d: %s\n%s", m.File, m.Line, max(m.Column, 1), m.Problem, excerpt)
}
