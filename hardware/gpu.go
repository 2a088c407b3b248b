// Package hardware says what a GPU can do at its best, and what it does in practice.
//
// The best is a GPU: the dense peak of each number format, the memory, the links, the
// power and the usual node around it, each with the source that it was read from. The
// figures live in hardware.toml at the root of the module. Find looks one of them up:
//
//	g, err := hardware.Find(llmprof.HardwareTOML, "h100")
//
// Load reads the whole file into a Table, Table.Overlay applies a user's file over it, and
// Table.Match finds the GPU that a driver means by a name.
//
// The practice is a Calibration, the constants of the laws of package roofline: measured, as
// ParseCalibration reads them from hardware/calibrations or a user's file, or else those of
// the GPU's generation (DefaultCalibration, defaults.toml).
//
// What may change: GPUs and keys of their files are added, and constants follow what is measured; Load, Table and GPU stay.
package hardware

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"llmprof/roofline"
	"llmprof/unit"
)

// A GPU is what one accelerator can do at its best, and the usual node around
// it. Rates are those of the data sheet: dense, accumulating in FP32 (INT32 for
// integers), at boost clock. A GPU is a value and is cheap to pass as one.
type GPU struct {
	Name    string   `toml:"name"`    // name for people: "H200 SXM 141GB"
	Key     string   `toml:"-"`       // key in the table: "h200-sxm-141gb"
	Aliases []string `toml:"aliases"` // other names that find it: "h200"
	Vendor  string   `toml:"vendor"`  // "nvidia", "amd", "intel", "apple" or "google"
	// "volta" to "blackwell", "rubin", "vega20", "cdna" to "cdna4", "rdna2" to "rdna4", "xe-hpg", "xe2", "apple7" to "apple10", "tpu"...
	Generation string `toml:"generation"`

	// ComputeCapability is NVIDIA's version of the instruction set, "9.0", AMD's
	// target, "gfx942", or what another vendor's generation is called.
	ComputeCapability string `toml:"compute_capability"`
	Jetson            bool   `toml:"jetson"`     // a Jetson module, measured with tegrastats rather than NVML
	Integrated        bool   `toml:"integrated"` // The memory is also the CPU's.

	SMs   int        `toml:"sms"`   // streaming multiprocessors, or compute units of AMD
	Clock unit.Hertz `toml:"clock"` // the highest the vendor allows (boost)
	peak  [unit.NumFormats]unit.FLOPsPerSec

	// TensorClock is the clock that the vendor's tensor peaks are computed at;
	// on most it is Clock.
	TensorClock unit.Hertz `toml:"tensor_clock"`

	Memory       unit.Bytes `toml:"memory"` // nominal size, GB being 10^9; Capacity is the size that programs have
	driverMemory unit.Bytes
	cudaMemory   unit.Bytes
	Bandwidth    unit.BytesPerSec `toml:"bandwidth"`
	L2           unit.Bytes       `toml:"l2"` // the last cache that all SMs share

	// NVLink or Infinity Fabric to the other GPUs of the node, one direction; 0: it has none.
	Link        unit.BytesPerSec `toml:"link"`
	LinkGPUs    int              `toml:"link_gpus"`     // how many GPUs of the node it joins: 2 for most bridges
	Bridge      bool             `toml:"bridge"`        // It is a bridge, which GPUs are without unless Links say otherwise.
	NoP2P       bool             `toml:"no_p2p"`        // Their driver refuses peer access over PCIe, unless Links say otherwise.
	Links       Links            `toml:"-"`             // what is not as usual on the host
	Host        Host             `toml:"-"`             // the computer around it, where that matters; else zero
	PCIe        unit.BytesPerSec `toml:"pcie"`          // rate to the host, in one direction; 0 for a GPU on the host's die
	GPUsPerNode int              `toml:"gpus_per_node"` // GPUs of the usual node
	NIC         unit.BytesPerSec `toml:"nic"`           // network for each GPU of the usual node, one direction; 0: the usual node has none

	TDP unit.Watts `toml:"tdp"` // board or module power limit, as shipped
	// What a user's file says instead of TDP and Clock of a known board, which stay those that its constants refer to; 0 where it says
	// nothing.
	PowerLimit unit.Watts `toml:"-"`
	ClockLimit unit.Hertz `toml:"-"`

	idle  unit.Watts
	price unit.DollarsPerHour

	PriceSource string   `toml:"price_source"` // who offers Price, and when; empty where no price is known
	Source      string   `toml:"source"`       // document that the figures were read in
	Notes       []string `toml:"notes"`        // choices between sources that disagree
	Traps       []string `toml:"traps"`        // figures in circulation that are not what they seem
}

// Peak is the dense rate at which g multiplies numbers of format f, and whether
// it has a unit for them. FP32 is the rate of the vector units (CUDA cores);
// every other format is the rate of the matrix units (tensor cores).
func (g *GPU) Peak(f unit.Format) (rate unit.FLOPsPerSec, ok bool) {
	if f < unit.NumFormats {
		rate = g.peak[f]
	}
	return rate, rate > 0
}

// Has reports whether g has a unit for numbers of format f.
func (g *GPU) Has(f unit.Format) bool { return f < unit.NumFormats && g.peak[f] > 0 }

// Formats lists the formats that g has a unit for, widest first.
func (g *GPU) Formats() []unit.Format {
	return slices.DeleteFunc(unit.Formats(), func(f unit.Format) bool { return !g.Has(f) })
}

// DriverMemory is the memory that the driver reports in all, and whether it is
// known. It is what nvidia-smi shows, before anything has been allocated.
func (g *GPU) DriverMemory() (m unit.Bytes, ok bool) { return g.driverMemory, g.driverMemory > 0 }

// Capacity is the memory that a model can lie in: what the driver reports in
// all, or where no source gives that what g is sold with.
func (g *GPU) Capacity() unit.Bytes { return cmp.Or(g.driverMemory, g.Memory) }

// systemMemory is what the system and its desktop keep of a memory that the CPU shares:
// NVIDIA gives 5.2 of the 8 GB of an Orin Nano as usable for models.
const systemMemory = unit.Bytes(2.3e9)

// System is what the system keeps of the capacity, where the CPU shares the memory. What
// the driver withholds already counts.
func (g *GPU) System() unit.Bytes {
	if !g.Integrated {
		return 0
	}
	return max(systemMemory-max(g.Memory-g.Capacity(), 0), 0)
}

// Idle is the power that g draws when it has nothing to do, and whether a
// source gives it.
func (g *GPU) Idle() (w unit.Watts, ok bool) { return g.idle, g.idle > 0 }

// Price is what renting g costs, and whether a source gives it.
func (g *GPU) Price() (p unit.DollarsPerHour, ok bool) { return g.price, g.price > 0 }

// Ridge is the arithmetic intensity, in FLOP/byte, above which work in format f
// is bound by arithmetic rather than by memory, and whether g has that format.
func (g *GPU) Ridge(f unit.Format) (intensity float64, ok bool) {
	rate, ok := g.Peak(f)
	return float64(rate) / float64(g.Bandwidth), ok
}

// instead says which format stands in for one that the GPU has no unit for: the
// narrowest that holds its values and that engines unpack it to. FP4 is unpacked to 16 bits, as by Marlin in vLLM.
var instead = [unit.NumFormats]unit.Format{
	unit.MXFP4: unit.NVFP4, unit.NVFP4: unit.BF16, unit.FP8: unit.BF16, unit.INT4: unit.INT8,
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
		Memory: g.Bandwidth, SMs: float64(g.SMs), Link: g.Link, LinkGPUs: float64(g.Joined()), PCIe: g.PCIe, NIC: g.NIC,
	}
	if h := &g.Host; h.Channels > 0 {
		p.HostMemory, p.HostVector, p.Pageable = h.Reads(), h.Weights(), h.Pageable
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

// Visible is the memory that programs can allocate: what the driver reports in all, less what it keeps for itself (cudaMemGetInfo of a
// GPU that nothing uses). Where no source gives it, an NVIDIA board's driver is taken to keep as much as those of the boards that have a
// cuda_memory: 0.25 GiB of 8, 0.36 of 24, 0.46 of 45 and of 80.
func (g *GPU) Visible() unit.Bytes {
	if g.cudaMemory > 0 {
		return g.cudaMemory
	}
	if g.Vendor != "nvidia" || g.Integrated {
		return g.Capacity()
	}
	const gib = 1 << 30
	return g.Capacity() - min(0.2*gib+g.Capacity().Times(0.006), 0.6*gib)
}

// Classes are what GPUs are sold for.
func Classes() []string { return []string{"datacenter", "workstation", "consumer", "edge"} }

// Class is what the GPU is sold for: cards for desktops are consumer's or, by their names, a workstation's; what has no memory of its own
// is a module or a small computer.
func (g *GPU) Class() string {
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(g.Name, w) })
	}
	switch {
	case has("GH200", "GB200", "GB300", "VR200", "MI300A"):
		return "datacenter"
	case g.Integrated || has("Jetson", "DGX Spark", "Ryzen", "Apple"):
		return "edge"
	case has("GeForce", "TITAN", "Radeon RX", "Arc A", "Arc B"):
		return "consumer"
	case has("RTX", "Quadro", "Radeon", "Arc Pro"):
		return "workstation"
	}
	return "datacenter"
}
