//go:build !js

package plots

import (
	"cmp"
	"fmt"
	"slices"

	"llmprof/plots/colors"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A Deployment is a point of the Pareto plot.
type Deployment struct {
	Group   string  // GPU of the point
	PerUser float64 // tokens a second that a request sees
	PerGPU  float64 // generated tokens a second
	Cost    float64 // 0 where no price is known
	Latency float64 // seconds
}

// Pareto draws deployments, a line a GPU: the throughput of a GPU over the speed that a
// user sees, and cost over latency. Of each GPU those are drawn that no other of it is better
// than in both, and a line joins those that no other of any GPU is.
// Cost says what its axis is.
func Pareto(caption, cost string, all []Deployment) (*Figure, error) {
	if len(all) == 0 {
		return nil, fmt.Errorf("pareto: there is nothing to draw")
	}
	for _, d := range all {
		if !finite(d.PerUser, d.PerGPU, d.Cost, d.Latency) {
			return nil, fmt.Errorf("pareto: %s has figures that are no numbers", d.Group)
		}
	}
	groups := groupsOf(all)
	v := &panelGrid{}
	add := func(title, below string, of func(*Deployment) (x, y float64), beside string, more bool) {
		if p := newParetoPanel(all, groups, of, more); p != nil {
			v.panels = append(v.panels, titled{p.plot, title + ": " + beside, below})
		}
	}
	add("Throughput over speed", "tokens/s that a user sees", func(d *Deployment) (x, y float64) { return d.PerUser, d.PerGPU },
		"tokens/s a GPU", true)
	add("Cost over latency", "time of a request", func(d *Deployment) (x, y float64) { return d.Latency, d.Cost }, cost, false)
	if len(v.panels) == 0 {
		return nil, fmt.Errorf("pareto: no deployment has two figures to draw")
	}
	for i, g := range groups {
		if i < NumSeries-1 {
			color, _, marker := Series(i)
			v.keys = append(v.keys, key{g, func(c *draw.Canvas, box vg.Rectangle) { marker.draw(c, middle(box), color) }})
		}
	}
	if len(groups) >= NumSeries {
		v.keys = append(v.keys, key{count(len(groups)-NumSeries+1, "other GPU"), func(c *draw.Canvas, box vg.Rectangle) {
			Marker(0).draw(c, middle(box), colors.Rule())
		}})
	}
	v.keys = append(v.keys, lineKey("best of all GPUs", Line(1.6, colors.Ink())))
	f := &Figure{Title: "Deployments that qualify", Caption: caption, body: v.draw,
		Notes: []string{"A mark is a deployment that no other on the same GPU beats in both figures. All axes are logarithmic."}}
	f.holdOver(2.9*vg.Inch, v.keys)
	return f, nil
}

// groupsOf names the groups, in the order of their first deployments.
func groupsOf(all []Deployment) (groups []string) {
	for i := range all {
		if !slices.Contains(groups, all[i].Group) {
			groups = append(groups, all[i].Group)
		}
	}
	return groups
}

// A paretoPanel is one pair of figures.
type paretoPanel struct {
	groups [][]paretoPoint // points of each GPU that no other of the same GPU dominates
	front  []paretoPoint
	names  []string
	plot   *plot.Plot
}

type paretoPoint struct {
	x, y  float64
	group int
}

// newParetoPanel is nil where no deployment has both figures. More says that more is
// better in both; else less is.
func newParetoPanel(all []Deployment, names []string, of func(*Deployment) (x, y float64), more bool) *paretoPanel {
	p := &paretoPanel{names: names}
	groups := make([][]paretoPoint, len(names))
	for i := range all {
		d := &all[i]
		g := slices.Index(names, d.Group)
		if a, b := of(d); a > 0 && b > 0 {
			groups[g] = append(groups[g], paretoPoint{a, b, g})
		}
	}
	var x, y limits
	var best []paretoPoint
	for _, points := range groups {
		if len(points) == 0 {
			continue
		}
		front := frontOf(points, more)
		for _, q := range front {
			x.take(q.x)
			y.take(q.y)
		}
		p.groups, best = append(p.groups, front), append(best, front...)
	}
	if len(best) == 0 {
		return nil
	}
	p.front = frontOf(best, more)
	rate := decades{label: func(v float64) string { return si(v, "") }}
	across, up := rate, rate
	if !more { // Dollars have no prefixes.
		across, up = decades{label: seconds}, decades{label: plain}
	}
	p.plot = newPlot(axis{x.padded(1.2, 1.2, 2), across}, axis{y.padded(1.3, 1.3, 3), up}, p)
	return p
}

// frontOf are the points that no other is better than in both, along x.
func frontOf(points []paretoPoint, more bool) (front []paretoPoint) {
	sign := 1.0
	if more {
		sign = -1
	}
	sorted := slices.Clone(points)
	slices.SortFunc(sorted, func(a, b paretoPoint) int {
		return cmp.Or(cmp.Compare(sign*a.x, sign*b.x), cmp.Compare(sign*a.y, sign*b.y))
	})
	for _, p := range sorted {
		if len(front) == 0 || sign*p.y < sign*front[len(front)-1].y {
			front = append(front, p)
		}
	}
	return front
}

// Plot implements plot.Plotter.
func (p *paretoPanel) Plot(c draw.Canvas, pl *plot.Plot) {
	tx, ty := pl.Transforms(&c)
	at := func(q paretoPoint) vg.Point { return vg.Point{X: tx(q.x), Y: ty(q.y)} }
	var line []vg.Point
	for _, q := range p.front {
		line = append(line, at(q))
	}
	c.StrokeLines(Line(1.6, colors.Ink()), line)
	for _, front := range slices.Backward(p.groups) { // the best ranked on top
		color, dash, marker := Series(front[0].group)
		if front[0].group >= NumSeries-1 {
			color, dash, marker = colors.Rule(), nil, Marker(0)
		}
		line := line[:0:0]
		for _, q := range front {
			line = append(line, at(q))
		}
		c.StrokeLines(Line(0.8, color, dash...), line)
		for _, q := range line {
			marker.draw(&c, q, color)
		}
	}
	p.name(&c, at)
}

// name writes the names of GPUs beside their marks, as far as there is room.
func (p *paretoPanel) name(c *draw.Canvas, at func(paretoPoint) vg.Point) {
	q := &placer{bounds: c.Rectangle}
	for i := range len(p.front) - 1 {
		q.lines = append(q.lines, line{at(p.front[i]), at(p.front[i+1]), 2})
	}
	for _, front := range p.groups {
		for _, x := range front {
			m := at(x)
			q.taken = append(q.taken, square(m, markerRadius))
		}
	}
	for _, front := range p.groups {
		color := colors.Faint()
		if front[0].group < NumSeries-1 {
			color, _, _ = Series(front[0].group)
		}
		for _, x := range front {
			nameMark(c, q, at(x), markerRadius, Sans(CaptionSize, color), p.names[x.group], 3*markerRadius)
		}
	}
}
