package roofline

var elementwise = Law{
	Equation: "fixed + max(FLOPs / (compute × vector peak), bytes / (memory × bandwidth))",
	Terms: func(k *Kernel, p *Peaks) (t Terms) {
		t.once(k, p, ElementwiseCompute, ElementwiseMemory, ElementwiseFixed)
		return t
	},
	Power: PowerMemory,
}

// Element-wise kernels that follow each other in a stream overlap most of their launch.
var smallElementwise = Law{
	Equation: "launches × small_kernel + max(FLOPs / (compute × vector peak), bytes / (memory × bandwidth))",
	Terms: func(k *Kernel, p *Peaks) (t Terms) {
		t.once(k, p, ElementwiseCompute, ElementwiseMemory, HostSmallKernel)
		return t
	},
	Power: PowerMemory,
}
