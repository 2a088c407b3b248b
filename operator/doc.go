// Package operator counts what a forward pass of a model has to do: its operators, each
// with its FLOPs and its bytes. It knows shapes, splits and number formats; it never
// learns that a GPU, an engine or a price exists.
//
//	Model + split + Workload -> Step -> []Op
//
// A Step is one forward pass: each sequence of a batch gains New tokens after the Past
// ones it has. Prefill is the step without a past (or a run of them, in chunks); decoding
// is a run of steps with one new token. Both are the same function, Step.AppendOps, which
// lists the work of one rank of the tensor-parallel group.
//
// Notation in the comments: B sequences, n new tokens of each after p past ones,
// T = B·n; h the hidden size; t the tensor-parallel degree.
package operator
