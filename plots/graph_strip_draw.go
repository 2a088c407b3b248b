//go:build !js

package plots

import (
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"llmprof/plots/colors"
)

// The measures of a strip.
const (
	cellHeight vg.Length = 10
	cellMost   vg.Length = 13 // the width of a cell where there are few
	stripAbove vg.Length = 2
	stripBelow vg.Length = 3.5
)

// kindColor is that of a kind: of one hue that is no resource's, from light to
// dark and again.
func kindColor(kind int) colors.Color { return colors.Shade(kind % colors.NumShades) }

// lines is the text in lines that are as wide as room, cut after the second.
func (s *strip) lines(room vg.Length) []string {
	lines := wrap(Sans(CaptionSize, colors.Ink()), s.text(), room)
	if len(lines) > 2 {
		lines = append(lines[:1], fit(Sans(CaptionSize, colors.Ink()), strings.Join(lines[1:], " "), room))
	}
	return lines
}

// height is what the strip takes, 0 if there is none.
func (s *strip) height(room vg.Length) vg.Length {
	if len(s.order) == 0 {
		return 0
	}
	return stripAbove + cellHeight + stripBelow + lineHeight(Sans(CaptionSize, colors.Ink()))*vg.Length(len(s.lines(room))) + 2
}

func (s *strip) draw(c *draw.Canvas, y vg.Length) {
	if len(s.order) == 0 {
		return
	}
	y -= stripAbove
	room := c.Max.X - c.Min.X
	wide := min(cellMost, room/vg.Length(len(s.order)))
	for i := 0; i < len(s.order); {
		j := i + 1
		for j < len(s.order) && s.order[j] == s.order[i] {
			j++
		}
		box := rect(c.Min.X+wide*vg.Length(i), y-cellHeight, c.Min.X+wide*vg.Length(j), y)
		s.cells(c, box, s.order[i], j-i)
		i = j
	}
	style := Sans(CaptionSize, colors.Ink())
	y -= cellHeight + stripBelow
	for _, l := range s.lines(room) {
		write(c, style, c.Min.X, y-ascent(style), l)
		y -= lineHeight(style)
	}
}

// cells draws layers of one kind, with its letter in each or once, where there is room.
func (s *strip) cells(c *draw.Canvas, box vg.Rectangle, kind, n int) {
	ink := kindColor(kind).On()
	fill(c, box, kindColor(kind))
	style := Bold(CaptionSize, ink)
	name := letter(kind)
	wide := (box.Max.X - box.Min.X) / vg.Length(n)
	each := wide >= style.Width(name)+1.5
	for i := 1; i < n && each; i++ {
		x := box.Min.X + wide*vg.Length(i)
		c.StrokeLine2(Line(0.4, ink), x, box.Min.Y, x, box.Max.Y)
	}
	outline(c, box, colors.Faint())
	middle := func(lo, hi vg.Length) {
		write(c, style, (lo+hi-style.Width(name))/2, box.Min.Y+(cellHeight-ascent(style))/2, name)
	}
	switch {
	case each:
		for i := range n {
			middle(box.Min.X+wide*vg.Length(i), box.Min.X+wide*vg.Length(i+1))
		}
	case box.Max.X-box.Min.X >= style.Width(name)+1.5:
		middle(box.Min.X, box.Max.X)
	}
}
