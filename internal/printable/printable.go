// Package printable makes text from elsewhere, as names of GPUs, folders, models and
// the messages of other programs, harmless to show.
package printable

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Text is s with every character that a terminal could take as a command, or that
// hides others, written as an escape: control characters, Unicode's formatting
// characters, and bytes that are not UTF-8. Line ends and tabs stay.
func Text(s string) string {
	if strings.IndexFunc(s, hidden) < 0 && strings.ToValidUTF8(s, "") == s {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == unicode.ReplacementChar && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case hidden(r):
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func hidden(r rune) bool {
	return r != '\n' && r != '\t' && !unicode.IsPrint(r) && !unicode.IsSpace(r) || r == '\r' || r == '\v' || r == '\f' || r == 0x85
}

// Line is Text on one line.
func Line(s string) string {
	return strings.NewReplacer("\n", `\n`, "\t", " ").Replace(Text(s))
}

// formula is what a spreadsheet takes a cell for that begins with one of these.
const formula = "=+-@\t\r"

// Cell is a text as a cell of a CSV file that no spreadsheet takes for a formula: one
// that begins like a formula has an apostrophe before it, unless it is a number.
func Cell(s string) string {
	if s == "" || !strings.ContainsRune(formula, rune(s[0])) {
		return s
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return s
	}
	return "'" + s
}

// FromCell is the text that Cell wrote.
func FromCell(s string) string {
	if len(s) > 1 && s[0] == '\'' && strings.ContainsRune(formula, rune(s[1])) {
		return s[1:]
	}
	return s
}

// shellPlain are the characters that a POSIX shell reads as they are.
const shellPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,@%+"

// ShellWord is a word as a POSIX shell reads it: in quotes where it has other characters than plain ones.
func ShellWord(w string) string {
	if w != "" && strings.Trim(w, shellPlain) == "" {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}

// CommandLine breaks a command before its flags, quoted for a shell.
func CommandLine(list []string) string {
	var b strings.Builder
	for i, w := range list {
		switch {
		case i == 0:
		case strings.HasPrefix(w, "-"):
			b.WriteString(" \\\n  ")
		default:
			b.WriteByte(' ')
		}
		b.WriteString(ShellWord(w))
	}
	return b.String()
}

// Operand is a name or a path as an argument that no command takes for an option: one that begins with a dash has its folder before it.
func Operand(s string) string {
	if strings.HasPrefix(s, "-") {
		return "./" + s
	}
	return s
}

// KubernetesArg is a word of a container's arguments in a manifest: quoted for YAML, and with every $ doubled, since
// Kubernetes puts the value of a variable, which may be a secret, in the place of $(NAME).
func KubernetesArg(w string) string { return strconv.Quote(strings.ReplaceAll(w, "$", "$$")) }

// plain has what stands for characters that the program itself prints. Those of tables
// and bars are one character for one, so that columns stay where they are.
var plain = strings.NewReplacer(
	"×", "x", "·", "*", "µ", "u", "μ", "u", "–", "-", "—", "-", "−", "-", "…", "~", "•", "*", "°", " deg", "±", "+-", "≥", ">=", "≤", "<=",
	"²", "2",
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
