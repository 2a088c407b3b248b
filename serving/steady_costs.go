package serving

import (
	"math"
	"math/bits"
	"slices"

	"llmprof/analytic/operator"
)

// What steps cost beside n sequences that decode: those that only decode, and those with prompts, which take the budget of tokens that
// decodes leave (vllm/v1/core/sched/scheduler.py). Steps with prompts are priced at some numbers of tokens and lie on lines between them,
// for the roofline's times are linear where one bound holds.

// A stepTimes is the steps that were priced.
type stepTimes struct {
	prices *prices
	draft  *prices
	graphs float64 // up to how many tokens of a step graphs launch it
	tables map[int]*tokenCosts
	beside []*batchCosts // of steps beside 0, 1, 2, ... sequences; nil where they are not known
	some   []float64     // numbers of tokens at which any steps with prompts are priced
}

// batchCosts are the costs of steps beside some sequences.
type batchCosts struct {
	decode  Cost // without prompts; zero before it is asked for, as beside many sequences hardly a step is without
	prompts *tokenCosts
	left    float64 // tokens of prompts that a step takes
}

// costs are the costs beside n sequences.
func (f *flow) costs(n int) *batchCosts {
	if more := n + 1 - len(f.beside); more > 0 {
		f.beside = append(f.beside, make([]*batchCosts, more+n)...)
	}
	c := f.beside[n]
	if c == nil {
		decodes := f.besides(n)
		c = &batchCosts{prompts: f.table(n), left: f.left(decodes)}
		if decodes == 0 && f.peers == 1 {
			c.prompts = f.table(0)
		}
		f.beside[n] = c
	}
	return c
}

// plain is the cost of a step that only decodes n sequences.
func (f *flow) plain(n int) *Cost {
	c := f.costs(n)
	if c.decode.Time == 0 && n > 0 {
		c.decode = f.graphStep(n)
	}
	return &c.decode
}

// graphStep is a step that decodes n sequences: interpolated between the fewest and the most of those that run alike. Graphs have
// multiples of 8 sequences, and of 16 above 256; kernels without them have tiles of at least 32.
func (f *flow) graphStep(n int) Cost {
	size := 8
	switch {
	case n <= 16:
		return f.pass(n, 0)
	case n > 512:
		size = 32
	case n > 256:
		size = 16
	}
	fewest := (n-1)/size*size + 1
	a, b := f.pass(fewest, 0), f.pass(fewest+size-1, 0)
	return toward(&a, &b, float64(n-fewest)/float64(size-1))
}

// left is how many tokens of prompts a step of all replicas takes beside so many decodes of each. Some are left where decodes fill the
// step, for the mean step has fewer.
func (f *flow) left(decodes int) float64 {
	budget := f.server.Scheduler.Budget
	return float64(max(budget-decodes*(1+f.server.Drafts), budget/64, 1)) * f.peers
}

// limitOf is up to how many tokens of prompts graphs launch a step beside n sequences.
func (f *flow) limitOf(n int) float64 {
	return (f.graphs - float64(f.besides(n)*(1+f.server.Drafts))) * f.peers
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

// A tokenCosts is the cost of steps beside n sequences as a function of the tokens of prompts, up to as many as a step takes.
type tokenCosts struct {
	flow           *flow
	n              int
	limit          float64     // tokens that graphs hold
	graphed, eager *tokenCurve // up to the limit and beyond it; made when they are asked for
}

// table is the costs of steps beside n sequences.
func (f *flow) table(n int) *tokenCosts {
	t, ok := f.tables[n]
	if !ok {
		t = &tokenCosts{flow: f, n: n, limit: f.limitOf(n)}
		f.tables[n] = t
	}
	return t
}

func (t *tokenCosts) at(tokens float64) Cost { return t.curve(tokens <= t.limit).at(tokens) }

// curve is the costs up to the limit of the graphs, or beyond it. The time of a step with prompts is nearly linear in n between powers of
// two.
func (t *tokenCosts) curve(graphed bool) *tokenCurve {
	to := &t.eager
	if graphed {
		to = &t.graphed
	}
	if *to != nil {
		return *to
	}
	f, n := t.flow, t.n
	price := func(tokens float64) Cost { return f.pass(n, tokens) }
	low, top := 1<<(bits.Len(uint(max(n, 1)))-1), f.server.Scheduler.MaxSeqs*int(f.peers)
	if high := min(2*low, top); n > 0 && low < n && n < high {
		price = f.table(low).curve(graphed).toward(f.table(high).curve(graphed), float64(n-low)/float64(high-low))
	}
	above, most := 0.0, f.left(f.besides(n))
	if graphed {
		most = min(t.limit, most)
	} else {
		above = max(t.limit, 0)
	}
	*to = &tokenCurve{f.knots(n, above, most), price}
	return *to
}

// knots are the tokens above one limit and up to another for which steps are priced: the limits, and those of some prompts. Of a prompt of
// several steps they are the tokens that full steps leave to the last one. Steps of several forward passes are priced at the limits of
// each, for a pass takes long with however few tokens.
func (f *flow) knots(n int, above, most float64) (knots []tokenKnot) {
	var all []float64
	add := func(tokens float64) {
		if tokens > above && tokens <= most {
			all = append(all, tokens)
		}
	}
	add(above + 1)
	add(most)
	left := f.left(f.besides(n))
	for _, tokens := range f.tokensOf() {
		add(tokens - max(math.Ceil(tokens/left)-1, 0)*left)
	}
	if pass := f.prices.pass; pass > 0 {
		for limit := pass - float64(f.besides(n)*(1+f.server.Drafts)); limit < most; limit += pass {
			add(limit)
			add(limit + 1)
		}
	}
	slices.Sort(all)
	for _, tokens := range slices.Compact(all) {
		knots = append(knots, tokenKnot{tokens: tokens})
	}
	return knots
}

// tokensOf are the tokens of one prompt, and of 2, 4, 8, ... mean prompts. Of equal prompts steps have whole numbers, whose tiles fill more
// or less of a wave.
func (f *flow) tokensOf() []float64 {
	const powers, counted = 7, 8
	if f.some == nil {
		u := &f.uncached
		for i := 0; i < len(u.all); i += 2 {
			f.some = append(f.some, (u.all[i]+u.all[min(i+1, len(u.all)-1)])/2)
		}
		for i := 1; i < powers; i++ {
			f.some = append(f.some, u.mean*float64(int(1)<<i))
		}
		for i := 0; i < counted && len(u.all) == 1 && f.peers == 1; i++ {
			f.some = append(f.some, u.mean*float64(i+1))
		}
	}
	return f.some
}

// A tokenCurve is costs at some numbers of tokens, its knots, which are priced when they are asked for. The times of kernels and of
// launches are linear between knots and beyond them.
type tokenCurve struct {
	knots []tokenKnot
	price func(tokens float64) Cost
}

// A tokenKnot is a number of tokens with its cost, once it is known.
type tokenKnot struct {
	tokens float64
	known  bool
	cost   Cost
}

func (c *tokenCurve) knot(i int) *Cost {
	k := &c.knots[i]
	if !k.known {
		k.cost, k.known = c.price(k.tokens), true
	}
	return &k.cost
}

func (c *tokenCurve) at(tokens float64) Cost {
	i, last := 0, len(c.knots)-1
	for i < last && c.knots[i].tokens < tokens {
		i++
	}
	if c.knots[i].tokens == tokens || last == 0 {
		return *c.knot(i)
	}
	i = max(i, 1)
	low, high := c.knots[i-1].tokens, c.knots[i].tokens
	return launched(toward(c.knot(i-1), c.knot(i), (tokens-low)/(high-low)))
}

// toward is the costs at a share x of the line from one curve to another.
func (c *tokenCurve) toward(b *tokenCurve, x float64) func(tokens float64) Cost {
	if len(b.knots) == 0 { // no graph holds the steps beside so many sequences
		return c.at
	}
	if len(c.knots) == 0 {
		return b.at
	}
	return func(tokens float64) Cost {
		low, high := c.at(tokens), b.at(tokens)
		return launched(toward(&low, &high, x))
	}
}

// launched works out for how long the kernels of an interpolated cost wait for launches, which is not linear: the time is the longer of
// both.
func launched(c Cost) Cost {
	kernels := c.Time - c.Waits
	c.Waits = max(c.Launch-kernels, 0)
	c.Time = kernels + c.Waits
	return c
}
