package hardware

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"llmprof/internal/spelling"
	"llmprof/unit"
)

// A bound is a range that a figure of a GPU of these decades lies in. It is
// wide: it is there to catch a wrong prefix or a bare number.
type bound struct {
	field       string
	value       float64
	least, most float64
	needed      bool
	shown       fmt.Stringer
}

// checkNames refuses a vendor or generation that is nearly a known one, on which engines and constants hang. Another
// one may be a processor that is not known here; a number or a further word makes another generation, as cdna5 and blackwell-ultra.
func checkNames(g *GPU) (field string, err error) {
	known := generations()
	vendors := slices.Sorted(maps.Keys(known))
	for _, n := range []struct {
		field, value string
		known        []string
	}{{"vendor", g.Vendor, vendors}, {"generation", g.Generation, known[g.Vendor]}} {
		if !slices.Contains(n.known, n.value) && !strings.ContainsAny(n.value, "0123456789-") && len(spelling.Near(n.value, n.known)) > 0 {
			return n.field, fmt.Errorf("%s %.60q is not known; %s", n.field, n.value, spelling.Hint(n.value, n.known))
		}
	}
	return "", nil
}

// generations lists those of each vendor.
func generations() map[string][]string {
	return map[string][]string{
		"nvidia": {"maxwell", "pascal", "volta", "turing", "ampere", "ada", "hopper", "blackwell", "rubin"},
		"amd":    {"vega20", "cdna", "cdna2", "cdna3", "cdna4", "rdna2", "rdna3", "rdna4"},
		"intel":  {"xe-hpg", "xe2", "gaudi3"},
		"apple":  {"apple7", "apple8", "apple9", "apple10"},
		"google": {"tpu"},
	}
}

// check reports the first field of g that cannot be right.
func check(g *GPU) (field string, err error) {
	for _, s := range []struct{ field, value string }{
		{"vendor", g.Vendor}, {"generation", g.Generation}, {"compute_capability", g.ComputeCapability}, {"source", g.Source},
	} {
		if s.value == "" {
			return s.field, fmt.Errorf("GPU %s has no %s", g.Key, s.field)
		}
	}
	if field, err := checkNames(g); err != nil {
		return field, err
	}
	for _, b := range bounds(g) {
		switch {
		case b.value == 0 && b.needed:
			return b.field, fmt.Errorf("GPU %s has no %s", g.Key, b.field)
		case b.value != 0 && (b.value < b.least || b.value > b.most):
			return b.field, fmt.Errorf("%s of %v is not plausible", b.field, b.shown)
		}
	}
	switch {
	case g.idle > g.TDP:
		return "idle", fmt.Errorf("idle power of %v is above the TDP of %v", g.idle, g.TDP)
	case g.price > 0 && g.PriceSource == "":
		return "price", fmt.Errorf("the price has no price_source")
	case g.LinkGPUs > 0 && g.Link == 0:
		return "link_gpus", fmt.Errorf("link_gpus without a link")
	case g.LinkGPUs > g.GPUsPerNode:
		return "link_gpus", fmt.Errorf("link_gpus of %d is more than gpus_per_node, %d", g.LinkGPUs, g.GPUsPerNode)
	case g.PCIe == 0 && !g.Integrated:
		return "pcie", fmt.Errorf("GPU %s has no pcie and is not integrated", g.Key)
	}
	return checkPeaks(g)
}

func bounds(g *GPU) []bound {
	return []bound{
		{"sms", float64(g.SMs), 1, 1e5, true, count(g.SMs)},
		{"gpus_per_node", float64(g.GPUsPerNode), 1, 1e5, true, count(g.GPUsPerNode)},
		{"link_gpus", float64(g.LinkGPUs), 1, 1e5, false, count(g.LinkGPUs)},
		{"clock", float64(g.Clock), 100e6, 10e9, true, g.Clock},
		{"tensor_clock", float64(g.TensorClock), 100e6, 10e9, true, g.TensorClock},
		{"memory", float64(g.Memory), 1e9, 100e12, true, g.Memory},
		{"driver_memory", float64(g.driverMemory), 0.6 * float64(g.Memory), 1.2 * float64(g.Memory), false, g.driverMemory},
		{"bandwidth", float64(g.Bandwidth), 1e9, 1e15, true, g.Bandwidth},
		{"l2", float64(g.L2), 64e3, 100e9, true, g.L2},
		{"link", float64(g.Link), 1e9, 100e12, false, g.Link},
		{"pcie", float64(g.PCIe), 100e6, 100e12, false, g.PCIe},
		{"nic", float64(g.NIC), 100e6, 100e12, false, g.NIC},
		{"tdp", float64(g.TDP), 1, 100e3, true, g.TDP},
		{"idle", float64(g.idle), 0.01, 10e3, false, g.idle},
		{"price", float64(g.price), 0.001, 10e3, false, g.price},
	}
}

// A count prints itself.
type count int

func (c count) String() string { return fmt.Sprint(int(c)) }

// checkPeaks compares the peaks with each other and with the silicon.
func checkPeaks(g *GPU) (field string, err error) {
	for f := unit.FP32; f < unit.NumFormats; f++ {
		if rate, ok := g.Peak(f); ok && (rate < 10e9 || rate > 1e18) {
			return "peak." + f.String(), fmt.Errorf("a rate of %v is not plausible", rate)
		}
	}
	if !g.Has(unit.FP32) {
		return "peak.fp32", fmt.Errorf("GPU %s has no peak.fp32", g.Key)
	}
	// A GPU of 6.1 computes fp16 slower than fp32, so programs compute in fp32.
	if !g.Has(unit.FP16) && !g.Has(unit.BF16) && g.ComputeCapability != "6.1" {
		return "peak.fp16", fmt.Errorf("GPU %s has neither peak.fp16 nor peak.bf16", g.Key)
	}
	// A narrower format is never slower. INT8 against FP8 is not held: Blackwell
	// Ultra cut it to a thirtieth.
	for _, pair := range [][2]unit.Format{
		{unit.FP32, unit.TF32}, {unit.TF32, unit.FP16}, {unit.FP32, unit.FP16}, {unit.FP16, unit.FP8},
		{unit.FP8, unit.NVFP4}, {unit.FP8, unit.MXFP4}, {unit.INT8, unit.INT4},
	} {
		wide, ok := g.Peak(pair[0])
		narrow, also := g.Peak(pair[1])
		if ok && also && narrow < wide {
			return "peak." + pair[1].String(), fmt.Errorf("%v at %v is slower than %v at %v", pair[1], narrow, pair[0], wide)
		}
	}
	return checkDense(g)
}

// checkDense catches a figure "with sparsity", which is twice what the tensor
// cores can do.
func checkDense(g *GPU) (field string, err error) {
	perClock, ok := densePerClock(g.ComputeCapability)
	if !ok {
		return "", nil
	}
	limit := unit.FLOPsPerSec(float64(perClock*g.SMs) * float64(max(g.TensorClock, g.Clock)))
	if f, rate := g.Runs(unit.BF16); rate > limit.Times(1.05) {
		return "peak." + f.String(), fmt.Errorf("%v is more than %d SMs can do at %v (%v): is it a figure with sparsity?", rate, g.SMs,
			max(g.TensorClock, g.Clock), limit)
	}
	return "", nil
}

// densePerClock is the most FP16 operations, dense and accumulating in FP32,
// that one SM (or compute unit) completes in a clock. GeForce cards do half.
//
// Volta, Turing, Ampere, Ada, Hopper and RTX Blackwell: the architecture white
// papers; B200 and B300 follow from 2250 TFLOP/s, 148 SMs and 1856 MHz; Rubin is taken for the same. CDNA and
// RDNA: the instruction set guides of AMD. Before Volta fp16 ran on the CUDA cores.
func densePerClock(capability string) (flops int, ok bool) {
	switch capability {
	case "6.0", "6.1", "gfx906", "gfx1030", "gfx1031":
		return 256, true
	case "5.3", "6.2", "gfx1100", "gfx1101", "gfx1102", "gfx1151":
		return 512, true
	case "gfx1200", "gfx1201":
		return 1024, true
	case "xe-hpg", "xe2":
		return 2048, true
	case "7.0", "7.2", "7.5", "8.6", "8.9", "12.0", "12.1", "gfx908", "gfx90a":
		return 1024, true
	case "8.0", "8.7", "gfx942":
		return 2048, true
	case "9.0", "gfx950":
		return 4096, true
	case "10.0", "10.3", "10.7", "11.0":
		return 8192, true
	}
	return 0, false
}
