package engine

import (
	"fmt"
	"math"
	"strings"

	"llmprof/analytic"
	"llmprof/analytic/operator"
	"llmprof/roofline"
)

// captured are the CUDA graphs of some steps; the zero value has none.
type captured struct {
	sizes sizes                              // nil for a graph of every number of tokens
	most  func(l *analytic.Lowering) float64 // most tokens of a graph
}

// rows is the rows of the smallest graph for a step of so many tokens; not ok if there is none.
func (c *captured) rows(l *analytic.Lowering, tokens float64) (rows float64, ok bool) {
	if c.most == nil {
		return 0, false
	}
	most := c.most(l)
	if c.sizes == nil {
		return tokens, tokens <= most
	}
	return c.sizes.upTo(tokens, most)
}

// Graphs are the CUDA graphs that a server is told to capture. The zero value stands for the engine's own.
type Graphs struct {
	Eager bool // none: the host launches every kernel by itself
	Most  int  // most tokens of a step in a graph; 0 for the engine's default
}

// WithGraphs is an engine with the CUDA graphs that its server is told to capture, by --enforce-eager and --max-cudagraph-capture-size of
// vLLM, --disable-cuda-graph and --cuda-graph-max-bs of SGLang, and cuda_graph_config of TensorRT-LLM.
func WithGraphs(from analytic.Engine, g Graphs) (analytic.Engine, error) {
	e, _ := from.(*Engine)
	switch {
	case g == Graphs{}:
		return from, nil
	case e == nil || e.decodes.most == nil:
		return nil, fmt.Errorf("%s has no such setting: %s have", from.Profile().Name,
			strings.Join(names(func(e *Engine) bool { return e.decodes.most != nil }), ", "))
	case g.Most < 0 || g.Eager && g.Most > 0:
		return nil, fmt.Errorf("graphs of up to %d tokens: want a number above 0, and CUDA graphs", g.Most)
	}
	set, what := *e, fmt.Sprintf("CUDA graphs of up to %d tokens", g.Most)
	set.decodes.most = func(*analytic.Lowering) float64 { return float64(g.Most) }
	if g.Eager {
		set.decodes, set.prompts, what = captured{}, captured{}, "no CUDA graphs"
	}
	set.graphs, set.profile.Eager, set.profile.Told = g, g.Eager, what
	if set.profile.Unmeasured != "" {
		set.profile.Unmeasured += ", with " + what
	}
	if set.captures != nil {
		set.captures(&set)
	}
	return &set, nil
}

// graphFlags adds the flags by which a server has the CUDA graphs that its engine was told to capture.
func (a *args) graphFlags(d *Deployment, eagerFlag, sizeFlag string) {
	g := d.Engine.(*Engine).graphs
	a.when(g.Eager, eagerFlag)
	if g.Most > 0 {
		a.number(sizeFlag, g.Most)
	}
}

// sizes are the sizes of CUDA graphs: multiples of Step tokens up to Most.
type sizes []struct{ Most, Step float64 }

// upTo gives the CUDA graphs of the sizes up to most tokens.
func (s sizes) upTo(tokens, most float64) (rows float64, ok bool) {
	for i := range s {
		if tokens <= s[i].Most {
			return min(s[i].Step*math.Ceil(tokens/s[i].Step), most), tokens <= most
		}
	}
	return 0, false
}

// count is how many sizes there are up to most tokens.
func (s sizes) count(most float64) (n float64) {
	for rows := 0.0; rows < most; n++ {
		rows, _ = s.upTo(rows+1, most)
	}
	return n
}

// lowerServed makes the kernels of a part of a step of a server whose decode steps are CUDA graphs, captured for a list of batch sizes,
// and marks those that CUDA graphs launch.
func lowerServed(e *Engine, l *analytic.Lowering) {
	lowerEach(e, l)
	decode, graphs := l.Step.Decode(), &e.prompts
	if decode {
		graphs = &e.decodes
	}
	rows, ok := graphs.rows(l, l.Step.Tokens())
	if ok {
		capture(l, decode)
		padAll(l, rows)
	} else {
		oneByOne(l, e.prompts.most != nil)
	}
	if e.layout != nil {
		e.layout(l)
	}
	exchanges(l)
	setTiles(e, l)
	if ok && decode && l.Step.Tokens() <= e.overlaps && groupedKernel(l) != nil {
		overlapShared(l)
	}
}

// overlapShared marks the kernels of shared experts, which run in a stream beside those that the router chose within the CUDA graph of a
// decode step: maybe_execute_in_parallel of TensorRT-LLM, forward_normal_dual_stream of SGLang, MULTI_STREAM_OVERLAPPED of vLLM.
func overlapShared(l *analytic.Lowering) {
	for i := range l.Kernels {
		l.Kernels[i].Overlapped = l.Ops[l.Kernels[i].Main].Shared
	}
}

// capture marks the kernels that CUDA graphs launch: all of a decode step, and what lies between the attention of two layers of a prompt.
func capture(l *analytic.Lowering, decode bool) {
	called := false // Python dispatches prefill and decode attention in one call
	for i := range l.Kernels {
		k := &l.Kernels[i]
		switch t := l.Ops[k.Main].Type; {
		case decode || padded(l, k.Main):
			k.Graphed = true
		case mixes(t) && !called:
			k.Helpers, k.Calls, called = k.Helpers+1, 1, true
		}
	}
}

// oneByOne adds what the host does for kernels that no CUDA graph launches: it calls attention and, if the model is compiled in pieces,
// the piece after it. Python calls each operator of shared experts, which lie within the operator of all experts that is not compiled
// (SharedExperts of vllm/model_executor/layers/fused_moe/runner; experiments/h200-hybrids). All-reduces over peer memory take one more
// launch.
func oneByOne(l *analytic.Lowering, compiled bool) {
	called := false
	for i := range l.Kernels {
		k := &l.Kernels[i]
		switch t := l.Ops[k.Main].Type; {
		case mixes(t) && !called:
			if k.Calls, called = 1, true; compiled {
				k.Calls = 2
			}
		case l.Ops[k.Main].Shared && compiled:
			k.Calls = 1
			if l.Ops[k.Main].Name == sharedGate {
				k.Helpers += 2 // the sigmoid of the gate and the product with it
			}
		case t == operator.Reduce && k.Class == roofline.OneShotAllReduce:
			k.Launches++ // its input is copied to memory that the other ranks read (experiments/vllm-host/h100)
		case t == operator.Reduce && k.Class == roofline.AllReduce:
			k.Helpers++ // The enqueueing of a call of NCCL takes the host no less than that copy; no trace has it alone.
		}
	}
}

// sharedGate is the product that decides how much of the shared experts' results counts.
const sharedGate = "shared_expert_gate"

// padded reports whether operator i of a part also computes the padding rows of a CUDA graph. Attention and recurrences
// skip them, and the LM head and the all-gather of its scores run outside of the graph.
func padded(l *analytic.Lowering, i int) bool {
	switch t := l.Ops[i].Type; t {
	case operator.CacheWrite, operator.Head, operator.Sampling, operator.Encode:
		return false
	case operator.Gather:
		return l.Part != operator.PartLast
	default:
		return !mixes(t)
	}
}

// padAll lets the kernels of a CUDA graph run on all of its rows.
func padAll(l *analytic.Lowering, rows float64) {
	tokens := l.Step.Tokens()
	if rows == tokens {
		return
	}
	for i := range l.Kernels {
		k := &l.Kernels[i]
		t := l.Ops[k.Main].Type
		if !padded(l, k.Main) || t == operator.Expand && !l.Step.Decode() {
			continue // Most rows of an expansion are cached tokens, of which none is padding.
		}
		if pad(k, l.Step, rows, tokens); t == operator.Embedding { // it reads the rows of its tokens
			k.Work.Weights = k.Work.Weights.Times(rows / tokens)
		}
	}
}

// pad gives a kernel the rows of a CUDA graph in place of the step's tokens. Padding rows are routed to experts too.
func pad(k *analytic.Kernel, step *operator.Step, rows, tokens float64) {
	more := rows / tokens
	w, s := &k.Work, &k.Shape
	s.M = inGraph(s.M, rows, tokens)
	w.FLOPs, w.Vector, w.Acts = w.FLOPs.Times(more), w.Vector.Times(more), w.Acts.Times(more)
	w.Wire, w.NodeWire = w.Wire.Times(more), w.NodeWire.Times(more)
	if s.Hit > 0 {
		s.Tokens = inGraph(s.Tokens, rows, tokens)
		hit, pairs := step.Chosen(s, s.Tokens)
		w.Weights = w.Weights.Times(hit / s.Hit)
		w.FLOPs = w.FLOPs.Times(pairs / s.Pairs / more)
		s.Hit, s.Pairs = hit, pairs
	}
	k.Permuted, k.Unpermuted = k.Permuted.Times(more), k.Unpermuted.Times(more)
}

// inGraph is how many of a graph's rows stand for n of the tokens of its step. It makes a number whole that is whole up to rounding, since
// tiles are counted of it: the tokens of a step that takes a share of a batch may have no exact binary form.
func inGraph(n, rows, tokens float64) float64 {
	const rounding = 1e-12
	share := n * rows / tokens
	if whole := math.Round(share); math.Abs(share-whole) <= rounding*share {
		return whole
	}
	return share
}
