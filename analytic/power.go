package analytic

import (
	"math"

	"llmprof/hardware"
	"llmprof/roofline"
	"llmprof/unit"
)

// The power model. A GPU at full clocks draws its waiting power all the time, and
// of the rest of its power limit
//
//	matrix  while its arithmetic runs at the rate of bursts,
//	memory  while its memory runs at the rate that it reaches,
//	chip    while it does in kernels that draw more for it than the products of a library,
//	network while its links do,
//	fixed   while a kernel starts and ends,
//
// added up. Skinny GEMMs and decode attention may keep the multiprocessors busier for
// the bytes that they read than a library's products do: that is theirs, and falls
// with their clocks, as that of arithmetic does. Where all that is more than the limit, the clocks of the
// arithmetic are lowered until it is not. With them the voltage falls: the energy of
// an operation is taken to go with the rate, so the power with its square. Memory and
// links have clocks of their own. A phase whose arithmetic takes x times as long as in
// a burst takes t(x), and balances where, all in shares of that rest,
//
//	(matrix·C + chip·M)/x + memory·M + network·N + fixed·F = t(x)
//
// C, M, N and F being how long each would be busy at the rates of bursts. A phase
// that draws less than that at x = 1 runs there. On a board whose sustained rate
// is its generation's rule and no measurement, no phase is slowed by more than the square
// of what the square product below is: beyond that the rule would make a board with
// more peak for the same power the slower one. The balance is that of a phase and
// not of each of its kernels, for the limit is kept over some 100 ms: what is meant is
// a phase among others of its kind, not a short one on a GPU that did nothing before.
//
// A single large product balances at x = matrix/x + memory·M, so that matrix
// follows from the rates of bursts and of sustained work, and needs no constant.

// Power is what a machine draws.
type Power struct {
	Waiting  unit.Watts // at full clocks, doing nothing
	Rest     unit.Watts // from there to the limit
	Matrix   float64    // of the rest, for arithmetic at the rate of bursts
	Throttle float64    // how many times longer a large product takes at the power limit, at least 1
	Most     float64    // how many times longer any phase may take
}

// powers works out the power model of a machine.
func (m *Machine) powers() Power {
	limit := m.GPU.TDP
	idle, ok := m.GPU.Idle()
	if !ok {
		idle = unit.Watts(m.constant(roofline.PowerIdle) * float64(limit))
	}
	p := Power{Throttle: max(m.constant(roofline.GEMMCompute)/m.constant(roofline.GEMMSustained), 1)}
	p.Waiting = idle + unit.Watts(m.constant(roofline.PowerWaiting)*float64(limit-idle))
	p.Rest = limit - p.Waiting
	p.Most = p.Throttle * p.Throttle
	if m.Cal.Measured {
		p.Most = math.Inf(1)
	}
	// The square product of n rows reads and writes 3n² values for its 2n³ FLOPs.
	const n = hardware.SquareRows
	t := m.prices.Times(&roofline.Kernel{
		Class: roofline.GEMM, Format: unit.BF16, Work: roofline.Work{FLOPs: 2 * n * n * n, Acts: unit.BF16.Bytes(3 * n * n)},
	})
	p.Matrix = p.Throttle * (p.Throttle - m.constant(roofline.PowerMemory)*min(float64(t[roofline.Memory])/float64(t.Compute()), 1))
	return p
}

// BurstPower is what the arithmetic of a GPU draws at the rate of bursts, as a share of
// what lies between the waiting power and the limit.
func BurstPower(g *hardware.GPU, c *hardware.Calibration) (float64, error) {
	peaks, err := g.Peaks()
	if err != nil {
		return 0, err
	}
	m := Machine{GPU: g, Cal: *c, prices: roofline.NewMachine(peaks, &c.Constants)}
	return m.powers().Matrix, nil
}

// Draw is the time at full power above waiting that the moving of bytes is worth: of
// the memory, and of the multiprocessors beyond that.
type Draw struct{ Memory, Chip unit.Seconds }

// DrawOf is what a kernel draws while its bytes move.
func (m *Machine) DrawOf(c *roofline.Cost) Draw {
	busy := c.Times[roofline.Memory] + c.Times[roofline.Serial]
	if busy == 0 {
		return Draw{}
	}
	memory, share := m.constant(roofline.PowerMemory), m.constant(roofline.LawOf(c.Class).Power)
	return Draw{busy.Times(min(share, memory)), busy.Times(max(share-memory, 0))}
}

// Add adds n times e.
func (d *Draw) Add(e Draw, n float64) {
	d.Memory += e.Memory.Times(n)
	d.Chip += e.Chip.Times(n)
}

// limit slows a phase until it draws no more than the power limit. How its time grows
// with x is taken as two lines, from x = 1 to throttle and from there to throttle².
func (m *Machine) limit(t *timing) {
	t.clock = 1
	matrix := m.Matrix*float64(t.compute) + float64(t.draw.Chip)
	other := float64(t.draw.Memory) + m.others(t.network, t.fixed)
	if m.Throttle <= 1 || matrix+other <= float64(t.expected) {
		return
	}
	slope := float64(t.slower) / (m.Throttle - 1)
	t.clock = balance(float64(t.expected)-slope, slope, matrix, other)
	t.throttled = unit.Seconds(slope * (t.clock - 1))
	if t.clock > m.Throttle {
		slope = float64(t.slowest-t.slower) / (m.Throttle*m.Throttle - m.Throttle)
		t.clock = min(balance(float64(t.expected+t.slower)-slope*m.Throttle, slope, matrix, other), m.Most)
		t.throttled = t.slower + unit.Seconds(slope*(t.clock-m.Throttle))
	}
	t.expected += t.throttled
	t.bound[roofline.ByCompute] += t.throttled
}

// balance is the x at which matrix/x + other = base + slope·x.
func balance(base, slope, matrix, other float64) float64 {
	b := base - other
	return 2 * matrix / (b + math.Sqrt(b*b+4*slope*matrix))
}

// draws is what one GPU draws on the mean of a phase: stages work on it in turn,
// each for its share of the time.
func (m *Machine) draws(t *timing, stages float64) unit.Watts {
	if t.expected <= 0 {
		return m.Waiting
	}
	active := m.Active(t.compute, t.draw, t.network, t.fixed, t.clock)
	return m.Waiting + unit.Watts(min(float64(active)/float64(t.expected), float64(m.Rest))/stages)
}

// Active is the energy besides waiting of one GPU whose units are busy for so long
// at the rates of bursts, where what the multiprocessors do takes x times as long.
func (m *Machine) Active(compute unit.Seconds, d Draw, network, fixed unit.Seconds, x float64) unit.Joules {
	chip := m.Matrix*float64(compute) + float64(d.Chip)
	return m.Rest.For(unit.Seconds(chip/x + float64(d.Memory) + m.others(network, fixed)))
}

// others is the time at full power above waiting that those times are worth.
func (m *Machine) others(network, fixed unit.Seconds) float64 {
	return m.constant(roofline.PowerNetwork)*float64(network) + m.constant(roofline.PowerFixed)*float64(fixed)
}

// Energy is what the GPUs draw, all of them together, for one sequence.
type Energy struct {
	PerPrompt  unit.Joules // the prefill
	PerToken   unit.Joules // each token after the first
	PerRequest unit.Joules // prompt and all tokens
	Prefill    unit.Watts  // mean of one GPU
	Decode     unit.Watts
	IdleKnown  bool // the idle power has a source
}

// energy of a workload's prefill and decode.
func (p *Predictor) energy(w *Workload, prefill, decode *total) Energy {
	stages := float64(p.par.PP)
	each := float64(p.par.TP*p.par.PP) / float64(w.Batch)
	_, known := p.machine.GPU.Idle()
	e := Energy{IdleKnown: known, Prefill: p.machine.draws(&prefill.timing, stages)}
	e.PerPrompt = e.Prefill.For(prefill.expected).Times(each)
	e.PerRequest = e.PerPrompt
	if w.Gen > 1 {
		e.Decode = p.machine.draws(&decode.timing, stages)
		all := e.Decode.For(decode.expected).Times(each)
		e.PerToken = all.Times(1 / float64(w.Gen-1))
		e.PerRequest += all
	}
	return e
}
