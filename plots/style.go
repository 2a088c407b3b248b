//go:build !js

package plots

import (
	"image/color"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"llmprof/plots/colors"
)

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
