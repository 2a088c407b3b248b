package printable

import "strings"

// plain are the characters that a POSIX shell reads as they are.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,@%+"

// ShellWord is a word as a POSIX shell reads it: in quotes where it has other characters than plain ones.
func ShellWord(w string) string {
	if w != "" && strings.Trim(w, plain) == "" {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}
