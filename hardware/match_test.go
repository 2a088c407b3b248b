package hardware_test

import (
	"strings"
	"testing"

	"llmprof/unit"
)

const (
	mib = unit.Bytes(1 << 20)
	kib = unit.Bytes(1 << 10)
)

// Names as nvidia-smi, rocm-smi and /proc/device-tree/model report them.
func TestMatch(t *testing.T) {
	table := load(t)
	for _, tt := range []struct {
		name   string
		memory unit.Bytes
		want   string
	}{
		{"NVIDIA H200", 143771 * mib, "h200-sxm-141gb"},
		{"NVIDIA H200", 0, "h200-sxm-141gb"},
		{"NVIDIA H200 NVL", 143771 * mib, "h200-nvl-141gb"},
		{"NVIDIA H20", 97871 * mib, "h20-96gb"},
		{"NVIDIA H20-3e", 143771 * mib, "h20-141gb"},
		{"AMD Instinct MI250", 0, "mi250-64gb"},
		{"AMD Instinct MI300A", 0, "mi300a-128gb"},
		{"NVIDIA GeForce RTX 3050", 6144 * mib, "rtx-3050-6gb"},
		{"NVIDIA GeForce RTX 3050", 8192 * mib, "rtx-3050-8gb"},
		{"NVIDIA GeForce RTX 2060", 6144 * mib, "rtx-2060-6gb"},
		{"NVIDIA GeForce RTX 2060", 12288 * mib, "rtx-2060-12gb"},
		{"AMD Instinct MI50", 32752 * mib, "mi50-32gb"},
		{"AMD Radeon RX 6800 XT", 16368 * mib, "rx-6800-xt-16gb"},
		{"Intel(R) Arc(TM) A770 Graphics", 0, "arc-a770-16gb"},
		{"NVIDIA H100 80GB HBM3", 81559 * mib, "h100-sxm-80gb"},
		{"NVIDIA H100 PCIe", 81559 * mib, "h100-pcie-80gb"},
		{"NVIDIA A100-SXM4-80GB", 81920 * mib, "a100-sxm-80gb"},
		{"NVIDIA A100-SXM4-40GB", 40960 * mib, "a100-sxm-40gb"},
		{"NVIDIA A100 80GB PCIe", 81920 * mib, "a100-pcie-80gb"},
		{"NVIDIA A100-PCIE-40GB", 40960 * mib, "a100-pcie-40gb"},
		{"Tesla V100-SXM2-16GB", 16160 * mib, "v100-sxm2-16gb"},
		{"Tesla V100-PCIE-32GB", 32510 * mib, "v100-pcie-32gb"},
		{"Tesla T4", 15360 * mib, "t4"},
		{"NVIDIA A10G", 23028 * mib, "a10g-24gb"},
		{"NVIDIA L4", 23034 * mib, "l4-24gb"},
		{"NVIDIA L40S", 46068 * mib, "l40s-48gb"},
		{"NVIDIA RTX A6000", 49140 * mib, "rtx-a6000-48gb"},
		{"NVIDIA RTX 6000 Ada Generation", 49140 * mib, "rtx-6000-ada-48gb"},
		{"NVIDIA GeForce RTX 3090", 24576 * mib, "rtx-3090-24gb"},
		{"NVIDIA GeForce RTX 4090", 24564 * mib, "rtx-4090-24gb"},
		{"NVIDIA GeForce RTX 5090", 32607 * mib, "rtx-5090-32gb"},
		{"NVIDIA GH200 480GB", 97871 * mib, "gh200-96gb"},
		{"NVIDIA B200", 183359 * mib, "b200-sxm-180gb"},
		{"NVIDIA GB200", 189471 * mib, "gb200-186gb"},
		{"AMD Instinct MI300X", 196592 * mib, "mi300x-192gb"},
		{"AMD Instinct MI300X OAM", 196592 * mib, "mi300x-192gb"},
		{"TPU v5 lite", 0, "tpu-v5e-16gb"}, // JAX's device_kind
		{"TPU v5", 0, "tpu-v5p-95gb"},
		{"TPU v6 lite", 0, "tpu-v6e-32gb"},
		{"TPU7x", 0, "tpu-v7x-192gb"},
		{"NVIDIA Jetson AGX Orin Developer Kit\x00", 64349512 * kib, "agx-orin-64gb"},
		{"NVIDIA Jetson AGX Orin Developer Kit", 31333 * mib, "agx-orin-32gb"},
		{"NVIDIA Jetson Orin Nano Developer Kit", 7620 * mib, "orin-nano-8gb"},
		{"NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super", 7620 * mib, "orin-nano-8gb-super"},
		{"NVIDIA Jetson Xavier NX Developer Kit", 7772 * mib, "xavier-nx-8gb"},
		{"NVIDIA Jetson Xavier NX Developer Kit", 15817 * mib, "xavier-nx-16gb"},
		{"NVIDIA Jetson AGX Thor Developer Kit", 125772 * mib, "agx-thor-128gb"},
		{"NVIDIA Thor", 0, "agx-thor-128gb"},
		{"NVIDIA GB10", 122502 * mib, "dgx-spark-128gb"},
	} {
		if g, err := table.Match(tt.name, tt.memory); err != nil || g.Key != tt.want {
			t.Errorf("%q with %v matches %q, %v; want %s", tt.name, tt.memory, g.Key, err, tt.want)
		}
	}
}

func TestMatchRefuses(t *testing.T) {
	table := load(t)
	for _, tt := range []struct {
		name   string
		memory unit.Bytes
		want   string
	}{
		{"NVIDIA GeForce RTX 2070 Laptop GPU", 16376 * mib, "not in the table"},
		{"NVIDIA GeForce RTX 4090 Ti", 24564 * mib, "not in the table"},
		{"NVIDIA H100 80GB HBM3", 20 * 1024 * mib, "a slice of one"},
		{"NVIDIA Jetson AGX Orin Developer Kit", 0, "its memory has to be known"},
		{"h100", 0, "not a name that a driver reports"},
		{"", 0, "not in the table"},
		{"Intel(R) Arc(TM) A770", 16e9, "not in the table"},
	} {
		if g, err := table.Match(tt.name, tt.memory); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q with %v: got %q, %v; want an error with %q", tt.name, tt.memory, g.Key, err, tt.want)
		}
	}
}
