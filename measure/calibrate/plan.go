package calibrate

import (
	"llmprof/hardware"
	"llmprof/unit"
)

// The engines that can be calibrated.
const (
	Native       = "native"
	Transformers = "transformers"
)

// A matrix is n×k of a model's weights.
type matrix struct{ n, k int }

// matrices are products of Llama-3.2-1B, Llama-3.1-8B and Llama-3.1-70B, q, k, v
// and gate, up fused as engines do, and the LM head of the second; their
// config.json are in models.json. The first two are those into and out of the
// attention of the second at TP 8, which take little but the fixed time.
func matrices() []matrix {
	return []matrix{
		{768, 4096}, {4096, 512},
		{3072, 2048}, {2048, 2048}, {16384, 2048}, {2048, 8192},
		{6144, 4096}, {4096, 4096}, {28672, 4096}, {4096, 14336}, {128256, 4096},
		{10240, 8192}, {8192, 8192}, {57344, 8192}, {8192, 28672},
	}
}

// A head is how attention is split.
type heads struct{ q, kv, dim int }

// A scope is how much of everything is timed.
type scope struct {
	matrices   []matrix
	rows       []int // rows of GEMMs
	heads      []heads
	prompts    []int
	contexts   []int
	batches    []int
	mixtures   []Shape
	experts    []Shape // mixtures of prompts
	dense      []Shape // dense models, whose steps of many sequences and prompts are run
	many       []int   // batches of such steps
	norms      []int   // tokens
	widths     [2]int
	moves      []int // bytes
	messages   []int // bytes
	launches   []int
	steps      []int    // batches of a tiny model
	drawing    []Shape  // products, for their power
	reading    [][2]int // batch and context of attention, for its power
	exchanging []int    // bytes of all-reduces, for their power
}

func whole() scope {
	return scope{
		matrices: matrices(), rows: []int{1, 4, 8, 16, 32, 64, 128, 512, 1024, 2048, 8192},
		heads:   []heads{{32, 8, 128}, {64, 8, 128}, {32, 8, 64}},
		prompts: []int{128, 256, 512, 1024, 2048, 4096, 8192, 16384}, contexts: []int{128, 512, 2048, 8192, 32768}, batches: []int{1, 8, 32},
		mixtures: mixtures(), experts: prompts(), dense: dense(), many: []int{24, 32, 48, 64},
		norms: []int{1, 8, 32, 256, 1024, 4096, 16384}, widths: [2]int{4096, 14336},
		moves:    []int{64 << 20, 256 << 20, 1 << 30, 4 << 30},
		messages: []int{8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 192 << 10, 256 << 10, 512 << 10, 4 << 20, 32 << 20, 256 << 20, 1 << 30},
		launches: []int{96, 320, 960}, steps: []int{1, 2, 4},
		drawing: []Shape{
			{M: 1, N: 768, K: 4096}, {M: 1, N: 2048, K: 2048}, {M: 1, N: 4096, K: 4096}, {M: 1, N: 16384, K: 2048}, {M: 1, N: 6144, K: 4096},
			{M: 1, N: 4096, K: 14336}, {M: 1, N: 28672, K: 4096},
			{M: 8, N: 768, K: 4096}, {M: 8, N: 2048, K: 2048}, {M: 8, N: 6144, K: 4096}, {M: 8, N: 28672, K: 4096}, {M: 16, N: 6144, K: 4096},
			{M: 16, N: 28672, K: 4096},
			{M: 32, N: 6144, K: 4096}, {M: 32, N: 4096, K: 14336}, {M: 32, N: 28672, K: 4096}, {M: 64, N: 28672, K: 4096},
			{M: 128, N: 6144, K: 4096}, {M: 128, N: 4096, K: 14336}, {M: 128, N: 28672, K: 4096},
		},
		reading: [][2]int{{1, 32768}, {8, 2048}, {32, 2048}}, exchanging: []int{256 << 10, 512 << 10, 4 << 20, 32 << 20, 256 << 20},
	}
}

// mixtures are those of Qwen3-30B-A3B, whole and as one of two and of four GPUs has it,
// which takes little but the fixed time, and of Mixtral-8x7B as one of four GPUs has it; their
// config.json are in models.json.
func mixtures() (all []Shape) {
	for _, batch := range []int{1, 2, 4, 8, 16, 32, 64} {
		all = append(all, Shape{Batch: batch, Experts: 128, TopK: 8, Hidden: 2048, Width: 768})
	}
	for _, width := range []int{384, 192} {
		for _, batch := range []int{1, 2, 4, 16} {
			all = append(all, Shape{Batch: batch, Experts: 128, TopK: 8, Hidden: 2048, Width: width})
		}
	}
	for _, batch := range []int{1, 4, 8, 16, 24, 32, 64} {
		all = append(all, Shape{Batch: batch, Experts: 8, TopK: 2, Hidden: 4096, Width: 3584})
	}
	return all
}

// prompts are mixtures of prompts: those of Qwen3-30B-A3B, whole and as one of two GPUs has it, and
// of Mixtral-8x7B, from prompts that read weights to such as are bound by arithmetic.
func prompts() (all []Shape) {
	for _, tokens := range []int{128, 512, 1024, 2048, 4096, 16384} {
		all = append(all, Shape{Tokens: tokens, Experts: 128, TopK: 8, Hidden: 2048, Width: 768})
	}
	for _, tokens := range []int{512, 4096} {
		all = append(all, Shape{Tokens: tokens, Experts: 128, TopK: 8, Hidden: 2048, Width: 384})
	}
	for _, tokens := range []int{128, 512, 2048, 8192} {
		all = append(all, Shape{Tokens: tokens, Experts: 8, TopK: 2, Hidden: 4096, Width: 14336})
	}
	return all
}

// dense are Llama-3.1-8B and Llama-3.2-1B.
func dense() []Shape {
	return []Shape{
		{Hidden: 4096, Width: 14336, Heads: 32, KVHeads: 8, HeadDim: 128, N: 128256},
		{Hidden: 2048, Width: 8192, Heads: 32, KVHeads: 8, HeadDim: 64, N: 128256},
	}
}

// quick is for trying out whether all of it works.
func quick() scope {
	return scope{
		matrices: []matrix{{256, 256}, {1024, 256}, {512, 1024}, {2048, 1024}}, rows: []int{1, 8, 64, 256},
		heads:   []heads{{4, 2, 64}},
		prompts: []int{32, 128, 256, 512}, contexts: []int{64, 512, 2048}, batches: []int{1, 4},
		mixtures: []Shape{{Batch: 1, Experts: 8, TopK: 2, Hidden: 256, Width: 128}},
		experts:  []Shape{{Tokens: 128, Experts: 8, TopK: 2, Hidden: 256, Width: 128}},
		dense:    []Shape{{Hidden: 256, Width: 256, Heads: 4, KVHeads: 2, HeadDim: 64, N: 512}}, many: []int{32},
		norms: []int{1, 32, 512, 2048}, widths: [2]int{256, 512},
		moves: []int{1 << 20, 4 << 20}, messages: []int{1 << 10, 64 << 10, 1 << 20}, launches: []int{24, 48, 96}, steps: []int{1, 2, 4},
		drawing: []Shape{{M: 1, N: 1024, K: 256}, {M: 64, N: 1024, K: 256}}, reading: [][2]int{{1, 2048}}, exchanging: []int{1 << 20},
	}
}

// A point may need at most this share of the GPU's memory, and this time in seconds at its peak.
const (
	mostBytes = 0.25
	mostTime  = 0.05
)

// plan lists what is timed for a calibration of g with an engine and up to tp GPUs.
func plan(g *hardware.GPU, dtype unit.Format, engine string, tp int, fast bool) []Point {
	s := whole()
	if fast {
		s = quick()
	}
	var out []Point
	add := func(kind Kind, shape Shape, ranks int) {
		p := Point{Kind: kind, Shape: shape, DType: dtype, Ranks: ranks}
		peak, _ := g.Peak(dtype)
		if w := p.Work(); w.Traffic() <= g.Memory.Times(mostBytes) && (kind == Sustained || w.FLOPs.Over(peak) <= mostTime) {
			out = append(out, p)
		}
	}
	for _, m := range s.matrices {
		for _, rows := range s.rows {
			add(GEMM, Shape{M: rows, N: m.n, K: m.k}, 1)
		}
	}
	s.attention(add)
	if engine == Native {
		s.own(add)
	}
	for _, tokens := range s.norms {
		if engine != Native { // The native engine's norms read a stream in float32, so their times are not those of other engines.
			add(RMSNorm, Shape{Tokens: tokens, Width: s.widths[0]}, 1)
		}
		add(Activation, Shape{Tokens: tokens, Width: s.widths[1]}, 1)
	}
	for _, n := range s.moves {
		add(Read, Shape{Bytes: n}, 1)
		add(Copy, Shape{Bytes: n}, 1)
	}
	for _, n := range s.launches {
		add(GraphNode, Shape{Launches: n}, 1)
		if engine == Transformers {
			add(SmallKernel, Shape{Launches: n}, 1)
			add(EagerLaunch, Shape{Launches: n}, 1)
		}
	}
	s.engine(add, engine)
	s.sustained(add, fast)
	s.power(add, engine)
	for ranks := 2; ranks <= tp; ranks *= 2 {
		for i, n := range s.messages {
			if ranks > 2 && i%2 == 1 && n < 1<<20 { // more GPUs have every second of the small messages
				continue
			}
			add(AllReduce, Shape{Bytes: n}, ranks)
		}
		if engine == Native {
			for _, n := range s.exchanging {
				add(AllReducePower, Shape{Bytes: n}, ranks)
			}
		}
	}
	return out
}

// own adds what an engine has kernels of its own for: mixtures, products of steps of many sequences.
// What is of one shape follows each other, so that the engine that runs it is opened once.
func (s *scope) own(add func(Kind, Shape, int)) {
	for _, m := range s.mixtures {
		add(MixtureDecode, m, 1)
	}
	for _, m := range s.experts {
		for _, kind := range expertKinds {
			add(kind, m, 1)
		}
	}
	for i, m := range s.dense {
		for j, batch := range s.many {
			if i > 0 && j < len(s.many)-1 { // other models have the largest batch alone
				continue
			}
			for _, kind := range wgmmaKinds {
				at := m
				at.Batch = batch
				add(kind, at, 1)
			}
		}
	}
	for _, tokens := range []int{128, 512, 1024} {
		at := s.dense[0]
		at.Tokens = tokens
		add(LaunchPrefill, at, 1)
	}
}

func (s *scope) attention(add func(Kind, Shape, int)) {
	for i, h := range s.heads {
		at := Shape{Heads: h.q, KVHeads: h.kv, HeadDim: h.dim}
		for j, n := range s.prompts {
			if i > 0 && j%2 == 0 { // other heads have every second length
				continue
			}
			p := at
			p.Tokens = n
			add(AttentionPrefill, p, 1)
		}
		for j, n := range s.contexts {
			for _, b := range s.batches {
				if i > 0 && j%2 == 0 {
					continue
				}
				p := at
				p.Batch, p.Context = b, n
				add(AttentionDecode, p, 1)
			}
		}
	}
}

// sustained adds products that run for seconds, after the bursts, for they heat the board.
func (s *scope) sustained(add func(Kind, Shape, int), fast bool) {
	products := []matrix{{8192, 8192}, {28672, 4096}, {4096, 14336}}
	if fast {
		products = s.matrices[len(s.matrices)-1:]
	}
	for _, m := range products {
		add(Sustained, Shape{M: s.rows[len(s.rows)-1], N: m.n, K: m.k}, 1)
	}
}

// power adds what is run for its power: products as decode steps of 8B have them, by
// own kernels and by the library, of sizes that draw less than the limit and more;
// attention over long contexts; memory; and a GPU that has nothing to do. What comes last matters least,
// where time is short.
func (s *scope) power(add func(Kind, Shape, int), engine string) {
	add(Idle, Shape{}, 1)
	h := s.heads[0]
	for _, at := range s.reading {
		add(AttentionPower, Shape{Batch: at[0], Context: at[1], Heads: h.q, KVHeads: h.kv, HeadDim: h.dim}, 1)
	}
	for _, p := range s.drawing {
		add(GEMMPower, p, 1)
	}
	if engine == Native {
		s.ownPower(add)
	}
	add(ReadPower, Shape{Bytes: s.moves[len(s.moves)-2]}, 1)
}

// ownPower adds GEMMs of steps of many sequences and MoE layers of several, whose kernels are the engine's own. One
// kernel does a whole layer of one sequence, and would draw what attention draws too.
func (s *scope) ownPower(add func(Kind, Shape, int)) {
	for _, batch := range s.many {
		at := s.dense[0]
		at.Batch = batch
		add(GateUpPower, at, 1)
	}
	for _, m := range s.mixtures {
		if m.Batch == 8 || m.Batch == 32 {
			add(MoEPower, m, 1)
		}
	}
}

// engine adds steps of a tiny model, whose time is the host's. Three batches make three
// rows, because one row shows nothing of its error.
func (s *scope) engine(add func(Kind, Shape, int), engine string) {
	for _, b := range s.steps {
		add(HostStep, Shape{Batch: b}, 1)
		if engine == Transformers {
			add(EagerStep, Shape{Batch: b, Launches: tinyLaunches(b)}, 1)
		}
	}
}
