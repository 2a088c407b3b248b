// Package analytic is the theory: what a step of inference has to do, and how long
// a machine takes for it. It is pure functions on shapes; it never learns that files,
// flags, pictures or a GPU in the box exist.
//
//	Model -> Step -> []Op -> []Kernel -> Cost -> Estimate
//
// A Case asks one question: this model, on this machine, split in this way, with this
// workload. A Step is one forward pass: each sequence of a batch gains New tokens after
// the Past ones it has. Prefill is the step without a past (or a run of them, in
// chunks); decoding is a run of steps with one new token. Both are the same function,
// Step.AppendOps, which lists the work of one rank of the tensor-parallel group, free of
// any hardware and any engine.
//
// An Engine lowers the operators to kernels: which are fused, of which class each is, and
// how many launches they take. Package roofline prices a kernel by the law of its class,
// with the constants of a hardware.Calibration. Predictor.walk does this for a step, part
// by part, and every estimate and every report is such a walk.
//
// The floor of a step is the least that any engine could take: the peaks of the data
// sheet, every resource at work all the time, and the compulsory traffic alone, which is
// weights, KV cache and state without activations. It is less than the sum of its
// operators' floors, of which each waits for one resource.
//
// A run of steps is summed without a loop over its tokens: between the contexts where a
// window fills, every resource of every Op is linear in the context, so where no kernel
// changes its bound the mean of the first and the last step is exact, and where one does
// the run is halved.
//
// Notation in the comments: B sequences, n new tokens of each after p past ones,
// T = B·n; h the hidden size; t the tensor-parallel degree.
package analytic
