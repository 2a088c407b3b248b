package native

import "llmprof/measure/engine/native/cuda"

// What moe_step.cu repeats: columns of a stage, and its bytes.
const (
	stepDepth = 256
	stepStage = 16 * stepDepth * 2
)

// Stages of the ring, and of those held apart for the next layer: with them a block of
// attention fits beside one of these on a multiprocessor of Hopper.
const stepRing, stepHeld = 8, 4

// besideStep is what a block has of static shared memory, or a little more.
const besideStep = 4 << 10

// fusesStep reports whether there is a kernel for all of a layer but attention, in the step
// of one sequence: of a mixture of 16-bit weights that one GPU has, of 8.0 or newer.
func (p *program) fusesStep(s *shape) bool {
	return s.experts > 0 && s.kept == Unquantized && s.ranks == 1 && !s.sandwich && !p.older
}

// fusesStep reports whether the engine's step is done so: its blocks wait for each other,
// so each has to have a multiprocessor, and the memory there.
func (e *Engine) fusesStep() bool {
	return e.p.moe.step != nil && !e.opt.apart && e.opt.Batch == 1 && e.opt.sms <= e.dev.SMs && e.stepStages() >= copyWarps
}

// postedInStep are the bytes of what blocks of a step's kernel post to each other: twice
// the normed stream and the sums of its squares, the experts' activations, the scores.
func (s *shape) postedInStep() int {
	return postedBytes * (2*(s.hidden/2+s.hidden/16) + s.topK*s.inner/2 + s.experts)
}

// widestInput is the most inputs of a product of that kernel; those of the norm have the
// sums of its squares behind them.
func (s *shape) widestInput() int {
	return (max(s.attWidth(), s.hidden+s.hidden/8, s.topK*s.inner) + 7) / 8 * 8
}

// stepBeside is a block's dynamic shared memory without stages: inputs, a row of the
// router, and the stream and two norms' weights of its outputs.
func (e *Engine) stepBeside() int {
	sh := &e.shape
	outputs := (sh.hidden/16 + e.opt.sms - 1) / e.opt.sms * 16
	return 2*(sh.widestInput()+sh.hidden) + 4*3*outputs
}

// stepStages are those of the ring, as many for each of the warps that copy.
func (e *Engine) stepStages() int {
	room := e.dev.SharedOptIn - besideStep - e.stepBeside() - stepHeld*stepStage
	return max(0, min(stepRing, room/stepStage/copyWarps*copyWarps))
}

// stepMixtureLayer adds one layer of the step of one sequence, in two kernels; next is the
// norm of what follows. The first layer's is begun by a launch of its own, the others'
// by the kernel of the layer before.
func (e *Engine) stepMixtureLayer(s *sequence, i int, next cuda.Ptr) {
	add := func(layer int, queue func() error) {
		s.add(layer, queue, "experts_gate_up", "input_layernorm", "qkv_proj", "o_proj", "post_attention_layernorm", "router", "top_k", "experts_activation", "experts_down")
	}
	if i == 0 {
		add(i, func() error { return e.queueMixtureStep(-1, 0) })
	}
	e.addAttention(s, i)
	add(i, func() error { return e.queueMixtureStep(i, next) })
}

// queueMixtureStep queues what lies between the attention of layer i and that of the next,
// or what is ahead of the first layer's (-1).
func (e *Engine) queueMixtureStep(i int, next cuda.Ptr) error {
	sh, b := &e.shape, e.b
	var w layerWeights
	var begins cuda.Ptr
	if i >= 0 {
		w = e.w.layers[i]
	}
	if i+1 < len(e.w.layers) {
		begins = e.w.layers[i+1].qkv
	}
	stages, normalized := e.stepStages(), map[bool]int32{true: 1}[sh.normalized]
	l := cuda.Launch{
		Grid: cuda.Dim{X: e.opt.sms}, Block: cuda.Dim{X: 12 * 32}, // linear.cu: eight warps that multiply, four that copy
		Shared: (stages+stepHeld)*stepStage + e.stepBeside(), Early: true,
	}
	return e.p.moe.step.Queue(e.s, l, w.o, b.att, w.mlpNorm, w.router, w.gateUp, w.down, next, begins, int32(sh.attWidth()), int32(sh.hidden), int32(sh.inner),
		int32(sh.experts), int32(sh.topK), normalized, int32(sh.qkvWidth()), int32(stages), int32(stepHeld), int32(sh.widestInput()),
		sh.eps, b.x, b.h, b.squares, b.qkvStep, b.posted, b.stepTurns)
}
