package models

import "fmt"

// Limits that keep every product and sum of a shape within an int64 and a
// float64's exact integers: no matrix side above 2^31, no model above 10^15.
const (
	maxSide   = 1 << 31
	maxParams = 1e15
)

// check refuses shapes that are out of all proportion before anything is
// computed from them.
func check(m *Model) error {
	total := 0.0
	var bad error
	add := func(l Linear, times float64) {
		if bad == nil && (l.In < 1 || l.Out < 1 || l.In > maxSide || l.Out > maxSide) {
			bad = fmt.Errorf("%s would be a matrix of %d by %d", l.Name, l.Out, l.In)
		}
		total += float64(l.In) * float64(l.Out) * float64(max(l.Times, 1)) * times
	}
	add(Linear{Name: "embedding", In: m.Embedding.Width, Out: m.Vocab}, 1)
	add(m.Head, 1)
	for _, l := range m.Embedding.Project {
		add(l, 1)
	}
	for _, layer := range m.Layers {
		for _, b := range layer.Blocks {
			b.each(func(l Linear, copies, _ int) { add(l, float64(layer.Count)*float64(copies)) })
			total += float64(b.Extra) * float64(layer.Count)
		}
	}
	if bad == nil && total+float64(m.Embedding.Extra) > maxParams {
		bad = fmt.Errorf("the sizes make %.3g parameters; more than %.0e is a mistake", total, maxParams)
	}
	return bad
}
