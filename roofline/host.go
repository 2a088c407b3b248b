package roofline

import "llmprof/unit"

// A thread of the host reads a row of weights, unpacks it and multiplies it, and has few loads in flight meanwhile, so that its
// arithmetic and its reads add up where both take as long. All threads wait for each other after each operator. The GPU does nothing.
var hostProduct = Law{
	Equation: "launches × node + √(C² + M² + 2 × the lesser²), C = weights in the cost of Q4_K / (compute × rate of the host's threads), " +
		"M = bytes / (memory × rate of the host's memory)",
	List: func(t *Terms, k *Kernel, p *Peaks) {
		t.add(Vector, HostCompute, seconds(k.Work.Vector, p.HostVector))
		t.add(Memory, HostMemory, seconds(k.Work.Traffic(), p.HostMemory))
		t.add(Fixed, HostNode, k.Launches)
	},
	Exposed: 3,
	Steady:  true,
}

// Weights are copied on the stream that computes, so that no kernel runs beside them.
func copyOfWeights(equation string, share Constant, rate func(p *Peaks) unit.BytesPerSec) Law {
	return Law{
		Equation: equation,
		List:     func(t *Terms, k *Kernel, p *Peaks) { t.add(Serial, share, seconds(k.Work.Weights, rate(p))) },
		Steady:   true,
	}
}

var (
	weightCopy = copyOfWeights("bytes / (share × PCIe)", WeightCopyShare,
		func(p *Peaks) unit.BytesPerSec { return p.PCIe })
	pageableCopy = copyOfWeights("bytes / (pageable × rate of pageable copies)", WeightCopyPageable,
		func(p *Peaks) unit.BytesPerSec { return p.Pageable })
)

// The host waits for the GPU and copies what the next part reads, or launches its kernels anew.
var hostCrossing = Law{
	Equation: "launches × sync",
	List:     func(t *Terms, k *Kernel, _ *Peaks) { t.add(Fixed, HostSync, k.Launches) },
	Steady:   true,
}
