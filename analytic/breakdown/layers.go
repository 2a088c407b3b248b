package breakdown

import (
	"llmprof/analytic"
	"llmprof/roofline"
	"llmprof/unit"
)

// A Layer is the sum of the operators of all layers of one kind in a phase.
type Layer struct {
	Name  string // "" outside of the layers: embedding, head, host
	Count float64
	roofline.Work
	Floor, Expected unit.Seconds // sums over the operators
	Share           float64
}

// Layers sums operators by the kind of layer that they belong to, in order of appearance.
func Layers(ops []Operator) []Layer {
	var all []Layer
	for i := range ops {
		l := &ops[i]
		s := layerOf(&all, l.Layer)
		s.Count = max(s.Count, l.Layers)
		s.Add(&l.Work, 1)
		s.Floor += l.Floor
		s.Expected += l.Expected
		s.Share += l.Share
	}
	return all
}

func layerOf(all *[]Layer, name string) *Layer {
	for i := range *all {
		if s := &(*all)[i]; s.Name == name {
			return s
		}
	}
	*all = append(*all, Layer{Name: name})
	return &(*all)[len(*all)-1]
}

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
		floor := m.Peaks().FloorOf(&l.Work, l.Format)
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
	times := roofline.Times{roofline.Matrix: sum.Compute, roofline.Memory: sum.Memory, roofline.Network: sum.Network,
		roofline.Fixed: sum.Fixed}
	sum.Bound = times.Bound()
	return sum
}
