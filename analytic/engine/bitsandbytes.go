package engine

import (
	"strings"

	"llmprof/analytic"
	"llmprof/analytic/operator"
	"llmprof/roofline"
	"llmprof/unit"
)

// bitsAndBytes reports whether bitsandbytes has the weights of a product.
func bitsAndBytes(l *analytic.Lowering, o *operator.Op) bool {
	name := l.Step.Scheme.Name
	return o.Type == operator.Product && o.Scheme != roofline.Unquantized && (strings.HasPrefix(name, "bitsandbytes") || name == "nf4")
}

// The launches of PyTorch that take the host as long as a matrix of bitsandbytes takes beyond its product: casts of inputs and results and
// the Python of Linear4bit, and the dozen kernels that quantize inputs and part outliers in Linear8bitLt. Qwen2-1.5B on an RTX 5090 in NF4
// takes 51 µs a matrix longer than in 16 bits, of launches of some 12 µs, and Mistral-7B on an A800 47 µs, in 8 bits 319 µs, of launches of
// some 20 µs (ecocompute-ai's RTX 5090 benchmark; vllm-project/vllm#36440).
const launches4bit, launches8bit = 3, 16

// unpacked makes the kernels of a product as bitsandbytes has them: in 4 bits it has a kernel for one row alone, and for more rows one
// unpacks the weights to 16 bits, which a library multiplies.
func unpacked(product lowering) lowering {
	return func(l *analytic.Lowering, i int) {
		o := &l.Ops[i]
		before := len(l.Kernels)
		product(l, i)
		if len(l.Kernels) == before || !bitsAndBytes(l, o) {
			return
		}
		k := &l.Kernels[len(l.Kernels)-1]
		if o.Scheme != roofline.WeightINT4 {
			k.Helpers += launches8bit * k.Launches
			return
		}
		k.Helpers += launches4bit * k.Launches
		if o.Shape.M <= 1 {
			return
		}
		wide := l.Step.Bytes(o.Shape.N * o.Shape.K)
		packed := k.Work.Weights
		k.Work.Weights, k.Scheme = wide, roofline.Unquantized
		unpack := l.Launch(i, roofline.Elementwise, k.Launches)
		unpack.Work, unpack.Format = roofline.Work{Weights: packed + wide}, unit.NoFormat
	}
}
