package printable

import "strings"

// shellPlain are the characters that a POSIX shell reads as they are.
const shellPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,@%+"

// ShellWord is a word as a POSIX shell reads it: in quotes where it has other characters than plain ones.
func ShellWord(w string) string {
	if w != "" && strings.Trim(w, shellPlain) == "" {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}
