// Package analytic is the theory: what a step of inference has to do, and how
// long a machine takes for it. It is pure functions on shapes; it never learns
// that files, flags, pictures or a GPU in the box exist.
//
//	Case -> Step -> []Op -> []Cost -> Phase -> Estimate
//
// A Case asks one question: this model, on this machine, split in this way,
// with this workload. A Step is one forward pass: each sequence of a batch gains
// New tokens after the Past ones it has. Prefill is the step without a past (or
// a run of them, in chunks); decoding is a run of steps with one new token. Both
// are the same function, Step.AppendOps, which lists the work of one rank of the
// tensor-parallel group, free of any hardware. Machine.Cost prices an Op:
//
//	expected = fixed + max(FLOPs/(e_c·peak), bytes/(e_m·bandwidth), wire/(e_l·link))
//	floor    =         max(FLOPs/peak,       bytes'/bandwidth,      wire/link)
//
// after Williams, Waterman and Patterson, "Roofline" (CACM 52(4), 2009), with
// the shares e and the fixed times of a hardware.Calibration. What an engine does
// within the kernel of another operator has no fixed time and moves no activations
// (Carries); its own products of few rows have constants of their own. The bytes' of the
// floor are those that no engine can avoid: weights, KV cache and state, not the
// activations, which fusion and the L2 cache may keep on the chip. The floor of
// a whole step lets every resource work at once, so it is the largest of their
// sums and less than the sum of its operators' floors. Nothing beats it.
//
// A run of steps is summed without a loop over its tokens: between the contexts
// where a window fills, every resource of every Op is linear in the context, so
// where no Op changes its bound the mean of the first and the last step is
// exact, and where one does the run is halved (see run.go).
//
// Notation in the comments: B sequences, n new tokens of each after p past ones,
// T = B·n; h the hidden size; t the tensor-parallel degree.
package analytic
