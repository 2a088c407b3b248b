package input

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// mostProblem is how much of a problem a message repeats, and mostLine of a line.
const (
	mostProblem = 400
	mostLine    = 160
	before      = 60 // characters before the mistake in a long line
)

// Short is a text cut to a length that fits into a message.
func Short(text string) string {
	if len(text) <= mostProblem {
		return text
	}
	end := mostProblem * 3 / 4
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	start := len(text) - mostProblem/4
	for start < len(text) && !utf8.RuneStart(text[start]) {
		start++
	}
	return text[:end] + " ... " + text[start:]
}

// Excerpt is a line with a line of marks below what is wrong in it: width
// characters from column on, which counts from 1. Of a long line it is the part
// around the mistake.
func Excerpt(line string, column, width int) string {
	runes := []rune(strings.Map(func(c rune) rune {
		if unicode.IsControl(c) { // a tab would take other columns
			return ' '
		}
		return c
	}, line))
	at := min(max(column-1, 0), len(runes)+1) // a line that ends too early is wrong after its end
	head, tail := "", ""
	if len(runes) > mostLine {
		from := max(at-before, 0)
		to := min(from+mostLine, len(runes))
		if from > 0 {
			head = "... "
		}
		if to < len(runes) {
			tail = " ..."
		}
		runes, at = runes[from:to], at-from
	}
	at += len(head)
	width = min(max(width, 1), max(len(head)+len(runes)-at, 1))
	return "    " + head + string(runes) + tail + "\n    " + strings.Repeat(" ", at) + strings.Repeat("^", width)
}
