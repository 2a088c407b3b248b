// Package operator counts what a forward pass of a model has to do: its operators, each
// with its FLOPs and its bytes. It knows shapes, splits and number formats, and no GPU,
// engine or price. With them stand what they follow from and what follows from the same
// shapes: the workload, how a model is split over GPUs, how a router chooses experts, and the
// memory of a GPU with the largest batch that fits.
//
//	Model + split + Workload -> Step -> []Op
//
//	rank := operator.NewRank(model, operator.Parallelism{TP: 2}, scheme, nil)
//	step := rank.Step(8, 1, 1024, 1) // each of 8 sequences gains a token after 1024, and the scores of one
//	ops := step.AppendOps(nil)
//
// A Step is one forward pass: each sequence of a batch has Past tokens and gains New ones.
// Prefill is a step without past tokens, or a run of steps in chunks; decoding is a run of
// steps with one new token. Step.AppendOps lists the operators of both, with the work of one
// rank of the tensor-parallel group.
//
// Notation in the comments: B sequences, n new tokens of each after p past ones,
// T = B·n; h the hidden size; t the tensor-parallel degree.
package operator
