//go:build !js

package plots

import (
	"fmt"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A ServedTime is the state of a server at a time in seconds.
type ServedTime struct {
	At               float64
	Waiting, Running float64 // requests
	Cache            float64 // share of the KV cache
	Tokens           float64 // a second
}

// A Quantile is a value with the share of the values up to it.
type Quantile struct{ Value, Share float64 }

// A Distribution is the times of one load: TTFT, TPOT, ITL and E2E.
type Distribution struct {
	Name  string
	Times [4][]Quantile
}

// A servedPanel has step functions as lines.
type servedPanel struct {
	title string
	lines []servedLine
}

type servedLine struct {
	series int
	points []Quantile
}

// Plot implements plot.Plotter.
func (p *servedPanel) Plot(c draw.Canvas, pl *plot.Plot) {
	tx, ty := pl.Transforms(&c)
	for _, l := range p.lines {
		ink, dash, _ := Series(l.series)
		var path []vg.Point
		for i, q := range l.points {
			at := vg.Point{X: tx(q.Value), Y: ty(q.Share)}
			if i > 0 {
				path = append(path, vg.Point{X: at.X, Y: path[len(path)-1].Y})
			}
			path = append(path, at)
		}
		c.StrokeLines(Line(1.3, ink, dash...), path)
	}
}

// mostTimes is how many times a panel of a timeline shows; more would be a band of ink.
const mostTimes = 128

// coarser is the mean of as many times that follow each other as leave at most mostTimes.
func coarser(times []ServedTime) []ServedTime {
	n := (len(times) + mostTimes - 1) / mostTimes
	if n <= 1 {
		return times
	}
	var all []ServedTime
	for i := 0; i < len(times); i += n {
		var sum ServedTime
		part := times[i:min(i+n, len(times))]
		for _, t := range part {
			share := 1 / float64(len(part))
			sum.At += t.At * share
			sum.Waiting += t.Waiting * share
			sum.Running += t.Running * share
			sum.Cache += t.Cache * share
			sum.Tokens += t.Tokens * share
		}
		all = append(all, sum)
	}
	return all
}

// Timeline draws requests that wait and run, the KV cache and the tokens processed, over time.
func Timeline(caption string, times []ServedTime) (*Figure, error) {
	if len(times) == 0 {
		return nil, fmt.Errorf("timeline: there is nothing to draw")
	}
	times = coarser(times)
	line := func(of func(*ServedTime) float64) servedLine {
		l := servedLine{}
		for i := range times {
			l.points = append(l.points, Quantile{times[i].At, of(&times[i])})
		}
		return l
	}
	end := times[len(times)-1].At
	panels := []*servedPanel{
		{title: "Running requests", lines: []servedLine{line(func(t *ServedTime) float64 { return t.Running })}},
		{title: "Waiting requests", lines: []servedLine{line(func(t *ServedTime) float64 { return t.Waiting })}},
		{title: "KV cache in use, %", lines: []servedLine{line(func(t *ServedTime) float64 { return 100 * t.Cache })}},
		{title: "Tokens per second, prompts and output", lines: []servedLine{line(func(t *ServedTime) float64 { return t.Tokens })}},
	}
	v := &panelGrid{}
	for _, p := range panels {
		most := 0.0
		for _, q := range p.lines[0].points {
			most = max(most, q.Share)
		}
		if !finite(most, end) {
			return nil, fmt.Errorf("timeline: %s has a value of %v", p.title, most)
		}
		most = max(1.08*most, 1)
		x, y := values{at: linear(end), label: plain, wide: Width/2 - 60}, values{at: linear(most), label: plain, wide: Width/2 - 60}
		v.panels = append(v.panels, titled{newPlot(axis{limits{0, max(end, 1e-6)}, x}, axis{limits{0, most}, y}, p), p.title, "seconds"})
	}
	f := &Figure{Title: "A server over time", Caption: caption, body: v.draw}
	f.hold(4.6 * vg.Inch)
	return f, nil
}

// Distributions draws the share of the requests, or of the tokens, up to a time.
func Distributions(caption string, loads []Distribution) (*Figure, error) {
	switch {
	case len(loads) == 0:
		return nil, fmt.Errorf("cdf: there is nothing to draw")
	case len(loads) > NumSeries:
		return nil, fmt.Errorf("cdf: %d loads: at most %d can be told apart in one picture", len(loads), NumSeries)
	}
	v := &panelGrid{}
	for i, l := range loads {
		ink, dash, _ := Series(i)
		v.keys = append(v.keys, lineKey(l.Name, Line(1.3, ink, dash...)))
	}
	for i, title := range []string{"TTFT: time to the first token", "TPOT: time per output token", "ITL: between two tokens",
		"E2E: time to the last token"} {
		p := &servedPanel{title: title}
		var x limits
		for j, l := range loads {
			for _, q := range l.Times[i] {
				x.take(q.Value)
			}
			if len(l.Times[i]) > 0 {
				p.lines = append(p.lines, servedLine{j, l.Times[i]})
			}
		}
		if x.hi == 0 || math.IsInf(x.hi, 0) {
			continue
		}
		shares := values{at: []float64{0, 0.25, 0.5, 0.75, 0.9, 1}, label: func(v float64) string { return fmt.Sprintf("%g %%", 100*v) },
			wide: Width/2 - 60}
		v.panels = append(v.panels, titled{newPlot(axis{x.padded(1.15, 1.15, 3), decades{label: seconds}}, axis{limits{0, 1.02}, shares}, p),
			title, ""})
	}
	f := &Figure{Title: "Latency under load", Caption: caption, body: v.draw,
		Notes: []string{"Share of requests (ITL: of tokens) that took no longer than a time. Time axes are logarithmic."}}
	f.holdOver(4.8*vg.Inch, v.keys)
	return f, nil
}
