package printable

import "strings"

// ShellWord is a word as a POSIX shell reads it: in quotes where it has other characters than plain ones.
func ShellWord(w string) string {
	special := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=,@%+", r))
	}
	if w != "" && !strings.ContainsFunc(w, special) {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}
