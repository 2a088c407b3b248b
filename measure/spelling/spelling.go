// Package spelling finds the names that a misspelt one may stand for.
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
	most    = 3
	longest = 64
)

// Near lists the known names that are a few edits from name, the nearest first.
func Near(name string, known []string) []string {
	if len(name) > longest {
		return nil
	}
	want := fold(name)
	type candidate struct {
		name  string
		edits int
	}
	var found []candidate
	for _, k := range known {
		if d := levenshtein.ComputeDistance(want, fold(k)); d <= 1+len(want)/4 {
			found = append(found, candidate{k, d})
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return a.edits - b.edits })
	var names []string
	for _, c := range found[:min(most, len(found))] {
		names = append(names, c.name)
	}
	return names
}

// Hint is what an error of an unknown name ends with: what may have been meant,
// or else what is known.
func Hint(name string, known []string) string {
	if near := Near(name, known); len(near) > 0 {
		return fmt.Sprintf("did you mean %s?", list(near, " or "))
	}
	return "known are " + strings.Join(known, ", ")
}

func list(names []string, last string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = fmt.Sprintf("%q", n)
	}
	if n := len(quoted); n > 1 {
		return strings.Join(quoted[:n-1], ", ") + last + quoted[n-1]
	}
	return quoted[0]
}

// fold drops what names are often spelt differently in: case, "-", "_", ".".
func fold(s string) string {
	return strings.NewReplacer("-", "", "_", "", ".", "", " ", "").Replace(strings.ToLower(s))
}
