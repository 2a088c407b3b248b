package native

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"llmprof/measure/engine/native/cuda"
)

// Of a mixture that is timed by itself.
const (
	mixtureVocabulary = 4096 // tokens, of which each sequence has another
	mixtureLayers     = 16   // at most: each chooses other experts, which evens out how many they are
	mixtureCalls      = 64   // of a graph, which begins with an embedding: that is 0.1 µs of each
)

// mixtureOptions are those of an engine that runs the mixture of a query, and has
// little else, in layers whose chosen experts do not fit into the L2 together. Heads
// are those of Qwen3-30B-A3B, so that its kernels are the ones that are compiled.
func mixtureOptions(q *Query) (o Options, cold bool, err error) {
	s := q.Shape
	expert := 2 * 3 * s["hidden"] * s["width"]
	layers := max(1, min(mixtureLayers, mostRotated/(expert*s["experts"])))
	cold = layers*s["top_k"]*expert > q.Rotate
	o = Options{Seed: 1, Batch: s["batch"], PromptLen: 1, GenLen: 2, Spread: true}
	o.Config = fmt.Appendf(nil, `{"model_type":"qwen3_moe","hidden_size":%d,"intermediate_size":%d,"moe_intermediate_size":%d,"num_hidden_layers":%d,
		"num_attention_heads":32,"num_key_value_heads":4,"head_dim":128,"num_experts":%d,"num_experts_per_tok":%d,"norm_topk_prob":true,
		"decoder_sparse_step":1,"mlp_only_layers":[],"vocab_size":%d,"max_position_embeddings":1024,"hidden_act":"silu","rms_norm_eps":1e-6,
		"rope_theta":1000000.0,"tie_word_embeddings":true,"attention_bias":false}`,
		s["hidden"], s["width"], s["width"], layers, s["experts"], s["top_k"], mixtureVocabulary)
	if s["batch"] > mixtureVocabulary {
		return o, false, unsupported("a mixture of %d sequences: each has another of %d tokens", s["batch"], mixtureVocabulary)
	}
	return o, cold, o.readModel(q)
}

// mixture is that of a decode step: all that the step calls between what ends the
// attention of a layer and the next layer, but a norm that has a kernel of its own.
// Where its kernel does the products around it too, their time is taken off. Each
// sequence has a token of its own, whose choice of experts is uniform and has nothing to
// do with the others', as estimates take it.
func (b *Bencher) mixture(q *Query) (*operation, error) {
	o, cold, err := mixtureOptions(q)
	if err != nil {
		return nil, err
	}
	o.Libraries, o.Cache = b.libraries, b.cache
	e, err := b.open(o)
	if err != nil {
		return nil, err
	}
	op, err := e.mixtures(b.mixtures, cold)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return op, nil
}

// mixtures is the operation of so many mixtures, of all layers in turn.
func (e *Engine) mixtures(calls int, cold bool) (*operation, error) {
	random := rand.New(rand.NewPCG(1, 2))
	tokens := make([]int32, e.opt.Batch)
	for i, t := range random.Perm(mixtureVocabulary)[:len(tokens)] {
		tokens[i] = int32(t)
	}
	if err := cuda.Upload(e.dev, e.b.nextToken, tokens); err != nil {
		return nil, err
	}
	layers, beside, products := make([]sequence, len(e.w.layers)), make([]sequence, len(e.w.layers)), 0
	for i := range layers {
		var err error
		if layers[i], err = e.decode.mixture(i); err != nil {
			return nil, err
		}
		beside[i] = e.besideMixture(i, layers[i])
		products += len(beside[i])
	}
	if err := layers[0].queue(); err != nil { // plans of cuBLASLt take memory, which no recording can
		return nil, err
	}
	calls = max(calls/len(layers), 1) * len(layers)
	inTurn := func(layers []sequence) func() error {
		return func() error {
			if err := e.queueFirst(true); err != nil { // the stream as it was, or it would grow from replay to replay
				return err
			}
			for i := range calls {
				if err := layers[i%len(layers)].queue(); err != nil {
					return err
				}
			}
			return nil
		}
	}
	op := &operation{s: e.s, calls: calls, cold: cold, free: e.Close, queue: inTurn(layers)}
	if products > 0 {
		op.less = inTurn(beside)
	}
	return op, nil
}

// besideMixture are the products that a layer's mixture does beside its own, as kernels
// of their own: estimates count those apart.
func (e *Engine) besideMixture(layer int, s sequence) (products sequence) {
	w, own := &e.w.layers[layer], e.ownProducts()
	for _, c := range s {
		if slices.Contains(c.includes, "o_proj") {
			products.add(layer, func() error { return e.queueResidual(own, e.b.att, w.o, e.shape.attWidth(), w.mlpNorm) }, "o_proj")
		}
		if slices.Contains(c.includes, "qkv_proj") { // the next layer's
			next := &e.w.layers[(layer+1)%len(e.w.layers)]
			products.add(layer, func() error { return e.queueScores(own, e.b.qkvStep, next.qkv, e.shape.qkvWidth()) }, "qkv_proj")
		}
	}
	return products
}

// mixture is the part of a step that is the mixture of one layer, from its router on.
func (s sequence) mixture(layer int) (sequence, error) {
	of := slices.DeleteFunc(slices.Clone(s), func(c call) bool { return c.layer != layer })
	does := func(c call, name string) bool { return c.name == name || slices.Contains(c.includes, name) }
	first := len(of) - 1 // the last: what begins the first layer is of the same operator
	for first >= 0 && !does(of[first], "router") {
		first--
	}
	if first < 0 {
		return nil, unsupported("layer %d has no router", layer)
	}
	if does(of[first], "attention") {
		return nil, unsupported("the mixture of layer %d is within %s", layer, of[first].name)
	}
	return of[first:], nil
}
