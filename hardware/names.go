package hardware

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"github.com/agnivade/levenshtein"
)

// fold reduces a name to what GPUs differ in: "NVIDIA A100-SXM4-80GB" and
// "a100_sxm4_80gb" are the same, and so are "GeForce RTX 4090" and "rtx-4090".
func fold(name string) string {
	f := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
	for _, brand := range brands() {
		if rest, ok := strings.CutPrefix(f, brand); ok && rest != "" {
			f = rest
		}
	}
	return f
}

// brands are words that a name may begin with or leave out.
func brands() []string {
	return []string{"nvidia", "amd", "tesla", "geforce", "quadro", "radeon", "instinct", "jetson", "apple", "google", "intel"}
}

// near lists up to five keys or aliases that resemble name, the nearest first.
func (t *Table) near(name string) []string {
	type candidate struct {
		name     string
		distance int
	}
	want := fold(name)
	if want == "" || len(want) > 64 {
		return nil
	}
	if slices.Contains(brands(), want) {
		return t.branded(want)
	}
	var found []candidate
	for _, g := range t.gpus {
		best := candidate{g.Key, likeness(want, fold(g.Key))}
		for _, a := range g.Aliases {
			d := likeness(want, fold(a))
			if d < best.distance || d == best.distance && len(a) < len(best.name) {
				best = candidate{a, d}
			}
		}
		if best.distance <= 1+len(want)/4 {
			found = append(found, best)
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(a.distance, b.distance) })
	var names []string
	for _, c := range found {
		if len(names) < 5 && c.distance <= max(1, found[0].distance) {
			names = append(names, c.name)
		}
	}
	return names
}

// branded lists the last five GPUs of a brand.
func (t *Table) branded(brand string) (keys []string) {
	for _, g := range t.gpus {
		if g.Vendor == brand || strings.HasPrefix(strings.ToLower(g.Name), brand) {
			keys = append(keys, g.Key)
		}
	}
	return keys[max(len(keys)-5, 0):]
}

// likeness is the edit distance of two folded names; one that contains the
// other is at distance 1. Two letters count at the beginning alone: "HBM3" has an M3.
func likeness(a, b string) int {
	d := levenshtein.ComputeDistance(a, b)
	short, long := a, b
	if len(a) > len(b) {
		short, long = b, a
	}
	if d > 1 && (len(short) > 2 && strings.Contains(long, short) || len(short) == 2 && strings.HasPrefix(long, short)) {
		return 1
	}
	return d
}
