package tree

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"llmprof/internal/fileerror"
)

// A Source is the text of a file.
type Source struct {
	Name, Text string
	lines      []int // where each begins, from the first on; found when a place is asked for
}

// A Place is where something stands in a file.
type Place struct {
	Source *Source
	fileerror.Span
}

func (s *Source) place(line, column, width int) Place {
	return Place{s, fileerror.Span{Line: line, Column: column, Width: width}}
}

// Errorf is a mistake at the place.
func (p Place) Errorf(format string, args ...any) *fileerror.Error {
	if p.Source == nil {
		return fileerror.New("", "", p.Span, format, args...)
	}
	return fileerror.New(p.Source.Name, p.Source.lineAt(p.Line), p.Span, format, args...)
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
	return s.place(n, column, width)
}

// Errors are all that is wrong with an experiment.
type Errors []*fileerror.Error

// Error is all of them, one after the other.
func (ms Errors) Error() string {
	lines := make([]string, len(ms))
	for i, m := range ms {
		lines[i] = m.Error()
	}
	return strings.Join(lines, "\n")
}

// Err is nil if there are none. Those of each file are in the order of its lines,
// those without a line last.
func (ms Errors) Err() error {
	if len(ms) == 0 {
		return nil
	}
	last := func(line int) int {
		if line == 0 {
			return math.MaxInt
		}
		return line
	}
	slices.SortStableFunc(ms, func(a, b *fileerror.Error) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(last(a.Line), last(b.Line)), cmp.Compare(a.Column, b.Column))
	})
	return ms
}
