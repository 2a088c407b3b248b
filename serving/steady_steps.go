package serving

import (
	"math"
	"math/bits"

	"llmprof/operator"
)

// A piece is the steps with n sequences that decode.
type piece struct {
	decode Cost
	extra  [knots]Cost // by how much longer it takes with 1, 2, 4, ... prompts
	spread float64     // variance of that time of one prompt
	apart  bool        // prompts have steps of their own
}

// knots is for how many numbers of prompts steps are priced.
const knots = 7

// with is by how much longer a step takes with k prompts, on lines between the knots.
func (p *piece) with(k float64) (time, energy float64) {
	at := func(i int) (float64, float64) { return float64(p.extra[i].Time), float64(p.extra[i].Energy) }
	if k <= 1 {
		t, e := at(0)
		return k * t, k * e
	}
	i := min(bits.Len(uint(k))-1, knots-2)
	low := float64(int(1) << i)
	t0, e0 := at(i)
	t1, e1 := at(i + 1)
	x := (k - low) / low
	return t0 + x*(t1-t0), e0 + x*(e1-e0)
}

// prompts is by how much longer a step takes for the prompts that came in a time in which m
// do on average: mean, mean of the square, and energy.
func (p *piece) prompts(m float64) (mean, square, energy float64) {
	if m > 12 { // the number hardly varies
		t, e := p.with(m)
		slope, _ := p.with(m + 1)
		slope -= t
		return t, t*t + m*(slope*slope+p.spread), e
	}
	chance := math.Exp(-m)
	for k := 1.0; k < 40; k++ {
		chance *= m / k
		t, e := p.with(k)
		mean += chance * t
		square += chance * (t*t + k*p.spread)
		energy += chance * e
		if k > m && chance < 1e-6 {
			break
		}
	}
	return mean, square, energy
}

// joined is by how much longer a step takes with a prompt and those that came besides, m on
// average.
func (p *piece) joined(m float64) (mean float64) {
	if m > 12 {
		mean, _ = p.with(m + 1)
		return mean
	}
	chance := math.Exp(-m)
	for k := 0.0; k < 40; k++ {
		if k > 0 {
			chance *= m / k
		}
		t, _ := p.with(k + 1)
		mean += chance * t
	}
	return mean
}

// further is by how much longer a step takes with one prompt more than came.
func (p *piece) further(m float64) float64 {
	mean, _, _ := p.prompts(m)
	return p.joined(m) - mean
}

// piece works out the steps with n sequences that decode. How long a step with prompts takes is smooth in n,
// and is on a line between the powers of two; a step that decodes alone has the stairs of its graphs.
func (f *flow) piece(n int) piece {
	if p, ok := f.pieces[n]; ok {
		return p
	}
	p := piece{apart: !f.server.Scheduler.Mixed}
	if n > 0 {
		p.decode = f.step(n, 0, 0)
	}
	if f.handed {
		f.pieces[n] = p
		return p
	}
	low := 0
	if n > 0 {
		low = 1 << (bits.Len(uint(n)) - 1)
	}
	whole, spread := f.wholes(low)
	if low != n {
		high := min(2*low, f.most)
		w, v := f.wholes(high)
		x := float64(n-low) / float64(high-low)
		for i := range whole {
			whole[i] = whole[i].toward(w[i], x)
		}
		spread += (v - spread) * x
	}
	for i, w := range whole {
		p.extra[i] = Cost{w.Time - p.decode.Time, w.Energy - p.decode.Energy}
	}
	p.spread = spread
	f.pieces[n] = p
	return p
}

// toward is a share of the way from one cost to another.
func (c Cost) toward(b Cost, x float64) Cost {
	return Cost{c.Time + (b.Time - c.Time).Times(x), c.Energy + (b.Energy - c.Energy).Times(x)}
}

// A filled is the steps with prompts beside some sequences that decode.
type filled struct {
	cost   [knots]Cost
	spread float64
}

// wholes are the steps with 1, 2, 4, ... prompts beside n sequences, and the variance of the first. Prompts
// beyond two full steps take as long as those before.
func (f *flow) wholes(n int) (whole [knots]Cost, spread float64) {
	if w, ok := f.filled[n]; ok {
		return w.cost, w.spread
	}
	share := 1 / float64(len(f.prompts))
	var square float64
	for _, prompt := range f.prompts {
		one := f.step(n, prompt, 1)
		whole[0].Time += one.Time.Times(share)
		whole[0].Energy += one.Energy.Times(share)
		square += float64(one.Time) * float64(one.Time) * share
	}
	spread = max(square-float64(whole[0].Time)*float64(whole[0].Time), 0)
	fresh := max(f.mean-f.server.cached(f.mean), 1)
	for i := 1; i < knots; i++ {
		if i > 2 && fresh<<(i-1) > 2*f.server.Scheduler.Budget {
			whole[i] = whole[i-2].toward(whole[i-1], 3)
			continue
		}
		whole[i] = f.step(n, f.mean, 1<<i)
	}
	f.filled[n] = filled{whole, spread}
	return whole, spread
}

// step is what n decodes and some prompts take, over as many steps as the budget makes of
// them; the decodes of further steps are those that decode anyway.
func (f *flow) step(n, prompt, prompts int) (sum Cost) {
	s := f.server
	rules := &s.Scheduler
	fresh := prompt - s.cached(prompt)
	left := fresh * prompts
	beside := n
	if !rules.Mixed && left > 0 && n > 0 {
		sum = f.step(n, 0, 0)
		beside = 0
	}
	room := max(rules.Budget-beside*(1+s.Drafts), rules.Budget/64, 1) // else a prompt takes as many steps as it has tokens
	base := Cost{}
	for first := true; first || left > 0; first = false {
		var b batch
		b.reset(len(f.prices.windows))
		b.alike(f.prices.windows, beside, f.context)
		take := min(left, room)
		if done := fresh*prompts - left; take > 0 {
			group := operator.Group{Batch: 1, New: float64(take), Past: float64(prompt - fresh + done), Logits: 1}
			if each := take / fresh; each > 0 && prompts > 1 {
				group.Batch, group.New, group.Past = float64(each), float64(take)/float64(each), float64(prompt-fresh)
			}
			b.chunks = append(b.chunks, group)
		}
		left -= take
		c := f.prices.cost(&b, s.Drafts)
		d := s.drafting(f.draft, &b)
		c.Time, c.Energy = c.Time+d.Time, c.Energy+d.Energy
		if !first { // the decodes of this step would have run without it
			c.Time, c.Energy = c.Time-base.Time, c.Energy-base.Energy
		} else if left > 0 && beside > 0 {
			base = f.step(n, 0, 0)
		}
		sum.Time, sum.Energy = sum.Time+c.Time, sum.Energy+c.Energy
	}
	return sum
}

// cycle is a step with n sequences at a rate of arrivals: its mean, the mean of its square,
// and its energy. It is infinite where prompts come faster than they are computed.
func (p *piece) cycle(rate float64) cycle {
	d := float64(p.decode.Time)
	switch {
	case d == 0: // a prompt alone
		t := float64(p.extra[0].Time)
		return cycle{t, t*t + p.spread, float64(p.extra[0].Energy)}
	case p.apart:
		return p.apartCycle(rate)
	}
	c := d
	var time, times, energy float64
	for i := 0; ; i++ {
		time, times, energy = p.prompts(rate * c)
		next := d + time
		if math.Abs(next-c) < 1e-6*c {
			break
		}
		if i > 100 || rate*next > 1<<12 {
			return cycle{math.Inf(1), math.Inf(1), math.Inf(1)}
		}
		// Two steps of the iteration say where it goes (Aitken).
		after, _, _ := p.prompts(rate * next)
		after += d
		if bend := after - 2*next + c; bend < 0 {
			c = max(c-(next-c)*(next-c)/bend, next)
		} else {
			c = after
		}
	}
	if math.Exp(-rate*c) > 0.02 {
		return p.twoLengths(rate, c)
	}
	// How many prompts a step has depends on how long the one before it was: the variance of
	// a gated queue (Takagi, Analysis of Polling Systems, 1986).
	load := min(rate*p.further(rate*c), 0.999)
	return cycle{c, c*c + max(times-time*time, 0)/(1-load*load), float64(p.decode.Energy) + energy}
}

// twoLengths is cycle where some steps have no prompts: more come during a long step than during a short one, so
// that steps are a chain of two states. It begins at a mean step c in which steps do not differ.
func (p *piece) twoLengths(rate, c float64) cycle {
	d := float64(p.decode.Time)
	if rate == 0 {
		return cycle{d, d * d, float64(p.decode.Energy)}
	}
	short := math.Exp(-rate * c) // share of the steps without prompts
	time, times, energy := p.prompts(rate * d)
	var sum, squares, joules float64
	for i := 0; i < 50; i++ {
		long := (c - short*d) / (1 - short)
		t, t2, e := p.prompts(rate * long)
		sum = short*time + (1-short)*t
		squares = short*times + (1-short)*t2
		joules = short*energy + (1-short)*e
		short = short*math.Exp(-rate*d) + (1-short)*math.Exp(-rate*long)
		next := d + sum
		if math.Abs(next-c) < 1e-5*c {
			break
		}
		c = next
	}
	return cycle{c, c*c + max(squares-sum*sum, 0), float64(p.decode.Energy) + joules}
}

// apartCycle is cycle where prompts have steps of their own, which go before those that
// decode: after a decode step as many of them follow as find further prompts.
func (p *piece) apartCycle(rate float64) cycle {
	d := float64(p.decode.Time)
	all := cycle{d, d * d, float64(p.decode.Energy)}
	length, probability := d, 1.0
	for i := 0; probability > 1e-6; i++ {
		m := rate * length
		t, t2, e := p.prompts(m)
		all.mean += probability * t
		all.square += probability * t2
		all.energy += probability * e
		some := 1 - math.Exp(-m)
		probability *= some
		length = t / some
		if i > 2000 || rate*length > 1<<12 {
			return cycle{math.Inf(1), math.Inf(1), math.Inf(1)}
		}
	}
	return all
}

// A cycle is a step with some sequences that decode and the prompts that join it.
type cycle struct{ mean, square, energy float64 }

// weights are the probabilities of n sequences that decode, up to where they are
// negligible, with the cycles of each; beyond most the rest waits. They are nil where the rate is not stable.
func (f *flow) weights(rate float64) ([]float64, []cycle) {
	const least, longest = 1e-7, 1 << 16
	logs, top := []float64{0}, 0.0
	alone := f.at(0)
	cycles := []cycle{alone.cycle(rate)}
	for n := 1; n < longest; n++ {
		at := min(n, f.most)
		if n <= f.most {
			p := f.at(at)
			cycles = append(cycles, p.cycle(rate))
		}
		c := cycles[at].mean
		ratio := rate * f.steps * c / float64(at)
		if at == f.most && ratio >= 1-1e-6 || math.IsInf(c, 1) {
			return nil, nil
		}
		next := logs[n-1] + math.Log(max(ratio, 1e-300))
		logs = append(logs, next)
		top = max(top, next)
		if ratio < 1 && next < top+math.Log(least) {
			break
		}
	}
	sum := 0.0
	for i := range logs {
		logs[i] = math.Exp(logs[i] - top)
		sum += logs[i]
	}
	for i := range logs {
		logs[i] /= sum
	}
	return logs, cycles
}

// at is the piece of n sequences: worked out up to 16 and at steps of an eighth from there,
// on a line between.
func (f *flow) at(n int) piece {
	if n <= 16 || n == f.most {
		return f.piece(n)
	}
	grid := 1 << (bits.Len(uint(n)) - 4)
	low := n / grid * grid
	high := min(low+grid, f.most)
	if low == n || high <= low {
		return f.piece(n)
	}
	a, b, x := f.piece(low), f.piece(high), float64(n-low)/float64(high-low)
	return a.toward(b, x)
}

// toward is a share of the way from one piece to another.
func (p piece) toward(b piece, x float64) piece {
	q := piece{decode: p.decode.toward(b.decode, x), spread: p.spread + (b.spread-p.spread)*x, apart: p.apart}
	for i := range q.extra {
		q.extra[i] = p.extra[i].toward(b.extra[i], x)
	}
	return q
}
