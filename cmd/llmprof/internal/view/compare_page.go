//go:build !js

package view

import (
	"fmt"

	"llmprof/cmd/llmprof/internal/render"
	"llmprof/unit"
)

// figures is the table of headline figures: each side's, with its ratio to the first, and a
// mark where the intervals overlap.
func (c *Comparison) figures() render.Table {
	t := render.Table{Columns: []render.Column{{Title: "", Key: "metric", Left: true}, {Title: c.heading(0), Key: "side_0", Left: true}}}
	for i := 1; i < len(c.Sides); i++ {
		t.Columns = append(t.Columns, render.Column{Title: c.heading(i), Key: fmt.Sprintf("side_%d", i), Left: true}, render.Column{Title: "ratio", Key: fmt.Sprintf("ratio_%d", i), Left: true})
	}
	differences := c.Differences()
	at := 0
	for _, m := range metrics {
		cells, some := []any{title(m)}, false
		for i := range c.Sides {
			f := c.Sides[i].figure(m)
			some = some || f.Value != nil
			cells = append(cells, shown(f))
			if i > 0 {
				cells = append(cells, ratio(&differences[at]))
				at++
			}
		}
		if some {
			t.Add(cells...)
		}
	}
	return t
}

func title(metric string) string {
	return map[string]string{
		"ttft_s": "TTFT", "tpot_s": "TPOT", "ttlt_s": "TTLT", "tok_s": "tokens/s", "tok_s_gpu": "tokens/s/GPU", "j_token": "J/token", "j_request": "J/request",
		"usd_h": "$/h", "usd_mtok": "$/Mtok", "memory_bytes": "memory/GPU",
	}[metric]
}

func shown(f *SideFigure) any {
	if f.Value == nil {
		return nil
	}
	text := func(v float64) string {
		switch f.Metric {
		case "ttft_s", "tpot_s", "ttlt_s":
			return unit.Seconds(v).String()
		case "memory_bytes":
			return unit.Bytes(v).String()
		}
		return fmt.Sprintf("%.4g", v)
	}
	if f.Low == nil || f.High == nil {
		return text(*f.Value)
	}
	switch f.Metric { // the rounding of "llmprof estimate"
	case "ttft_s", "tpot_s", "ttlt_s":
		return around(unit.Around(unit.Seconds(*f.Value), unit.Seconds(*f.Low), unit.Seconds(*f.High)), "")
	}
	value, interval := roundedNumber(*f.Value, *f.Low, *f.High)
	return fmt.Sprintf("%s (%s)", value, interval)
}

func ratio(d *Difference) any {
	if d.Ratio == nil {
		return nil
	}
	s := fmt.Sprintf("×%.3g", *d.Ratio)
	switch {
	case d.Overlap == nil:
		return s
	case *d.Overlap:
		return s + " overlap"
	}
	return s + " apart"
}

// longHeading is more letters than a column has room for.
const longHeading = 28

// heading is what a side is called above a column: its name, or a letter where that is longer than its figures.
func (c *Comparison) heading(i int) string {
	if name := c.Sides[i].Name; len(name) <= longHeading || i >= 26 {
		return name
	}
	return string(rune('A' + i))
}

// named is a side with the letter that columns have for it.
func (c *Comparison) named(i int) string {
	if name, heading := c.Sides[i].Name, c.heading(i); heading != name {
		return heading + ": " + name
	}
	return c.Sides[i].Name
}

func (c *Comparison) operatorTable() render.Table {
	t := render.Table{Title: "What makes the difference", Columns: []render.Column{{Title: "phase", Key: "phase", Left: true}, {Title: "operator", Key: "operator", Left: true}}}
	for i := range c.Sides {
		t.Columns = append(t.Columns, render.Column{Title: c.heading(i), Key: fmt.Sprintf("side_%d_s", i)})
	}
	t.Columns = append(t.Columns, render.Column{Title: "difference", Key: "more_s", Left: true}, render.Column{Title: "% of it", Key: "share"})
	of := map[string]int{}
	for _, d := range c.Operators() {
		if of[d.Phase]++; c.Top > 0 && of[d.Phase] > c.Top {
			continue
		}
		cells := []any{d.Phase, d.Name}
		for _, x := range d.Times {
			cells = append(cells, Some(unit.Seconds(x)))
		}
		sign := "+"
		if d.More < 0 {
			sign = "-"
		}
		t.Rows = append(t.Rows, render.Row{Cells: append(cells, sign+unit.Seconds(max(d.More, -d.More)).String(), render.Percent(d.Share))})
	}
	return t
}

// Table is the figures for programs, one a row.
func (c *Comparison) Table() *render.Table {
	t := render.Keyed("metric", "side", "value", "low", "high", "ratio", "overlap")
	differences := c.Differences()
	for i := range c.Sides {
		for _, m := range metrics {
			f := c.Sides[i].figure(m)
			var ratio, overlap any
			for _, d := range differences {
				if d.Metric == m && d.Side == i {
					ratio = Cell(d.Ratio)
					if d.Overlap != nil {
						overlap = fmt.Sprint(*d.Overlap)
					}
				}
			}
			t.Add(m, c.Sides[i].Name, Cell(f.Value), Cell(f.Low), Cell(f.High), ratio, overlap)
		}
	}
	return t
}
