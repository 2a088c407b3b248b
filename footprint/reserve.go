package footprint

import (
	"llmprof/parallel"
	"llmprof/unit"
)

// contextBytes is the memory of the CUDA context once a program has loaded its kernels; 0.3
// to 0.5 GB is usual.
const contextBytes = unit.Bytes(0.5e9)

// ncclBytes is the memory of NCCL's buffers on each GPU of a group; aiconfigurator's
// system tables (Apache-2.0) have 342 to 392 MB.
const ncclBytes = unit.Bytes(0.39e9)

// Reserve is the memory that CUDA, NCCL, the system and the engine reserve on a GPU.
func Reserve(p *parallel.Parallelism, system, engine unit.Bytes) unit.Bytes {
	r := contextBytes + engine + system
	if max(p.TP*p.PP, p.ExpertRanks()) > 1 {
		r += ncclBytes
	}
	return r
}
