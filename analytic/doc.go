// Package analytic predicts what a step of inference takes on a machine. It is pure functions
// that know no files, flags or pictures and need no GPU.
//
//	[]operator.Op -> []Kernel -> roofline.Cost -> Estimate
//
// A Case is what is estimated: this model, on this machine, split in this way, with this
// workload. Package operator lists the operators of each step, free of any hardware and
// any engine. An Engine lowers them to kernels: which are fused, of which class each is,
// and how many launches they take. Package roofline prices a kernel by the law of its
// class, with the constants of a hardware.Calibration. A walk does this for a step, part by part, and adds up work, times and the
// derivatives of the times; every estimate and every report is made of such walks.
//
// The floor of a step is the least time that any engine could take: at the peaks of the data
// sheet, with every resource busy all the time, and with compulsory traffic alone, which is
// weights, KV cache and state without activations. It is less than the sum of its
// operators' floors, each of which waits for one resource.
//
// A run of steps is summed without a loop over its tokens: between the contexts where a window fills, every resource of every kernel is
// linear in the context and the time of a step convex, so that a few steps bound the sum (runner).
//
//	m, err := analytic.Calibrated(gpu, engine, calibration)
//	p, err := analytic.NewPredictor(&analytic.Case{Model: model, Machine: m, Scheme: scheme})
//	e, err := p.Predict(&analytic.Workload{Batch: 8, PromptLen: 1024, GenLen: 128})
//
// What may change: figures of an Estimate are added, and predictions follow what is measured, as the CHANGELOG says; Case, Workload,
// Machine, Predict and Estimate stay. Packages below are open because their types stand in these, and change with the theory.
package analytic
