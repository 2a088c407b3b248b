//go:build !js

package plots

import (
	"strings"
	"unicode/utf8"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Text is placed by its baseline, so these are what a line takes above and below
// it. Digits and capitals are lower than the font's own ascent.
func ascent(s draw.TextStyle) vg.Length     { return s.Font.Size * 0.74 }
func descent(s draw.TextStyle) vg.Length    { return -s.Font.Size * 0.22 }
func lineHeight(s draw.TextStyle) vg.Length { return s.Font.Size * 1.28 }

// fit is text, cut with an ellipsis to be at most as wide as room.
func fit(s draw.TextStyle, text string, room vg.Length) string {
	if s.Width(text) <= room {
		return text
	}
	r := []rune(text)
	for len(r) > 0 && s.Width(string(r)+"…") > room {
		r = r[:len(r)-1]
	}
	return string(r) + "…"
}

// wrap breaks text into lines that are at most as wide as room, between words
// where that is enough, and not at a no-break space.
func wrap(s draw.TextStyle, text string, room vg.Length) (lines []string) {
	line := ""
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '\n' || r == '\t' }) {
		longer := strings.TrimLeft(line+" "+word, " ")
		width := s.Width(longer)
		if line != "" && width > room {
			lines = append(lines, line)
			longer, width = word, s.Width(word)
		}
		for width > room {
			head := beginning(s, longer, room)
			lines, longer = append(lines, head), longer[len(head):]
			width = s.Width(longer)
		}
		line = longer
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// beginning is as much of a word as room holds, a letter at least, and up to a
// hyphen or the like if there is one towards its end.
func beginning(s draw.TextStyle, word string, room vg.Length) string {
	end := 0
	for end < len(word) {
		_, n := utf8.DecodeRuneInString(word[end:])
		if end > 0 && s.Width(word[:end+n]) > room {
			break
		}
		end += n
	}
	if cut := strings.LastIndexAny(word[:end], "-_/.,") + 1; cut > end/2 && end < len(word) {
		return word[:cut]
	}
	return word[:end]
}

// textBox is the ink of text whose baseline begins at p.
func textBox(s draw.TextStyle, p vg.Point, text string) vg.Rectangle {
	return rect(p.X, p.Y+descent(s), p.X+s.Width(text), p.Y+ascent(s))
}
