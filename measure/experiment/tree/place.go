package tree

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"llmprof/input"
	"llmprof/redact"
)

// A Source is the text of a file.
type Source struct {
	Name, Text string
	lines      []int // where each begins, from the first on; found when a place is asked for
}

// A Place is where something stands in a file: line and column from 1, 0 where
// they are not known.
type Place struct {
	Source              *Source
	line, column, width int
}

// A Mistake is what is wrong at one place of an experiment's files.
type Mistake struct {
	File         string
	Line, Column int    // from 1; 0 if not known
	Text         string // the line
	Width        int    // how much of it is wrong, from Column
	Problem      string
}

// Error is the place, the problem and the line with the mistake marked.
func (m *Mistake) Error() string {
	if m.Line == 0 {
		return fmt.Sprintf("%s: %s", m.File, m.Problem)
	}
	return fmt.Sprintf("%s:%d:%d: %s\n%s", m.File, m.Line, max(m.Column, 1), m.Problem, m.excerpt())
}

// excerpt is the line with the mistake marked, unless secrets had to be taken out
// of it: its columns are then others.
func (m *Mistake) excerpt() string {
	if shown := redact.Text(m.Text); shown != m.Text {
		return input.Excerpt(shown, 1, 1)
	}
	return input.Excerpt(m.Text, m.Column, m.Width)
}

// Mistake is a Mistake at the place.
func (p Place) Mistake(format string, args ...any) *Mistake {
	m := &Mistake{Line: p.line, Column: p.column, Width: p.width, Problem: input.Short(redact.Text(fmt.Sprintf(format, args...)))}
	if p.Source == nil {
		return m
	}
	m.File, m.Text = p.Source.Name, p.Source.lineAt(p.line)
	if rest := len([]rune(m.Text)) - m.Column + 1; m.Width > rest {
		m.Width = rest
	}
	return m
}

// String is the place in short.
func (p Place) String() string {
	switch {
	case p.Source == nil:
		return "the defaults"
	case p.line == 0:
		return p.Source.Name
	}
	return fmt.Sprintf("%s:%d", p.Source.Name, p.line)
}

// index finds where the lines begin.
func (s *Source) index() {
	if s.lines != nil {
		return
	}
	s.lines = []int{0}
	for i := range len(s.Text) {
		if s.Text[i] == '\n' {
			s.lines = append(s.lines, i+1)
		}
	}
}

// lineAt is the nth line, from 1.
func (s *Source) lineAt(n int) string {
	s.index()
	if n < 1 || n > len(s.lines) {
		return ""
	}
	text, _, _ := strings.Cut(s.Text[s.lines[n-1]:], "\n")
	return strings.TrimSuffix(text, "\r")
}

// longLine is the length above which columns are bytes: counting letters for each
// value would take time quadratic in the length.
const longLine = 4096

// at is the place of a byte of the text.
func (s *Source) at(offset, width int) Place {
	s.index()
	offset = min(max(offset, 0), len(s.Text))
	n := sort.SearchInts(s.lines, offset+1)
	before := s.Text[s.lines[n-1]:offset]
	column := 1 + len(before)
	if len(before) < longLine {
		column = 1 + utf8.RuneCountInString(before)
	}
	return Place{s, n, column, width}
}

// Mistakes are all that is wrong with an experiment.
type Mistakes []*Mistake

// Error is all of them, one after the other.
func (ms Mistakes) Error() string {
	lines := make([]string, len(ms))
	for i, m := range ms {
		lines[i] = m.Error()
	}
	return strings.Join(lines, "\n")
}

// Err is nil if there are none. Those of each file are in the order of its lines,
// those without a line last.
func (ms Mistakes) Err() error {
	if len(ms) == 0 {
		return nil
	}
	last := func(line int) int {
		if line == 0 {
			return math.MaxInt
		}
		return line
	}
	slices.SortStableFunc(ms, func(a, b *Mistake) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(last(a.Line), last(b.Line)), cmp.Compare(a.Column, b.Column))
	})
	return ms
}
