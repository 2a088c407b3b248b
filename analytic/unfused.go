package analytic

import (
	"llmprof/models"
	"llmprof/unit"
)

// What an engine moves that runs a model as its PyTorch code is written, one
// kernel for each line. The counts are those of modeling_llama.py of transformers
// 5.17, each tensor read and written once by each kernel, without the small ones
// (means, cos and sin, weights of norms). testdata/unfused.py counts the same
// tensors as torch dispatches them; a test holds both to be equal.

// unfusedNorm is the kernels of a norm and the bytes that they move for each
// value of the stream. An RMSNorm goes through copies in float32:
//
//	to float32   reads a   writes 4     (not where the stream is float32)
//	square       reads 4   writes 4
//	mean         reads 4
//	add, rsqrt   of one value a row
//	multiply     reads 4   writes 4
//	to 16 bits   reads 4   writes a     (as above)
//	multiply     reads a   writes a
//
// A norm with a bias is a LayerNorm, which PyTorch runs as one kernel.
func (s *Step) unfusedNorm(n *models.Norm) (launches float64, each unit.Bytes) {
	a := s.acts(1)
	switch {
	case n.Params > int64(n.Width)*int64(max(n.Heads, 1)):
		return 1, 2 * a
	case s.Scheme.stream() == unit.FP32:
		return 6, 20 + 2*a
	}
	return 8, 28 + 4*a
}

// The rotation of queries and keys, q·cos + join(−q₂, q₁)·sin, five kernels each:
// a product (1 read, 1 written), the negation of a half (½, ½), the join (1, 1), a
// product (1, 1), the sum (2, 1).
const (
	unfusedRotaryLaunches = 2 * 5
	unfusedRotary         = 10 // values moved for each that is rotated
)

// unfusedGate is the values moved for each that comes out of act(gate)·up: the
// function (1 read, 1 written) and the product (2, 1).
const unfusedGate = 5

// GPT-2's GELU, ½x·(1 + tanh(c·(x + d·x³))), is six kernels of one value read and
// one written and two of two read: x + ... and the product at the end.
const (
	spelledLaunches = 8
	spelledGELU     = 6*2 + 2*3
)
