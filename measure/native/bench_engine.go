package native

import (
	"errors"
	"fmt"
	"maps"

	"llmprof/analytic/operator"
)

// An operatorKind is an operator that is timed as an engine calls it, in all its layers.
type operatorKind struct {
	name   string // name of the operator
	decode bool   // It belongs to a decode step, not to a prefill.
}

// operatorKinds are the operators by the kind of a query: of MoE layers in a prefill, and GEMMs of
// dense models in decode steps of many sequences.
var operatorKinds = map[string]operatorKind{
	"top_k_prefill":           {name: "top_k"},
	"experts_gate_up_prefill": {name: "experts_gate_up"},
	"experts_down_prefill":    {name: "experts_down"},
	"qkv_proj_decode":         {name: "qkv_proj", decode: true},
	"o_proj_decode":           {name: "o_proj", decode: true},
	"gate_up_proj_decode":     {name: "gate_up_proj", decode: true},
	"down_proj_decode":        {name: "down_proj", decode: true},
	"lm_head_decode":          {name: "lm_head", decode: true},
}

// denseConfig is a Llama of the sizes of a query, whose head may be tied to its embedding.
func denseConfig(s map[string]int, layers int, tied bool) []byte {
	return fmt.Appendf(nil, `{"model_type":"llama","hidden_size":%d,"intermediate_size":%d,"num_hidden_layers":%d,"num_attention_heads":%d,
		"num_key_value_heads":%d,"head_dim":%d,"vocab_size":%d,"max_position_embeddings":1048576,"hidden_act":"silu","rms_norm_eps":1e-5,
		"rope_theta":500000.0,"tie_word_embeddings":%t}`, s["hidden"], s["width"], layers, s["heads"], s["kv_heads"], s["head_dim"], s["n"], tied)
}

// operatorOptions are the options of an engine with the operator of a query, in enough layers that
// their weights together exceed the L2. All operators of a shape share the engine.
func operatorOptions(q *Query) (o Options, cold bool, err error) {
	s := q.Shape
	if !operatorKinds[q.Kind].decode {
		experts := 2 * 3 * s["hidden"] * s["width"] * s["experts"]
		layers, cold := sets(experts/3, q.Rotate) // the weights of experts_down, the smaller GEMM
		layers = max(1, min(layers, moeLayers, maxRotatedBytes/experts))
		// The decode step does not run, so its kernels are those of short prompts.
		o = Options{Seed: 1, Workload: operator.Workload{Batch: 1, PromptLen: s["tokens"], GenLen: 1}, Spread: true, Config: moeConfig(s, layers),
			splits: fewParts}
		return o, cold, o.readModel(q)
	}
	layers, cold := sets(2*s["hidden"]*s["heads"]*s["head_dim"], q.Rotate) // the weights of o_proj, the smallest GEMM
	o = Options{Seed: 1, Workload: operator.Workload{Batch: s["batch"], PromptLen: 1, GenLen: 2},
		Config: denseConfig(s, min(layers, maxBenchLayers), true)}
	return o, cold && layers <= maxBenchLayers, o.readModel(q)
}

// A benchEngine is the engine that times the operators of a shape.
type benchEngine struct {
	e      *Engine
	shape  map[string]int
	decode bool
}

func (b *Bencher) release() error {
	opened := b.opened
	b.opened = nil
	if opened == nil {
		return nil
	}
	return opened.e.Close()
}

// operator times an operator of an engine that is opened for it, or was opened for another operator of
// the shape. Its inputs are what a prompt of random tokens, and a step after it, left.
func (b *Bencher) operator(q *Query) (*operation, error) {
	kind := operatorKinds[q.Kind]
	o, cold, err := operatorOptions(q)
	if err != nil {
		return nil, err
	}
	if b.opened == nil || b.opened.decode != kind.decode || !maps.Equal(b.opened.shape, q.Shape) {
		if err := b.release(); err != nil {
			return nil, err
		}
		e, err := b.open(o)
		if err != nil {
			return nil, err
		}
		b.opened = &benchEngine{e, maps.Clone(q.Shape), kind.decode}
		if err := e.runOnce(kind.decode); err != nil {
			return nil, errors.Join(err, b.release())
		}
	}
	e := b.opened.e
	all := e.prefill
	if kind.decode {
		all = e.decode
	}
	calls := all.of(kind.name)
	if len(calls) == 0 {
		return nil, unsupported("%s of %v: it is part of another operator here", kind.name, q.Shape)
	}
	op := inTurn(len(calls), q.flops(), q.weights(), cold, func(i int) error { return calls[i].queue() })
	op.s, op.free = e.s, func() error { return nil }
	return op, nil
}

// flops are the FLOPs of one call, and weights its bytes, as far as they bound how many calls a graph
// has.
func (q *Query) flops() int {
	s := q.Shape
	if operatorKinds[q.Kind].decode || q.Kind == "top_k_prefill" {
		return 0
	}
	return 2 * s["tokens"] * s["top_k"] * s["hidden"] * s["width"]
}

func (q *Query) weights() int {
	s := q.Shape
	if q.Kind == "top_k_prefill" {
		return 0
	}
	return 2 * s["hidden"] * max(s["width"], 1) * max(s["experts"], 1)
}

// runOnce runs a prompt of random tokens, and a step after it.
func (e *Engine) runOnce(decode bool) error {
	prompts := make([][]int, e.opt.Batch)
	next := uint64(1)
	for i := range prompts {
		for range e.opt.PromptLen {
			next = next*6364136223846793005 + 1442695040888963407
			prompts[i] = append(prompts[i], int(next>>33)%e.shape.vocab)
		}
	}
	if err := e.SetPrompts(prompts); err != nil {
		return err
	}
	if err := e.queuePrefill(); err != nil {
		return err
	}
	if decode {
		if err := e.decode.queue(); err != nil {
			return err
		}
	}
	return e.s.Sync()
}

// launchLayers is how many layers the model has whose launches are timed: some 150 kernels.
const launchLayers = 16

// launchOptions are the options of an engine that runs the prompt of a query.
func launchOptions(q *Query) (Options, error) {
	o := Options{Seed: 1, Workload: operator.Workload{Batch: 1, PromptLen: q.Shape["tokens"], GenLen: 1},
		Config: denseConfig(q.Shape, launchLayers, true)}
	return o, o.readModel(q)
}

// launched is how much longer a kernel of a prompt takes if it is launched by itself and not in a
// graph: the difference of the medians of prompts that alternate between both, over their kernels.
func (b *Bencher) launched(q *Query) (t Times, err error) {
	o, err := launchOptions(q)
	if err != nil {
		return t, err
	}
	e, err := b.open(o)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	if err := e.runOnce(false); err != nil {
		return t, err
	}
	before := e.s.Queued()
	g, err := e.s.Record(e.queuePrefill)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	kernels := e.s.Queued() - before
	ways := [2]func() error{func() error { return g.Launch(e.s) }, e.queuePrefill}
	var times [2][]float64
	for range max(2*q.Samples, 3) {
		for i, way := range ways {
			d, err := e.s.Once(way)
			if err != nil {
				return t, err
			}
			times[i] = append(times[i], float64(d))
		}
	}
	more := (medianOf(times[1]) - medianOf(times[0])) / float64(kernels)
	if more <= 0 {
		return t, unsupported("a prompt of %v takes no longer launched than in a graph: time it again", q.Shape)
	}
	return Times{Seconds: []float64{more}}, nil
}
