package serving

import (
	"iter"
	"math"
)

// A cycle is the steps of a replica while some number of its sequences decode and prompts come at a rate:
// means over the steps of a Markov chain.
type cycle struct {
	mean     float64 // of a step
	decode   float64 // time in which a sequence that decodes has a step; longer than mean where prompts have steps of their own
	energy   float64 // in that time
	plain    float64 // share of the steps that only decode
	first    float64 // from the arrival of a prompt at the engine until the host has its token
	own      float64 // of that, the step of the prompt; in a closed loop of one that came just after a step ended
	computes float64 // of that, until the step ends
	behind   float64 // by how much longer the steps after a prompt's own are than others
	kinds    []kind
	infinite bool // prompts come faster than they are computed
}

// A kind is the steps with the same number of prompts.
type kind struct {
	share  float64 // of all steps
	length float64
	late   float64 // after the begin of the step the next one is formed
	lead   float64 // of the next step: from when it is formed to its begin
	window float64 // between the forming of this step and that of the next one
	biased float64 // that window, as one that comes at any time finds it
}

// A timed is a step as its times are used here.
type timed struct {
	time, before, launch, energy float64
	waits                        []float64 // equally likely, for prompts differ
	backlog                                // prompts that wait when the step is formed
	share                        float64   // of the steps with this backlog
	spread                       float64   // variance of the time
	decodes                      float64   // time of the decodes in the steps that its prompts take beyond the first
	carried                      []carried // what the step leaves to the next; nil if nothing
}

// A backlog is a number of prompts that wait, the rest of one that was begun besides.
type backlog struct {
	prompts int
	rest    bool
}

// A carried is a backlog that a full step leaves, and how likely.
type carried struct {
	backlog
	chance float64
}

// run is the length of a step that was formed a lead before its begin, and how long after its begin the host
// has launched it: replica.run on the mean.
func (t *timed) run(lead float64) (length, late float64) {
	lead -= t.before
	if len(t.waits) == 1 {
		length = t.time - min(lead, t.waits[0])
	} else {
		for _, waits := range t.waits {
			length += min(lead, waits)
		}
		length = t.time - length/float64(len(t.waits))
	}
	return length, min(max(t.launch-lead, 0), length)
}

// few is up to how many prompts a step, on average, the chain is solved. Of more the number hardly varies.
const few = 12

// A chain is the steps beside n sequences that decode. Its state is the kind of a step and that of the one
// before: that one says how far ahead the step was formed, and both over which time the prompts of the next
// step come, whose number has a Poisson distribution.
type chain struct {
	async  bool
	closed bool
	rate   float64
	out    float64   // that the API server takes for the tokens of a step
	idle   float64   // power of a GPU that waits
	echo   float64   // a step that is longer makes later ones longer too: all of them together over the first
	steps  []timed   // the kinds, by their number of prompts
	leads  []float64 // of a step, by the kind of the one before
	shares [][]float64
	next   [][]float64
	coming [][]float64 // probability of each kind of step, of some means of prompts that come in a window: after
	means  []float64   // those means
	full   *fullSteps  // nil where steps have room for all prompts
	delay  float64     // of a request by the API server while steps only decode
	waits  int         // the kind of steps that decode while the first requests after a step of prompts are delayed; 0 for none
}

// cycle is the cycle of a piece at a rate of prompts.
func (f *flow) cycle(p *piece, rate float64) *cycle {
	if rate == f.rate {
		if y := f.cycles[p]; y != nil {
			return y
		}
	} else {
		clear(f.cycles)
		f.rate = rate
	}
	y := f.solve(p, rate)
	f.cycles[p] = y
	return y
}

// solve is cycle.
func (f *flow) solve(p *piece, rate float64) *cycle {
	mean, ok := p.mean(rate)
	switch {
	case !ok:
		return &cycle{infinite: true, mean: math.Inf(1), decode: math.Inf(1)}
	case rate*mean > few:
		return f.many(p, rate, mean)
	}
	return f.chain(p, rate, mean).solve(p)
}

// toward is a share of the way from one cycle to another, without its kinds.
func (y *cycle) toward(z *cycle, x float64) *cycle {
	if y.infinite || z.infinite {
		return &cycle{infinite: true}
	}
	line := func(a, b float64) float64 { return a + x*(b-a) }
	return &cycle{
		mean: line(y.mean, z.mean), decode: line(y.decode, z.decode), energy: line(y.energy, z.energy), plain: line(y.plain, z.plain),
		first: line(y.first, z.first), own: line(y.own, z.own), computes: line(y.computes, z.computes), behind: line(y.behind, z.behind),
	}
}

// mean is the length of a step that is as long as the prompts make it that come meanwhile.
func (p *piece) mean(rate float64) (c float64, ok bool) {
	d := float64(p.decode.Time)
	switch c = d; {
	case d == 0:
		return p.longer(1), true
	case p.table != nil && p.room <= few:
		return p.filled(rate)
	}
	for i := 0; ; i++ {
		time, _, _ := p.prompts(rate * c)
		next := d + time
		if math.Abs(next-c) < 1e-6*c {
			return next, true
		}
		if i > 100 || rate*next > 1<<12 {
			return 0, false
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
}

// many is the cycle of steps that all have many prompts. How many depends on how long the step before was:
// the variance of a gated queue (Takagi, Analysis of Polling Systems, 1986). Prompts that have steps of their
// own go before sequences that decode: after a decode step as many of theirs follow as find further prompts.
func (f *flow) many(p *piece, rate, c float64) *cycle {
	d := float64(p.decode.Time)
	time, times, energy := p.prompts(rate * c)
	load := min(rate*p.further(rate*c), 0.999)
	window := c + max(times-time*time, 0)/(1-load*load)/c // that an arrival falls into
	own := p.joined(rate * window)
	more, _, _ := p.prompts(rate * (d + own))
	y := &cycle{mean: c, decode: c, energy: float64(p.decode.Energy) + energy, behind: max(more-time, 0)}
	if y.own = own; !p.apart {
		y.own += d
	}
	y.first, y.computes = window/2+y.own, y.own
	y.kinds = []kind{{share: 1, length: c, late: c, window: c, biased: window}}
	if f.server.Scheduler.Async {
		y.first += c
		y.kinds[0].late, y.kinds[0].lead = 0, c
	}
	return y
}

// chain prepares the chain at a rate of prompts.
func (f *flow) chain(p *piece, rate, mean float64) *chain {
	m := rate * mean
	x := &chain{async: f.server.Scheduler.Async, closed: f.clients, rate: rate, out: f.out(p.n), idle: float64(f.server.idle()), echo: f.echo(min(rate*p.further(m), 0.999))}
	x.delay = f.delay(p, (2*few-m)/rate)
	come := m + rate*x.delay // in a step, those that were on their way among them
	if p.overflows(come) {
		x.steps, x.full = p.overflowing(come), &fullSteps{piece: p}
	} else {
		x.steps = p.timed(int(come+5*math.Sqrt(come)) + 3)
	}
	x.wait()
	n := len(x.steps)
	rows := matrix(&f.numbers, 4*n+2, n)
	x.shares, x.next, x.coming, x.leads = rows[:n], rows[n:2*n], rows[2*n:4*n+1], rows[4*n+1]
	x.means = make([]float64, 2*n+1)
	for i := range n {
		if x.async {
			x.leads[i] = x.steps[i].time
		}
	}
	for i := range x.means {
		x.means[i] = math.NaN()
	}
	mass := make([]float64, n)
	x.add(mass, backlog{}, m, 1)
	for i := range n {
		for j := range n {
			x.shares[i][j] = mass[i] * mass[j]
		}
	}
	x.norm()
	return x
}

// echo is the sum of what a longer step adds to the steps of a sequence after it, over what it adds to the first of them: the
// prompts that come in a longer step, a load times its length, lengthen the next one, or the next but one where steps are formed ahead.
// A negative load, where further prompts shorten a step, has a sum without end.
func (f *flow) echo(load float64) float64 {
	steps := f.steps
	if f.server.Scheduler.Async {
		steps /= 2
	}
	return (1 - math.Pow(max(load, 0), max(steps, 1))) / (1 - load)
}

// timed are the kinds of steps with up to so many prompts, which no rate changes.
func (p *piece) timed(most int) []timed {
	if len(p.kinds) == 0 {
		p.kinds = append(p.kinds, newTimed(&p.decode, backlog{}, 1))
	}
	for k := p.kinds[len(p.kinds)-1].prompts + 1; k <= most; k++ {
		p.kinds = append(p.kinds, p.timedWith(k)...)
	}
	end := len(p.kinds)
	for p.kinds[end-1].prompts > most {
		end--
	}
	return p.kinds[:end]
}

// timedWith are the kinds of steps with k prompts.
func (p *piece) timedWith(k int) (all []timed) {
	if p.table == nil || k > counted {
		c := p.with(float64(k))
		all = append(all, newTimed(&c, backlog{prompts: k}, 1))
	} else {
		all = p.prefill(k).timed(backlog{prompts: k}, 1)
	}
	for i := range all {
		all[i].decodes = p.decodes(k)
	}
	return all
}

// timed are the kinds of steps of a share of those with a backlog.
func (q *prefillSteps) timed(b backlog, share float64) (all []timed) {
	for i := range q.kinds {
		t := newTimed(&q.kinds[i].cost, b, share*q.kinds[i].of)
		if len(q.kinds) == 1 {
			t.spread = q.spread
		}
		if q.kinds[i].waits != nil {
			t.waits = q.kinds[i].waits
		}
		all = append(all, t)
	}
	return all
}

// decodes is the time of the decodes in the steps that k prompts take beyond the first.
func (p *piece) decodes(k int) float64 {
	if p.apart || p.table == nil {
		return 0
	}
	steps := math.Ceil(float64(k)*p.fills.mean/p.left) - 1
	return max(steps, 0) * float64(p.decode.Time)
}

func newTimed(c *Cost, b backlog, share float64) timed {
	return timed{
		time: float64(c.Time), waits: []float64{float64(c.Waits)}, before: float64(c.Before), launch: float64(c.Launch), energy: float64(c.Energy),
		backlog: b, share: share,
	}
}

// add adds the probability of each kind of step where m prompts come on average after a backlog, times a weight.
func (x *chain) add(all []float64, b backlog, m, weight float64) {
	for i, chance := range x.arrivals(b, 0, m) {
		all[i] += weight * chance
	}
}

// arrivals are the kinds of steps after a backlog and some prompts besides, each with its probability where m more come on
// average.
func (x *chain) arrivals(b backlog, besides int, m float64) iter.Seq2[int, float64] {
	return func(yield func(int, float64) bool) {
		chance, come := math.Exp(-m), 0
		for i := range x.steps {
			t := &x.steps[i]
			more := t.prompts - b.prompts - besides
			if t.rest != b.rest || more < 0 {
				continue
			}
			for come < more {
				come++
				chance *= m / float64(come)
			}
			if !yield(i, chance*t.share) {
				return
			}
		}
	}
}

// solve iterates the chain until its shares stay, and takes the means over it.
func (x *chain) solve(p *piece) *cycle {
	y := &cycle{}
	for range 60 {
		before := y.mean
		y.mean = x.turn()
		if math.Abs(y.mean-before) < 1e-4*y.mean {
			break
		}
	}
	n := len(x.steps)
	y.kinds = make([]kind, n)
	var squares, windows, leads, decodes float64
	for j := range n {
		own := &y.kinds[j]
		for i := range n {
			share := x.shares[i][j]
			length, late := x.run(j, x.leads[i])
			window := x.window(i, j, length, late)
			own.share += share
			own.length += share * length
			own.late += share * late
			own.lead += share * (length - late)
			own.window += share * window
			own.biased += share * (window*window + x.spread(i, j))
			y.energy += share * (x.steps[j].energy + x.idle*(length-x.steps[j].time))
			squares += share * (window*window + x.spread(i, j))
			leads += share * window * (length - late)
			windows += share * window
		}
		if s := own.share; s > 0 {
			own.biased /= own.window
			own.length, own.late, own.lead, own.window = own.length/s, own.late/s, own.lead/s, own.window/s
		}
		if x.steps[j].backlog == (backlog{}) || !p.apart {
			decodes += own.share
		}
	}
	if x.full != nil {
		x.full.among(x)
	}
	y.plain = y.kinds[0].share
	if x.waits > 0 {
		y.plain += y.kinds[x.waits].share
	}
	x.own(y, windows)
	y.first = (squares/2+leads)/windows + y.own + x.late(y, windows)
	y.decode, y.energy = y.mean/decodes, y.energy/decodes
	return y
}

// run is a step of a kind that was formed so long ahead.
func (x *chain) run(kind int, lead float64) (length, late float64) {
	if t := &x.steps[kind]; !x.async {
		return t.time, t.time
	}
	return x.steps[kind].run(lead)
}

// window is the time from when a step was formed to when the next one is, so long after its begin. It depends on
// one of both kinds alone: on that before where the host has launched the step by its begin, and on that of the step
// where the GPU waits for the launch.
func (x *chain) window(before, kind int, length, late float64) float64 {
	switch t := &x.steps[kind]; {
	case !x.async:
		return late
	case late > 0 && late < length:
		return t.before + t.launch
	}
	return x.leads[before] + late
}

// spread is the variance of a window, for prompts differ.
func (x *chain) spread(before, kind int) float64 {
	if x.async {
		kind = before
	}
	return x.steps[kind].spread
}

// after is the probability of each kind of step after a window in which m prompts come on average. A window depends
// on the kind before alone, on the kind alone, or on both: the first two are remembered by it, the last until the next.
func (x *chain) after(before, kind int, length, late, m float64) []float64 {
	if x.waits > 0 {
		return x.afterDelay(before, kind, m)
	}
	slot := 2 * len(x.steps)
	switch carried := x.steps[kind].carried; {
	case carried != nil:
		x.means[slot] = math.NaN()
		clear(x.coming[slot])
		for i := range carried {
			x.add(x.coming[slot], carried[i].backlog, m, carried[i].chance)
		}
		return x.coming[slot]
	case late <= 0:
		slot = before
	case !x.async || late < length:
		slot = len(x.steps) + kind
	}
	if x.means[slot] != m {
		x.means[slot] = m
		clear(x.coming[slot])
		x.add(x.coming[slot], backlog{}, m, 1)
	}
	return x.coming[slot]
}

// turn goes one step further, and gives the mean length of a step.
func (x *chain) turn() (mean float64) {
	n := len(x.steps)
	for j := range n {
		clear(x.next[j])
		var sum, leads float64
		for i := range n {
			share := x.shares[i][j]
			if share < 1e-7 {
				continue
			}
			length, late := x.run(j, x.leads[i])
			mean += share * length
			sum += share
			leads += share * (length - late)
			next := x.next[j]
			for q, chance := range x.after(i, j, length, late, x.rate*x.window(i, j, length, late)) {
				next[q] += share * chance
			}
		}
		if sum > 0 && x.async {
			x.leads[j] = leads / sum
		}
	}
	x.shares, x.next = x.next, x.shares
	x.norm()
	return mean
}

// norm makes the shares sum to 1: steps of more prompts are left out.
func (x *chain) norm() {
	sum := 0.0
	for _, row := range x.shares {
		for _, v := range row {
			sum += v
		}
	}
	for _, row := range x.shares {
		for j := range row {
			row[j] /= sum
		}
	}
}

// own adds the step of a prompt itself, with those that came besides, and what follows it.
func (x *chain) own(y *cycle, windows float64) {
	for i := range y.kinds {
		k := &y.kinds[i]
		if k.share < 1e-9 {
			continue
		}
		w := k.share * k.window / windows
		if x.closed {
			own, computes, _ := x.joins(i, k.lead, x.rate*k.window, y.mean)
			y.own += k.share * own
			y.computes += k.share * computes
			continue
		}
		own, computes, behind := x.joins(i, k.lead, x.rate*k.biased, y.mean)
		y.own += w * own
		y.computes += w * computes
		y.behind += w * behind
	}
	y.behind = max(y.behind, 0) * x.echo
}

// joins is the step of a prompt that was formed so long ahead, after one of some kind and with m others on average, until the
// host has its token and until it ends, and by how much longer than the mean the steps after it are.
func (x *chain) joins(kind int, lead, m, mean float64) (own, computes, behind float64) {
	j := x.joined(kind, lead, m)
	own = j.own
	// The next step has the prompts that came until it was formed; while the host launches it, it keeps the token.
	window := j.late
	next, nextLate := 0.0, 0.0
	if x.async {
		window += j.lead
		held := x.held(j.length-j.late, x.rate*window)
		if j.full > 0 {
			held += j.full * (x.full.nextLate - held)
		}
		own += held
		own += max(min(x.out/2, x.out-(j.length-j.late)), 0) // the output of the step before came out when it was launched
	}
	next, nextLate = x.mean(j.length-j.late, x.rate*window)
	if j.full > 0 {
		next, nextLate = next+j.full*(x.full.next-next), nextLate+j.full*(x.full.nextLate-nextLate)
	}
	behind = next - mean
	if x.full != nil && x.full.piece.room < 1 {
		return own, j.own, x.full.piece.after(x.rate, j.own, mean)
	}
	if x.async {
		after, _ := x.mean(next-nextLate, x.rate*(j.length-j.late+nextLate))
		behind += after - mean
	}
	return own, j.own, behind
}

// A joined is the step that brings the first token of a prompt.
type joined struct {
	own          float64 // from the begin of the first step after its arrival to the end of this one
	lead         float64 // from when it was formed to its begin
	length, late float64
	full         float64 // probability that it leaves a backlog
}

// joined is the step of a prompt that follows one of some kind, so long ahead, with m others on average.
func (x *chain) joined(kind int, lead, m float64) (j joined) {
	all := 0.0
	one := [1]carried{{chance: 1}}
	before := x.steps[kind].carried
	if before == nil {
		before = one[:]
	}
	for i := range before {
		b := &before[i]
		for q, chance := range x.arrivals(b.backlog, 1, m) {
			t := &x.steps[q]
			length, late := x.run(q, lead)
			weight := b.chance * chance
			all += weight
			if t.carried == nil {
				j.add(&joined{own: length + t.decodes, lead: lead, length: length, late: late}, weight)
				continue
			}
			j.add(x.full.joined(b.backlog, t.prompts-b.prompts-1, lead, length, late), weight)
		}
	}
	if all == 0 { // the largest backlog that is counted
		return joined{own: x.full.length, lead: x.full.lead, length: x.full.length, late: x.full.nextLate, full: 1}
	}
	return joined{j.own / all, j.lead / all, j.length / all, j.late / all, j.full / all}
}

// add adds a step of so much weight.
func (j *joined) add(k *joined, weight float64) {
	j.own += weight * k.own
	j.lead += weight * k.lead
	j.length += weight * k.length
	j.late += weight * k.late
	j.full += weight * k.full
}

// mean is a step that was formed so long ahead, with the prompts that come at a mean of m.
func (x *chain) mean(lead, m float64) (length, late float64) {
	all := 0.0
	for q, chance := range x.arrivals(backlog{}, 0, m) {
		l, a := x.run(q, lead)
		length, late, all = length+chance*l, late+chance*a, all+chance
	}
	return length / all, late / all
}

// held is how long the host keeps the tokens of a step while it launches prompts, m on average, after it.
func (x *chain) held(lead, m float64) (sum float64) {
	for q, chance := range x.arrivals(backlog{}, 0, m) {
		if x.steps[q].prompts > 0 {
			_, late := x.run(q, lead)
			sum += chance * late
		}
	}
	return sum
}

// matrix is rows of zeros in a buffer, which grows as it has to.
func matrix(buffer *[]float64, n, columns int) [][]float64 {
	if len(*buffer) < n*columns {
		*buffer = make([]float64, 2*n*columns)
	}
	all := (*buffer)[:n*columns]
	clear(all)
	rows := make([][]float64, n)
	for i := range rows {
		rows[i] = all[i*columns : (i+1)*columns]
	}
	return rows
}
