package serving

import (
	"context"
	"fmt"
	"math"

	"llmprof/unit"
)

// A flow is the queue of one replica with the requests that come to it: what its steady state is worked out from. Replicas that share
// experts are one queue, for their steps run side by side, and a prompt of one lengthens the steps of all.
type flow struct {
	ctx         context.Context // where it ends, what is followed step by step ends early, and says nothing
	server      *Server
	peers       float64 // replicas that share experts; 1 if none do
	stages      int     // stages of the Erlang distribution of the intervals between arrivals; 1 for Poisson arrivals
	transferred bool    // sequences come with the cache of their prompts
	policy      policy
	front       frontend
	traffic
	memory
	stepTimes
	largest Capacity // zero if not worked out yet
}

// A traffic is the lengths of requests, and means of what follows from them.
type traffic struct {
	prompts, outputs Lengths
	gen              float64 // tokens of an answer
	yields           float64 // tokens of a step that decodes
	spread           float64 // variance of the answers' lengths over the square of their mean
	contexts         batch   // a sequence that decodes: shares of it between the same windows, by its mean context there over time
	uncached         uncached
}

// uncached are the tokens of prompts that have to be computed.
type uncached struct {
	mean   float64
	past   float64 // past is the mean number of cached tokens before a token that is computed.
	length float64 // length is what all prompts would have if they were equal and took as much attention.
}

// A memory is the KV blocks of all replicas of a queue.
type memory struct {
	kv     *kvBlocks
	blocks float64
	most   int // sequences that run at once at most, where each holds the mean number of blocks
}

// flow prepares the steady state of a server, whose steps may have been priced before.
func (s *Server) flow(ctx context.Context, prompt, gen Lengths, known *prices) (*flow, error) {
	if err := s.Serves(prompt, gen); err != nil {
		return nil, err
	}
	f := &flow{ctx: ctx, server: s, peers: float64(s.Predictor.Par.ExpertReplicas()), policy: policyOf(&s.Scheduler), front: s.frontend(),
		stages: 1}
	f.stepTimes = stepTimes{prices: known, steps: map[[2]int32]*Cost{}}
	if s.Drafter != nil {
		f.draft = newPrices(s.Drafter, 0, false)
	}
	mean, square := gen.moments()
	f.traffic = traffic{prompts: prompt.tabled(), outputs: gen.tabled(), gen: mean, yields: s.Yields(), spread: square/(mean*mean) - 1}
	f.kv = s.room()
	f.blocks = float64(f.kv.blocks) * f.peers
	f.means(f.drawJobs(averaged))
	f.longer = f.attended()
	return f, nil
}

// averaged is how many requests have the means of a load, and ages how many of the contexts of each while it decodes.
const averaged, ages = 1024, 8

// means works out means over requests. Contexts and KV blocks are those of the sequences that decode at any time, among which an answer is
// met in proportion to its length.
func (f *flow) means(jobs []job) {
	f.contexts.reset(len(f.prices.windows))
	u, n := &f.uncached, float64(len(jobs))
	squares, whole, blocks := 0.0, 0.0, 0.0
	for i := range jobs {
		v := &jobs[i]
		u.mean += v.tokens / n
		u.past += v.tokens * (float64(v.prompt) - v.tokens) / n
		squares += v.tokens * v.tokens / n
		output := float64(v.gaps) + 1
		for age := 0.5; age < ages; age++ {
			f.contexts.add(f.prices.windows, output/ages, float64(v.prompt)+output*age/ages)
		}
		whole += output
		blocks += output * (v.begin + v.longest()) / 2
	}
	u.length, u.past = squares/u.mean, u.past/u.mean
	for i := range f.contexts.byWin {
		f.contexts.byWin[i].Batch /= whole
		f.contexts.byWin[i].Past /= whole
	}
	f.most = max(min(int(f.blocks/(blocks/whole)), f.server.Scheduler.MaxSeqs*int(f.peers)), 1)
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

// of is the blocks of a sequence of a context, of a replica's at most.
func (m *memory) of(context float64) float64 {
	return min(float64(m.kv.of(int(math.Ceil(context)))), float64(m.kv.blocks))
}

// units is how many queues so many replicas are.
func (f *flow) units(replicas int) float64 { return float64(replicas) / f.peers }

// mostStages bounds the stages of an interval: intervals of more stages vary little less.
const mostStages = 16

// behindRouter sets the stages of the intervals at one of several queues that a router serves in turn. It brings each of R queues every
// R-th arrival of a Poisson process: a renewal process whose intervals have an Erlang distribution of R stages.
func (f *flow) behindRouter(units float64) { f.stages = min(max(int(units+0.5), 1), mostStages) }

// idle is the power while no step runs.
func (f *flow) idle() unit.Watts { return unit.Watts(float64(f.server.idle()) * f.peers) }

// api is the time that requests at a rate wait for the thread of the API server while n sequences decode: until it has sent the tokens of
// the same step, if the step has any; for the rest of the pass that it is in when they come; and, as it is shared with all tokens, for
// ρ/(1-ρ) of the time that it takes for a request, where ρ is its load (processor sharing; Kleinrock, Queueing Systems II, 1976, section
// 4.4).
func (f *flow) api(n, rate float64) float64 {
	busy := min(f.front.load(rate, f.gen)/f.peers, 0.99)
	tokens := n / f.peers * float64(f.front.each())
	wait := busy/(1-busy)*float64(f.front.intake) + busy*tokens/4
	if f.server.Scheduler.Mixed { // tokens of decode steps were sent while the prompt was computed
		wait += tokens
	}
	return wait
}

// complete makes the state of one queue that of all replicas. Times and energies that are no numbers above 0 are an error.
func (f *flow) complete(st *Steady, rate float64, replicas int) (*Steady, error) {
	n := f.units(replicas)
	st.Rate, st.Throughput = rate, rate*f.gen
	st.Running, st.Waiting = st.Running*n, st.Waiting*n
	gpus, price := f.server.Predictor.Replica()
	st.Cost = unit.Dollars(float64(price) * float64(gpus*replicas) / 3600 / rate)
	if !(st.TTFT > 0 && st.E2E > 0 && st.Energy > 0 && st.E2E+unit.Seconds(st.Energy) < unit.Seconds(math.Inf(1))) {
		return nil, fmt.Errorf("%g requests a second: the steady state has a TTFT of %g s, an E2E of %g s and %g J a request, which no server "+
			"has; simulate it", rate, st.TTFT, st.E2E, st.Energy)
	}
	return st, nil
}
