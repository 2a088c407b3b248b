package hardware_test

import (
	"testing"

	"llmprof/hardware"
	"llmprof/unit"
)

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
		{"a V100S is no V100 PCIe", "v100s", unit.FP16, 130},
		{"a P40 computes in fp32, not in its fp16 of a 64th", "p40", unit.FP16, none},
		{"47 of a P40 is DP4A", "p40", unit.INT8, 47},
		{"a P100 has no DP4A", "p100", unit.INT8, none},
		{"a 4090 of a laptop is no 4090", "4090-laptop", unit.BF16, 79.38},
		{"1824 AI TOPS of a 5090 of a laptop are sparse FP4", "5090-laptop", unit.NVFP4, 911.9},
		{"a V100 has no bf16", "v100", unit.BF16, none},
		{"a V100 has no tf32", "v100", unit.TF32, none},
		{"a V100 has no INT8 tensor cores", "v100", unit.INT8, none},
		{"a V100 has no INT4 tensor cores", "v100", unit.INT4, none},
		{"a T4 has no bf16", "t4", unit.BF16, none},
		{"an H100 has no INT4", "h100", unit.INT4, none},
		{"a Xavier has no bf16", "agx-xavier", unit.BF16, none},
		{"an Orin has no fp8", "orin", unit.FP8, none},
		{"the B300's INT8 was cut", "b300", unit.INT8, 153.5},
		{"50000 of a Rubin is sparse FP4", "rubin", unit.NVFP4, 35000},
		{"a Rubin's INT8 was cut", "vr200", unit.INT8, 250},
		{"NVIDIA prints no rate of a Rubin for MXFP4", "r100", unit.MXFP4, none},
		{"Google prints no INT8 rate of an Ironwood", "ironwood", unit.INT8, none},
		{"an Ironwood has fp8", "tpu7x", unit.FP8, 4614},
		{"18000 of a B200 is sparse FP4", "b200", unit.NVFP4, 9000},
		{"an A10G is no A10", "a10g", unit.BF16, 70},
		{"250 of an A10 is sparse", "a10", unit.BF16, 125},
		{"330 of an A30 is sparse", "a30", unit.BF16, 165},
		{"INT8 of an MI210 is its fp16 rate", "mi210", unit.INT8, 181},
		{"bf16 of an MI100 is half its fp16 rate", "mi100", unit.BF16, 92.3},
		{"59 of an MI60 is INT8", "mi60", unit.FP16, 29.5},
		{"no bf16 on RDNA 2", "6900-xt", unit.BF16, none},
		{"80.5 of an RTX 2080 accumulates in FP16", "2080", unit.FP16, 40.3},
		{"262 of an Arc A770 is INT8", "a770", unit.FP16, 131},
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
		{"3600 GB/s of a Rubin adds both directions", "vera-rubin", link, 1800e9},
		{"1200 GB/s of an Ironwood adds both directions", "tpu-v7", link, 600e9},
		{"300 GB/s of a V100 adds both directions", "v100", link, 150e9},
		{"112.5 GB/s of an A6000 adds both directions", "a6000", link, 56.25e9},
		{"256 GB/s is of the RTX 2000 Ada of laptops", "rtx-2000-ada", bandwidth, 224e9},
		{"512 GB/s is of the Arc A770 with 8 GB", "a770", bandwidth, 560e9},
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
