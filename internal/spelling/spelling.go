// Package spelling finds the known names that a misspelt one may stand for.
package spelling

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// most is how many near names are listed, and longest how long a name may be
// before it is taken for no name at all.
const (
	most    = 5
	longest = 80
)

// An UnknownError is about a name that stands for nothing.
type UnknownError struct{ error }

// Unknown is an UnknownError with a text of its own.
func Unknown(format string, args ...any) error { return UnknownError{fmt.Errorf(format, args...)} }

// Near lists the known names that are the fewest edits from name.
func Near(name string, known []string) []string {
	groups := make([][]string, len(known))
	for i := range known {
		groups[i] = known[i : i+1]
	}
	var names []string
	for _, m := range Nearest(name, groups) {
		names = append(names, m.Name)
	}
	return names
}

// A Match is one of several things, by the name that is nearest to what was typed.
type Match struct {
	Index          int // index of the group
	Name           string
	edits, letters int
}

// Nearest finds the things that are the fewest edits from name, each of which has
// a group of names. Those with the fewest other letters come first.
func Nearest(name string, groups [][]string) []Match {
	want := fold(name)
	if want == "" || len(name) > longest {
		return nil
	}
	least := 1 + len(want)/3
	var found []Match
	for i, names := range groups {
		best := Match{edits: least + 1}
		for _, k := range names {
			if edits, letters := distance(want, fold(k)); edits < best.edits || edits == best.edits && letters < best.letters {
				best = Match{i, k, edits, letters}
			}
		}
		if best.edits <= least {
			found, least = append(found, best), best.edits
		}
	}
	found = slices.DeleteFunc(found, func(m Match) bool { return m.edits > least })
	slices.SortStableFunc(found, func(a, b Match) int { return a.letters - b.letters })
	return found[:min(most, len(found))]
}

// Distance counts the letters that are changed, added or removed between two names.
func Distance(a, b string) int { return levenshtein.ComputeDistance(fold(a), fold(b)) }

// distance counts the letters between two folded names that are changed, added or
// removed, and the edits: two letters that are swapped are one edit, and so is all
// that one name lacks at its beginning and end.
func distance(a, b string) (edits, letters int) {
	letters = levenshtein.ComputeDistance(a, b)
	short, long := a, b
	if len(a) > len(b) {
		short, long = b, a
	}
	part := len(short) > 3 && strings.Contains(long, short) || len(short) > 1 && strings.HasPrefix(long, short)
	if part || letters == 2 && sorted(a) == sorted(b) {
		return min(letters, 1), letters
	}
	return letters, letters
}

func sorted(s string) string {
	b := []byte(s)
	slices.Sort(b)
	return string(b)
}

// Hint is what an error of an unknown name ends with: what may have been meant,
// or else what is known.
func Hint(name string, known []string) string {
	near := Near(name, known)
	if len(near) == 0 {
		return "known are " + strings.Join(known, ", ")
	}
	for i, n := range near {
		near[i] = fmt.Sprintf("%q", n)
	}
	text := near[len(near)-1]
	if others := near[:len(near)-1]; len(others) > 0 {
		text = strings.Join(others, ", ") + " or " + text
	}
	return "did you mean " + text + "?"
}

// fold drops what names are often spelt differently in: case, "-", "_", "." and blanks.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("-_. ", r) {
			return -1
		}
		return r
	}, strings.ToLower(s))
}
