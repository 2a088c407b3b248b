package plots

import (
	"image/color"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"llmprof/roofline"
)

// The sizes of a figure: as wide as the text of a page, so that it is neither
// shrunk in print nor has letters below six points when it is set a little
// smaller.
const (
	Width  vg.Length = 6.5 * vg.Inch
	Margin vg.Length = 8
	DPI              = 200 // of pictures in pixels
)

// The sizes of letters.
const (
	TitleSize   vg.Length = 11
	LabelSize   vg.Length = 8
	TickSize    vg.Length = 7.5
	CaptionSize vg.Length = 7
)

// Paper is the background.
func Paper() color.Color { return color.NRGBA{0xff, 0xff, 0xff, 255} }

// Ink is the colour of text and axes.
func Ink() color.Color { return color.NRGBA{0x22, 0x22, 0x22, 255} }

// Faint is the colour of text of second rank.
func Faint() color.Color { return color.NRGBA{0x5f, 0x63, 0x68, 255} }

// Rule is the colour of the grid.
func Rule() color.Color { return color.NRGBA{0xe3, 0xe5, 0xe8, 255} }

// Alarm is the colour of limits and of what is beyond them.
func Alarm() color.Color { return color.NRGBA{0xb0, 0x1e, 0x2d, 255} }

// BoundColor is the colour of what waits for a resource, in every picture. The
// four differ in lightness (L* 31, 71, 51 and 86), so they survive a greyscale
// print, and in hue along the blue-yellow axis, so that those who confuse red
// and green tell them apart.
func BoundColor(b roofline.Bound) color.Color {
	switch b {
	case roofline.ByCompute:
		return color.NRGBA{0x1d, 0x4a, 0x87, 255} // deep blue
	case roofline.ByMemory:
		return color.NRGBA{0xe6, 0x9f, 0x00, 255} // orange of Okabe and Ito, jfly.uni-koeln.de/color
	case roofline.ByNetwork:
		return color.NRGBA{0x1b, 0x8a, 0x7a, 255} // teal
	}
	return color.NRGBA{0xd3, 0xd8, 0xe0, 255} // launch: pale grey
}

// BoundInk is the colour of text that is legible on BoundColor.
func BoundInk(b roofline.Bound) color.Color { return inkOn(BoundColor(b)) }

// inkOn is dark or light, whichever is legible on c.
func inkOn(c color.Color) color.Color {
	if luminance(c) > 0.3 {
		return Ink()
	}
	return Paper()
}

// blend is share of a over b, opaque, as no form of picture but SVG and PNG lets
// colours through.
func blend(a, b color.Color, share float64) color.Color {
	r, g, bl, _ := a.RGBA()
	r2, g2, bl2, _ := b.RGBA()
	mix := func(x, y uint32) uint8 { return uint8((float64(x)*share + float64(y)*(1-share)) / 257) }
	return color.NRGBA{mix(r, r2), mix(g, g2), mix(bl, bl2), 255}
}

// luminance is the relative luminance of sRGB, from 0 to 1 (IEC 61966-2-1; the
// curve taken as a square, which is close enough to choose an ink by).
func luminance(c color.Color) float64 {
	r, g, b, _ := c.RGBA()
	lin := func(v uint32) float64 { x := float64(v) / 0xffff; return x * x }
	return 0.2126*lin(r) + 0.7152*lin(g) + 0.0722*lin(b)
}

// A PhaseMark tells prefill and decode apart by shape and outline, not colour.
type PhaseMark struct {
	Name  string
	Shape draw.GlyphDrawer
	Dash  []vg.Length // of outlines and lines
}

// PrefillMark is that of prefill: a circle.
func PrefillMark() PhaseMark {
	return PhaseMark{Name: "prefill", Shape: draw.CircleGlyph{}}
}

// DecodeMark is that of decode: a square with a dashed line.
func DecodeMark() PhaseMark {
	return PhaseMark{Name: "decode", Shape: draw.BoxGlyph{}, Dash: []vg.Length{3, 2}}
}

// NumSeries is how many lines that share a picture are told apart.
const NumSeries = 6

// numInks is how many kinds of points that share a picture are told apart by colour
// alone.
const numInks = 8

// ink is the n-th of the colours of lines and points; those of lines come first.
func ink(n int) color.Color {
	return [numInks]color.NRGBA{
		{0x1d, 0x4a, 0x87, 255}, {0xc4, 0x5a, 0x00, 255}, {0x1b, 0x8a, 0x7a, 255},
		{0xb4, 0x4a, 0x94, 255}, {0x22, 0x22, 0x22, 255}, {0x4f, 0x9b, 0xd9, 255},
		{0x7b, 0x3f, 0xe4, 255}, {0x6b, 0x3e, 0x0c, 255},
	}[max(n, 0)%numInks]
}

// Series is the n-th of the looks of lines that share a picture. Colour, dash and
// marker change together, so that any one of them is enough.
func Series(n int) (color.Color, []vg.Length, Marker) {
	dashes := [NumSeries][]vg.Length{nil, {7, 2.5}, {3, 1.5}, {8, 2, 2, 2}, {4.5, 4}, {9, 2, 2, 2, 2, 2}}
	n = max(n, 0) % NumSeries
	return ink(n), dashes[n], Marker(n)
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
