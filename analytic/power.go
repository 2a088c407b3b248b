package analytic

import (
	"math"

	"llmprof/hardware"
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
// added up (hardware.Power). An engine's own products of few rows and its decode
// attention may keep the multiprocessors busier for the bytes that they read than a
// library's products do: that is theirs, and falls with their clocks, as that of
// arithmetic does. Where all that is more than the limit, the clocks of the
// arithmetic are lowered until it is not. With them the voltage falls: the energy of
// an operation is taken to go with the rate, so the power with its square. Memory and
// links have clocks of their own. A phase whose arithmetic takes x times as long as in
// a burst takes t(x), and balances where, all in shares of that rest,
//
//	(matrix·C + chip·M)/x + memory·M + network·N + fixed·F = t(x)
//
// C, M, N and F being how long each would be busy at the rates of bursts. A phase
// that draws less than that at x = 1 runs there. The balance is that of a phase and
// not of each of its kernels, for the limit is kept over some 100 ms: what is meant is
// a phase among others of its kind, not a short one on a GPU that did nothing before.
//
// A single large product balances at x = matrix/x + memory·M, so that matrix
// follows from the rates of bursts and of sustained work, and needs no constant.

// power is what a machine draws.
type power struct {
	waiting unit.Watts // at full clocks, doing nothing
	rest    unit.Watts // from there to the limit
	matrix  float64    // of the rest, for arithmetic at the rate of bursts
	held    float64    // how many times longer a large product takes when held at the limit, at least 1
}

// powers works out the power model of a machine.
func (m *Machine) powers() power {
	limit := m.GPU.TDP
	idle, ok := m.GPU.Idle()
	if !ok {
		idle = unit.Watts(m.Cal.Power.Idle * float64(limit))
	}
	p := power{held: max(m.Cal.GEMM.Compute/m.Cal.Sustained, 1)}
	p.waiting = idle + unit.Watts(m.Cal.Power.Waiting*float64(limit-idle))
	p.rest = limit - p.waiting
	// The square product of n rows reads and writes 3n² values for its 2n³ FLOPs.
	const n = hardware.SquareRows
	k := &m.Cal.GEMM
	compute := unit.FLOPs(2 * n * n * n).Over(m.rate[sixteen].Times(k.Compute))
	memory := sixteen.Bytes(3 * n * n).Over(m.GPU.Bandwidth.Times(k.Memory))
	p.matrix = p.held * (p.held - m.Cal.Power.Memory*min(float64(memory)/float64(compute), 1))
	return p
}

// Arithmetic is what the arithmetic of a machine draws at the rate of bursts, as a share
// of what lies between the waiting power and the limit.
func (m *Machine) Arithmetic() float64 { return m.matrix }

// draw is the time at full power above waiting that the moving of bytes is worth: of
// the memory, and of the multiprocessors beyond that.
type draw struct{ memory, chip unit.Seconds }

// drawOf is what kernels draw that take this share of the power while their bytes
// move, which takes so long by itself.
func (m *Machine) drawOf(share float64, busy unit.Seconds) draw {
	memory := m.Cal.Power.Memory
	return draw{busy.Times(min(share, memory)), busy.Times(max(share-memory, 0))}
}

// add adds n times e.
func (d *draw) add(e draw, n float64) {
	d.memory += e.memory.Times(n)
	d.chip += e.chip.Times(n)
}

// hold slows a phase until it draws no more than the power limit. How its time
// grows with x is taken as two lines, through x = 1 and x = held and on from there.
func (m *Machine) hold(t *tally) {
	t.slowed = 1
	matrix := m.matrix*float64(t.busy[0]) + float64(t.draw.chip)
	other := float64(t.draw.memory) + m.others(t.busy[1], t.busy[2])
	if m.held <= 1 || matrix+other <= float64(t.expected) {
		return
	}
	first := float64(t.slower) / (m.held - 1)
	t.slowed = balance(float64(t.expected)-first, first, matrix, other)
	t.more = unit.Seconds(first * (t.slowed - 1))
	if t.slowed > m.held {
		at := float64(t.expected + t.slower)
		t.slowed = balance(at-float64(t.steep)*m.held, float64(t.steep), matrix, other)
		t.more = t.slower + t.steep.Times(t.slowed-m.held)
	}
	t.expected += t.more
	t.bound[ByCompute] += t.more
}

// balance is the x at which matrix/x + other = base + slope·x.
func balance(base, slope, matrix, other float64) float64 {
	b := base - other
	return 2 * matrix / (b + math.Sqrt(b*b+4*slope*matrix))
}

// draws is what one GPU draws on the mean of a phase: stages work on it in turn,
// each for its share of the time.
func (m *Machine) draws(t *tally, stages float64) unit.Watts {
	if t.expected <= 0 {
		return m.waiting
	}
	active := m.active(t.busy[0], t.draw, t.busy[1], t.busy[2], t.slowed)
	return m.waiting + unit.Watts(min(float64(active)/float64(t.expected), float64(m.rest))/stages)
}

// active is the energy besides waiting of one GPU whose units are busy for so long
// at the rates of bursts, where what the multiprocessors do takes x times as long.
func (m *Machine) active(compute unit.Seconds, d draw, network, fixed unit.Seconds, x float64) unit.Joules {
	chip := m.matrix*float64(compute) + float64(d.chip)
	return m.rest.For(unit.Seconds(chip/x + float64(d.memory) + m.others(network, fixed)))
}

// others is the time at full power above waiting that those times are worth.
func (m *Machine) others(network, fixed unit.Seconds) float64 {
	p := &m.Cal.Power
	return p.Network*float64(network) + p.Fixed*float64(fixed)
}
