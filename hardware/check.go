package hardware

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"llmprof/internal/spelling"
	"llmprof/unit"
)

// check is the errors of all figures of g that are missing or cannot be right; where there is none, that of the first that contradicts
// others.
func (g *GPU) check(s *source) error {
	path := "gpu." + g.Key + "."
	rules := []rule{
		{"vendor", g.Vendor, g.Vendor != "", `the maker, as "nvidia"`},
		{"generation", g.Generation, g.Generation != "", `that of the chip, as "hopper"`},
		{"compute_capability", g.ComputeCapability, g.ComputeCapability != "", `that of the chip, as "9.0"`},
		{"source", g.Source, g.Source != "", "the document that the figures were read in"},
		between("sms", g.SMs, 1, 1e5),
		between("gpus_per_node", g.GPUsPerNode, 1, 1e5),
		between("clock", g.Clock, 100e6, 10e9),
		optional("tensor_clock", g.TensorClock, 100e6, 10e9),
		between("memory", g.Memory, 1e9, 100e12),
		optional("driver_memory", g.driverMemory, 0.6*g.Memory, 1.2*g.Memory),
		optional("cuda_memory", g.cudaMemory, 0.6*g.Memory, 1.2*g.Memory),
		between("bandwidth", g.Bandwidth, 1e9, 1e15),
		between("l2", g.L2, 64e3, 100e9),
		optional("link", g.Link, 1e9, 100e12),
		optional("link_gpus", g.LinkGPUs, 1, g.GPUsPerNode),
		{"link_gpus", g.LinkGPUs, g.LinkGPUs == 0 || g.Link > 0, "none without a link"},
		{"bridge", g.Bridge, !g.Bridge || g.Link > 0, "none without a link"},
		optional("pcie", g.PCIe, 100e6, 100e12),
		{"pcie", g.PCIe, g.PCIe > 0 || g.Integrated, "the rate to the host, of a GPU that is not integrated"},
		optional("nic", g.NIC, 100e6, 100e12),
		between("tdp", g.TDP, 1, 100e3),
		optional("idle", g.idle, 0.01, g.TDP),
		optional("price", g.price, 0.001, 10e3),
		{"price_source", g.PriceSource, g.PriceSource != "" || g.price == 0, "who offers that price, and when"},
	}
	for _, f := range g.Formats() {
		rules = append(rules, between("peak."+f.String(), g.peak[f], 10e9, 1e18))
	}
	rules = append(rules, rule{"peak.fp32", nil, g.Has(unit.FP32), "the rate of the vector units"},
		// A GPU of 6.1 computes fp16 slower than fp32, so programs compute in fp32.
		rule{"peak.fp16", nil, g.Has(unit.FP16) || g.Has(unit.BF16) || g.ComputeCapability == "6.1", "that or peak.bf16"})
	return cmp.Or(s.check(path, rules), g.checkNames(s, path), g.checkPeaks(s, path))
}

// generations lists the generations of each vendor.
var generations = map[string][]string{
	"nvidia": {"maxwell", "pascal", "volta", "turing", "ampere", "ada", "hopper", "blackwell", "rubin"},
	"amd":    {"vega20", "cdna", "cdna2", "cdna3", "cdna4", "rdna2", "rdna3", "rdna4"},
	"intel":  {"xe-hpg", "xe2", "gaudi3"},
	"apple":  {"apple7", "apple8", "apple9", "apple10"},
	"google": {"tpu"},
}

// checkNames refuses a vendor or generation that is nearly a known one, on which engines and constants hang. Another
// one may be a processor that is not known here; a number or a further word makes another generation, as cdna5 and blackwell-ultra.
func (g *GPU) checkNames(s *source, path string) error {
	for _, n := range []struct {
		field, value string
		known        []string
	}{{"vendor", g.Vendor, slices.Sorted(maps.Keys(generations))}, {"generation", g.Generation, generations[g.Vendor]}} {
		if !slices.Contains(n.known, n.value) && !strings.ContainsAny(n.value, "0123456789-") && len(spelling.Near(n.value, n.known)) > 0 {
			return s.at(path+n.field, "%s %.60q is not known; %s", n.field, n.value, spelling.Hint(n.value, n.known))
		}
	}
	return nil
}

// checkPeaks compares the peaks with each other and with the silicon.
func (g *GPU) checkPeaks(s *source, path string) error {
	// A narrower format is never slower. INT8 may be slower than FP8: Blackwell
	// Ultra cut it to a thirtieth.
	for _, pair := range [][2]unit.Format{
		{unit.FP32, unit.TF32}, {unit.TF32, unit.FP16}, {unit.FP32, unit.FP16}, {unit.FP16, unit.FP8},
		{unit.FP8, unit.NVFP4}, {unit.FP8, unit.MXFP4}, {unit.INT8, unit.INT4},
	} {
		if wide, narrow := g.peak[pair[0]], g.peak[pair[1]]; narrow > 0 && narrow < wide {
			return s.at(path+"peak."+pair[1].String(), "%v at %v is slower than %v at %v", pair[1], narrow, pair[0], wide)
		}
	}
	clock := max(g.TensorClock, g.Clock)
	limit := unit.FLOPsPerSec(float64(densePerClock[g.ComputeCapability]*g.SMs) * float64(clock))
	if f, rate := g.Runs(unit.BF16); limit > 0 && rate > limit.Times(1.05) { // a figure "with sparsity" is twice the limit
		return s.at(path+"peak."+f.String(), "%v is more than %d SMs can do at %v (%v): is it a figure with sparsity?", rate, g.SMs, clock, limit)
	}
	return nil
}

// densePerClock is the most FP16 operations, dense and accumulating in FP32,
// that one SM (or compute unit) completes in a clock. GeForce cards do half.
//
// Volta, Turing, Ampere, Ada, Hopper and RTX Blackwell: the architecture white
// papers; B200 and B300 follow from 2250 TFLOP/s, 148 SMs and 1856 MHz; Rubin is taken for the same. CDNA and
// RDNA: the instruction set guides of AMD. Before Volta fp16 ran on the CUDA cores.
var densePerClock = map[string]int{
	"5.3": 512, "6.0": 256, "6.1": 256, "6.2": 512,
	"7.0": 1024, "7.2": 1024, "7.5": 1024,
	"8.0": 2048, "8.6": 1024, "8.7": 2048, "8.9": 1024, "9.0": 4096,
	"10.0": 8192, "10.3": 8192, "10.7": 8192, "11.0": 8192, "12.0": 1024, "12.1": 1024,
	"gfx906": 256, "gfx908": 1024, "gfx90a": 1024, "gfx942": 2048, "gfx950": 4096,
	"gfx1030": 256, "gfx1031": 256, "gfx1100": 512, "gfx1101": 512, "gfx1102": 512, "gfx1151": 512, "gfx1200": 1024, "gfx1201": 1024,
	"xe-hpg": 2048, "xe2": 2048,
}
