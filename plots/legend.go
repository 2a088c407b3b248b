//go:build !js

package plots

import (
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"llmprof/plots/colors"
	"llmprof/roofline"
)

// A key is one entry of a legend: what it draws beside its text.
type key struct {
	text string
	draw func(c *draw.Canvas, box vg.Rectangle)
}

// The sizes of a legend.
const (
	keyWidth  vg.Length = 12
	keyHeight vg.Length = 8
	keyGap    vg.Length = 9
	legendRow vg.Length = 12.5
)

func legendText() draw.TextStyle { return Sans(TickSize, colors.Ink()) }

// legendRows breaks keys into rows that are as wide as room.
func legendRows(keys []key, room vg.Length) (rows [][]key) {
	var x vg.Length
	for _, k := range keys {
		w := keyWidth + 3 + legendText().Width(k.text) + keyGap
		if len(rows) == 0 || x+w-keyGap > room {
			rows, x = append(rows, nil), 0
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], k)
		x += w
	}
	return rows
}

func legendHeight(keys []key, room vg.Length) vg.Length {
	return legendRow*vg.Length(len(legendRows(keys, room))) + 4
}

func legend(c *draw.Canvas, keys []key) {
	style := legendText()
	rows := legendRows(keys, c.Max.X-c.Min.X)
	y := c.Min.Y + legendRow*vg.Length(len(rows))
	for _, row := range rows {
		y -= legendRow
		x := c.Min.X
		for _, k := range row {
			k.draw(c, rect(x, y, x+keyWidth, y+keyHeight))
			x += keyWidth + 3
			write(c, style, x, y+(keyHeight-ascent(style))/2, k.text)
			x += style.Width(k.text) + keyGap
		}
	}
}

func lineKey(text string, s draw.LineStyle) key {
	return key{text, func(c *draw.Canvas, b vg.Rectangle) {
		y := (b.Min.Y + b.Max.Y) / 2
		c.StrokeLine2(s, b.Min.X, y, b.Max.X, y)
	}}
}

func colorKey(text string, color colors.Color) key {
	return key{text, func(c *draw.Canvas, box vg.Rectangle) {
		fill(c, box, color)
		outline(c, box, colors.Faint())
	}}
}

func boundKeys(bounds ...roofline.Bound) (keys []key) {
	for _, b := range bounds {
		keys = append(keys, colorKey(b.String()+"-bound", colors.Bound(b)))
	}
	return keys
}

func phaseKey(m Marker) key {
	return key{m.phase(), func(c *draw.Canvas, b vg.Rectangle) { mark(c, m, middle(b), 4, colors.Paper()) }}
}
