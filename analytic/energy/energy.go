// Package energy is the power model of a GPU: what kernels draw, and how a power limit slows them.
//
//	power := energy.PowerOf(gpu, &calibration, prices)
//	power.Take(&load, &cost)                    // for each kernel
//	clocks, throttled := power.Limit(&load)     // by how much the limit slows the phase
//	watts := power.Mean(&load, clocks, 1, 1)
//
// At full clocks a GPU draws its waiting power
// all the time, and these shares of the rest of its power limit, added up:
//
//	matrix  while its arithmetic runs at the rate of bursts,
//	memory  while its memory runs at the rate that a library's GEMMs reach,
//	chip    while it does in kernels that draw more for it than the GEMMs of a library,
//	network while its links do,
//	fixed   while a kernel starts and ends,
//	unpack  while its multiprocessors unpack weights,
//	gemm    while a GEMM of a library waits for bytes, and in 16 bits while it starts and ends.
//
// The last two are part of what the balance below calls chip. Power of gemm is known of Blackwell alone. A GEMM
// in fewer bits has kernels ahead of it that quantize its inputs, and draws what other kernels do while it starts.
//
// Skinny GEMMs and decode attention may keep the multiprocessors busier for
// the bytes that they read than a library's GEMMs do: that power is the
// multiprocessors', and falls with their clocks, as the power of arithmetic does. Where the
// sum is more than the limit, the clocks of the arithmetic are lowered until it is not. The voltage falls with the
// clocks, and the energy of an operation with the rate to the power of n. Memory and links have clocks of their own. A
// phase whose arithmetic takes x times as long as in a burst takes t(x), and balances where, all in shares of that rest,
//
//	(matrix·C + chip·M)/xⁿ + memory·M + network·N + fixed·F = t(x)
//
// C, M, N and F being how long each would be busy at the rates of bursts. A phase
// that draws less than that at x = 1 runs there. On a board whose sustained rate
// is its generation's rule and no measurement, a phase takes at most y² times as long as in a burst, where
// the square GEMM below takes y times as long: beyond that the rule would make a board with
// more peak for the same power the slower one. The balance is that of a phase and
// not of each of its kernels, for the limit is kept over some 100 ms: the
// model describes a phase among others of its kind, not a short one on an idle GPU.
//
// A single large GEMM balances at x = matrix/xⁿ + memory·M at its sustained rate. Where the power of bursts was measured
// (power.matrix, experiments/power), n follows from that, to a quarter; where it was not, n is 1, and matrix follows.
package energy

import (
	"math"

	"llmprof/hardware"
	"llmprof/roofline"
	"llmprof/unit"
)

// Power is the power model of one GPU.
type Power struct {
	Waiting  unit.Watts // power at full clocks without work
	Rest     unit.Watts // power between waiting and the limit
	Matrix   float64    // share of Rest that arithmetic draws at the rate of bursts
	Throttle float64    // how many times longer a large GEMM takes at the power limit, at least 1
	headroom float64    // power above waiting that the limit in force allows, as a share of Rest
	capped   bool       // the limit in force is below the board's, or the clock is
	least    float64    // least factor by which the clock is lower than the full one
	lowest   float64    // factor by which the lowest clock is lower than the full one
	falls    int        // n in quarters: energy of an operation falls with the rate to this power
	most     float64    // how many times longer any phase may take

	constants *roofline.Constants
	drawn     [roofline.NumClasses]float64 // share of Rest while the bytes of a class move
	// Time of bytes at the rate that a library's GEMMs in 16 bits reach, over that at the data-sheet bandwidth.
	traffic float64
}

// PowerOf works out the power model of a GPU with a calibration.
func PowerOf(g *hardware.GPU, c *hardware.Calibration, prices *roofline.Machine) Power {
	limit, k := g.TDP, &c.Constants
	idle, ok := g.Idle()
	if !ok {
		idle = unit.Watts(k[roofline.PowerIdle] * float64(limit))
	}
	square := prices.Cost(squareGEMM())
	m := Power{Throttle: throttle(&square, k[roofline.GEMMCompute]/k[roofline.GEMMSustained]), constants: k, headroom: 1, least: 1}
	m.Waiting = idle + unit.Watts(k[roofline.PowerWaiting]*float64(limit-idle))
	m.Rest = limit - m.Waiting
	for c := range m.drawn {
		m.drawn[c] = prices.Constant(roofline.LawOf(roofline.Class(c)).Power)
	}
	m.traffic = 1 / k[roofline.GEMMMemory]
	m.most = m.Throttle * m.Throttle
	if c.Measured {
		m.most = math.Inf(1)
	}
	compute := square.Compute()
	held := float64(square.Slower(m.Throttle)-min(square.Times[roofline.Memory], compute).Times(k[roofline.PowerMemory])) / float64(compute)
	m.falls = 4
	if m.Throttle == 1 { // No balance at the board's own limit says how the energy falls.
		m.falls = 8
	}
	if burst := k[roofline.PowerMatrix] * k[roofline.GEMMCompute]; burst > held && m.Throttle > 1 {
		m.falls = max(int(math.Round(4*math.Log(burst/held)/math.Log(m.Throttle))), 1)
	}
	m.Matrix = held * power(m.Throttle, m.falls)
	return m
}

// power is x to the power of so many quarters. It rounds alike on every processor, which math.Pow does not.
func power(x float64, quarters int) float64 {
	whole := 1.0
	for range quarters / 4 {
		whole *= x
	}
	if quarters%4 != 0 {
		root := math.Sqrt(math.Sqrt(x))
		for range quarters % 4 {
			whole *= root
		}
	}
	return whole
}

// squareGEMM is the GEMM that sustained rates refer to. It reads and writes 3n² values for its 2n³ FLOPs.
func squareGEMM() *roofline.Kernel {
	const n = hardware.SquareRows
	return &roofline.Kernel{
		Class: roofline.GEMM, Format: unit.BF16, Count: 1, Work: roofline.Work{FLOPs: 2 * n * n * n, Acts: unit.BF16.Bytes(3 * n * n)},
	}
}

// throttle is how many times longer the arithmetic of the square GEMM takes where the GEMM as a whole
// takes times as long as its arithmetic does in a burst. Memory keeps its clocks.
func throttle(square *roofline.Cost, times float64) float64 {
	if c := float64(square.Compute()); float64(square.Time) > c { // The exposed part of the memory traffic adds to the square of the time.
		shown := float64(square.Time) / c
		times = math.Sqrt(max(times*times-(shown*shown-1), 1))
	}
	return max(times, 1)
}

// Window is the time over which a GPU holds its power limit.
const Window unit.Seconds = 0.1

// Split divides what a GPU draws while bytes move between its memory, which draws so much at most, and its multiprocessors.
func Split(share, memory float64) (bytes, chip float64) {
	return unit.Smaller(share, memory), unit.Larger(share-memory, 0)
}

// Moves is how long a kernel moves bytes, as far as it draws power for that. A byte of a library's GEMM takes the same energy at every rate
// (experiments/power): a GEMM that reaches less of the bandwidth draws less power.
func (p *Power) Moves(c *roofline.Cost) unit.Seconds {
	switch law := roofline.LawOf(c.Class); {
	case law.Steady:
		return c.Time - c.Times[roofline.Fixed]
	case law.ByByte:
		return c.Traffic.Times(p.traffic) + c.Times[roofline.Serial]
	}
	return c.Times[roofline.Memory] + c.Times[roofline.Serial]
}

// Busy is how long kernels keep the units of one GPU busy at the rates of bursts, overlap
// disregarded.
type Busy struct {
	Compute, Network, Fixed unit.Seconds
	// Time at full power above waiting that the moving of bytes is worth: of the memory, and of the multiprocessors beyond that.
	Memory, Chip unit.Seconds
}

// Add adds n times c.
func (b *Busy) Add(c *Busy, n float64) {
	b.Compute += c.Compute.Times(n)
	b.Network += c.Network.Times(n)
	b.Fixed += c.Fixed.Times(n)
	b.Memory += c.Memory.Times(n)
	b.Chip += c.Chip.Times(n)
}

// Times is n times b.
func (b Busy) Times(n float64) (c Busy) {
	c.Add(&b, n)
	return c
}

// A Load is what kernels take on one GPU, and by how much more where their arithmetic is
// slower.
type Load struct {
	Busy
	Expected unit.Seconds
	Slower   unit.Seconds // time added where arithmetic takes Throttle times as long
	Slowest  unit.Seconds // time added where arithmetic takes Throttle² times as long
	Stretch  stretch      // time added at lower clocks; zero unless a limit below the board's is set
}

// Add adds n times m.
func (l *Load) Add(m *Load, n float64) {
	l.Busy.Add(&m.Busy, n)
	l.Expected += m.Expected.Times(n)
	l.Slower += m.Slower.Times(n)
	l.Slowest += m.Slowest.Times(n)
	for i := range l.Stretch {
		l.Stretch[i] += m.Stretch[i].Times(n)
	}
}

// BusyOf is how long a kernel keeps units busy that draw power. Kernels that were timed while the GPU was slowed draw the power of their
// memory traffic all the time.
func (p *Power) BusyOf(c *roofline.Cost) (b Busy) {
	if !roofline.LawOf(c.Class).Steady {
		b.Compute = unit.Larger(c.Useful, c.Times[roofline.Vector])
	}
	b.Network, b.Fixed = c.Times[roofline.Network], c.Times[roofline.Fixed]
	moves := p.Moves(c)
	if active := p.constants[roofline.PowerGEMM]; active > 0 && c.Class == roofline.GEMM {
		waits := unit.Larger(c.Times[roofline.Memory]-moves, 0) // the rate of this GEMM is lower than that of most
		if c.Scheme == roofline.Unquantized {
			waits, b.Fixed = waits+b.Fixed, 0
		}
		b.Chip = waits.Times(active)
	}
	if moves != 0 {
		bytes, chip := Split(p.drawn[c.Class], p.constants[roofline.PowerMemory])
		b.Memory = moves.Times(bytes)
		b.Chip += moves.Times(chip)
		b.Chip += unpacking(c).Times(p.constants[roofline.PowerUnpack])
	}
	return b
}

// unpacking is how long the vector units unpack weights.
func unpacking(c *roofline.Cost) unit.Seconds {
	switch {
	case c.Class == roofline.UnpackGEMM:
		return c.Times[roofline.Vector]
	case c.Unpacks:
		return c.Times[roofline.Memory]
	}
	return 0
}

// Take adds a kernel, and what it would take if its arithmetic took Throttle times as
// long, and Throttle² times. Memory and links have clocks of their own.
func (p *Power) Take(l *Load, c *roofline.Cost) {
	l.Expected += c.Time
	busy := p.BusyOf(c)
	l.Busy.Add(&busy, 1)
	if p.capped {
		l.Stretch.take(c)
	}
	if p.Throttle <= 1 || roofline.LawOf(c.Class).Steady {
		return
	}
	if slowest := c.Slower(p.Throttle * p.Throttle); slowest > c.Time {
		l.Slowest += slowest - c.Time
		l.Slower += c.Slower(p.Throttle) - c.Time
	}
}

// Limit slows a load until it draws no more than the power limit, and how much longer all of it then takes.
func (p *Power) Limit(l *Load) (c Clocks, throttled unit.Seconds) {
	if !p.capped {
		c.At, throttled = p.balanced(l, p.headroom)
		c.Own = c.At
		return c, throttled
	}
	return p.cap(l)
}

// balanced is by how many times arithmetic takes longer at a limit of the board's or above it, and how much longer all
// of the load takes. How the time grows with x is taken as two lines, from x = 1 to throttle and from there to throttle².
func (p *Power) balanced(l *Load, headroom float64) (clock float64, throttled unit.Seconds) {
	matrix, other := p.chip(&l.Busy)/headroom, (float64(l.Memory)+p.others(&l.Busy))/headroom
	if p.Throttle <= 1 || matrix+other <= float64(l.Expected) {
		return 1, 0
	}
	slope := float64(l.Slower) / (p.Throttle - 1)
	clock = p.balance(float64(l.Expected)-slope, slope, matrix, other)
	throttled = unit.Seconds(slope * (clock - 1))
	if clock > p.Throttle {
		slope = float64(l.Slowest-l.Slower) / (p.Throttle*p.Throttle - p.Throttle)
		clock = min(p.balance(float64(l.Expected+l.Slower)-slope*p.Throttle, slope, matrix, other), p.most)
		throttled = l.Slower + unit.Seconds(slope*(clock-p.Throttle))
	}
	return clock, throttled
}

// raise is the share by which LimitSlope raises the limit.
const raise = 0.1

// LimitSlope is the derivative of the time of a load by the logarithm of the power limit: what a limit that is a tenth higher saves.
func (p *Power) LimitSlope(l *Load) unit.Seconds {
	higher := *p
	higher.headroom = (float64(p.Most())*(1+raise) - float64(p.Waiting)) / float64(p.Rest)
	_, now := p.Limit(l)
	_, then := higher.Limit(l)
	return (then - now).Times(1 / math.Log1p(raise))
}

// balance is the x at which matrix/xⁿ + other = base + slope·x, for a left side that is the greater at x = 1. By Newton's
// method from there, because the difference falls and is convex.
func (p *Power) balance(base, slope, matrix, other float64) float64 {
	if p.falls == 4 {
		b := base - other
		return 2 * matrix / (b + math.Sqrt(b*b+4*slope*matrix))
	}
	if slope <= 0 && base <= other {
		return math.Inf(1)
	}
	x := 1.0
	for range 100 {
		chip := matrix / power(x, p.falls)
		step := (chip + other - base - slope*x) / (chip*float64(p.falls)/(4*x) + slope)
		if x += step; step <= 1e-14*x {
			break
		}
	}
	return x
}

// Most is the power limit in force.
func (p *Power) Most() unit.Watts { return p.Waiting + unit.Watts(float64(p.Rest)*p.headroom) }

// Mean is what one GPU draws on the mean of a load at clocks. Stages of a pipeline work in turn, each for its share of the
// time; as many at once as there are parts of the batch.
func (p *Power) Mean(l *Load, c Clocks, stages, parts float64) unit.Watts {
	if l.Expected <= 0 {
		return p.Waiting
	}
	active := p.Active(&l.Busy, c)
	return p.Waiting + unit.Watts(min(float64(active)/float64(l.Expected), float64(p.Rest)*p.headroom*min(stages, parts))/stages)
}

// Fall is the factor by which the energy of what the multiprocessors do is lower where that takes x times as long.
func (p *Power) Fall(x float64) float64 { return power(x, p.falls) }

// Active is the energy besides waiting of a GPU that is so busy, at clocks.
func (p *Power) Active(b *Busy, c Clocks) unit.Joules {
	if c.At > c.Own {
		return p.Rest.For(p.lowered(b, c))
	}
	return p.Rest.For(unit.Seconds(p.chip(b)/p.Fall(c.At) + float64(b.Memory) + p.others(b)))
}

// chip is the time at full power above waiting that what the multiprocessors do is worth.
func (p *Power) chip(b *Busy) float64 { return p.Matrix*float64(b.Compute) + float64(b.Chip) }

// others is the time at full power above waiting that times of links, and of kernels that
// start and end, are worth.
func (p *Power) others(b *Busy) float64 {
	return p.constants[roofline.PowerNetwork]*float64(b.Network) + p.constants[roofline.PowerFixed]*float64(b.Fixed)
}

// Energy is what the GPUs draw, all of them together, for one sequence.
type Energy struct {
	PerPrompt  unit.Joules // the prefill
	PerToken   unit.Joules // each token after the first
	PerRequest unit.Joules // prompt and all tokens
	Prefill    unit.Watts  // mean of one GPU
	Decode     unit.Watts
	IdleKnown  bool // the idle power has a source

	Prompt, Token, Request Interval
}

// An Interval is what an energy lies in with 90 % probability.
type Interval struct{ Low, High unit.Joules }

// Within is the interval of an energy that may be less and more than expected by these shares.
func Within(e unit.Joules, less, more float64) Interval {
	return Interval{e.Times(max(1-less, 0)), e.Times(1 + more)}
}

// Plus is the interval of a sum whose parts are off together.
func (i Interval) Plus(other Interval, times float64) Interval {
	return Interval{i.Low + other.Low.Times(times), i.High + other.High.Times(times)}
}

// Of is the energy of a sequence by what one GPU draws on the mean of its phases and by
// their times, where tokens follow the first one. Each is the GPUs for each sequence.
func Of(prefill, decode unit.Watts, prompt, run unit.Seconds, tokens int, each float64) Energy {
	e := Energy{Prefill: prefill, PerPrompt: prefill.For(prompt).Times(each)}
	e.PerRequest = e.PerPrompt
	if tokens > 0 {
		all := decode.For(run).Times(each)
		e.Decode, e.PerToken = decode, all.Times(1/float64(tokens))
		e.PerRequest += all
	}
	return e
}
