package native

import (
	"encoding/json"
	"fmt"

	"llmprof/analytic/engine"
	"llmprof/measure/native/cuda"
	"llmprof/models"
)

// A moeShape is the experts of a layer; experts is 0 for a dense model.
type moeShape struct {
	experts, topK int
	normalized    bool // The weights of the chosen experts sum to 1.
}

// The kernel that chooses experts has room for maxExperts scores, and a lane of its warp for each
// chosen expert.
const maxExperts, maxTopK = 256, 32

// readExperts takes the sizes of a layer's experts. It returns why a layer is not supported.
func (s *shape) readExperts(e *models.Experts, name string) (why string) {
	if e.Shared != nil || e.Idle > 0 || len(e.Router) != 1 || e.Router[0].Bias || !e.Activation.Gated {
		return fmt.Sprintf("the mixture of %q is not plain: a router and gated experts", name)
	}
	if e.Count > maxExperts || e.TopK > maxTopK || e.TopK > e.Count || e.TopK < 1 {
		return fmt.Sprintf("%q has %d experts of which it takes %d; this engine has up to %d and %d", name, e.Count, e.TopK, maxExperts, maxTopK)
	}
	s.moeShape = moeShape{experts: e.Count, topK: e.TopK}
	s.inner = e.Activation.Width
	return ""
}

// moeNumbers reads how the chosen experts are weighted. Mixtral's weights always sum to 1;
// config.json of Qwen3-MoE says it (transformers' default is false).
func (s *shape) moeNumbers(family string, config []byte) error {
	var n struct {
		Normalized bool `json:"norm_topk_prob"`
	}
	if err := json.Unmarshal(config, &n); err != nil {
		return fmt.Errorf("config.json: %w", err)
	}
	s.normalized = n.Normalized || family == mixtral
	return nil
}

const mixtral = "mixtral"

// expertNames are the names of the router and of an expert's matrices in checkpoints.
func expertNames(family, layer string) (router, expert, gate, up, down string) {
	if family == mixtral {
		m := layer + "block_sparse_moe."
		return m + "gate.weight", m + "experts.%d.", "w1.weight", "w3.weight", "w2.weight"
	}
	m := layer + "mlp."
	return m + "gate.weight", m + "experts.%d.", "gate_proj.weight", "up_proj.weight", "down_proj.weight"
}

func (w *weights) placeExperts(s *shape, l *layerWeights, layer string) {
	router, expert, gate, up, down := expertNames(s.family, layer)
	l.router = w.place(false, wholeMatrix(router, s.experts, s.hidden))
	var first, second []tensor
	for i := range s.experts {
		p := fmt.Sprintf(expert, i)
		first = append(first, s.rowsOf(p+gate, s.inner, s.hidden), s.rowsOf(p+up, s.inner, s.hidden))
		second = append(second, s.columnsOf(p+down, s.hidden, s.inner))
	}
	l.gateUp = w.placeLinear(s.quant, first...)
	l.down = w.placeLinear(s.quant, second...)
}

// pairsOfTile repeats PAIRS of moe.cu. A pair is a token and one of its experts.
const pairsOfTile = engine.MMATile

// maxTiles is the most tiles that so many pairs fill.
func (m *moeShape) maxTiles(pairs, tile int) int { return pairs/tile + min(m.experts, pairs) }

// moeBuffers are the buffers of a MoE layer.
type moeBuffers struct {
	router  cuda.Ptr // float32 [rows][experts]
	chosen  cuda.Ptr // int32 [rows][topK]
	shares  cuda.Ptr // float32 [rows][topK]
	order   cuda.Ptr // int32 [tiles][pairsOfTile]
	tiles   cuda.Ptr // int32 [1+tiles]
	routed  cuda.Ptr // uint32, how many tokens have their experts
	outputs cuda.Ptr // bf16 [rows][topK][hidden]

	stepPackets cuda.Ptr // uint64, the packets that blocks of the megakernel send each other (moe_megakernel_state.cuh)
	stepEpochs  cuda.Ptr // uint32 [multiprocessors], the last epoch of each block
	layerTable  cuda.Ptr // uint64 [layers][stepLayerWords], the megakernel's table of layers
}

// measureMoE reserves the buffers that replace those of a dense feed-forward; step is the most
// tokens at once.
func (b *buffers) measureMoE(s *shape, step, sms int) {
	pairs := step * s.topK
	tiles := max(s.maxTiles(pairs, pairsOfTile), s.maxTiles(min(step, maxDecodeTokens)*s.topK, pairsOfGroup), 3*s.maxTiles(pairs, pairsOfItem))
	b.reserve(&b.router, "the router's scores", 4*step*s.experts)
	b.reserve(&b.chosen, "the chosen experts", 4*pairs)
	b.reserve(&b.shares, "the experts' weights", 4*pairs)
	b.reserve(&b.routed, "the choice's counter", 4)
	b.reserve(&b.stepPackets, "the megakernel's packets", s.megakernelPacketBytes(sms))
	b.reserve(&b.layerTable, "the step's table", 8*stepLayerWords*s.layers)
	b.reserve(&b.stepEpochs, "the megakernel's epochs", 4*sms)
	b.reserve(&b.order, "the experts' order", 4*tiles*pairsOfTile)
	b.reserve(&b.tiles, "the experts' tiles", 4*(1+tiles))
	b.reserve(&b.act, "the activation", 2*pairs*s.inner)
	b.reserve(&b.outputs, "the experts' outputs", 2*pairs*s.hidden)
}

// moeKernels are the kernels of MoE layers.
type moeKernels struct {
	topK, gateUp                                *cuda.Kernel
	group, promptsGateUp, promptsDown, sumParts *cuda.Kernel
	choose                                      *cuda.Kernel
	megakernel                                  *cuda.Kernel // nil if no decode step uses it
	sort, gather, hopperGateUp, hopperDown      *cuda.Kernel // The last two are nil except on Hopper.
	rings                                       []expertRing
	quantized                                   quantizedMoEKernels
}

func (m *moeKernels) names(s *shape, p *program) map[string]**cuda.Kernel {
	names := map[string]**cuda.Kernel{
		"top_k": &m.topK, "experts_gate_up": &m.gateUp, "group_pairs": &m.group,
		"prompts_gate_up": &m.promptsGateUp, "prompts_down": &m.promptsDown, "experts_sum": &m.sumParts,
		"sort_pairs": &m.sort, "gather_pairs": &m.gather, "choose_and_group": &m.choose,
	}
	if s.megakernel.blocks > 0 {
		names["mixture_step"] = &m.megakernel
	}
	if p.hopper {
		names["prompts_gate_up_hopper"], names["prompts_down_hopper"] = &m.hopperGateUp, &m.hopperDown
	}
	for i := range m.rings {
		r := &m.rings[i]
		names[fmt.Sprintf("experts_gate_up_%d", r.rows)], names[fmt.Sprintf("experts_down_%d", r.rows)] = &r.gateUp, &r.down
	}
	return names
}

// queueTopK queues the choice of the experts of rows tokens.
func (e *Engine) queueTopK(rows int, early bool) error {
	sh, b := &e.shape, e.b
	normalized := map[bool]int32{true: 1}[sh.normalized]
	l := cuda.Launch{Grid: cuda.Dim{X: rows}, Block: cuda.Dim{X: 32}, Early: early}
	return e.p.moe.topK.Queue(e.s, l, b.router, int32(sh.experts), int32(sh.topK), normalized, b.chosen, b.shares)
}

// stepExperts adds the MoE layer of a decode step by the engine's own GEMMs; next is the norm that
// follows.
func (e *Engine) stepExperts(s *sequence, i int, gemm *gemmKernels, next cuda.Ptr) {
	sh, b, w, n := &e.shape, e.b, &e.w.layers[i], e.opt.Batch
	if sh.quant != Unquantized {
		e.stepQuantizedExperts(s, i, next)
		return
	}
	s.add(i, func() error { return e.queueScores(gemm, b.router, w.router, sh.experts) }, "router", "post_attention_layernorm")
	s.add(i, func() error { return e.queueChoice(n, true) }, "top_k")
	s.add(i, func() error { return e.queueStepGateUp(w) }, "experts_gate_up", "experts_activation")
	s.add(i, func() error { return e.queueExpertsDown(w, n, next) }, "experts_down")
	e.addAllReduce(s, i, n, outGEMM{block: feedForward, next: next})
}

// queueStepGateUp queues experts_gate_up of a decode step, with the norm fused into it.
func (e *Engine) queueStepGateUp(w *layerWeights) error {
	sh, b, n := &e.shape, e.b, e.opt.Batch
	if n == 1 {
		return e.queueExpertsGateUp(w, n, b.squares)
	}
	l := cuda.Launch{Grid: cuda.Dim{X: n * sh.topK, Y: (sh.inner + 7) / 8}, Block: cuda.Dim{X: 256}, Early: true}
	return e.p.moe.gateUp.Queue(e.s, l, w.gateUp, b.h, b.squares, b.chosen, int32(sh.hidden), int32(sh.inner), int32(sh.topK), sh.eps, b.act)
}

// routerKey is the GEMM of the router, which every rank computes. If each rank took the algorithm that
// is fastest on its GPU, they could sum in different orders and choose different experts. So several
// ranks take the algorithm that cuBLASLt proposes first.
func (e *Engine) routerKey(rows int) planKey {
	return planKey{rows: rows, in: e.shape.hidden, out: e.shape.experts, typ: cuda.Float32, sameOnAllRanks: e.shape.ranks > 1}
}

// addExperts adds the MoE layer of rows tokens, with one grouped GEMM for all tokens of an expert.
func (e *Engine) addExperts(s *sequence, layer, rows int) {
	sh, b, w := &e.shape, e.b, &e.w.layers[layer]
	few := sh.quant == Unquantized && e.fitsDecodeRings(rows)
	hopper := e.p.moe.hopperDown != nil && !few
	s.add(layer, func() error { return e.queueNorm(w.mlpNorm, b.h, rows, 1, 0) }, "post_attention_layernorm")
	s.add(layer, func() error { return e.gemm(b.router, b.h, w.router, e.routerKey(rows)) }, "router")
	s.add(layer, func() error {
		if few {
			return e.queueChoice(rows, false)
		}
		if err := e.queueTopK(rows, false); err != nil {
			return err
		}
		if hopper {
			return e.promptExperts(w, rows).sort()
		}
		b := e.b
		return e.p.moe.group.Queue(e.s, cuda.Launch{Block: cuda.Dim{X: 1024}}, b.chosen, int32(rows*e.shape.topK), int32(e.shape.experts),
			b.order, b.tiles)
	}, "top_k")
	switch {
	case few:
		s.add(layer, func() error { return e.queueExpertsGateUp(w, rows, 0) }, "experts_gate_up", "experts_activation")
		s.add(layer, func() error { return e.queueExpertsDown(w, rows, 0) }, "experts_down")
	case hopper:
		e.addHopperExperts(s, layer, rows)
	default:
		e.addGroupedExperts(s, layer, rows)
	}
	e.addAllReduce(s, layer, rows, outGEMM{block: feedForward})
}

// addHopperExperts adds the grouped GEMMs of sorted pairs by wgmma.
func (e *Engine) addHopperExperts(s *sequence, layer, rows int) {
	sh, w := &e.shape, &e.w.layers[layer]
	s.add(layer, func() (err error) {
		p := e.promptExperts(w, rows)
		if p.gateUp, err = e.dequantize(w.gateUp, 2*sh.experts*sh.inner, sh.hidden); err != nil {
			return err
		}
		return p.up()
	}, "experts_gate_up", "experts_activation")
	s.add(layer, func() (err error) {
		p := e.promptExperts(w, rows)
		if p.downs, err = e.dequantize(w.down, sh.experts*sh.hidden, sh.inner); err != nil {
			return err
		}
		if err := p.down(); err != nil {
			return err
		}
		return e.queueExpertSum(rows)
	}, "experts_down")
}

// addGroupedExperts adds the grouped GEMMs of tiles of pairs by mma.
func (e *Engine) addGroupedExperts(s *sequence, layer, rows int) {
	sh, b, w := &e.shape, e.b, &e.w.layers[layer]
	hidden, inner, top := int32(sh.hidden), int32(sh.inner), int32(sh.topK)
	tiles := sh.maxTiles(rows*sh.topK, pairsOfTile)
	const shared = 2 * (pairsOfTile + 64) * 64 * 2 // moe.cu has two stages.
	s.add(layer, func() error {
		w16, err := e.dequantize(w.gateUp, 2*sh.experts*sh.inner, sh.hidden)
		if err != nil {
			return err
		}
		l := cuda.Launch{Grid: cuda.Dim{X: sh.inner / 32, Y: tiles}, Block: cuda.Dim{X: 128}, Shared: shared}
		return e.p.moe.promptsGateUp.Queue(e.s, l, w16, b.h, b.order, b.tiles, hidden, inner, top, b.act)
	}, "experts_gate_up", "experts_activation")
	s.add(layer, func() error {
		w16, err := e.dequantize(w.down, sh.experts*sh.hidden, sh.inner)
		if err != nil {
			return err
		}
		l := cuda.Launch{Grid: cuda.Dim{X: sh.hidden / 64, Y: tiles}, Block: cuda.Dim{X: 128}, Shared: shared}
		if err := e.p.moe.promptsDown.Queue(e.s, l, w16, b.act, b.order, b.tiles, hidden, inner, top, b.outputs); err != nil {
			return err
		}
		return e.queueExpertSum(rows)
	}, "experts_down")
}

// queueExpertSum queues the weighted sum of the experts' outputs of rows tokens.
func (e *Engine) queueExpertSum(rows int) error {
	l := cuda.Launch{Grid: cuda.Dim{X: rows}, Block: cuda.Dim{X: 256}}
	return e.p.moe.sumParts.Queue(e.s, l, e.b.outputs, e.b.shares, e.blockOut(feedForward), int32(e.shape.hidden), int32(e.shape.topK))
}
