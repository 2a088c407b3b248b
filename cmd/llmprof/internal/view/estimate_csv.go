package view

import (
	"llmprof/analytic/breakdown"
	"llmprof/cmd/llmprof/internal/render"
)

// Table is every operator of both phases, one a row, in SI units.
func (e *Estimate) Table() *render.Table {
	t := render.Keyed("phase", "layer", "layers", "name", "flops", "vector_flops", "weight_bytes", "kv_bytes", "state_bytes",
		"act_bytes", "wire_bytes", "intensity_flop_per_byte", "bound", "floor_s", "expected_s", "share", "energy_j", "in")
	add := func(phase string, lines []breakdown.Operator) {
		shown, _ := top(lines, e.Top)
		for i := range shown {
			l := &shown[i]
			t.Add(phase, l.Layer, l.Layers, l.Name, l.FLOPs, l.Vector, l.Weights, l.KV, l.State,
				l.Acts, l.Wire, intensity(l), l.Bound, l.Floor, l.Expected, l.Share, l.Energy, l.In)
		}
	}
	add("prefill", e.PrefillOps)
	add("decode", e.DecodeOps)
	return t
}

// intensity is nil where nothing is moved.
func intensity(l *breakdown.Operator) any {
	if l.Traffic() == 0 {
		return nil
	}
	return l.Intensity()
}
