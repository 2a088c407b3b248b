package serving

import (
	"math"
	"math/bits"
	"slices"
)

// Steps with prompts are priced at some numbers of tokens, and lie on lines between them, for the roofline's times are linear where one
// bound holds.

// counted is up to how many prompts the distribution of the sum of their tokens is worked out: sums of more hardly vary.
const counted = 8

// uncached are the tokens of prompts that have to be computed.
type uncached struct {
	sums   [counted][]float64 // equally likely sums of 1, 2, 3, ... prompts, made when they are asked for
	rough  []float64          // sums of one prompt in fewer parts
	any    []float64          // tokens of one prompt and of several, for any number of them; made when they are asked for
	mean   float64
	past   float64 // tokens that are cached, mean over those that are not
	length float64 // of equal prompts whose tokens have as much attention
}

func newUncached(s *Server, prompts []int) *uncached {
	f := &uncached{}
	one := make([]float64, len(prompts))
	var squares float64
	for i, prompt := range prompts {
		past := float64(s.cached(prompt))
		one[i] = float64(prompt) - past
		f.mean += one[i] / float64(len(prompts))
		f.past += past * one[i] / float64(len(prompts))
		squares += one[i] * one[i] / float64(len(prompts))
	}
	f.length, f.past = squares/f.mean, f.past/f.mean
	slices.Sort(one)
	f.sums[0] = one
	f.rough = parts(one, (len(one)+1)/2)
	return f
}

// sum is the distribution of the tokens of k prompts together.
func (f *uncached) sum(k int) []float64 {
	if f.sums[k-1] == nil {
		var all []float64
		for _, x := range f.sum(k - 1) {
			for _, y := range f.rough {
				all = append(all, x+y)
			}
		}
		slices.Sort(all)
		f.sums[k-1] = parts(all, len(f.rough))
	}
	return f.sums[k-1]
}

// parts are the means of n equal parts of sorted values.
func parts(all []float64, n int) []float64 {
	means := make([]float64, n)
	for i, v := range all {
		means[i*n/len(all)] += v * float64(n) / float64(len(all))
	}
	return means
}

// A tokenCosts is the cost of steps beside n sequences as a function of the tokens of prompts, up to as many as a step takes.
type tokenCosts struct {
	flow           *flow
	n, prompts     int
	limit          float64     // tokens that graphs hold
	graphed, eager *tokenCurve // up to the limit and beyond it; made when they are asked for
}

func (t *tokenCosts) at(tokens float64) Cost { return t.curve(tokens <= t.limit).at(tokens) }

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

func newTokenCurve(tokens []float64, price func(tokens float64) Cost) *tokenCurve {
	c := &tokenCurve{make([]tokenKnot, len(tokens)), price}
	for i, v := range tokens {
		c.knots[i].tokens = v
	}
	return c
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

// knots is for how many powers of two, as numbers of prompts, steps are priced.
const knots = 7

// knots are the tokens above one limit and up to another for which steps are priced: the limits, and the tokens of one prompt and of 2, 4,
// 8, ... prompts, or the least, the median and the most tokens of a given number of prompts. Of a prompt of several steps they are the
// tokens that full steps leave to the last one. Steps of several forward passes are priced at the limits of each, for a pass takes long
// with however few tokens. They are valid until the next call.
func (f *flow) knots(n int, above, most float64, prompts int) []float64 {
	all := f.someTokens[:0]
	add := func(tokens float64) {
		if tokens > above && tokens <= most {
			all = append(all, tokens)
		}
	}
	add(above + 1)
	add(most)
	left := f.left(n, prompts)
	for _, tokens := range f.tokensOf(prompts) {
		add(tokens - max(math.Ceil(tokens/left)-1, 0)*left)
	}
	if pass := f.prices.pass; pass > 0 {
		for limit := pass - float64(f.besides(n)*(1+f.server.Drafts)); limit < most; limit += pass {
			add(limit)
			add(limit + 1)
		}
	}
	f.someTokens = all
	slices.Sort(all)
	return slices.Compact(all)
}

// tokensOf are some numbers of tokens of prompts, where 0 stands for any number of them.
func (f *flow) tokensOf(prompts int) []float64 {
	if prompts > 0 {
		sums := f.uncached.sum(prompts)
		return []float64{sums[0], sums[len(sums)/2], sums[len(sums)-1]}
	}
	u := f.uncached
	if u.any == nil {
		u.any = slices.Clone(u.rough)
		for i := 1; i < knots; i++ {
			u.any = append(u.any, u.mean*float64(int(1)<<i))
		}
		if len(u.rough) == 1 && f.peers == 1 { // steps have whole numbers of equal prompts, whose tiles fill more or less of a wave
			for i := range counted {
				u.any = append(u.any, u.mean*float64(i+1))
			}
		}
	}
	return u.any
}

// table is the costs of steps beside n sequences with a number of prompts, where 0 stands for any number.
func (f *flow) table(n, prompts int) *tokenCosts {
	t, ok := f.tables[[2]int{n, prompts}]
	if !ok {
		t = &tokenCosts{flow: f, n: n, prompts: prompts, limit: f.limitOf(n, prompts)}
		f.tables[[2]int{n, prompts}] = t
	}
	return t
}

// curve is the costs up to the limit of the graphs, or beyond it. Beside numbers of sequences between two powers of four, or above the
// most that are never preempted, they are interpolated.
func (t *tokenCosts) curve(graphed bool) *tokenCurve {
	to := &t.eager
	if graphed {
		to = &t.graphed
	}
	if *to != nil {
		return *to
	}
	f, n, prompts := t.flow, t.n, t.prompts
	price := func(tokens float64) Cost { return f.pass(n, tokens, prompts) }
	low, top := 1<<((bits.Len(uint(max(n, 1)))-1)&^1), f.most
	if n > f.most { // a saturated replica runs more sequences, some of which it preempts
		low, top = f.most, f.server.Scheduler.MaxSeqs
	}
	if high := min(4*low, top); n > 0 && low < n && n < high {
		price = f.table(low, prompts).curve(graphed).toward(f.table(high, prompts).curve(graphed), float64(n-low)/float64(high-low))
	}
	above, most := 0.0, f.left(n, prompts)
	if graphed {
		most = min(t.limit, most)
	} else {
		above = max(t.limit, 0)
	}
	*to = newTokenCurve(f.knots(n, above, most, prompts), price)
	return *to
}
