package plots

import (
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// inside is what a piece of a bar has room for: two lines, a percentage, or
// nothing.
func (b *bar) inside(p *part) []string {
	room := barWidth*vg.Length(p.share) - 5
	style := smallText()
	fits := func(texts ...string) bool {
		for _, t := range texts {
			if style.Width(t) > room {
				return false
			}
		}
		return true
	}
	figure := b.text(p.value) + " · " + percent(p.share)
	switch {
	case fits(p.name(), figure):
		return []string{p.name(), figure}
	case fits(b.text(p.value), percent(p.share)):
		return []string{b.text(p.value), percent(p.share)}
	case fits(percent(p.share)):
		return []string{percent(p.share)}
	}
	return nil
}

// outside are the labels of the pieces that have no room for a figure inside, in
// rows below the bar.
func (b *bar) outside() (rows [][]label) {
	style := smallText()
	var x vg.Length
	for i := range b.parts {
		p := &b.parts[i]
		if p.group != other && len(b.inside(p)) > 1 {
			continue
		}
		text := p.name() + " " + b.text(p.value) + " · " + percent(p.share)
		w := 8 + style.Width(text) + 9
		if len(rows) == 0 || x+w-9 > barWidth+totalColumn {
			rows, x = append(rows, nil), 0
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], label{text, p.group, x})
		x += w
	}
	return rows
}

func (v *breakdownView) draw(c draw.Canvas) {
	y := c.Max.Y
	for i := range v.bars {
		v.bars[i].draw(&c, y)
		y -= barHeight
		for _, row := range v.below[i] {
			y -= smallRow
			drawRow(&c, row, y)
		}
		y -= barGap
	}
	legend(&c, v.keys)
}

// draw draws the bar below y.
func (b *bar) draw(c *draw.Canvas, y vg.Length) {
	name, total := Sans(LabelSize, Ink()), Bold(LabelSize, Ink())
	base := y - barHeight/2 - ascent(name)/2
	c.FillText(name, vg.Point{X: c.Min.X, Y: base}, b.name)
	left := c.Min.X + nameColumn
	c.FillText(total, vg.Point{X: left + barWidth + 5, Y: base}, b.text(b.total))
	x := left
	for i := range b.parts {
		p := &b.parts[i]
		w := barWidth * vg.Length(p.share)
		box := vg.Rectangle{Min: vg.Point{X: x, Y: y - barHeight}, Max: vg.Point{X: x + w, Y: y}}
		p.group.dress().fill(c, box)
		c.SetLineStyle(Line(0.8, Paper()))
		c.Stroke(box.Path())
		b.write(c, p, box)
		x += w
	}
	outline(c, vg.Rectangle{Min: vg.Point{X: left, Y: y - barHeight}, Max: vg.Point{X: left + barWidth, Y: y}}, Faint())
}

// write writes into a piece what it has room for.
func (b *bar) write(c *draw.Canvas, p *part, box vg.Rectangle) {
	style := smallText()
	lines := b.inside(p)
	if p.group == other {
		lines = nil
	}
	l := p.group.dress()
	style.Color = inkOn(l.ink)
	row := style.Font.Size * 1.15
	base := (box.Min.Y+box.Max.Y)/2 + row*vg.Length(len(lines))/2 - ascent(style) - 0.9
	for _, text := range lines {
		at := vg.Point{X: (box.Min.X+box.Max.X)/2 - style.Width(text)/2, Y: base}
		if l.pattern != plain { // no line runs through text
			back := textBox(style, at, text)
			back.Min.X, back.Max.X = back.Min.X-1.5, back.Max.X+1.5
			fill(c, back, l.ink)
		}
		c.FillText(style, at, text)
		base -= row
	}
}

// drawRow draws labels below a bar.
func drawRow(c *draw.Canvas, row []label, y vg.Length) {
	style := smallText()
	for _, l := range row {
		x := c.Min.X + nameColumn + l.x
		box := vg.Rectangle{Min: vg.Point{X: x, Y: y + 1.5}, Max: vg.Point{X: x + 5.5, Y: y + 7}}
		l.group.dress().fill(c, box)
		outline(c, box, Faint())
		c.FillText(style, vg.Point{X: x + 8, Y: y + 2}, l.text)
	}
}
