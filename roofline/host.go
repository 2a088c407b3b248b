package roofline

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
var weightCopy = Law{
	Equation: "bytes / (share × PCIe)",
	List: func(t *Terms, k *Kernel, p *Peaks) {
		t.add(Serial, WeightCopyShare, seconds(k.Work.Weights, p.PCIe))
	},
	Steady: true,
}

var pageableCopy = Law{
	Equation: "bytes / (pageable × rate of pageable copies)",
	List: func(t *Terms, k *Kernel, p *Peaks) {
		t.add(Serial, WeightCopyPageable, seconds(k.Work.Weights, p.Pageable))
	},
	Steady: true,
}

// The host waits for the GPU and copies what the next part reads, or launches its kernels anew.
var hostCrossing = Law{
	Equation: "launches × sync",
	List:     func(t *Terms, k *Kernel, _ *Peaks) { t.add(Fixed, HostSync, k.Launches) },
	Steady:   true,
}
