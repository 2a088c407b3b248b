package engine

import (
	"math"

	"llmprof/analytic/operator"
	"llmprof/hardware"
	"llmprof/models"
	"llmprof/unit"
)

// extraWeights is the memory of weights that a rank of a server has beside the decoder's matrices. Encoders are cut over the ranks of TP.
func extraWeights(r *operator.Rank) unit.Bytes {
	b := r.Bytes(float64(r.Model.EncoderParams) / float64(r.Par.TP))
	for _, t := range r.Model.Rotary {
		b += r.Bytes(float64(t.Rows) * float64(t.Dim)) // Every rank has the tables.
	}
	return b + absorbed(r)
}

// absorbed is the memory of the copies of the up-projection of latent attention, one for keys and one for values, which decode steps
// multiply by (process_weights_after_loading of vLLM's model_executor/layers/attention/mla_attention.py, SGLang's
// models/deepseek_common). The matrix itself stays for prompts.
func absorbed(r *operator.Rank) (b unit.Bytes) {
	for l, block := range r.Model.Blocks() {
		if a := block.Attention; a != nil && a.Latent != nil {
			values, _ := a.Latent.Expand.Share(r.Par.TP)
			b += r.Bytes(values * float64(l.Count))
		}
	}
	return b.Times(r.Par.StageShare(r.Model.NumLayers()))
}

// A swizzle is the layout in which OpenAI's Triton kernels keep experts in MXFP4 on Hopper: the multiples of the sides of values
// (hopper_value.py) and of scales (hopper_scale.py of triton_kernels/tensor_details/layout_details), inputs in values of four bits.
type swizzle struct{ in, out, scaleOut float64 }

var (
	// Releases of Triton up to 3.5.
	swizzle35 = swizzle{in: 64, out: 16, scaleOut: 256}
	// The loads of packed values became aligned to 64 bytes, which is 128 values.
	swizzle36 = swizzle{in: 128, out: 16, scaleOut: 256}
	// The outputs became aligned to 256 too.
	swizzle38 = swizzle{in: 128, out: 256, scaleOut: 256}
)

// An expertPair is the two matrices of all experts of a layer on a rank: gate and up as one, and down.
type expertPair struct{ count, layers, in, hidden, width, out float64 }

func expertPairs(r *operator.Rank) (all []expertPair) {
	share := r.Par.StageShare(r.Model.NumLayers())
	for l, b := range r.Model.Blocks() {
		e := b.Experts
		if e == nil || len(e.Out) == 0 {
			continue
		}
		width := float64(e.Out[0].In) / float64(r.Par.ExpertTP())
		if g := r.Padding.Width; g > 0 {
			width = math.Ceil(width/g) * g
		}
		all = append(all, expertPair{count: float64(e.Count) / float64(r.Par.EP), layers: float64(l.Count) * share,
			in: float64(e.Out[0].Out), hidden: e.Activation.Inputs() * width, width: width, out: float64(e.Out[0].Out)})
	}
	return all
}

// values and scales are the bytes of a matrix of all experts in MXFP4.
func values(in, out float64) float64 { return in * out / 2 }
func scales(in, out float64) float64 { return in * out / 32 }

func align(n, multiple float64) float64 { return math.Ceil(n/multiple) * multiple }

// more is the memory that the layout takes beyond the values and scales as they are in the checkpoint. The scales stay
// in that form too: only the parameters of the values are deleted (vLLM's fused_moe/oracle/mxfp4.py, SGLang's
// layers/quantization/mxfp4.py). Biases become FP32.
func (s swizzle) more(r *operator.Rank) (b unit.Bytes) {
	for _, p := range expertPairs(r) {
		var one float64
		for _, m := range [2][2]float64{{p.in, p.hidden}, {p.width, p.out}} {
			in, out := m[0], m[1]
			one += values(align(in, s.in), align(out, s.out)) - values(in, out)
			one += scales(align(in, 64), align(out, s.scaleOut)) // further scales, beside the checkpoint's
			one += 2 * out
		}
		b += unit.Bytes(one * p.count * p.layers)
	}
	return b
}

// hole is the memory that SGLang's process keeps of the blocks that gate and up leave: PyTorch's allocator cuts the block of the old
// matrix for the new layout of the matrix down, and cannot return the rest. It counts, since SGLang asks the driver for what is free.
func (s swizzle) hole(r *operator.Rank) (b unit.Bytes) {
	for _, p := range expertPairs(r) {
		left := values(p.in, p.hidden) - values(align(p.width, s.in), align(p.out, s.out))
		b += unit.Bytes(max(left, 0) * p.count * p.layers)
	}
	return b
}

// swizzled reports whether experts run in MXFP4 by OpenAI's Triton kernels on Hopper.
func swizzled(r *operator.Rank, g *hardware.GPU) bool {
	return r.Scheme.Weights == unit.MXFP4 && r.Model.HasExperts() && g.Vendor == nvidia && int(capability(g)) == 9
}

// scans reports whether a model has recurrent states.
func scans(m *models.Model) bool { return m.Any(func(b *models.Block) bool { return b.Scan != nil }) }

// latent reports whether a model has latent attention.
func latent(m *models.Model) bool {
	return m.Any(func(b *models.Block) bool { return b.Attention != nil && b.Attention.Latent != nil })
}
