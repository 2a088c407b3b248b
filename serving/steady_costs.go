package serving

import (
	"math"
	"math/bits"
	"slices"

	"llmprof/analytic/operator"
)

// What steps cost beside n sequences that decode: those that only decode, and those with prompts, which take the budget of tokens that
// decodes leave (vllm/v1/core/sched/scheduler.py). Steps with prompts are priced at some numbers of tokens and of sequences, and are on
// lines between them.

// A stepTimes is the steps that were priced.
type stepTimes struct {
	prices *prices
	draft  *prices
	graphs float64   // up to how many tokens of a step graphs launch it
	beside []*beside // costs beside 0, 1, 2, ... sequences; nil where they are not known
}

// A beside is what steps cost beside some sequences.
type beside struct {
	decode    Cost    // without prompts; zero before it is asked for, as beside many sequences hardly a step is without
	left      float64 // tokens of prompts that a step takes
	graphed   float64 // tokens of prompts up to which graphs launch a step
	knots     []knot  // numbers of tokens between which costs are on lines, for the roofline's times are linear where one bound holds
	price     func(tokens float64) Cost
	low, high *beside // beside fewer and more sequences, between which the costs with prompts are; nil for knots of its own
	share     float64 // of the way between them
}

// A knot is a number of tokens with its cost, once it is known.
type knot struct {
	tokens float64
	known  bool
	cost   Cost
}

// costs are the costs beside n sequences. The time of a step with prompts is nearly linear in n between powers of two.
func (f *flow) costs(n int) *beside {
	if more := n + 1 - len(f.beside); more > 0 {
		f.beside = append(f.beside, make([]*beside, more+n)...)
	}
	if f.beside[n] != nil {
		return f.beside[n]
	}
	decodes := f.besides(n)
	c := &beside{left: f.left(decodes), graphed: f.graphs - float64(decodes*(1+f.server.Drafts))}
	if f.uncached.mean < c.graphed { // the prompts of all replicas that share experts
		c.graphed *= f.peers
	}
	f.beside[n] = c
	low := 1 << (bits.Len(uint(max(n, 1))) - 1)
	high := min(2*low, f.server.Scheduler.MaxSeqs*int(f.peers))
	switch {
	case decodes == 0 && f.peers == 1 && n > 0: // whose prompts have steps of their own
		c.low, c.high = f.costs(0), f.costs(0)
	case n > 0 && low < n && n < high:
		c.low, c.high, c.share = f.costs(low), f.costs(high), float64(n-low)/float64(high-low)
	default:
		c.price = func(tokens float64) Cost { return f.pass(n, tokens) }
		c.knots = f.knots(c, decodes)
	}
	return c
}

// plain is the cost of a step that only decodes n sequences.
func (f *flow) plain(n int) *Cost {
	c := f.costs(n)
	if c.decode.Time == 0 && n > 0 {
		c.decode = f.pass(n, 0)
	}
	return &c.decode
}

// with is the cost of a step with tokens of prompts.
func (c *beside) with(tokens float64) Cost {
	if c.low != nil {
		low, high := c.low.as(c, tokens), c.high.as(c, tokens)
		return launched(toward(&low, &high, c.share))
	}
	i, last := 1, len(c.knots)-1
	for i < last && c.knots[i].tokens < tokens {
		i++
	}
	low, high := c.knot(max(i-1, 0)), c.knot(min(i, last))
	if tokens == high.tokens || low == high {
		return high.cost
	}
	return launched(toward(&low.cost, &high.cost, (tokens-low.tokens)/(high.tokens-low.tokens)))
}

// as is the cost of a step that graphs launch if they launch the one beside other sequences.
func (c *beside) as(other *beside, tokens float64) Cost {
	if tokens <= other.graphed {
		return c.with(min(tokens, max(c.graphed, 1)))
	}
	return c.with(max(tokens, c.graphed+1))
}

// knot is a knot whose cost is known.
func (c *beside) knot(i int) *knot {
	k := &c.knots[i]
	if !k.known {
		k.cost, k.known = c.price(k.tokens), true
	}
	return k
}

// left is how many tokens of prompts a step of all replicas takes beside so many decodes of each. Some are left where decodes fill the
// step, for the mean step has fewer.
func (f *flow) left(decodes int) float64 {
	budget := f.server.Scheduler.Budget
	return float64(max(budget-decodes*(1+f.server.Drafts), budget/64, 1)) * f.peers
}

// pass is a step of n decodes and tokens of prompts.
func (f *flow) pass(n int, tokens float64) Cost {
	if f.peers > 1 {
		return f.lockstep(n, tokens)
	}
	if tokens > 0 {
		return f.replica(f.besides(n), tokens, n, 0)
	}
	return f.replica(n, 0, n, 0)
}

// replica is the step of one replica with its decodes and tokens of prompts. All replicas that share its experts have n sequences, and
// together tokens in the step. Of prompts the mean number of tokens is in the cache when a step computes others: those of cached prefixes,
// and half of the tokens that other steps compute.
func (f *flow) replica(decodes int, tokens float64, n int, together float64) Cost {
	var b batch
	b.reset(len(f.prices.windows))
	b.decodes = decodes
	for _, part := range f.contexts {
		b.add(f.prices.windows, part.share*float64(decodes), part.context)
	}
	b.together = together
	if tokens > 0 {
		length := min(f.uncached.length, tokens)
		past := f.uncached.past + max(f.uncached.length-f.left(f.besides(n))/f.peers, 0)/2
		b.chunks = append(b.chunks, operator.Group{Batch: tokens / length, New: length, Past: past, Logits: 1})
	}
	if b.empty() {
		return Cost{}
	}
	c := f.prices.again(f.prices.groupsOf(&b, f.server.Drafts), together)
	d := f.server.drafting(f.draft, &b)
	return plus(&c, &d, 1)
}

// graphed finds up to how many tokens of a step, those of decodes among them, launches take less time, as CUDA graphs make them; 0 if that
// is nowhere. A step has two tokens of a prompt at least: one alone is lowered as a token that decodes, whose recurrences take fewer
// launches.
func (f *flow) graphed() float64 {
	low, high := 3, f.server.Scheduler.Budget
	launch := func(tokens int) float64 { return float64(f.replica(1, float64(tokens-1), 1, 0).Launch) }
	few, many := launch(low), launch(high)
	if high <= low || few >= 0.99*many {
		return 0
	}
	for high-low > 1 {
		if middle := (low + high) / 2; launch(middle) < (few+many)/2 {
			low = middle
		} else {
			high = middle
		}
	}
	return float64(low + f.server.Drafts) // the sequence that decodes has its drafts besides
}

// knots are the tokens for which steps with prompts are priced: the fewest and the most, those that graphs launch at most, and those of
// some prompts. Of a prompt of several steps they are the tokens that full steps leave to the last one. Steps of several forward passes are
// priced at the limits of each, for a pass takes long with however few tokens.
func (f *flow) knots(c *beside, decodes int) (knots []knot) {
	all := []float64{1, c.graphed, c.graphed + 1, c.left}
	for _, tokens := range f.tokensOf() {
		all = append(all, tokens-max(math.Ceil(tokens/c.left)-1, 0)*c.left)
	}
	if pass := f.prices.pass; pass > 0 {
		for limit := pass - float64(decodes*(1+f.server.Drafts)); limit < c.left; limit += pass {
			all = append(all, limit, limit+1)
		}
	}
	slices.Sort(all)
	for _, tokens := range slices.Compact(all) {
		if tokens >= 1 && tokens <= c.left {
			knots = append(knots, knot{tokens: tokens})
		}
	}
	return knots
}

// tokensOf are the tokens of one prompt, and of 2, 4, 8, ... mean prompts. Of equal prompts steps have whole numbers, whose tiles fill more
// or less of a wave.
func (f *flow) tokensOf() (all []float64) {
	const powers, counted = 7, 8
	u := &f.uncached
	for i := 0; i < len(u.all); i += 2 {
		all = append(all, (u.all[i]+u.all[min(i+1, len(u.all)-1)])/2)
	}
	for i := 1; i < powers; i++ {
		all = append(all, u.mean*float64(int(1)<<i))
	}
	for i := 0; i < counted && len(u.all) == 1 && f.peers == 1; i++ {
		all = append(all, u.mean*float64(i+1))
	}
	return all
}

// launched works out for how long the kernels of an interpolated cost wait for launches, which is not linear: the time is the longer of
// both.
func launched(c Cost) Cost {
	kernels := c.Time - c.Waits
	c.Waits = max(c.Launch-kernels, 0)
	c.Time = kernels + c.Waits
	return c
}
