package footprint

import (
	"llmprof/hardware"
	"llmprof/parallel"
	"llmprof/unit"
)

// contextBytes is what CUDA keeps for itself on a GPU once a program has loaded
// its kernels; 0.3 to 0.5 GB is usual.
const contextBytes = unit.Bytes(0.5e9)

// sharedBytes is what the system and its desktop keep of a memory that the CPU
// shares: NVIDIA gives 5.2 of the 8 GB of an Orin Nano as usable for models.
const sharedBytes = unit.Bytes(2.3e9)

// ncclBytes is what NCCL's buffers take on each GPU of a group; aiconfigurator's
// system tables (Apache-2.0) have 342 to 392 MB.
const ncclBytes = unit.Bytes(0.39e9)

// Reserve is what CUDA, the system, NCCL and the engine keep for themselves on a GPU.
func Reserve(p *parallel.Parallelism, g *hardware.GPU, engine unit.Bytes) unit.Bytes {
	r := contextBytes + engine
	if g.Integrated { // what the driver withholds already counts
		withheld := max(g.Memory-g.Capacity(), 0)
		r += max(sharedBytes-withheld, 0)
	}
	if max(p.TP*p.PP, p.EP) > 1 {
		r += ncclBytes
	}
	return r
}
