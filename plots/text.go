//go:build !js

package plots

import (
	"image/color"
	"strings"
	"unicode/utf8"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"llmprof/plots/colors"
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
	return vg.Rectangle{
		Min: vg.Point{X: p.X, Y: p.Y + descent(s)},
		Max: vg.Point{X: p.X + s.Width(text), Y: p.Y + ascent(s)},
	}
}

func fill(c *draw.Canvas, r vg.Rectangle, ink color.Color) {
	c.SetColor(ink)
	c.Fill(r.Path())
}

// slanted draws lines over a rectangle that fall to the right.
func slanted(c *draw.Canvas, r vg.Rectangle, line draw.LineStyle, gap vg.Length) {
	w, h := r.Max.X-r.Min.X, r.Max.Y-r.Min.Y
	if w <= 0 || h <= 0 {
		return
	}
	for d := gap; d < w+h; d += gap {
		x0, y0 := d, vg.Length(0)
		if d > w {
			x0, y0 = w, d-w
		}
		x1, y1 := vg.Length(0), d
		if d > h {
			x1, y1 = d-h, h
		}
		c.StrokeLine2(line, r.Min.X+x0, r.Min.Y+y0, r.Min.X+x1, r.Min.Y+y1)
	}
}

// The sizes of a figure: as wide as the text of a page, so that it is neither
// shrunk in print nor has letters below six points when it is set a little
// smaller.
const (
	Width  vg.Length = 6.5 * vg.Inch
	Margin vg.Length = 8
	DPI              = 200 // resolution of pictures in pixels
)

// The sizes of letters.
const (
	TitleSize   vg.Length = 11
	LabelSize   vg.Length = 8
	TickSize    vg.Length = 7.5
	CaptionSize vg.Length = 7
)

// NumSeries is how many lines that share a picture are told apart.
const NumSeries = 6

// Series is the n-th of the looks of lines that share a picture. Colour, dash and
// marker change together, so that any one of them is enough.
func Series(n int) (colors.Color, []vg.Length, Marker) {
	dashes := [NumSeries][]vg.Length{nil, {7, 2.5}, {3, 1.5}, {8, 2, 2, 2}, {4.5, 4}, {9, 2, 2, 2, 2, 2}}
	n = max(n, 0) % NumSeries
	return colors.Series(n), dashes[n], Marker(n)
}

// Sans is Liberation Sans in a size and colour. It comes with the program, so
// that text is measured as it is drawn.
func Sans(size vg.Length, c color.Color) draw.TextStyle {
	return draw.TextStyle{
		Color: c, Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}, Handler: plot.DefaultTextHandler,
	}
}

// Bold is Sans in bold.
func Bold(size vg.Length, c color.Color) draw.TextStyle {
	s := Sans(size, c)
	s.Font.Weight = xfont.WeightBold
	return s
}

// Line is a plain stroke.
func Line(width vg.Length, c color.Color, dash ...vg.Length) draw.LineStyle {
	return draw.LineStyle{Color: c, Width: width, Dashes: dash}
}
