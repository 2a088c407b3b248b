package plots

import (
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"llmprof/models"
	"llmprof/plots/colors"
)

// A strip shows how the kinds of layers of a hybrid alternate, a cell a layer.
type strip struct {
	order []int // the kind of each layer
}

// The measures of a strip.
const (
	cellHeight vg.Length = 10
	cellMost   vg.Length = 13 // the width of a cell where there are few
	stripAbove vg.Length = 2
	stripBelow vg.Length = 3.5
)

// newStrip is that of a model whose kinds have these names, empty if there is
// one kind only, or if the order is not known.
func newStrip(m *models.Model, names []string) strip {
	s := strip{}
	for _, k := range m.Order {
		if k < 0 || k >= len(m.Layers) {
			return strip{}
		}
		at := slices.Index(names, m.Layers[k].Name)
		if at < 0 {
			return strip{}
		}
		s.order = append(s.order, at)
	}
	if len(names) < 2 || len(s.order) == 0 {
		return strip{}
	}
	return s
}

// letter names a kind, as a, z, a1: small, since capitals are bounds.
func letter(kind int) string {
	s := string(rune('a' + kind%26))
	if kind >= 26 {
		s += fmt.Sprint(kind / 26)
	}
	return s
}

// kindColor is that of a kind: of one hue that is no resource's, from light to
// dark and again.
func kindColor(kind int) colors.Color { return colors.Shade(kind % colors.NumShades) }

// A run is layers of one kind, or of one pattern, that follow each other.
type run struct {
	text  string
	cells int // of one round
	times int
}

// runs are equal layers counted, and then equal patterns of those.
func (s *strip) runs() []run {
	var rs []run
	for _, k := range s.order {
		if n := len(rs); n > 0 && rs[n-1].text == letter(k) {
			rs[n-1].times++
			continue
		}
		rs = append(rs, run{letter(k), 1, 1})
	}
	return folded(rs)
}

// folded takes together the patterns of several runs that are repeated. At each
// run it takes the pattern that covers the most layers.
func folded(rs []run) (out []run) {
	const longest = 12 // runs in a pattern
	for i := 0; i < len(rs); {
		best, width := 1, 0
		for w := 2; w <= longest && i+2*w <= len(rs); w++ {
			times := 1
			for i+(times+1)*w <= len(rs) && slices.Equal(rs[i:i+w], rs[i+times*w:i+(times+1)*w]) {
				times++
			}
			if times > 1 && times*w > best*width {
				best, width = times, w
			}
		}
		if width == 0 {
			out = append(out, rs[i])
			i++
			continue
		}
		cells, texts := 0, make([]string, width)
		for k, r := range rs[i : i+width] {
			texts[k] = r.String()
			cells += r.cells * r.times
		}
		out = append(out, run{"(" + strings.Join(texts, " ") + ")", cells, best})
		i += best * width
	}
	return out
}

// String is the run as "58×b", "18×(a b)".
func (r run) String() string {
	if r.times == 1 {
		return r.text
	}
	return fmt.Sprintf("%d×%s", r.times, r.text)
}

// text is the whole strip as its runs, as "61 layers: 3×a 58×b".
func (s *strip) text() string {
	rs := s.runs()
	texts := make([]string, len(rs))
	for i, r := range rs {
		texts[i] = r.String()
	}
	return fmt.Sprintf("%d layers: %s", len(s.order), strings.Join(texts, " "))
}

// lines is the text in lines that are as wide as room, cut after the second.
func (s *strip) lines(room vg.Length) []string {
	lines := wrap(Sans(CaptionSize, Ink()), s.text(), room)
	if len(lines) > 2 {
		lines = append(lines[:1], fit(Sans(CaptionSize, Ink()), strings.Join(lines[1:], " "), room))
	}
	return lines
}

// height is what the strip takes, 0 if there is none.
func (s *strip) height(room vg.Length) vg.Length {
	if len(s.order) == 0 {
		return 0
	}
	return stripAbove + cellHeight + stripBelow + lineHeight(Sans(CaptionSize, Ink()))*vg.Length(len(s.lines(room))) + 2
}

// draw draws the strip below y.
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
		box := vg.Rectangle{
			Min: vg.Point{X: c.Min.X + wide*vg.Length(i), Y: y - cellHeight},
			Max: vg.Point{X: c.Min.X + wide*vg.Length(j), Y: y},
		}
		s.cells(c, box, s.order[i], j-i)
		i = j
	}
	style := Sans(CaptionSize, Ink())
	y -= cellHeight + stripBelow
	for _, l := range s.lines(room) {
		c.FillText(style, vg.Point{X: c.Min.X, Y: y - ascent(style)}, l)
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
	outline(c, box, Faint())
	middle := func(lo, hi vg.Length) {
		c.FillText(style, vg.Point{X: (lo + hi - style.Width(name)) / 2, Y: box.Min.Y + (cellHeight-ascent(style))/2}, name)
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
