package analytic

import "llmprof/unit"

// Fused is what operators of a Report are when one kernel does them together:
// their work is summed, and the resources overlap. The name is the first's.
//
//	floor    = max(sum FLOPs/peak, sum vector FLOPs/peak, sum bytes'/bandwidth, wire/link)
//	expected = sum of the operators' own: those that the engine's profile does not have
//	           within others (Carries) are taken as kernels of their own
//
// Of the activations only the first operator's are counted: those between it and
// the others stay on the chip.
func (m *Machine) Fused(lines ...*Line) (sum Line) {
	var f floor
	for i, l := range lines {
		if i == 0 {
			sum.Name, sum.Layer, sum.Layers, sum.Kind, sum.Acts = l.Name, l.Layer, l.Layers, l.Kind, l.Acts
		}
		if l.Format != unit.NoFormat {
			sum.Format = l.Format
			_, peak := m.Runs(l.Format)
			f.matrix += l.FLOPs.Over(peak)
		}
		f.vector += l.Vector.Over(m.rate[unit.FP32])
		f.memory += (l.Weights + l.KV + l.State).Over(m.GPU.Bandwidth)
		if l.Wire > 0 {
			f.link += l.Floor
		}
		sum.FLOPs += l.FLOPs
		sum.Vector += l.Vector
		sum.Weights += l.Weights
		sum.KV += l.KV
		sum.State += l.State
		sum.Wire += l.Wire
		sum.Expected += l.Expected
		sum.Compute += l.Compute
		sum.Memory += l.Memory
		sum.Network += l.Network
		sum.Fixed += l.Fixed
		sum.Share += l.Share
		sum.Energy += l.Energy
	}
	sum.Floor = f.time()
	cost := Cost{Compute: sum.Compute, Memory: sum.Memory, Network: sum.Network, Fixed: sum.Fixed}
	sum.Bound = cost.Bound()
	return sum
}
