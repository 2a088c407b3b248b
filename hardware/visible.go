package hardware

import "llmprof/unit"

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
