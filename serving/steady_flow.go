package serving

import (
	"context"
	"fmt"
	"iter"
	"math"

	"llmprof/analytic/engine"
	"llmprof/unit"
)

// What all laws of the steady state start from: requests, the KV blocks that they hold, and what steps cost.

// A flow is the queue of one replica: what its steady state is worked out from. Replicas that share experts are one queue, for their steps
// run side by side, and a prompt of one lengthens the steps of all.
type flow struct {
	ctx    context.Context // where it ends, what is followed step by step ends early, and says nothing
	server *Server
	peers  float64 // replicas that share experts; 1 if none do
	stages int     // stages of the Erlang distribution of the intervals between arrivals; 1 for Poisson arrivals
	handed bool    // sequences come with the cache of their prompts
	front  frontend
	traffic
	occupancy
	stepTimes
	solution
	limits Capacity // without preemption; zero if not worked out yet
	stable Capacity // with preemption; zero if not worked out yet
}

// A traffic is the lengths of requests, and means of what follows from them.
type traffic struct {
	prompts, answers Lengths
	gen              float64        // tokens of an answer
	steps            float64        // in which a sequence decodes
	spread           float64        // variance of the answers' lengths over the square of their mean
	shorter          float64        // mean of the shorter of two answers over the mean of one
	context          float64        // of a sequence that decodes, over time
	contexts         []contextShare // of those between the same windows
	uncached         *uncached
}

// An occupancy is the KV blocks that sequences hold, as shares of all, and how many sequences run at once at most.
type occupancy struct {
	most   int
	bound  string  // what bounds their number
	held   float64 // of a sequence that decodes, mean over time
	begins float64 // of a sequence whose prompt is computed
	ends   float64 // of a sequence that ends
	varies float64 // variance of held among sequences
}

// A stepTimes is the steps that were priced.
type stepTimes struct {
	prices *prices
	draft  *prices
	graphs float64 // up to how many tokens of a step graphs launch it
	levels map[int]*level
	tables map[[2]int]*tokenCosts

	someTokens []float64 // of the curve that was made last

	known   stepCosts     // that flows of the same predictor, prompts and drafts share
	batches []*batchCosts // of steps beside 0, 1, 2, ... sequences of a sample path; nil where they are not known
}

// A solution is the cycles that were worked out for a rate.
type solution struct {
	rate    float64
	cycles  map[*level]*cycle
	segment segment // of the cycle that was interpolated last
	between []cycle // cycles that were interpolated last
	buffers buffers // of the chain that is being solved
}

const quantiles = 16

// flowWith prepares the steady state of a server, where some steps were priced already.
func (s *Server) flowWith(ctx context.Context, prompt, gen Lengths, known stepCosts) (*flow, error) {
	if err := s.Serves(prompt, gen); err != nil {
		return nil, err
	}
	f := &flow{ctx: ctx, server: s, peers: s.peers(), front: s.frontend(), stages: 1, solution: solution{cycles: map[*level]*cycle{}}}
	f.stepTimes = stepTimes{prices: newPrices(s.Predictor, s.Scheduler.Pass, s.Drafts > 0), levels: map[int]*level{},
		tables: map[[2]int]*tokenCosts{}, known: known}
	f.prices.once = true
	if s.Drafter != nil {
		f.draft = newPrices(s.Drafter, 0, false)
		f.draft.once = true
	}
	f.traffic = s.traffic(prompt, gen, f.prices.windows)
	f.graphs = f.graphed()
	f.limit(s.room(), prompt, gen)
	f.begins *= f.lengthens()
	return f, nil
}

// traffic is requests of these lengths.
func (s *Server) traffic(prompt, gen Lengths, windows []float64) traffic {
	mean, square := gen.moments()
	t := traffic{prompts: prompt, answers: gen, gen: mean, steps: mean - 1, spread: square/(mean*mean) - 1, shorter: gen.shorter(),
		context: prompt.MeanLength() + square/(2*mean)}
	if s.Drafts > 0 {
		t.steps = s.meanSteps(gen.Quantiles())
	}
	t.contexts = contextShares(windows, prompt, gen, t.context)
	t.uncached = newUncached(s, prompt.Quantiles())
	return t
}

// Serves returns why the server cannot answer requests of these lengths, if it cannot.
func (s *Server) Serves(prompt, gen Lengths) error {
	if err := s.Check(); err != nil {
		return err
	}
	if err := prompt.check("prompt"); err != nil {
		return err
	}
	if err := gen.check("generated"); err != nil {
		return err
	}
	r := s.room()
	if longest := s.longest(r); prompt.MeanLength()+gen.MeanLength() > float64(longest) {
		return fmt.Errorf("requests of %g + %g tokens do not fit: the longest that does has %d, prompt and answer", prompt.MeanLength(),
			gen.MeanLength(), longest)
	}
	if tokens := int(math.Ceil(prompt.MeanLength())); r.of(tokens) > r.blocks-s.kept(r.blocks) {
		return s.beyondWatermark(r, tokens)
	}
	return nil
}

// lengthens is the mean number of blocks that a prompt holds while it is computed, over the blocks of a prompt of mean length. Long
// prompts are met more often, for they are computed for longer; a prompt of several steps takes its blocks step by step.
func (f *flow) lengthens() float64 {
	p, sum, weighted := f.level(0), 0.0, 0.0
	for _, tokens := range f.uncached.sum(1) {
		time, steps := float64(p.all(tokens, 1).Time), max(tokens/p.takes(1), 1)
		sum, weighted = sum+time, weighted+time*tokens/f.uncached.mean*(steps+1)/(2*steps)
	}
	return weighted / sum
}

// limit works out how many sequences run at once at most, and what bounds their number.
func (f *flow) limit(r *room, prompt, gen Lengths) {
	s := f.server
	f.held = float64(r.of(int(f.context))) / float64(r.blocks)
	held, varies := blocksHeld(r, prompt, gen, 1.0/8, 3.0/8, 5.0/8, 7.0/8)
	if !r.linear { // windows leave out more of long contexts
		f.held = held
	}
	f.begins = float64(r.of(int(prompt.MeanLength()))) / float64(r.blocks)
	f.ends = float64(r.of(int(prompt.MeanLength()+gen.MeanLength()))) / float64(r.blocks)
	share := f.held
	if s.Scheduler.Admission == engine.ForAll {
		share, _ = blocksHeld(r, prompt, gen, 1)
	}
	f.most, f.bound = int(1/share), "KV blocks"
	if s.Scheduler.MaxSeqs <= f.most {
		f.most, f.bound = s.Scheduler.MaxSeqs, "sequences"
	}
	f.most = max(f.most, 1) * int(f.peers)
	f.held, f.begins, f.ends = f.held/f.peers, f.begins/f.peers, f.ends/f.peers
	f.varies = varies / (f.peers * f.peers)
}

// blocksHeld are the mean and the variance of the share of the KV blocks that sequences hold at these ages, which are shares of their
// answers.
func blocksHeld(r *room, prompt, gen Lengths, ages ...float64) (mean, variance float64) {
	var all, sum, squares float64
	for context, weight := range aged(prompt, gen, ages...) {
		held := float64(r.of(int(context))) / float64(r.blocks)
		all, sum, squares = all+weight, sum+weight*held, squares+weight*held*held
	}
	mean = sum / all
	return mean, max(squares/all-mean*mean, 0)
}

// aged are the contexts of sequences at these ages, with weights: answers are met in proportion to their length.
func aged(prompt, gen Lengths, ages ...float64) iter.Seq2[float64, float64] {
	return func(yield func(context, weight float64) bool) {
		for _, p := range prompt.Quantiles() {
			for _, g := range gen.Quantiles() {
				for _, age := range ages {
					if !yield(float64(p)+age*float64(g), float64(g)) {
						return
					}
				}
			}
		}
	}
}

// complete makes the state of one queue that of all replicas. Times and energies that are no numbers above 0 are an error.
func (f *flow) complete(st *Steady, rate float64, replicas int) (*Steady, error) {
	n := f.units(replicas)
	st.Rate, st.Throughput = rate, rate*f.gen
	if st.Running = max(st.Running, 0); f.steps == 0 { // a difference of times, which rounding leaves beside 0
		st.Running = 0
	}
	st.Cache = min(st.Running*f.held+st.otherBlocks, 1)
	st.Utilization = min(st.Utilization, 1) // a sum of shares, which rounding may lift above 1
	st.Running, st.Waiting = st.Running*n, st.Waiting*n
	gpus, price := f.server.Predictor.Replica()
	if price > 0 {
		st.Cost = unit.Dollars(float64(price) * float64(gpus*replicas) / 3600 / rate)
	}
	if !(st.TTFT > 0 && st.E2E > 0 && st.Energy > 0 && st.E2E+unit.Seconds(st.Energy) < unit.Seconds(math.Inf(1))) {
		return nil, fmt.Errorf("%g requests a second: the steady state has a TTFT of %g s, an E2E of %g s and %g J a request, which no server "+
			"has; simulate it", rate, st.TTFT, st.E2E, st.Energy)
	}
	return st, nil
}
