package hardware

import "llmprof/unit"

// Factors are by how much a GPU's rates are multiplied; 0 leaves one as it is.
type Factors struct {
	Compute float64 // every format's peak
	Memory  float64 // bandwidth
	Network float64 // links, PCIe and network
	Power   float64 // limit
}

// Scaled is the GPU with its rates multiplied, to ask what more of one would bring.
func (g *GPU) Scaled(by Factors) *GPU {
	s := *g
	scale := func(factor float64, rates ...*unit.BytesPerSec) {
		for _, r := range rates {
			if factor > 0 {
				*r = unit.BytesPerSec(float64(*r) * factor)
			}
		}
	}
	scale(by.Memory, &s.Bandwidth)
	scale(by.Network, &s.Link, &s.PCIe, &s.NIC)
	if by.Compute > 0 {
		for f := range s.peak {
			s.peak[f] = unit.FLOPsPerSec(float64(s.peak[f]) * by.Compute)
		}
	}
	if by.Power > 0 {
		s.TDP = unit.Watts(float64(s.TDP) * by.Power)
	}
	return &s
}
