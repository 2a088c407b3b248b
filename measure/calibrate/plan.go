package calibrate

import (
	_ "embed" // of the plan
	"encoding/json"
	"sync"

	"llmprof/hardware"
	"llmprof/unit"
)

// The engines that can be calibrated.
const (
	Native       = "native"
	Transformers = "transformers"
)

// A scope is how much of everything is timed. Models whose shapes it has are those of models.json.
type scope struct {
	// Matrices are products of Llama-3.2-1B, Llama-3.1-8B and Llama-3.1-70B, q, k, v and gate, up fused as engines do, and the LM head of
	// the second. The first two are those into and out of the attention of the second at TP 8, which take little but the fixed time.
	Matrices  []Shape
	Sustained []Shape // products that run for seconds
	Rows      []int   // rows of GEMMs
	Heads     []Shape
	Prompts   []int
	Contexts  []int
	Batches   []int
	// Mixtures are those of Qwen3-30B-A3B, whole and as one of two and of four GPUs has it, which takes little but the fixed time, and of
	// Mixtral-8x7B as one of four GPUs has it.
	Mixtures []Shape
	// Experts are mixtures of prompts: of Qwen3-30B-A3B, whole and as one of two GPUs has it, and of Mixtral-8x7B, from prompts that read
	// weights to such as are bound by arithmetic.
	Experts    []Shape
	Dense      []Shape // Llama-3.1-8B and Llama-3.2-1B, whose steps of many sequences and prompts are run
	Many       []int   // batches of such steps
	Launched   []int   // tokens of such prompts
	Norms      []int   // tokens
	Widths     [2]int
	Moves      []int // bytes
	Messages   []int // bytes
	Launches   []int
	Steps      []int   // batches of a tiny model
	Drawing    []Shape // products, for their power
	Reading    []Shape // batch and context of attention, for its power
	Exchanging []int   // bytes of all-reduces, for their power
}

//go:embed plan.json
var planJSON []byte

// scopes are what is timed as a whole, and for trying out whether all of it works.
var scopes = sync.OnceValue(func() (s struct{ Whole, Quick scope }) {
	if err := json.Unmarshal(planJSON, &s); err != nil {
		panic(err) // a test reads it
	}
	return s
})

// A point may need at most this share of the GPU's memory, and this time in seconds at its peak.
const (
	mostBytes = 0.25
	mostTime  = 0.05
)

// plan lists what is timed for a calibration of g with an engine and up to tp GPUs.
func plan(g *hardware.GPU, dtype unit.Format, engine string, tp int, fast bool) []Point {
	s := scopes().Whole
	if fast {
		s = scopes().Quick
	}
	var out []Point
	add := func(kind Kind, shape Shape, ranks int) {
		p := Point{Kind: kind, Shape: shape, DType: dtype, Ranks: ranks}
		peak, _ := g.Peak(dtype)
		if w := p.Work(); w.Traffic() <= g.Memory.Times(mostBytes) && (kind == Sustained || w.FLOPs.Over(peak) <= mostTime) {
			out = append(out, p)
		}
	}
	for _, m := range s.Matrices {
		for _, rows := range s.Rows {
			add(GEMM, Shape{M: rows, N: m.N, K: m.K}, 1)
		}
	}
	s.attention(add)
	if engine == Native {
		s.own(add)
	}
	for _, tokens := range s.Norms {
		if engine != Native { // The native engine's norms read a stream in float32, so their times are not those of other engines.
			add(RMSNorm, Shape{Tokens: tokens, Width: s.Widths[0]}, 1)
		}
		add(Activation, Shape{Tokens: tokens, Width: s.Widths[1]}, 1)
	}
	for _, n := range s.Moves {
		add(Read, Shape{Bytes: n}, 1)
		add(Copy, Shape{Bytes: n}, 1)
	}
	for _, n := range s.Launches {
		add(GraphNode, Shape{Launches: n}, 1)
		if engine == Transformers {
			add(SmallKernel, Shape{Launches: n}, 1)
			add(EagerLaunch, Shape{Launches: n}, 1)
		}
	}
	s.engine(add, engine)
	s.sustained(add)
	s.power(add, engine)
	for ranks := 2; ranks <= tp; ranks *= 2 {
		for i, n := range s.Messages {
			if ranks > 2 && i%2 == 1 && n < 1<<20 { // more GPUs have every second of the small messages
				continue
			}
			add(AllReduce, Shape{Bytes: n}, ranks)
		}
		if engine == Native {
			for _, n := range s.Exchanging {
				add(AllReducePower, Shape{Bytes: n}, ranks)
			}
		}
	}
	return out
}

// own adds what an engine has kernels of its own for: mixtures, products of steps of many sequences.
// What is of one shape follows each other, so that the engine that runs it is opened once.
func (s *scope) own(add func(Kind, Shape, int)) {
	for _, m := range s.Mixtures {
		add(MixtureDecode, m, 1)
	}
	for _, m := range s.Experts {
		for _, kind := range expertKinds {
			add(kind, m, 1)
		}
	}
	for i, m := range s.Dense {
		for j, batch := range s.Many {
			if i > 0 && j < len(s.Many)-1 { // other models have the largest batch alone
				continue
			}
			for _, kind := range wgmmaKinds {
				at := m
				at.Batch = batch
				add(kind, at, 1)
			}
		}
	}
	for _, tokens := range s.Launched {
		at := s.Dense[0]
		at.Tokens = tokens
		add(LaunchPrefill, at, 1)
	}
}

func (s *scope) attention(add func(Kind, Shape, int)) {
	for i, h := range s.Heads {
		for j, n := range s.Prompts {
			if i > 0 && j%2 == 0 { // other heads have every second length
				continue
			}
			p := h
			p.Tokens = n
			add(AttentionPrefill, p, 1)
		}
		for j, n := range s.Contexts {
			for _, b := range s.Batches {
				if i > 0 && j%2 == 0 {
					continue
				}
				p := h
				p.Batch, p.Context = b, n
				add(AttentionDecode, p, 1)
			}
		}
	}
}

// sustained adds products that run for seconds, after the bursts, for they heat the board.
func (s *scope) sustained(add func(Kind, Shape, int)) {
	for _, m := range s.Sustained {
		add(Sustained, Shape{M: s.Rows[len(s.Rows)-1], N: m.N, K: m.K}, 1)
	}
}

// power adds what is run for its power: products as decode steps of 8B have them, by
// own kernels and by the library, of sizes that draw less than the limit and more;
// attention over long contexts; memory; and a GPU that has nothing to do. What comes last matters least,
// where time is short.
func (s *scope) power(add func(Kind, Shape, int), engine string) {
	add(Idle, Shape{}, 1)
	h := s.Heads[0]
	for _, at := range s.Reading {
		add(AttentionPower, Shape{Batch: at.Batch, Context: at.Context, Heads: h.Heads, KVHeads: h.KVHeads, HeadDim: h.HeadDim}, 1)
	}
	for _, p := range s.Drawing {
		add(GEMMPower, p, 1)
	}
	if engine == Native {
		s.ownPower(add)
	}
	add(ReadPower, Shape{Bytes: s.Moves[len(s.Moves)-2]}, 1)
}

// ownPower adds GEMMs of steps of many sequences and MoE layers of several, whose kernels are the engine's own. One
// kernel does a whole layer of one sequence, and would draw what attention draws too.
func (s *scope) ownPower(add func(Kind, Shape, int)) {
	for _, batch := range s.Many {
		at := s.Dense[0]
		at.Batch = batch
		add(GateUpPower, at, 1)
	}
	for _, m := range s.Mixtures {
		if m.Batch == 8 || m.Batch == 32 {
			add(MoEPower, m, 1)
		}
	}
}

// engine adds steps of a tiny model, whose time is the host's. Three batches make three
// rows, because one row shows nothing of its error.
func (s *scope) engine(add func(Kind, Shape, int), engine string) {
	for _, b := range s.Steps {
		add(HostStep, Shape{Batch: b}, 1)
		if engine == Transformers {
			add(EagerStep, Shape{Batch: b, Launches: tinyLaunches(b)}, 1)
		}
	}
}
