package serving

import (
	"math"
	"math/bits"
	"slices"

	"llmprof/operator"
)

// A piece is the steps with n sequences that decode.
type piece struct {
	n        float64
	decode   Cost
	apart    bool // prompts have steps of their own
	async    bool
	few      [counted]*prefillSteps // made when they are asked for
	flow     *flow
	beside   int                      // sequences in a step with prompts
	tables   [counted + 1]*tokenCosts // by the number of prompts; made when they are asked for
	handed   bool                     // no prompts come
	left     float64                  // tokens of prompts that a step takes
	room     float64                  // prompts that a step takes
	fills    *fills
	kinds    []timed      // with up to some number of prompts
	backlogs [2][][]timed // with 0, 1, 2, ... prompts, and with the rest of one besides, where steps overflow
	extras   []added      // with 0, 1, 2, ... prompts
}

// An added is what prompts add to a step.
type added struct{ time, energy float64 }

// A prefillSteps is the steps with some number of prompts.
type prefillSteps struct {
	kinds  []share // of launches: of steps whose tokens a graph holds, and of those beyond
	mean   Cost
	spread float64 // variance of the time
}

// A share is the cost of a share of the steps.
type share struct {
	of    float64
	cost  Cost
	waits []float64 // equally likely, of the cost
}

// counted is for how many prompts the distribution of their tokens is worked out. Of more together it hardly
// counts that they differ.
const counted = 8

// fills are the tokens that prompts have to compute.
type fills struct {
	sums   [counted][]float64 // equally likely sums of 1, 2, 3, ... prompts, made when they are asked for
	rough  []float64          // sums of one prompt in fewer parts
	mean   float64
	past   float64 // tokens that are cached
	length float64 // of prompts alike that have as much attention for their tokens
}

func newFills(s *Server, prompts []int) *fills {
	f := &fills{}
	one := make([]float64, len(prompts))
	var squares float64
	for i, prompt := range prompts {
		past := float64(s.cached(prompt))
		one[i] = float64(prompt) - past
		f.mean += one[i] / float64(len(prompts))
		f.past += past / float64(len(prompts))
		squares += one[i] * one[i] / float64(len(prompts))
	}
	f.length = squares / f.mean
	slices.Sort(one)
	f.sums[0] = one
	f.rough = parts(one, (len(one)+1)/2)
	return f
}

// sum is the distribution of the tokens of k prompts.
func (f *fills) sum(k int) []float64 {
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

// A tokenCosts is the cost of steps beside n sequences by the tokens of their prompts, up to as many as a step takes.
type tokenCosts struct {
	graphed, eager *tokenCurve
	limit          float64 // tokens that graphs hold
}

// at is the cost with so many tokens.
func (t *tokenCosts) at(tokens float64) Cost {
	if tokens <= t.limit {
		return t.graphed.at(tokens)
	}
	return t.eager.at(tokens)
}

// A tokenCurve has costs at some numbers of tokens, priced when they are asked for. Between them the time of the
// kernels and that of the launches are linear, and beyond them they go on so.
type tokenCurve struct {
	tokens []float64
	costs  []Cost
	known  []bool
	price  func(tokens float64) Cost
}

func newTokenCurve(tokens []float64, price func(tokens float64) Cost) *tokenCurve {
	return &tokenCurve{tokens, make([]Cost, len(tokens)), make([]bool, len(tokens)), price}
}

// knot is the cost at the tokens of an index.
func (c *tokenCurve) knot(i int) *Cost {
	if !c.known[i] {
		c.costs[i], c.known[i] = c.price(c.tokens[i]), true
	}
	return &c.costs[i]
}

func (c *tokenCurve) at(tokens float64) Cost {
	i, found := slices.BinarySearch(c.tokens, tokens)
	if found || len(c.tokens) == 1 {
		return *c.knot(min(i, len(c.tokens)-1))
	}
	i = min(max(i, 1), len(c.tokens)-1)
	low, high := c.tokens[i-1], c.tokens[i]
	return launched(toward(c.knot(i-1), c.knot(i), (tokens-low)/(high-low)))
}

// launched works out anew what kernels wait for launches: the longer of two lines is none.
func launched(c Cost) Cost {
	kernels := c.Time - c.Waits
	c.Waits = max(c.Launch-kernels, 0)
	c.Time = kernels + c.Waits
	return c
}

// knots is for how many powers of two of prompts steps are priced.
const knots = 7

// piece works out the steps with n sequences that decode. How long a step with prompts takes is nearly linear in
// n between powers of four; a step that decodes alone has the stairs of its graphs.
func (f *flow) piece(n int) *piece {
	if p, ok := f.pieces[n]; ok {
		return p
	}
	p := &piece{n: float64(n), flow: f, beside: n, apart: !f.server.Scheduler.Mixed && !f.handed, async: f.server.Scheduler.Async, fills: f.fills, handed: f.handed}
	f.pieces[n] = p
	p.decode = f.decode(n)
	if p.apart && f.peers == 1 {
		p.beside = 0
	}
	p.left = p.takes(0)
	p.room = p.left / f.fills.mean
	return p
}

// table is the costs of steps with so many prompts beside n sequences, 0 for any number of them.
func (f *flow) table(n, prompts int) *tokenCosts {
	if t, ok := f.tables[[2]int{n, prompts}]; ok {
		return t
	}
	graphed := func(tokens float64) Cost { return f.pass(n, tokens, prompts) }
	eager := graphed
	low := 1 << ((bits.Len(uint(max(n, 1))) - 1) &^ 1)
	if high := min(4*low, f.most); n > 0 && low < n && n < high {
		a, b, x := f.table(low, prompts), f.table(high, prompts), float64(n-low)/float64(high-low)
		graphed, eager = a.graphed.toward(b.graphed, x), a.eager.toward(b.eager, x)
	}
	limit, left := f.limitOf(n, prompts), f.left(n, prompts)
	t := &tokenCosts{newTokenCurve(f.knots(0, min(limit, left), prompts), graphed), newTokenCurve(f.knots(max(limit, 0), left, prompts), eager), limit}
	f.tables[[2]int{n, prompts}] = t
	return t
}

// toward is a share of the way from one curve to another.
func (c *tokenCurve) toward(b *tokenCurve, x float64) func(tokens float64) Cost {
	if len(b.tokens) == 0 { // no graph holds the steps beside so many sequences
		return c.at
	}
	return func(tokens float64) Cost {
		low, high := c.at(tokens), b.at(tokens)
		return launched(toward(&low, &high, x))
	}
}

// knots are the tokens above one limit and up to another for which steps are priced: those of one prompt, of 2, 4,
// 8, ... prompts, and the limits; of some number of prompts the least, the middle and the most of them.
func (f *flow) knots(above, most float64, prompts int) (all []float64) {
	all = append(all, above+1, most)
	if prompts > 0 {
		sums := f.fills.sum(prompts)
		all = append(all, sums[0], sums[len(sums)/2], sums[len(sums)-1])
	} else {
		all = append(all, f.fills.rough...)
		for i := 1; i < knots; i++ {
			all = append(all, f.fills.mean*float64(int(1)<<i))
		}
	}
	all = slices.DeleteFunc(all, func(v float64) bool { return v <= above || v > most })
	slices.Sort(all)
	return slices.Compact(all)
}

// takes is how many tokens of so many prompts a step takes; of any number of them for 0.
func (p *piece) takes(prompts int) float64 { return p.flow.left(p.beside, prompts) }

// once is a step with so many tokens of some number of prompts, 0 where that does not matter, or with as many as it takes.
func (p *piece) once(tokens float64, prompts int) Cost {
	if prompts > counted || p.flow.peers == 1 {
		prompts = 0
	}
	t := &p.tables[prompts]
	if *t == nil {
		*t = p.flow.table(p.beside, prompts)
	}
	return (*t).at(min(tokens, p.takes(prompts)))
}

// full is a step with as many tokens of prompts as it takes.
func (p *piece) full() Cost { return p.once(p.left, 0) }

// all is what so many tokens of some number of prompts take, over as many steps as the budget makes of them. The decodes of further
// steps are those that decode anyway.
func (p *piece) all(tokens float64, prompts int) Cost {
	sum, most := p.once(tokens, prompts), p.takes(prompts)
	if tokens <= most {
		return sum
	}
	further := math.Ceil(tokens/most) - 1
	full, rest := p.following(sum), p.following(p.once(tokens-further*most, prompts))
	more := plus(&rest, &full, further-1)
	if !p.apart {
		more = plus(&more, &p.decode, -further)
	}
	return after(&sum, &more)
}

// following is a step after a full one, which the host begins to launch once it has launched that one.
func (p *piece) following(c Cost) Cost {
	if !p.async {
		return c
	}
	full := p.full()
	ahead := min(max(full.Time-full.Launch, 0)-c.Before, c.Waits)
	c.Time, c.Waits = c.Time-ahead, c.Waits-ahead
	return c
}

// prefill is the steps with k prompts, up to counted.
func (p *piece) prefill(k int) *prefillSteps {
	if q := p.few[k-1]; q != nil {
		return q
	}
	q := p.prefillOf(p.fills.sum(k), k)
	p.few[k-1] = q
	return q
}

// prefillOf is the steps with so many prompts of these sums of tokens.
func (p *piece) prefillOf(sums []float64, prompts int) *prefillSteps {
	q, limit := &prefillSteps{}, p.flow.limitOf(p.beside, prompts)
	var squares float64
	each := 1 / float64(len(sums))
	for i, tokens := range sums {
		c := p.all(tokens, prompts)
		if !p.apart && i > 0 && (tokens > limit) != (sums[i-1] > limit) || i == 0 {
			q.kinds = append(q.kinds, share{})
		}
		last := &q.kinds[len(q.kinds)-1]
		last.of += each
		last.cost = plus(&last.cost, &c, each)
		last.waits = append(last.waits, float64(c.Waits))
		q.mean = plus(&q.mean, &c, each)
		squares += each * float64(c.Time) * float64(c.Time)
	}
	for i := range q.kinds {
		k := &q.kinds[i]
		k.cost = plus(&Cost{}, &k.cost, 1/k.of)
		if slices.Max(k.waits) == 0 {
			k.waits = k.waits[:1]
		}
	}
	q.spread = max(squares-float64(q.mean.Time)*float64(q.mean.Time), 0)
	return q
}

// with is the step with k prompts, which has no decodes where prompts have steps of their own.
func (p *piece) with(k float64) Cost {
	switch low := int(k); {
	case p.handed:
		return p.decode
	case k <= 1:
		none := p.decode
		if p.apart {
			none = Cost{}
		}
		return toward(&none, &p.prefill(1).mean, k)
	case low < counted && k == float64(low):
		return p.prefill(low).mean
	case low < counted:
		return toward(&p.prefill(low).mean, &p.prefill(low+1).mean, k-float64(low))
	}
	return p.all(k*p.fills.mean, 0)
}

// extra is by how much k prompts make a step longer.
func (p *piece) extra(k float64) Cost {
	c := p.with(k)
	if p.apart && !p.handed {
		return c
	}
	return plus(&c, &p.decode, -1)
}

// add is extra of a whole number of prompts.
func (p *piece) add(k int) added {
	for i := len(p.extras); i <= k; i++ {
		c := p.extra(float64(i))
		p.extras = append(p.extras, added{float64(c.Time), float64(c.Energy)})
	}
	return p.extras[k]
}

// longer is the time of extra.
func (p *piece) longer(k float64) float64 {
	c := p.extra(k)
	return float64(c.Time)
}

// each is the time of a prompt among so many that they fill steps. It may be none beside so many sequences that their steps
// wait for the host.
func (p *piece) each() float64 {
	if p.handed {
		return 0
	}
	c := p.following(p.full())
	time := float64(c.Time)
	if !p.apart {
		time -= float64(p.decode.Time)
	}
	return max(time, 0) / p.room
}

// spread is the variance of the time of a step with k prompts.
func (p *piece) spread(k float64) float64 {
	if p.handed {
		return 0
	}
	return p.prefill(1).spread * k
}

// prompts is by how much longer a step takes for the prompts that came in a time in which m
// do on average: mean, mean of the square, and energy.
func (p *piece) prompts(m float64) (mean, square, energy float64) {
	if m > few { // the number hardly varies
		c := p.extra(m)
		t := float64(c.Time)
		slope := p.longer(m+1) - t
		return t, t*t + m*(slope*slope+p.spread(1)), float64(c.Energy)
	}
	chance := math.Exp(-m)
	for k := 1.0; k < 40; k++ {
		chance *= m / k
		a := p.add(int(k))
		mean += chance * a.time
		square += chance * (a.time*a.time + p.spread(k))
		energy += chance * a.energy
		if k > m && chance < 1e-6 {
			break
		}
	}
	return mean, square, energy
}

// promptsAfter is by how much longer a step takes for the prompts that come in a time after an arrival in which m come on average, and its energy.
func (p *piece) promptsAfter(m float64) (mean, energy float64) {
	if p.flow.stages == 1 || m > few {
		mean, _, energy = p.prompts(m)
		return mean, energy
	}
	for k, chance := range afterOne(nil, m, p.flow.stages) {
		a := p.add(k)
		mean, energy = mean+chance*a.time, energy+chance*a.energy
	}
	return mean, energy
}

// joined is by how much longer a step takes with a prompt and those that came besides, m on
// average.
func (p *piece) joined(m float64) (mean float64) {
	if m > few {
		return p.longer(m + 1)
	}
	if p.flow.stages > 1 && m > 0 {
		for k, chance := range besides(stationary(nil, m, p.flow.stages), m) {
			mean += chance * p.add(k+1).time
		}
		return mean
	}
	chance := math.Exp(-m)
	for k := 0.0; k < 40; k++ {
		if k > 0 {
			chance *= m / k
		}
		mean += chance * p.add(int(k)+1).time
		if k > m && chance < 1e-9 {
			break
		}
	}
	return mean
}

// after is by how much longer than others the steps after a prompt are, for those that came while it was computed.
func (p *piece) after(rate, own, mean float64) float64 {
	came, _, _ := p.prompts(rate * own)
	come, _, _ := p.prompts(rate * mean)
	return came - come
}

// further is by how much longer a step takes with one prompt more than came.
func (p *piece) further(m float64) float64 {
	mean, _, _ := p.prompts(m)
	return p.joined(m) - mean
}

// left is how many tokens of a step are left to prompts beside n decodes: a few where the decodes alone fill
// it, else a prompt would take as many steps as it has tokens.
func (s *Server) left(n int) float64 {
	budget := s.Scheduler.Budget
	return float64(max(budget-n*(1+s.Drafts), budget/64, 1))
}

// stepCosts are steps that were priced, by the sequences that decode, their context, the tokens of prompts and what was
// computed of those before. No setting of the scheduler changes what they take.
type stepCosts map[[5]float64]Cost

// pass is a step of n decodes and some tokens of so many prompts, 0 for as many as have these tokens.
func (f *flow) pass(n int, tokens float64, prompts int) Cost {
	key := [5]float64{float64(n), f.context, tokens, f.before(n), float64(prompts)}
	if n == 0 {
		key[1] = 0
	}
	if tokens == 0 {
		key[3] = 0
	}
	c, ok := f.known[key]
	if !ok {
		c = f.price(n, tokens, prompts)
		f.known[key] = c
	}
	return c
}

// before is how many tokens of a prompt are there when a step computes some of it beside n sequences: those that are cached, and half of
// what further steps compute of one that takes several.
func (f *flow) before(n int) float64 {
	return f.fills.past + max(f.fills.length-f.left(n, 1), 0)/2
}

// price is a pass that was not priced before.
func (f *flow) price(n int, tokens float64, prompts int) Cost {
	if f.peers > 1 {
		return f.sideBySide(n, tokens, prompts)
	}
	return f.replica(n, tokens, n, 0)
}

// replica is the step of one replica with so many decodes and tokens of prompts, beside all of so many sequences, together being the tokens of
// all replicas that share its experts.
func (f *flow) replica(decodes int, tokens float64, n int, together float64) Cost {
	var b batch
	b.reset(len(f.prices.windows))
	b.alike(f.prices.windows, decodes, f.context)
	b.together = together
	if tokens > 0 {
		length := min(f.fills.length, tokens)
		b.chunks = append(b.chunks, operator.Group{Batch: tokens / length, New: length, Past: f.before(n), Logits: 1})
	}
	if b.empty() {
		return Cost{}
	}
	c := f.prices.cost(&b, f.server.Drafts)
	d := f.server.drafting(f.draft, &b)
	return plus(&c, &d, 1)
}

// graphed finds up to how many tokens of a step its launches are fewer, as where graphs hold them; 0 if they
// never are.
func (f *flow) graphed() float64 {
	low, high := 2, f.server.Scheduler.Budget
	few, many := f.pass(1, 1, 1).Launch, f.pass(1, float64(high-1), 1).Launch
	if high <= low || few >= many.Times(0.99) {
		return 0
	}
	for high-low > 1 {
		if middle := (low + high) / 2; f.pass(1, float64(middle-1), 1).Launch < (few + many).Times(0.5) {
			low = middle
		} else {
			high = middle
		}
	}
	return float64(low)
}

// unlikely is the weight below which a number of sequences plays no part.
const unlikely = 1e-6

// weights are the probabilities of n sequences that decode, 0 where they are negligible, with the cycles of the
// others; beyond most the rest waits. They are nil where the rate is not stable.
func (f *flow) weights(rate float64) ([]float64, []*cycle) {
	cycles := []*cycle{{}} // without any, steps come when prompts do
	// ratio is that of the weight of n sequences to that of one fewer where they begin one by one, below 0 where it is not stable.
	ratio := func(n int) float64 {
		at := min(n, f.most)
		for len(cycles) <= at {
			cycles = append(cycles, nil)
		}
		if cycles[at] == nil {
			cycles[at] = f.at(at, rate)
		}
		m := rate * f.steps * cycles[at].decode
		if at == f.most && m >= float64(at)*(1-1e-6) || cycles[at].infinite {
			return -1
		}
		if n > f.most {
			return max(m/float64(at), 1e-300)
		}
		return max(f.birth(n, m), 1e-300)
	}
	n := f.likely(rate)
	for next, top := 0.0, 0.0; n > 0; n-- {
		r := ratio(n)
		if r < 0 {
			return nil, nil
		}
		next -= math.Log(r) * (1 - min(cycles[min(n, f.most)].load, 0.8)) // groups vary by so much more
		if top = max(top, next); r > 1 && next < top+math.Log(unlikely) {
			break
		}
	}
	weights := f.together(n, rate, func(n int) (float64, float64) { return ratio(n), cycles[min(n, f.most)].load }) // makes further cycles
	return weights, cycles
}

// load is how many prompts come while one is computed.
func (p *piece) load(rate float64) float64 {
	if p.handed {
		return 0
	}
	m := rate * float64(p.decode.Time)
	return min(max(rate*p.further(m), 0), 0.95)
}

// together works out the weights from some number of sequences on. Prompts that come while others are computed, a load of them for each,
// begin to decode at about the same time: they are a group, whose size has a geometric distribution. Across the border between n sequences
// and one more as many end as begin. Where steps take as long with prompts as without there are no groups, and the numbers vary less.
func (f *flow) together(from int, rate float64, at func(n int) (ratio, load float64)) []float64 {
	const longest = 1 << 16
	weights := make([]float64, from+1, 2*from+64)
	weights[from] = 1
	if from == 0 && !f.handed { // the time in which the first prompt and those with it are computed is one without sequences
		a := f.first(rate)
		weights[0] += rate * (a.time + a.further)
	}
	up, top, sum := 1.0, weights[from], weights[from]
	for n := from + 1; n < longest; n++ {
		r, load := at(n)
		if r < 0 {
			return nil
		}
		w := r * up
		up = w*(1-load) + load*up
		weights = append(weights, w)
		if sum += w; r < 1 && w < top*unlikely {
			break
		}
		if top = max(top, w); top > 1e200 {
			for i := range weights {
				weights[i] *= 1e-200
			}
			up, top, sum = up*1e-200, top*1e-200, sum*1e-200
		}
	}
	for n := range weights {
		weights[n] /= sum
	}
	return weights
}

// likely is about the most likely number of sequences that decode: from where on fewer end than come. It takes a step
// to be as long as its mean.
func (f *flow) likely(rate float64) int {
	var some []int
	for grid := 1; grid < f.most; grid *= 2 {
		some = append(some, grid)
	}
	i, _ := slices.BinarySearchFunc(some, 1, func(n int, _ int) int {
		c, ok := f.piece(n).mean(rate)
		if ok && rate*f.steps*c > float64(n) {
			return -1
		}
		return 1
	})
	if i == 0 {
		return 0
	}
	return some[i-1]
}

// at is the cycle with n sequences: worked out for two numbers in each power of two, and on lines between them.
// Between those the steps that only decode have the stairs of their graphs.
func (f *flow) at(n int, rate float64) *cycle {
	if n <= 4 || n == f.most {
		return f.cycle(f.piece(n), rate)
	}
	grid := 1 << (bits.Len(uint(n)) - 2)
	low := n / grid * grid
	high := min(low+grid, f.most)
	if captured := f.captured(low, high); n <= captured {
		high = captured
	} else if captured > 0 {
		low = captured + 1
	}
	if low == n {
		return f.cycle(f.piece(n), rate)
	}
	a, b, x := f.cycle(f.piece(low), rate), f.cycle(f.piece(high), rate), float64(n-low)/float64(high-low)
	y := a.toward(b, x)
	da, db := f.decode(low), f.decode(high)
	line, stair := toward(&da, &db, x), f.stair(n)
	more := plus(&stair, &line, -1)
	share := y.plain * y.decode / y.mean // in the time of decode
	y.mean += y.plain * float64(more.Time)
	y.decode += share * float64(more.Time)
	y.energy += share * float64(more.Energy)
	return y
}

// captured is the most sequences from low to below high whose decode steps graphs hold, where there are none for
// those of high; else 0.
func (f *flow) captured(low, high int) int {
	few, many := f.decode(low).Launch, f.decode(high).Launch
	if many < few.Times(captures) {
		return 0
	}
	for high-low > 1 {
		if middle := (low + high) / 2; f.decode(middle).Launch < (few + many).Times(0.5) {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

// captures is how many times longer launches are where no graph holds a step.
const captures = 2

// stair is a step in which n sequences decode, on a line between the fewest and the most that graphs of multiples of eight hold.
func (f *flow) stair(n int) Cost {
	if n <= 16 {
		return f.decode(n)
	}
	fewest := (n-1)&^7 + 1
	if fewest+7 > f.most {
		return f.decode(n)
	}
	a, b := f.decode(fewest), f.decode(fewest+7)
	return toward(&a, &b, float64(n-fewest)/7)
}

// decode is a step in which n sequences decode and nothing else is.
func (f *flow) decode(n int) Cost {
	c, ok := f.decodes[n]
	if !ok && n > 0 {
		c = f.pass(n, 0, 0)
		f.decodes[n] = c
	}
	return c
}
