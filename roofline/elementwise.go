package roofline

// streaming is the law of kernels that read and write everything once, on vector units.
func streaming(memory, fixed Constant) Law {
	return Law{
		Equation: "fixed + max(FLOPs / (compute × vector peak), bytes / (memory × bandwidth))",
		List:     func(t *Terms, k *Kernel, p *Peaks) { t.once(k, p, ElementwiseCompute, memory, fixed) },
		Power:    PowerMemory,
	}
}

// Element-wise kernels that follow each other in a stream overlap most of their launch.
var smallElementwise = Law{
	Equation: "launches × small_kernel + max(FLOPs / (compute × vector peak), bytes / (unfused × bandwidth))",
	List: func(t *Terms, k *Kernel, p *Peaks) {
		t.once(k, p, ElementwiseCompute, ElementwiseUnfused, HostSmallKernel)
	},
	Power: PowerMemory,
}
