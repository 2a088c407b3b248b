package input

import (
	"strings"
)

// TOML reports the first place where a text of TOML exceeds the limits. Whether
// it is TOML is for the parser to say.
func (l Limits) TOML(text string) error {
	c, err := l.counter(text)
	if err != nil {
		return err
	}
	var open []int      // how deep it was at each bracket that is open
	depth, dots := 0, 0 // dots are of the key that was read last
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '#':
			for i+1 < len(text) && text[i+1] != '\n' {
				i++
			}
		case '"', '\'':
			i = tomlStringEnd(text, i)
		case '.':
			dots++
			err = c.deep(i, depth+dots)
		case '[', '{':
			open = append(open, depth)
			depth, dots = depth+dots+1, 0
			err = c.deep(i, depth)
			if err == nil {
				err = c.value(i)
			}
		case ']', '}':
			dots = 0
			if n := len(open) - 1; n >= 0 {
				depth, open = open[n], open[:n]
			}
		case ',':
			dots = 0
			err = c.value(i)
		case '=':
			err = c.value(i)
		case '\n':
			dots = 0
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tomlStringEnd is where the string that begins at i ends. Three quotes begin one
// of several lines, before whose last three two more may stand.
func tomlStringEnd(text string, i int) int {
	quote, escapes := text[i:i+1], text[i] == '"'
	three := strings.Repeat(quote, 3)
	if !strings.HasPrefix(text[i:], three) {
		return quotedEnd(text, i, escapes)
	}
	for i += 3; i < len(text) && !strings.HasPrefix(text[i:], three); i++ {
		if escapes && text[i] == '\\' {
			i++
		}
	}
	i += 2
	for n := 0; n < 2 && i+1 < len(text) && text[i+1] == quote[0]; n++ {
		i++
	}
	return i
}
