package hardware

import (
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
	for _, brand := range []string{"nvidia", "amd", "tesla", "geforce", "quadro", "radeon", "instinct", "jetson", "apple", "google", "intel"} {
		if rest, ok := strings.CutPrefix(f, brand); ok && rest != "" {
			f = rest
		}
	}
	return f
}

// near lists keys or aliases that resemble name, the nearest first.
func (t *Table) near(name string) (names []string) {
	groups := make([][]string, len(t.gpus))
	for i, g := range t.gpus {
		groups[i] = append([]string{g.Key}, g.Aliases...)
	}
	for _, m := range spelling.Nearest(fold(name), groups) {
		names = append(names, m.Name)
	}
	return names
}
