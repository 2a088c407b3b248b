package hardware_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"llmprof"
	"llmprof/hardware"
	"llmprof/unit"
)

func load(t testing.TB) *hardware.Table {
	t.Helper()
	table, err := hardware.Load(llmprof.HardwareTOML)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func gpu(t testing.TB, name string) hardware.GPU {
	t.Helper()
	g, err := load(t).GPU(name)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestTableIsComplete(t *testing.T) {
	table := load(t)
	if n := len(table.All()); n < 36 {
		t.Errorf("%d GPUs, want at least 36", n)
	}
	for _, g := range table.All() {
		if len(g.Source) < 10 {
			t.Errorf("%s: source is %q", g.Key, g.Source)
		}
		// What is said to fit has to fit.
		if m, ok := g.DriverMemory(); ok && m < g.Memory {
			t.Errorf("%s: sold as %v, but its driver has only %v", g.Key, g.Memory, m)
		}
		if len(g.Traps) == 0 {
			t.Errorf("%s: no trap is written down", g.Key)
		}
		for _, name := range append([]string{g.Key, g.Name, strings.ToUpper(g.Key)}, g.Aliases...) {
			if found, err := table.GPU(name); err != nil || found.Key != g.Key {
				t.Errorf("%q finds %q, %v; want %s", name, found.Key, err, g.Key)
			}
		}
	}
}

func TestAliases(t *testing.T) {
	for name, want := range map[string]string{
		"a100": "a100-sxm-80gb", "h100": "h100-sxm-80gb", "h200": "h200-sxm-141gb", "v100": "v100-sxm2-32gb",
		"a6000": "rtx-a6000-48gb", "4090": "rtx-4090-24gb", "orin-nano": "orin-nano-8gb", "thor": "agx-thor-128gb",
		"mi300x": "mi300x-192gb", "l40s": "l40s-48gb", "H100_PCIe": "h100-pcie-80gb", "B200": "b200-sxm-180gb",
		"GeForce RTX 4090": "rtx-4090-24gb", "jetson orin nano super": "orin-nano-8gb-super",
		// As LLM-Viewer, llm_profiler and llm-analysis call them.
		"nvidia_V100": "v100-sxm2-32gb", "nvidia_A100_40G": "a100-sxm-40gb", "nvidia_A100_80G": "a100-sxm-80gb",
		"nvidia_A800_80G_SXM": "a800-sxm-80gb", "nvidia_H100_SXM": "h100-sxm-80gb", "nvidia_H100_PCIe": "h100-pcie-80gb",
		"nvidia_L40": "l40-48gb", "t4-pcie-15gb": "t4", "v100-sxm-32gb": "v100-sxm2-32gb", "v100-pcie-32gb": "v100-pcie-32gb",
		"a10-pcie-24gb": "a10-24gb", "a10g-pcie-24gb": "a10g-24gb", "a30-pcie-24gb": "a30-24gb", "a40-pcie-48gb": "a40-48gb",
		"a6000-48gb": "rtx-a6000-48gb", "h100-pcie-80gb": "h100-pcie-80gb", "mi210-64gb": "mi210-64gb",
	} {
		if g := gpu(t, name); g.Key != want {
			t.Errorf("%q finds %s, want %s", name, g.Key, want)
		}
	}
}

func TestUnknownNamesListNearMisses(t *testing.T) {
	table := load(t)
	for name, want := range map[string]string{
		"h10":    "h100",
		"a1000":  "a100",
		"4080":   "4090",
		"orin n": "orin-nano",
		"zzzzzz": "nor any like it",
		"":       "nor any like it",
	} {
		g, err := table.GPU(name)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %s, %v; want an error with %q", name, g.Key, err, want)
		}
	}
}

// Figures in circulation that are wrong, each with the right one.
func TestTraps(t *testing.T) {
	const none = -1
	for _, tt := range []struct {
		trap   string
		gpu    string
		format unit.Format
		want   float64 // TFLOP/s, dense
	}{
		{"275 TOPS of an AGX Orin are sparse and count the DLAs", "agx-orin-64gb", unit.INT8, 85},
		{"the same in fp16", "agx-orin-64gb", unit.FP16, 42.5},
		{"100 TOPS of an Orin NX are sparse and count the DLAs", "orin-nx", unit.INT8, 30},
		{"40 TOPS of an Orin Nano are sparse", "orin-nano", unit.INT8, 20},
		{"67 TOPS of an Orin Nano Super are sparse", "orin-nano-super", unit.INT8, 33},
		{"2070 of a Thor is sparse FP4", "thor", unit.NVFP4, 1035},
		{"1035 of a Thor is sparse fp8", "thor", unit.FP8, 517},
		{"Thor in fp16", "thor", unit.FP16, 258.75},
		{"32 TOPS of an AGX Xavier count the DLAs", "agx-xavier", unit.INT8, 22.6},
		{"21 TOPS of a Xavier NX count the DLAs", "xavier-nx", unit.INT8, 13.5},
		{"142 of an RTX 3090 accumulates in FP16", "3090", unit.BF16, 71},
		{"330 of an RTX 4090 accumulates in FP16", "4090", unit.BF16, 165.2},
		{"419 of an RTX 5090 accumulates in FP16", "5090", unit.BF16, 209.5},
		{"3352 AI TOPS of an RTX 5090 are sparse FP4", "5090", unit.NVFP4, 1676},
		{"an RTX A6000 is not halved", "a6000", unit.BF16, 154.8},
		{"an RTX 6000 Ada is not halved", "rtx-6000-ada", unit.BF16, 364.2},
		{"an L40 is half an L40S", "l40", unit.FP16, 181.05},
		{"733 of an L40S is sparse fp16", "l40s", unit.FP16, 362.05},
		{"1466 of an L40S is sparse fp8", "l40s", unit.FP8, 733},
		{"1979 of an H100 is sparse fp16", "h100", unit.BF16, 989.4},
		{"3958 of an H100 is sparse fp8", "h100", unit.FP8, 1978.9},
		{"3958 of an H200 is sparse fp8", "h200", unit.FP8, 1978.9},
		{"624 of an A100 is sparse fp16", "a100", unit.FP16, 312},
		{"1248 of an A100 is sparse INT8", "a100", unit.INT8, 624},
		{"156 of an A100 is tf32, not fp32", "a100", unit.FP32, 19.5},
		{"an A100 has no fp8", "a100", unit.FP8, none},
		{"485 of an L4 is sparse fp8", "l4", unit.FP8, 242},
		{"242 of an L4 is sparse fp16", "l4", unit.FP16, 121},
		{"an H100 PCIe is no SXM", "h100-pcie", unit.BF16, 756.5},
		{"older sheets of the H100 NVL print the pair", "h100-nvl", unit.BF16, 835.5},
		{"a V100 PCIe is no SXM2", "v100-pcie", unit.FP16, 112},
		{"125 is the SXM2", "v100", unit.FP16, 125},
		{"a V100 has no bf16", "v100", unit.BF16, none},
		{"a V100 has no tf32", "v100", unit.TF32, none},
		{"a V100 has no INT8 tensor cores", "v100", unit.INT8, none},
		{"a V100 has no INT4 tensor cores", "v100", unit.INT4, none},
		{"a T4 has no bf16", "t4", unit.BF16, none},
		{"an H100 has no INT4", "h100", unit.INT4, none},
		{"a Xavier has no bf16", "agx-xavier", unit.BF16, none},
		{"an Orin has no fp8", "orin", unit.FP8, none},
		{"the B300's INT8 was cut", "b300", unit.INT8, 153.5},
		{"18000 of a B200 is sparse FP4", "b200", unit.NVFP4, 9000},
		{"an A10G is no A10", "a10g", unit.BF16, 70},
		{"250 of an A10 is sparse", "a10", unit.BF16, 125},
		{"330 of an A30 is sparse", "a30", unit.BF16, 165},
		{"INT8 of an MI210 is its fp16 rate", "mi210", unit.INT8, 181},
		{"one GCD of an MI250X is half of it", "mi250x", unit.BF16, 191.5},
		{"1150 for an MI300X is not its peak", "mi300x", unit.BF16, 1307.4},
		{"an MI300X has no NVFP4", "mi300x", unit.NVFP4, none},
		{"1 PFLOP/s of a DGX Spark is sparse FP4", "dgx-spark", unit.BF16, 125},
	} {
		t.Run(tt.trap, func(t *testing.T) {
			g := gpu(t, tt.gpu)
			got, ok := g.Peak(tt.format)
			if tt.want == none {
				if ok {
					t.Errorf("%s has %v at %v, want no unit for it", g.Key, tt.format, got)
				}
				return
			}
			if want := unit.FLOPsPerSec(tt.want * 1e12); !ok || !near(float64(got), float64(want), 1e-9) {
				t.Errorf("%s has %v at %v, want %v", g.Key, tt.format, got, want)
			}
		})
	}
}

func TestMemoryAndLinkTraps(t *testing.T) {
	for _, tt := range []struct {
		trap string
		gpu  string
		get  func(g hardware.GPU) float64
		want float64
	}{
		{"LLM-Viewer gives an H100 3072 GB/s, llm_profiler 3430", "h100", bandwidth, 3350e9},
		{"H100 PCIe", "h100-pcie", bandwidth, 2000e9},
		{"H100 NVL, one card of the pair", "h100-nvl", bandwidth, 3900e9},
		{"A100 40 GB is slower than 80", "a100-40gb", bandwidth, 1555e9},
		{"A100 PCIe is slower than SXM", "a100-pcie", bandwidth, 1935e9},
		{"A100 SXM", "a100", bandwidth, 2039e9},
		{"a T4 sheet prints 300", "t4", bandwidth, 320e9},
		{"Thor", "thor", bandwidth, 273e9},
		{"Orin Nano", "orin-nano", bandwidth, 68e9},
		{"Orin Nano Super", "orin-nano-super", bandwidth, 102e9},
		{"L40S", "l40s", bandwidth, 864e9},
		{"600 GB/s of an A100 adds both directions", "a100", link, 300e9},
		{"900 GB/s of an H100 adds both directions", "h100", link, 450e9},
		{"900 GB/s of an H200 adds both directions", "h200", link, 450e9},
		{"1800 GB/s of a B200 adds both directions", "b200", link, 900e9},
		{"300 GB/s of a V100 adds both directions", "v100", link, 150e9},
		{"112.5 GB/s of an A6000 adds both directions", "a6000", link, 56.25e9},
		{"an A800 is an A100 with fewer links", "a800", link, 200e9},
		{"no NVLink on an L4", "l4", link, 0},
		{"no NVLink on an L40S", "l40s", link, 0},
		{"no NVLink on an RTX 4090", "4090", link, 0},
		{"no NVLink on an RTX 5090", "5090", link, 0},
		{"a bridge joins two A100 PCIe", "a100-pcie", linkGPUs, 2},
		{"a bridge joins two H100 PCIe", "h100-pcie", linkGPUs, 2},
		{"a switch joins eight H100", "h100", linkGPUs, 8},
		{"200 GB/s between nodes is a figure in Gb/s: DGX A100", "a100", nic, 25e9},
		{"400 GB/s between nodes is a figure in Gb/s: DGX H100", "h100", nic, 50e9},
		{"llm-analysis gives an A10 28 GB", "a10", memory, 24e9},
		{"llm-analysis gives a 16 GB V100 32", "v100-sxm2-16gb", memory, 16e9},
		{"NeuSight gives an L4 60 SMs", "l4", sms, 58},
		{"a B200 is no whole chip of 160 SMs", "b200", sms, 148},
		{"an H100 PCIe has fewer SMs", "h100-pcie", sms, 114},
		{"a Thor is no whole chip of 24 SMs", "thor", sms, 20},
	} {
		t.Run(tt.trap, func(t *testing.T) {
			if got := tt.get(gpu(t, tt.gpu)); got != tt.want {
				t.Errorf("got %g, want %g", got, tt.want)
			}
		})
	}
}

func bandwidth(g hardware.GPU) float64 { return float64(g.Bandwidth) }
func link(g hardware.GPU) float64      { return float64(g.Link) }
func linkGPUs(g hardware.GPU) float64  { return float64(g.LinkGPUs) }
func nic(g hardware.GPU) float64       { return float64(g.NIC) }
func memory(g hardware.GPU) float64    { return float64(g.Memory) }
func sms(g hardware.GPU) float64       { return float64(g.SMs) }

func TestLinkAmong(t *testing.T) {
	g := gpu(t, "h100-pcie")
	if two, four := g.LinkAmong(2), g.LinkAmong(4); two != 300e9 || four != 64e9 {
		t.Errorf("H100 PCIe: %v among 2 and %v among 4, want the bridge and then PCIe", two, four)
	}
}

// The tensor peak by a second route: SMs, operations that one completes in a
// clock, and the clock. Only GeForce and cut-down parts do less than their
// generation's SM can.
func TestPeaksFollowFromTheSilicon(t *testing.T) {
	perClock := map[string]float64{
		"7.0": 1024, "7.2": 1024, "7.5": 1024, "8.0": 2048, "8.6": 1024, "8.7": 2048, "8.9": 1024, "9.0": 4096,
		"10.0": 8192, "10.3": 8192, "11.0": 8192, "12.0": 1024, "12.1": 1024, "gfx90a": 1024, "gfx942": 2048, "gfx950": 4096,
	}
	share := map[string]float64{
		"rtx-3090-24gb": 0.5, "rtx-4090-24gb": 0.5, "rtx-5090-32gb": 0.5, "a10g-24gb": 0.5, "l40-48gb": 0.5, "h20-96gb": 0.25,
	}
	for _, g := range load(t).All() {
		per, ok := perClock[g.ComputeCapability]
		if !ok {
			t.Errorf("%s: what an SM of %s does is not known", g.Key, g.ComputeCapability)
			continue
		}
		if s, ok := share[g.Key]; ok {
			per *= s
		}
		want := float64(g.SMs) * per * float64(g.TensorClock)
		if got, _ := g.Peak(unit.FP16); !near(float64(got), want, 0.03) {
			t.Errorf("%s: %v in fp16, but %d SMs at %v make %v", g.Key, got, g.SMs, g.TensorClock, unit.FLOPsPerSec(want))
		}
	}
}

// The vector peak by a second route: cores, two operations, the clock.
func TestVectorPeaksFollowFromTheCores(t *testing.T) {
	for _, g := range load(t).All() {
		cores := 128.0
		switch {
		case slices.Contains([]string{"7.0", "7.2", "7.5", "8.0"}, g.ComputeCapability), g.Generation == "cdna2":
			cores = 64
		case g.Generation == "cdna3", g.Generation == "cdna4":
			cores = 128
		}
		want := float64(g.SMs) * cores * 2 * float64(g.Clock)
		got, _ := g.Peak(unit.FP32)
		// Data sheets of NVL, H20 and the Blackwell modules round, or use a clock of their own.
		if !near(float64(got), want, 0.13) {
			t.Errorf("%s: %v in fp32, but %d SMs at %v make %v", g.Key, got, g.SMs, g.Clock, unit.FLOPsPerSec(want))
		}
	}
}

func near(a, b, tolerance float64) bool { return math.Abs(a-b) <= tolerance*math.Abs(b) }

func TestAbsentIsNotZero(t *testing.T) {
	g := gpu(t, "v100")
	if _, ok := g.Idle(); ok {
		t.Error("the idle power of a V100 has no source")
	}
	if _, ok := g.Price(); ok {
		t.Error("the price of a V100 has no source")
	}
	if _, ok := g.Ridge(unit.FP8); ok {
		t.Error("a V100 has no ridge point in fp8")
	}
	if _, ok := g.Peak(unit.NumFormats); ok {
		t.Error("a format that does not exist has a rate")
	}
	if got := g.Formats(); !slices.Equal(got, []unit.Format{unit.FP32, unit.FP16}) {
		t.Errorf("V100 has %v", got)
	}
	h := gpu(t, "h200")
	if w, ok := h.Idle(); !ok || w != 79 {
		t.Errorf("idle H200: %v, %v", w, ok)
	}
	if r, ok := h.Ridge(unit.BF16); !ok || !near(r, 206.1, 0.001) {
		t.Errorf("ridge of an H200 in bf16: %v FLOP/byte, want 989.4/4.8", r)
	}
}
