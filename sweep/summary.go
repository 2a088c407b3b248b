package sweep

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// A Summary says what became of the points.
type Summary struct {
	Points  uint64             `json:"points"` // points of the shard
	Done    uint64             `json:"done"`   // points done, from the first on: in the output or left out of it
	Written uint64             `json:"written"`
	Left    map[string]*Reason `json:"left"` // out, by the kind of reason
	Bytes   int64              `json:"-"`    // size of the CSV or JSON Lines of the points done, with the header
}

// Add adds the counts of another shard.
func (s *Summary) Add(o *Summary) {
	s.Points, s.Done = s.Points+o.Points, s.Done+o.Done
	s.add(o)
}

// Possible is how many points are not impossible.
func (s *Summary) Possible() uint64 {
	n := s.Points
	for _, r := range s.Left {
		n -= r.Points
	}
	return n
}

// Reasons lists why points are impossible, the most frequent first.
func (s *Summary) Reasons() []Reason {
	var all []Reason
	for _, kind := range slices.Sorted(maps.Keys(s.Left)) {
		all = append(all, *s.Left[kind])
	}
	slices.SortStableFunc(all, func(a, b Reason) int { return cmp.Compare(b.Points, a.Points) })
	return all
}

// A Reason is why points are impossible.
type Reason struct {
	Points  uint64 `json:"points"`
	Example string `json:"example"`
}

// add adds the counts of a block.
func (s *Summary) add(b *Summary) {
	s.Written += b.Written
	for kind, r := range b.Left {
		s.left(kind, r.Example, r.Points)
	}
}

// left counts points that were left out.
func (s *Summary) left(kind, example string, n uint64) {
	if s.Left == nil {
		s.Left = map[string]*Reason{}
	}
	if r := s.Left[kind]; r != nil {
		r.Points += n
		return
	}
	s.Left[kind] = &Reason{n, example}
}

// kindOf is a reason without its numbers, so that those that differ in them alone are
// counted together.
func kindOf(reason string) string {
	var b strings.Builder
	number := false
	for i, r := range reason {
		point := number && r == '.' && i+1 < len(reason) && unicode.IsDigit(rune(reason[i+1]))
		if unicode.IsDigit(r) || point {
			if !number {
				b.WriteByte('N')
			}
			number = true
			continue
		}
		number = false
		b.WriteRune(r)
	}
	return b.String()
}
