package plots

import (
	"strings"

	xfont "golang.org/x/image/font"
	"golang.org/x/text/encoding/charmap"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgpdf"
)

// A pdfCanvas is vgpdf's, with bold letters and letters beyond ASCII. Vgpdf
// registers a bold font as a plain one of that name and then asks for the bold
// of it; and it hands UTF-8 to fonts that it has encoded as Windows-1252.
type pdfCanvas struct{ *vgpdf.Canvas }

// FillString implements vg.Canvas.
func (c pdfCanvas) FillString(f font.Face, at vg.Point, text string) {
	if f.Font.Weight == xfont.WeightBold {
		f.Font.Weight = xfont.WeightNormal
		f.Font.Variant += "Bold" // a name of its own; the letters are the face's
	}
	c.Canvas.FillString(f, at, windows1252(text))
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
