package native

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"llmprof/measure/engine/native/cuda"
)

// What moe_step.cu repeats: bytes of a stage, 64-bit words of a layer in its table, and
// what a block has of static shared memory, or a little more.
const (
	stepStage      = 16*256*2 + 64
	stepLayerWords = 14
	besideStep     = 6 << 10
)

// stepPlan is how the kernel of a mixture's step is launched.
type stepPlan struct {
	blocks       int
	stages, held int // of the ring, and of those held apart for the next layer
	share        int // values of a head's output that a block makes, as a power of 2

	parts, in, out, up, down, ahead, copies, pace, rest, heldAt, coop int
	stamps                                                            cuda.Ptr
}

// fusesStep reports whether there is one kernel for all layers, in the step of one
// sequence: of a mixture of 16-bit weights that one GPU has, of 8.0 or newer.
func (p *program) fusesStep(s *shape) bool {
	return s.experts > 0 && s.kept == Unquantized && s.ranks == 1 && !s.sandwich && !p.older
}

// fusesStep reports whether the engine's step is done so: its blocks wait for each other,
// so each has to have a multiprocessor, and the memory there.
func (e *Engine) fusesStep() bool { return e.stepPlan != nil }

// planStep is how the step's kernel is launched, nil if there is none or it finds no
// room. Each block has some of the experts' first product, by which they know how far the
// others are (moe_step.cu).
func (e *Engine) planStep() *stepPlan {
	sh := &e.shape
	if e.p.moe.step == nil || e.ownProducts() == nil || e.opt.Batch != 1 || e.opt.apart || e.opt.sms > e.dev.SMs {
		return nil
	}
	p := &stepPlan{blocks: min(e.opt.sms, sh.topK*sh.inner/8), stages: 16, held: 4, parts: 16, in: 8, out: 8, up: 8, down: 8, pace: 250, copies: 4, coop: 1, heldAt: 2}
	if err := p.set(os.Getenv("LLMPROF_STEP")); err != nil {
		panic(err)
	}
	p.share = sh.shareOf(min(p.parts, p.blocks/sh.kvHeads))
	for p.stages >= copyWarps && e.stepShared(p)+besideStep > e.dev.SharedOptIn {
		if p.held > p.stages/2 {
			p.held--
		} else {
			p.stages -= copyWarps
		}
	}
	if p.share < 0 || p.stages < copyWarps {
		return nil
	}
	return p
}

// set is for experiments.
func (p *stepPlan) set(spec string) error {
	for _, f := range strings.Split(spec, ",") {
		name, value, ok := strings.Cut(f, "=")
		if !ok {
			continue
		}
		n, err := strconv.Atoi(value)
		if err != nil {
			return err
		}
		at := map[string]*int{
			"blocks": &p.blocks, "stages": &p.stages, "held": &p.held, "parts": &p.parts, "in": &p.in, "out": &p.out, "up": &p.up, "down": &p.down,
			"ahead": &p.ahead, "copies": &p.copies, "rest": &p.rest, "heldat": &p.heldAt, "pace": &p.pace, "coop": &p.coop,
		}[name]
		if at == nil {
			return fmt.Errorf("no %q", name)
		}
		*at = n
	}
	return nil
}

// shareOf is the least share of a head's output, as a power of 2, that so many blocks make
// together; -1 if there are too few.
func (s *shape) shareOf(blocks int) int {
	values := s.heads / s.kvHeads * s.headDim
	for share := 2; 1<<share <= values; share++ {
		if values%(1<<share) == 0 && values>>share <= blocks {
			return share
		}
	}
	return -1
}

// postedInStep are the bytes of what blocks of a step's kernel post to each other: of a
// layer queries, keys and values; the parts of each head's output, with the peak and sum of
// each query; all of that output; twice the normed stream and the sums of its squares; the
// experts' activations; the scores.
func (s *shape) postedInStep() int {
	group := s.heads / s.kvHeads
	return postedBytes * (s.qkvWidth() + s.kvHeads*mostSplits*(group*s.headDim+2*max(mostSplits, group)) + s.attWidth()/2 +
		2*4*(s.hidden/2+s.hidden/16) + s.topK*s.inner/2 + 16*s.experts)
}

// widestGathered is the most values of 16 bits that a block gathers: a head's queries with
// the new key and value, or the parts of its output; the attention's output; a norm's, with
// its squares behind; the experts' activations.
func (s *shape) widestGathered() int {
	group := s.heads / s.kvHeads
	head := 2 * (group*s.headDim + max(2*s.headDim, 2*max(mostSplits, group)))
	return (max(head, s.attWidth(), s.hidden+s.hidden/8, s.topK*s.inner) + 7) / 8 * 8
}

// stepShared is a block's dynamic shared memory: the ring and what is held, or attention's
// tiles in its place; what is gathered, a row of the router and the norms of queries and keys; the
// stream and two norms' weights, twice, of the block's outputs; the table; sums of its
// stages of qkv.
func (e *Engine) stepShared(p *stepPlan) int {
	sh := &e.shape
	tiles := (sh.hidden/16 + p.blocks - 1) / p.blocks
	units := (sh.qkvWidth()/8 + p.blocks - 1) / p.blocks
	ring := p.stages*stepStage + max(p.held*stepStage, e.p.decode.shared)
	return ring + 2*(sh.widestGathered()+sh.hidden+2*sh.headDim) + tiles*(128+64) + 8*stepLayerWords*sh.layers + 4*(sh.hidden/16+3) + 32*units*((sh.hidden+511)/512)
}

// stepTable is what the kernel has to know of each layer.
func (e *Engine) stepTable() []uint64 {
	var out []uint64
	for i := range e.w.layers {
		w := &e.w.layers[i]
		next := e.w.norm
		if i+1 < len(e.w.layers) {
			next = e.w.layers[i+1].attNorm
		}
		k, v := e.b.layerCache(&e.shape, i, 0)
		for _, p := range []cuda.Ptr{w.qkv, w.bias, w.qNorm, w.kNorm, w.o, w.mlpNorm, w.router, w.gateUp, w.down, next, e.frequencies(i), k, v} {
			out = append(out, uint64(p))
		}
		out = append(out, uint64(e.b.layers[i].capacity))
	}
	return out
}

// stepMixtureLayers adds all layers of the step of one sequence, as one kernel.
func (e *Engine) stepMixtureLayers(s *sequence) {
	includes := append([]string{"input_layernorm", "qkv_proj"}, e.attentionNames()...)
	includes = append(includes, e.rotaryName(), "kv_write", "o_proj", "post_attention_layernorm", "router", "top_k", "experts_activation", "experts_down")
	for i := range e.w.layers {
		s.add(i, func() error { return e.queueMixtureStep(i, 1) }, "experts_gate_up", includes...)
		(*s)[len(*s)-1].together = func(n int) error { return e.queueMixtureStep(i, n) }
	}
}

// queueMixtureStep queues n layers from layer i on.
func (e *Engine) queueMixtureStep(i, n int) error {
	sh, b, p := &e.shape, e.b, e.stepPlan
	normalized := map[bool]int32{true: 1}[sh.normalized]
	l := cuda.Launch{
		Grid: cuda.Dim{X: p.blocks}, Block: cuda.Dim{X: 12 * 32}, // linear.cu: eight warps that multiply, four that copy
		Shared: e.stepShared(p), Early: p.coop != 1, Together: p.coop > 0,
	}
	return e.p.moe.step.Queue(e.s, l, b.stepTable.Add(8*stepLayerWords*i), int32(n), int32(sh.attWidth()), int32(sh.hidden), int32(sh.inner),
		int32(sh.experts), int32(sh.topK), normalized, int32(sh.qkvWidth()), int32(sh.kvHeads), int32(p.share), int32(p.stages), int32(p.held),
		int32(sh.widestGathered()), int32(p.in), int32(p.out), int32(p.up), int32(p.down), int32(p.ahead), int32(p.copies), int32(p.pace), int32(p.rest), int32(p.heldAt),
		sh.eps, sh.scale(), b.positions, b.x, b.h, b.squares, b.posted, b.stepTurns, p.stamps)
}
