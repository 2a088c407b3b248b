package native

import (
	"os"
	"strconv"

	"llmprof/measure/engine/native/cuda"
)

// togetherness is how much of a layer's decode step is one kernel (moe_step.cu).
type togetherness int

const (
	separate   togetherness = iota
	withoutOut              // the router, the choice, and the experts' products
	withOut                 // and the product that ends attention's block
	withNext                // and that which begins the next one
)

// Shapes of moe_step.cu.
const (
	stepDepth    = 256
	stepStage    = 16 * stepDepth * 2
	mostStages   = 24
	stepThreads  = 12 * 32
	besideStep   = 4 << 10 // static shared memory of a block, or a little more
	stepChoosers = 256
)

// together is how much of a step's layer is one kernel: a mixture of 16-bit weights, for
// one sequence, where its blocks have the memory.
func (e *Engine) together() togetherness {
	sh := &e.shape
	if sh.experts == 0 || sh.kept != Unquantized || e.opt.Batch != 1 || sh.sandwich || e.p.older || e.opt.sms > e.dev.SMs || e.stepStages() < copyWarps {
		return separate
	}
	switch os.Getenv("LLMPROF_STEP") {
	case "off":
		return separate
	case "m":
		return withoutOut
	case "q":
		if sh.ranks == 1 {
			return withNext
		}
	}
	if sh.ranks > 1 {
		return withoutOut
	}
	return withOut
}

// stepBeside is a block's dynamic shared memory without the ring: inputs, a row of the
// router, the stream and the norms' weights.
func (e *Engine) stepBeside() int {
	sh := &e.shape
	tiles := (sh.hidden/16 + e.opt.sms - 1) / e.opt.sms
	return 2*(e.widest()+sh.hidden) + 4*tiles*16*3
}

// widest is the most inputs of a product.
func (e *Engine) widest() int {
	sh := &e.shape
	return (max(sh.attWidth(), sh.hidden+sh.hidden/8, sh.topK*sh.inner) + 7) / 8 * 8
}

// stepStages are those of the ring: as many as fit, whole rounds of the copying warps.
func (e *Engine) stepStages() int {
	most := 12
	if v := os.Getenv("LLMPROF_STEP_STAGES"); v != "" {
		most, _ = strconv.Atoi(v)
	}
	n := min(most, (e.dev.SharedOptIn-besideStep-e.stepBeside())/stepStage)
	return n / copyWarps * copyWarps
}

// stepHeld are the stages of what begins the next block that come early.
func (e *Engine) stepHeld() int {
	if e.together() != withNext {
		return 0
	}
	held := 4
	if v := os.Getenv("LLMPROF_STEP_HELD"); v != "" {
		held, _ = strconv.Atoi(v)
	}
	return held
}

// addMixtureStep adds the mixture of one layer of a decode step as one kernel, with what
// ends attention's block if out says so; next is the norm of what follows.
func (e *Engine) addMixtureStep(s *sequence, i int, out bool, next cuda.Ptr) {
	includes := []string{"post_attention_layernorm", "router", "top_k", "experts_activation", "experts_down"}
	if out {
		includes = append([]string{"o_proj"}, includes...)
	}
	s.add(i, func() error { return e.queueMixtureStep(i, out, next) }, "experts_gate_up", includes...)
	e.addSum(s, i, 1, outProduct{block: feedForward, next: next})
}

// queueMixtureStep queues that kernel.
func (e *Engine) queueMixtureStep(i int, out bool, next cuda.Ptr) error {
	sh, b := &e.shape, e.b
	w, gateUp, ends := &e.w.layers[max(i, 0)], cuda.Ptr(0), cuda.Ptr(0)
	if i >= 0 {
		gateUp = w.gateUp
	}
	if out {
		ends = w.o
	}
	begins := cuda.Ptr(0)
	if e.together() == withNext && i+1 < len(e.w.layers) {
		begins = e.w.layers[i+1].qkv
	}
	when := 0
	if v := os.Getenv("LLMPROF_STEP_WHEN"); v != "" {
		when, _ = strconv.Atoi(v)
	}
	stamps := cuda.Ptr(0)
	if b.stamps != 0 && i >= 0 {
		stamps = b.stamps.Add(8 * 32 * e.opt.sms * i)
	}
	normalized := map[bool]int32{true: 1}[sh.normalized]
	stages, held := e.stepStages(), e.stepHeld()
	l := cuda.Launch{Grid: cuda.Dim{X: e.opt.sms}, Block: cuda.Dim{X: stepThreads}, Shared: (stages+held)*stepStage + e.stepBeside(), Early: true}
	return e.p.moe.step.Queue(e.s, l, ends, b.att, w.mlpNorm, w.router, gateUp, w.down, next, int32(sh.attWidth()), int32(sh.hidden), int32(sh.inner),
		int32(sh.experts), int32(sh.topK), normalized, int32(stages), int32(e.widest()), sh.eps, e.blockOut(feedForward), b.h, b.squares, b.posted, b.stepTurns,
		int32(when), stamps, begins, b.qkvStep, int32(sh.qkvWidth()), int32(held), int32(env("FLIGHT", 0)), int32(env("FLIGHTO", 0)))
}

func env(name string, n int) int {
	if v := os.Getenv("LLMPROF_STEP_" + name); v != "" {
		n, _ = strconv.Atoi(v)
	}
	return n
}
