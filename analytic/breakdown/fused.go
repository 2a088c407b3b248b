package breakdown

import (
	"llmprof/analytic"
	"llmprof/roofline"
	"llmprof/unit"
)

// Fused is several operators of a Report as one kernel: their work and their expected times
// are summed, and the floor lets the resources overlap. The kernel has the name of the first
// operator and its activations: those between it and the others stay on the chip.
func Fused(m *analytic.Machine, ops ...*Operator) (sum Operator) {
	var f roofline.Floor
	for i, l := range ops {
		acts := sum.Acts
		sum.Add(&l.Work, 1)
		if i == 0 {
			sum.Name, sum.Layer, sum.Layers, sum.Kind = l.Name, l.Layer, l.Layers, l.Kind
		} else {
			sum.Acts = acts
		}
		floor := m.Peaks().FloorOf(&l.Work, l.Format, 1, 1)
		if l.Format != unit.NoFormat {
			sum.Format = l.Format
		}
		floor.Link, floor.Node = 0, 0
		if l.Wire+l.NodeWire > 0 {
			floor.Link = l.Floor
		}
		f.Add(&floor, 1)
		sum.Expected += l.Expected
		sum.Compute += l.Compute
		sum.Memory += l.Memory
		sum.Network += l.Network
		sum.Fixed += l.Fixed
		sum.Share += l.Share
		sum.Energy += l.Energy
	}
	sum.Floor = f.Time()
	times := roofline.Times{roofline.Matrix: sum.Compute, roofline.Memory: sum.Memory, roofline.Network: sum.Network, roofline.Fixed: sum.Fixed}
	sum.Bound = times.Bound()
	return sum
}
