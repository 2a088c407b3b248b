// Package fileerror says what is wrong at one place of a file: the place, the problem and the line with the place
// marked, cut short and without secrets.
//
//	return fileerror.New(name, line, fileerror.Span{Line: 3, Column: 7, Width: 4}, "%q is no number", word)
package fileerror

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"llmprof/internal/redact"
)

// A Span is a part of a line of a text.
type Span struct{ Line, Column, Width int } // from 1, in characters; Line 0 if it is not known

// An Error is what is wrong at one place of a file.
type Error struct {
	File string
	Span
	Text    string // the line
	Problem string
}

// New is an Error at a part of a line, without the secrets that the problem may repeat.
func New(file, line string, at Span, format string, args ...any) *Error {
	at.Width = min(at.Width, utf8.RuneCountInString(line)-at.Column+1)
	return &Error{file, at, line, Short(redact.Text(fmt.Sprintf(format, args...)))}
}

// Error is the place, the problem and the line with the mistake marked.
func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Problem)
	}
	excerpt := Excerpt(e.Text, e.Column, e.Width)
	if shown := redact.Text(e.Text); shown != e.Text { // the columns are others without the secrets
		excerpt = Excerpt(shown, 1, 1)
	}
	return fmt.Sprintf("%s:%d:%d: %s\n%s", e.File, e.Line, max(e.Column, 1), e.Problem, excerpt)
}

// mostProblem is how much of a problem a message repeats, and mostLine of a line.
const (
	mostProblem = 400
	mostLine    = 160
	before      = 60 // characters before the mistake in a long line
)

// Short is a text cut to a length that fits into a message.
func Short(text string) string {
	if len(text) <= mostProblem {
		return text
	}
	end := mostProblem * 3 / 4
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	start := len(text) - mostProblem/4
	for start < len(text) && !utf8.RuneStart(text[start]) {
		start++
	}
	return text[:end] + " ... " + text[start:]
}

// Excerpt is a line with a line of marks below what is wrong in it: width
// characters from column on, which counts from 1. Of a long line it is the part
// around the mistake.
func Excerpt(line string, column, width int) string {
	runes := []rune(strings.Map(func(c rune) rune {
		if unicode.IsControl(c) { // a tab would take other columns
			return ' '
		}
		return c
	}, line))
	at := min(max(column-1, 0), len(runes)+1) // a line that ends too early is wrong after its end
	head, tail := "", ""
	if len(runes) > mostLine {
		from := max(at-before, 0)
		to := min(from+mostLine, len(runes))
		if from > 0 {
			head = "... "
		}
		if to < len(runes) {
			tail = " ..."
		}
		runes, at = runes[from:to], at-from
	}
	at += len(head)
	width = min(max(width, 1), max(len(head)+len(runes)-at, 1))
	return "    " + head + string(runes) + tail + "\n    " + strings.Repeat(" ", at) + strings.Repeat("^", width)
}
