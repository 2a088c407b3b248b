//go:build !js

package plots

import (
	"image/color"
	"strings"

	xfont "golang.org/x/image/font"
	"golang.org/x/text/encoding/charmap"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgpdf"
)

// A pdfCanvas makes up for what vgpdf (v0.17) cannot do. It embeds one font only,
// a second one in its place, so bold letters are plain; it hands UTF-8 to a font
// that it has encoded as Windows-1252; and it takes what lets through for black.
type pdfCanvas struct{ *vgpdf.Canvas }

// FillString implements vg.Canvas.
func (c pdfCanvas) FillString(f font.Face, at vg.Point, text string) {
	if f.Font.Weight != xfont.WeightNormal {
		plain := f.Font
		plain.Weight = xfont.WeightNormal
		f = plot.DefaultTextHandler.Cache().Lookup(plain, plain.Size)
	}
	c.Canvas.FillString(f, at, windows1252(text))
}

// SetColor implements vg.Canvas.
func (c pdfCanvas) SetColor(ink color.Color) {
	n, ok := color.NRGBAModel.Convert(ink).(color.NRGBA)
	if !ok {
		n = color.NRGBA{A: 255}
	}
	over := func(v uint8) uint8 { return uint8((int(v)*int(n.A) + 255*(255-int(n.A))) / 255) }
	c.Canvas.SetColor(color.NRGBA{over(n.R), over(n.G), over(n.B), 255})
}

// windows1252 is text in that encoding, with a question mark for what it lacks.
func windows1252(text string) string {
	var b strings.Builder
	for _, r := range text {
		if c, ok := charmap.Windows1252.EncodeRune(r); ok {
			b.WriteByte(c)
		} else {
			b.WriteByte('?')
		}
	}
	return b.String()
}
