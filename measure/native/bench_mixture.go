package native

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"llmprof/analytic/operator"
	"llmprof/measure/native/cuda"
)

// These are the sizes of MoE layers that are timed by themselves.
const (
	moeVocabulary = 4096 // tokens; each sequence has another one
	moeLayers     = 16   // the most layers; each chooses other experts, which evens out their number
	moeCalls      = 64   // calls of a graph, which begins with an embedding that takes 0.1 µs of each call
)

// moeOptions are the options of an engine with the MoE layer of a query and little else, in enough
// layers that the chosen experts together exceed the L2.
func moeOptions(q *Query) (o Options, cold bool, err error) {
	s := q.Shape
	expert := 2 * 3 * s["hidden"] * s["width"]
	layers := max(1, min(moeLayers, maxRotatedBytes/(expert*s["experts"])))
	cold = layers*s["top_k"]*expert > q.Rotate
	o = Options{Seed: 1, Workload: operator.Workload{Batch: s["batch"], PromptLen: 1, GenLen: 2}, Spread: true}
	o.Config = moeConfig(s, layers)
	if s["batch"] > moeVocabulary {
		return o, false, unsupported("a mixture of %d sequences: each has another of %d tokens", s["batch"], moeVocabulary)
	}
	return o, cold, o.readModel(q)
}

// moeConfig is a model of so many MoE layers and little else. Heads are those of Qwen3-30B-A3B, so
// that its kernels are the ones that are compiled.
func moeConfig(s map[string]int, layers int) []byte {
	return fmt.Appendf(nil, `{"model_type":"qwen3_moe","hidden_size":%d,"intermediate_size":%d,"moe_intermediate_size":%d,`+
		`"num_hidden_layers":%d,
		"num_attention_heads":32,"num_key_value_heads":4,"head_dim":128,"num_experts":%d,"num_experts_per_tok":%d,"norm_topk_prob":true,
		"decoder_sparse_step":1,"mlp_only_layers":[],"vocab_size":%d,"max_position_embeddings":1048576,"hidden_act":"silu","rms_norm_eps":1e-6,
		"rope_theta":1000000.0,"tie_word_embeddings":true,"attention_bias":false}`,
		s["hidden"], s["width"], s["width"], layers, s["experts"], s["top_k"], moeVocabulary)
}

// moeDecode times the MoE layer of a decode step: all that the step calls from a layer's router to the
// next layer, except a norm that is a separate kernel. If one kernel does attention too, the time of
// attention by separate kernels is subtracted. Each sequence has another token, whose experts are
// uniform and independent of the others', as estimates assume.
func (b *Bencher) moeDecode(q *Query) (*operation, error) {
	o, cold, err := moeOptions(q)
	if err != nil {
		return nil, err
	}
	e, err := b.open(o)
	if err != nil {
		return nil, err
	}
	op, err := e.moeDecodeLayers(b.moeCalls, cold)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return op, nil
}

// moeDecodeLayers times so many MoE layers, all layers alternately.
func (e *Engine) moeDecodeLayers(calls int, cold bool) (*operation, error) {
	random := rand.New(rand.NewPCG(1, 2))
	tokens := make([]int32, e.opt.Batch)
	for i, t := range random.Perm(moeVocabulary)[:len(tokens)] {
		tokens[i] = int32(t)
	}
	if err := cuda.Upload(e.dev, e.b.nextToken, tokens); err != nil {
		return nil, err
	}
	var layers, overhead sequence
	for i := range e.w.layers {
		s, err := e.decode.moe(i)
		if err != nil {
			return nil, err
		}
		layers, overhead = append(layers, s...), append(overhead, e.attentionOverhead(i, s)...)
	}
	if err := layers[:len(layers)/len(e.w.layers)].queue(); err != nil { // Plans of cuBLASLt allocate memory, which a recording cannot.
		return nil, err
	}
	times := max(calls/len(e.w.layers), 1)
	inTurn := func(layers sequence) func() error {
		return func() error {
			if err := e.queueFirst(true); err != nil { // The stream is reset, or it would grow from replay to replay.
				return err
			}
			for range times {
				if err := layers.queue(); err != nil {
					return err
				}
			}
			return nil
		}
	}
	op := &operation{s: e.s, calls: times * len(e.w.layers), cold: cold, free: e.Close, queue: inTurn(layers)}
	if len(overhead) > 0 {
		op.overhead = inTurn(overhead)
	}
	return op, nil
}

// attentionOverhead is attention's block as separate kernels, if the kernel of a MoE layer includes
// it; estimates count it separately.
func (e *Engine) attentionOverhead(layer int, s sequence) (overhead sequence) {
	w, gemm := &e.w.layers[layer], e.stepGEMM()
	for _, c := range s {
		if slices.Contains(c.includes, "attention") {
			overhead.add(layer, func() error { return e.queueScores(gemm, e.b.qkvStep, w.qkv, e.shape.qkvWidth()) }, "qkv_proj")
			overhead.add(layer, func() error { return e.queueAttention(layer) }, "attention")
			overhead.add(layer, func() error { return e.queueResidual(gemm, e.b.att, w.o, e.shape.attWidth(), w.mlpNorm) }, "o_proj")
		}
	}
	return overhead
}

// moe is the MoE layer's part of a step, from its router on or the kernel that includes it.
func (s sequence) moe(layer int) (sequence, error) {
	of := slices.DeleteFunc(slices.Clone(s), func(c call) bool { return c.layer != layer })
	first := slices.IndexFunc(of, func(c call) bool { return c.name == "router" || slices.Contains(c.includes, "router") })
	if first < 0 {
		return nil, unsupported("layer %d has no router", layer)
	}
	if slices.Contains(of[first].includes, "attention") && !strings.HasPrefix(of[first].name, "experts_") {
		return nil, unsupported("the mixture of layer %d is within %s", layer, of[first].name)
	}
	return of[first:], nil
}
