package serving

import (
	"math"
	"math/bits"

	"llmprof/analytic/operator"
)

// What steps cost beside n sequences that decode: those that only decode, and those with prompts, which take the budget of tokens that
// decodes leave (vllm/v1/core/sched/scheduler.py). Steps with prompts are priced at some numbers of sequences and of tokens, and lie on
// lines between them, for the roofline's times are linear where one bound holds.

// A stepTimes is the steps of a queue, by what they have.
type stepTimes struct {
	prices *prices
	draft  *prices
	longer float64            // share by which each token of a prompt takes longer for each further token of the prompt
	steps  map[[2]int32]*Cost // steps by the sequences that decode and the tokens of prompts
	line   Cost               // the step between two others that was asked for last
}

// full is as many tokens of prompts as a step takes.
const full = math.MaxInt32

// cost is that of a step of n sequences and tokens of prompts, until the next one is asked for. Tokens lie on the line between two of four
// numbers between powers of two, but for those that fill a step, and those of whole equal prompts, whose tiles fill more or less of a wave.
// No number is a power of two itself or half as much more, of which kernels take less time than of others near them.
func (f *flow) cost(n int, tokens float64) *Cost {
	if tokens == 0 {
		return f.priced(n, 0)
	}
	if f.peers == 1 {
		n = f.besides(n)
	}
	prompts := tokens / f.uncached.mean
	switch {
	case tokens == f.left(f.besides(n)):
		return f.priced(n, full)
	case f.prompts.Kind == "fixed" && prompts == math.Trunc(prompts):
		return f.priced(n, tokens)
	}
	below := math.Exp2((math.Floor(4*math.Log2(tokens)-0.5) + 0.5) / 4)
	low, high := math.Round(below), math.Round(below*math.Sqrt(math.Sqrt2))
	from, to := f.priced(n, low), f.priced(n, high)
	if jumps(from, to) {
		rows := f.peers * float64(f.besides(n)*(1+f.server.Drafts))
		return f.priced(n, math.Ceil((tokens+rows)/8)*8-rows) // Engines make graphs for multiples of 8 tokens.
	}
	f.line = launched(toward(from, to, (tokens-low)/max(high-low, 1)))
	return &f.line
}

// jumps reports whether CUDA graphs launch one step and not another that has more, whose kernels wait for launches.
func jumps(less, more *Cost) bool { return more.Waits > 0 && more.Launch > less.Launch.Times(1.2) }

// priced is the cost of such a step, which is remembered. That of a step with prompts is nearly linear in the sequences between powers of
// two, where graphs launch both or none.
func (f *flow) priced(n int, tokens float64) *Cost {
	of := [2]int32{int32(n), int32(tokens)}
	if c := f.steps[of]; c != nil {
		return c
	}
	low := 1 << max(bits.Len(uint(n))-1, 0)
	high := min(2*low, f.server.Scheduler.MaxSeqs*int(f.peers))
	var c Cost
	if tokens > 0 && low < n && n < high && !jumps(f.priced(low, tokens), f.priced(high, tokens)) {
		c = launched(toward(f.priced(low, tokens), f.priced(high, tokens), float64(n-low)/float64(high-low)))
	} else if tokens == full {
		c = f.pass(n, f.left(f.besides(n)))
	} else {
		c = f.pass(n, tokens)
	}
	f.steps[of] = &c
	return &c
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
func (f *flow) replica(decodes int, tokens float64, n int, epTokens float64) Cost {
	var b batch
	b.reset(len(f.prices.windows))
	b.decodes = decodes
	for i, part := range f.contexts.byWin {
		b.byWin[i].Batch, b.byWin[i].Past = part.Batch*float64(decodes), part.Past*float64(decodes)
	}
	b.together = epTokens
	if tokens > 0 {
		length := min(f.uncached.length, tokens)
		past := f.uncached.past + max(f.uncached.length-f.left(f.besides(n))/f.peers, 0)/2
		b.chunks = append(b.chunks, operator.Group{Batch: tokens / length, New: length, Past: past, Logits: 1})
	}
	if b.empty() {
		return Cost{}
	}
	c := f.prices.again(f.prices.groupsOf(&b, f.server.Drafts), epTokens)
	d := f.server.drafting(f.draft, &b)
	return plus(&c, &d, 1)
}

// attended is the slope of the time of a prompt's token over the prompt's length, as a share of that time. It compares a prompt of the mean
// length alone with one behind as many tokens: causal attention of the second has three times as many pairs of tokens.
func (f *flow) attended() float64 {
	length := f.uncached.length
	of := func(past float64) float64 {
		return float64(f.prices.mixed([]operator.Group{{Batch: 1, New: length, Past: past, Logits: 1}}, 0).Time)
	}
	alone := of(0)
	return max(of(length)-alone, 0) / (2 * length * alone)
}

// launched works out for how long the kernels of an interpolated cost wait for launches, which is not linear: the time is the longer of
// both.
func launched(c Cost) Cost {
	kernels := c.Time - c.Waits
	c.Waits = max(c.Launch-kernels, 0)
	c.Time = kernels + c.Waits
	return c
}
