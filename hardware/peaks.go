package hardware

import (
	"fmt"
	"strings"

	"llmprof/roofline"
	"llmprof/unit"
)

// instead says which format stands in for one that the GPU has no unit for: the
// narrowest that holds its values.
var instead = [unit.NumFormats]unit.Format{
	unit.MXFP4: unit.NVFP4, unit.NVFP4: unit.FP8, unit.FP8: unit.BF16, unit.INT4: unit.INT8,
	unit.INT8: unit.BF16, unit.BF16: unit.FP16, unit.FP16: unit.FP32, unit.TF32: unit.FP32,
}

// Runs is the format that g computes GEMMs of f in, and its peak; NoFormat where
// it has a unit for none that could stand in.
func (g *GPU) Runs(f unit.Format) (unit.Format, unit.FLOPsPerSec) {
	for f != unit.NoFormat && !g.Has(f) {
		f = instead[f]
	}
	rate, _ := g.Peak(f)
	return f, rate
}

// Peaks are the rates that kernels on g are priced by.
func (g *GPU) Peaks() (*roofline.Peaks, error) {
	p := &roofline.Peaks{
		Memory: g.Bandwidth, SMs: float64(g.SMs), Link: g.Link, LinkGPUs: float64(g.LinkGPUs), PCIe: g.PCIe, NIC: g.NIC,
	}
	for f := unit.FP32; f < unit.NumFormats; f++ {
		run, rate := g.Runs(f)
		if run == unit.NoFormat {
			return nil, fmt.Errorf("%s lists no peak for %v nor for any format that could stand in for it", g.Name, f)
		}
		p.Matrix[f] = rate
	}
	p.Vector = p.Matrix[unit.FP32]
	if g.Bandwidth <= 0 || g.Memory <= 0 {
		return nil, fmt.Errorf("%s lists no memory size or bandwidth", g.Name)
	}
	return p, nil
}

// MMA reports whether a library's GEMMs run on the matrix units by warps: on Ampere, Ada and the Blackwell of graphics cards, while
// Hopper's matrix units take groups of warps (wgmma) and the other Blackwell's have a memory of their own.
func (g *GPU) MMA() bool {
	major, _, _ := strings.Cut(g.ComputeCapability, ".")
	return g.Vendor == "nvidia" && (major == "8" || major == "12")
}

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
