package hardware

import (
	"slices"
	"strings"
	"unicode"

	"llmprof/spelling"
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

// near lists keys or aliases that resemble name, the nearest first; of a brand its last GPUs.
func (t *Table) near(name string) (names []string) {
	want := fold(name)
	if slices.Contains(brands(), want) {
		return t.branded(want)
	}
	groups := make([][]string, len(t.gpus))
	for i, g := range t.gpus {
		groups[i] = append([]string{g.Key}, g.Aliases...)
	}
	for _, m := range spelling.Nearest(want, groups) {
		names = append(names, m.Name)
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
