// Package colors is the one table of colours: of pictures, of the web page that
// holds them and of the terminal.
package colors

import (
	"fmt"
	"image/color"
	"strings"

	"llmprof/roofline"
)

// A Color is one on light ground and its counterpart on dark ground. Wherever only
// one of the two can be shown, it is the one on light ground.
type Color struct{ Light, Dark color.NRGBA }

// RGBA implements color.Color.
func (c Color) RGBA() (r, g, b, a uint32) { return c.Light.RGBA() }

// Faded is c with an opacity, so that it lets through what is under it.
func (c Color) Faded(alpha uint8) Color {
	c.Light.A, c.Dark.A = alpha, alpha
	return c
}

// Mixed is a share of c over ground, opaque, since PDF pictures have no opacity.
func (c Color) Mixed(ground Color, share float64) Color {
	mix := func(a, b color.NRGBA) color.NRGBA {
		of := func(x, y uint8) uint8 { return uint8(float64(x)*share + float64(y)*(1-share)) }
		return color.NRGBA{of(a.R, b.R), of(a.G, b.G), of(a.B, b.B), 255}
	}
	return Color{mix(c.Light, ground.Light), mix(c.Dark, ground.Dark)}
}

// On is the colour of text that is legible on c: nearly black or white.
func (c Color) On() Color {
	one := func(c color.NRGBA) color.NRGBA {
		if luminance(c) > 0.3 {
			return Ink().Light
		}
		return Paper().Light
	}
	return Color{one(c.Light), one(c.Dark)}
}

// luminance is the relative luminance of sRGB, from 0 to 1 (IEC 61966-2-1; the
// curve taken as a square, which is close enough to choose an ink by).
func luminance(c color.NRGBA) float64 {
	lin := func(v uint8) float64 { x := float64(v) / 255; return x * x }
	return 0.2126*lin(c.R) + 0.7152*lin(c.G) + 0.0722*lin(c.B)
}

// of is a colour from its two values as 0xRRGGBB.
func of(light, dark uint32) Color {
	rgb := func(v uint32) color.NRGBA { return color.NRGBA{uint8(v >> 16), uint8(v >> 8), uint8(v), 255} }
	return Color{rgb(light), rgb(dark)}
}

// Paper is the background.
func Paper() Color { return of(0xffffff, 0x1b1f24) }

// Ink is the colour of text and axes.
func Ink() Color { return of(0x222222, 0xe6e9ed) }

// Faint is the colour of text of second rank.
func Faint() Color { return of(0x5f6368, 0xa4acb7) }

// Rule is the colour of the grid.
func Rule() Color { return of(0xe3e5e8, 0x363c45) }

// Panel is the ground of a box within a picture.
func Panel() Color { return of(0xf5f6f8, 0x242a31) }

// Alarm is the colour of limits and of what is beyond them.
func Alarm() Color { return of(0xb01e2d, 0xff8a80) }

// Bound is the colour of what waits for a resource, everywhere. On light ground
// the four differ in lightness (L* 31, 71, 51 and 86), so they survive a greyscale
// print; on either ground they differ along the blue-yellow axis, so that those who
// confuse red and green can distinguish them.
func Bound(b roofline.Bound) Color {
	switch b {
	case roofline.ByCompute:
		return of(0x1d4a87, 0x8fbaf5) // deep blue
	case roofline.ByMemory:
		return of(0xe69f00, 0xe69f00) // orange of Okabe and Ito, jfly.uni-koeln.de/color
	case roofline.ByNetwork:
		return of(0x1b8a7a, 0x2b9f7f) // teal
	}
	return of(0xd3d8e0, 0x59616c) // launch: grey
}

// Terminal is the ANSI colour of what waits for a resource: the one of the eight
// basic ones that is nearest to Bound.
func Terminal(b roofline.Bound) string {
	switch b {
	case roofline.ByCompute:
		return "\x1b[34m"
	case roofline.ByMemory:
		return "\x1b[33m"
	case roofline.ByNetwork:
		return "\x1b[36m"
	}
	return "\x1b[2m" // launch: faint
}

// NumSeries is how many kinds of points or lines Series distinguishes.
const NumSeries = 8

// Series is the n-th of the colours of lines and points of one picture.
func Series(n int) Color {
	return [NumSeries]Color{
		of(0x1d4a87, 0x79aef2), of(0xc45a00, 0xf0883a), of(0x1b8a7a, 0x2fae9b), of(0xb44a94, 0xdb7fbe),
		of(0x222222, 0xe6e9ed), of(0x4f9bd9, 0x4a86c8), of(0x7b3fe4, 0xa27bf5), of(0x6b3e0c, 0xb98d5a),
	}[max(n, 0)%NumSeries]
}

// NumStack is how many layers Stack distinguishes.
const NumStack = 5

// Stack is the n-th of the colours of areas that lie on one another. In grey they
// differ by a tenth of the lightness.
func Stack(n int) Color {
	return [NumStack]Color{
		of(0x43386a, 0x6a5fa3), of(0xb9bdc4, 0x3d434b), of(0xb04d6c, 0xc9688a), of(0x6f9fd0, 0x8fbbe6), of(0xf7e0c4, 0xf3dcc0),
	}[max(n, 0)%NumStack]
}

// NumShades is how many kinds Shade distinguishes.
const NumShades = 4

// Shade is the n-th of the shades of one hue, for kinds of layers.
func Shade(n int) Color {
	return [NumShades]Color{of(0xf3e9f1, 0x3d3440), of(0xb57fab, 0x8e5f86), of(0x662459, 0xd9a6cf),
		of(0xd8b9d2, 0x634659)}[max(n, 0)%NumShades]
}

// Hex is a colour as CSS and DOT write it.
func Hex(c color.NRGBA) string { return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B) }

// CSS declares the colours that a page shares with its pictures as custom
// properties, on dark ground or on light.
func CSS(dark bool) string {
	var b strings.Builder
	add := func(name string, c Color) {
		one := c.Light
		if dark {
			one = c.Dark
		}
		fmt.Fprintf(&b, "--%s:%s;", name, Hex(one))
	}
	add("paper", Paper())
	for bound := roofline.ByCompute; bound <= roofline.ByLaunch; bound++ {
		add(bound.String(), Bound(bound))
	}
	return b.String()
}
