package printable

import "strings"

// plain has what stands for characters that the program itself prints. Those of tables
// and bars are one character for one, so that columns stay where they are.
var plain = strings.NewReplacer(
	"×", "x", "·", "*", "µ", "u", "μ", "u", "–", "-", "—", "-", "−", "-", "…", "~", "•", "*", "°", " deg", "±", "+-", "≥", ">=", "≤", "<=", "²", "2",
	"─", "-", "│", "|", "┼", "+", "█", "#", "▉", "#", "▊", "#", "▋", "#", "▌", "=", "▍", "=", "▎", "-", "▏", "-", "→", ">", "←", "<",
	"“", `"`, "”", `"`, "‘", "'", "’", "'", "\u00a0", " ",
)

// ASCII is s for a terminal that shows no other characters: those without a likeness
// are question marks.
func ASCII(s string) string {
	if isASCII(s) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r > '~' {
			return '?'
		}
		return r
	}, plain.Replace(s))
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] > '~' {
			return false
		}
	}
	return true
}

// UTF8 reports whether a locale shows all characters, by the variables of the environment
// that name it. One that names none may: pipes, containers and Windows have none.
func UTF8(env func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := strings.ToLower(env(name)); locale != "" {
			return strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
		}
	}
	return true
}
