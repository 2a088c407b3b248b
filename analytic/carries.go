package analytic

import (
	"math"
	"strings"

	"llmprof/hardware"
	"llmprof/models"
)

// Carries says which operators an engine that fuses does within the kernels of
// others. Such an operator takes no launch of its own, and its activations do not go
// through memory; its arithmetic, its weights and what it writes to the cache stay.
// A prefill carries nothing of this but the experts' activation.
type Carries struct {
	Rows      float64 // sequences of a decode step up to which products with 16-bit weights are the engine's own (hardware.Rows), and carry the norm ahead of them and the activation behind them
	Wide      float64 // the same on GPUs and of models that Step.Wide says; these products take as long as others
	Quantized float64 // the same of products with quantized weights
	Rotation  bool    // attention of a decode step carries rotary embedding, norms of queries and keys, and the cache write
	Mixture   float64 // sequences of a decode step up to which router, choice and products of experts with 16-bit weights are the engine's own (hardware.Calibration.Mixture)
	Pairs     float64 // of such steps, sequences up to which the experts' first product reads an expert for each pair, and not for each group of GroupPairs
	Experts   bool    // the experts' first product carries their activation, in a prefill too
	Layer     float64 // sequences of a decode step up to which, on one GPU, the experts' first product carries all of a layer with a mixture of 16-bit weights
}

// A ride is where an operator can be done within another's kernel.
type ride uint8

const (
	alone         ride = iota
	aheadOfBlock       // a norm, in the product that reads it
	aheadOfHead        // the final norm, in the LM head, and the norm ahead of a router: neither product has quantized weights
	behindProduct      // the activation of a dense feed-forward, in the product that makes its input
	inAttention
	behindExperts
	ownProduct    // a product with the weights of a block, which takes nobody along itself: an engine's own
	ownHead       // the LM head
	sumInProduct  // a sum over ranks, in the products that end a block, where they post their sums (Posted)
	inLayerKernel // of what one kernel does of a layer with a mixture (Op.Within)
	ownMixture    // of operators that are a mixture's (Op.Mixture), whatever they ride in
	severalSequences
	pairByPair    // of a mixture's first product, which reads an expert for each pair of it
	promptMixture // of the same, in a prefill
	wideProduct   // of ownProduct and ownHead, in a step of many sequences
)

// aboard is which rides an engine's kernels take along in a step: bit r of ride r.
type aboard uint16

// tells are the rides that the prices of operators depend on (Machine.within).
func tells(lists ...[]Op) (a aboard) {
	for _, ops := range lists {
		for i := range ops {
			o := &ops[i]
			a |= 1 << o.Ride
			if o.Within {
				a |= 1 << inLayerKernel
			}
			switch o.Ride {
			case sumInProduct: // which of the products
				a |= 1 << ownProduct
			case ownProduct, ownHead:
				a |= 1 << wideProduct
			}
			if o.Mixture {
				a |= 1<<ownMixture | 1<<severalSequences | 1<<pairByPair | 1<<promptMixture
			}
		}
	}
	return a
}

func (a aboard) has(r ride) bool { return a&(1<<r) != 0 }

// carries says which rides the engine takes along in the step.
func (e *Engine) carries(s *Step) (a aboard) {
	if !e.Fused {
		return 0
	}
	take := func(yes bool, r ride) {
		if yes {
			a |= 1 << r
		}
	}
	decode := s.New == 1 && s.Past > 0
	own := decode && s.Batch <= e.Carries.Rows
	quantized := s.Dense.Weights != s.Dense.stream()
	wide := own || decode && s.Wide && !quantized && s.Batch <= e.Carries.Wide
	few := wide
	if quantized {
		few = decode && s.Batch <= e.Carries.Quantized
	}
	take(few, aheadOfBlock)
	take(few, behindProduct)
	take(wide, aheadOfHead)
	take(own, ownHead)
	take(own && !quantized, ownProduct)
	take(wide && !quantized, sumInProduct)
	take(wide && !own, wideProduct)
	take(decode && s.Batch <= e.Carries.Mixture && s.Scheme.Weights == s.Scheme.stream(), ownMixture)
	take(decode && s.Batch > 1 && s.Batch <= e.Carries.Mixture, severalSequences)
	take(decode && s.Batch > 1 && s.Batch <= e.Carries.Pairs, pairByPair)
	take(!decode && s.tokens() > e.Carries.Mixture && e.Carries.Mixture > 0 && s.Scheme.Weights == s.Scheme.stream(), promptMixture)
	take(decode && e.Carries.Rotation, inAttention)
	take(e.Carries.Experts, behindExperts)
	take(decode && !quantized && s.Batch <= e.Carries.Layer, inLayerKernel)
	return a
}

// wide reports whether an engine may have wide products: on GPUs of compute capability
// 9.0, of a dense model without norms behind its blocks. Their inputs go in boxes of 64
// columns, which those that a GPU has have to be a multiple of.
func wide(m *models.Model, g *hardware.GPU, par *Parallelism) bool {
	if g.ComputeCapability != "9.0" {
		return false
	}
	for i := range m.Layers {
		for j := range m.Layers[i].Blocks {
			b := &m.Layers[i].Blocks[j]
			if b.Experts != nil || b.Scan != nil || len(b.Norms) != 1 && b.Attention == nil || !boxed(b.In, 1) || !boxed(b.Out, max(1, par.TP)) {
				return false
			}
		}
	}
	return true
}

// boxed reports whether the inputs of the matrices, on each of so many GPUs, are whole
// boxes.
func boxed(linears []models.Linear, parts int) bool {
	for i := range linears {
		if linears[i].In%(64*parts) != 0 {
			return false
		}
	}
	return true
}

// states are steps of each kind that the engine takes different rides along in: a
// prefill, and decode steps around the limits.
func (e *Engine) states(s Step) []Step {
	s.New, s.Past = 1, 0
	all := []Step{s}
	s.New = max(2, math.Nextafter(e.Carries.Mixture, math.Inf(1)))
	all = append(all, s)
	s.New, s.Past = 1, 1
	for _, limit := range [...]float64{0, 1, e.Carries.Rows, e.Carries.Wide, e.Carries.Quantized, e.Carries.Mixture, e.Carries.Pairs, e.Carries.Layer} {
		for _, s.Batch = range [...]float64{limit, math.Nextafter(limit, math.Inf(1))} {
			all = append(all, s)
		}
	}
	return all
}

// ahead is the ride of a block's first norm: it is what the block's product reads,
// unless it is one of the block's output, as OLMo 2 has it. Norms behind the first are
// such (Gemma 2). With sequence parallelism the ranks gather between the norm and the
// product.
func (s *Step) ahead(b *models.Block) ride {
	n := &b.Norms[0]
	own := "post_feedforward_layernorm"
	if b.Attention != nil {
		own = "post_attention_layernorm"
	}
	if s.Par.SP || n.PerHead || n.Name == own || len(b.In) == 0 && b.Experts == nil {
		return alone
	}
	if len(b.In) == 0 {
		return aheadOfHead
	}
	return aheadOfBlock
}

// fusesMixture reports whether an engine may do a mixture, with the attention ahead of it,
// as one kernel, which is named after the experts' first product: where no ranks sum or
// send in between, and no token takes any expert besides.
func (s *Step) fusesMixture(e *models.Experts) bool {
	return e != nil && e.Shared == nil && s.Par.TP == 1 && s.Par.EP == 1
}

// inMixture marks those operators of block j but the experts'.
func (s *Step) inMixture(ops []Op, l *models.Layer, j int) {
	b := &l.Blocks[j]
	if b.Attention != nil && j+1 < len(l.Blocks) && !joined(l, j) {
		b = &l.Blocks[j+1]
	}
	if !s.fusesMixture(b.Experts) {
		return
	}
	for i := range ops {
		if !strings.HasPrefix(ops[i].Name, "experts_") {
			ops[i].Within = true
		}
	}
}

// rides reports whether o is done within another's kernel in such a step.
func (a aboard) rides(o *Op) bool {
	return o.Within && a.has(inLayerKernel) || a.has(o.Ride) && o.Kind == Element
}

// carrier names the operator whose kernel does ops[i], where it rides.
func (a aboard) carrier(ops []Op, i int) string {
	if ops[i].Within && a.has(inLayerKernel) {
		for j := range ops {
			if ops[j].Kind == GEMM && ops[j].Layer == ops[i].Layer && strings.HasPrefix(ops[j].Name, "experts_") {
				return ops[j].Name
			}
		}
	}
	step, kind := 1, GEMM
	switch ops[i].Ride {
	case behindProduct, behindExperts:
		step = -1
	case inAttention:
		kind = Attention
	}
	for j := i + step; j >= 0 && j < len(ops); j += step {
		if ops[j].Kind == kind {
			return ops[j].Name
		}
	}
	return ""
}
