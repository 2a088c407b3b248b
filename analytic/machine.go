package analytic

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"llmprof/hardware"
	"llmprof/unit"
)

// A Machine is a GPU with what it and its engine reach in practice. Build one
// with NewMachine and use it for any number of estimates.
type Machine struct {
	GPU    *hardware.GPU
	Cal    hardware.Calibration
	Engine Engine

	rate [unit.NumFormats]unit.FLOPsPerSec // at which products in a format run
	runs [unit.NumFormats]unit.Format      // in which format they do
	power
}

// instead says which format stands in for one that the GPU has no unit for: the
// narrowest that holds its values.
var instead = [unit.NumFormats]unit.Format{
	unit.MXFP4: unit.NVFP4, unit.NVFP4: unit.FP8, unit.FP8: unit.BF16, unit.INT4: unit.INT8,
	unit.INT8: unit.BF16, unit.BF16: unit.FP16, unit.FP16: unit.FP32, unit.TF32: unit.FP32,
}

// NewMachine resolves the rates at which a GPU computes in each format.
func NewMachine(g *hardware.GPU, c hardware.Calibration, e Engine) (*Machine, error) {
	if g == nil {
		return nil, fmt.Errorf("no GPU is given")
	}
	if err := checkCalibration(&c); err != nil {
		return nil, err
	}
	m := &Machine{GPU: g, Cal: c, Engine: e}
	for f := unit.FP32; f < unit.NumFormats; f++ {
		run := f
		for run != unit.NoFormat && !g.Has(run) {
			run = instead[run]
		}
		if run == unit.NoFormat {
			return nil, fmt.Errorf("%s lists no peak for %v nor for any format that could stand in for it", g.Name, f)
		}
		m.runs[f] = run
		m.rate[f], _ = g.Peak(run)
	}
	if g.Bandwidth <= 0 || g.Memory <= 0 {
		return nil, fmt.Errorf("%s lists no memory size or bandwidth", g.Name)
	}
	m.power = m.powers()
	return m, nil
}

// checkCalibration keeps impossible shares out: an expected time below the floor.
func checkCalibration(c *hardware.Calibration) error {
	for _, e := range [...]struct {
		name  string
		share float64
	}{
		{"GEMM compute", c.GEMM.Compute}, {"GEMM memory", c.GEMM.Memory}, {"own products' memory", c.Own.Memory}, {"mixtures' memory", c.Mixture.Memory},
		{"wide products' memory", c.Wide.Memory}, {"experts' compute", c.Experts.Compute}, {"experts' memory", c.Experts.Memory},
		{"attention compute", c.Attention.Compute}, {"attention memory", c.Attention.Memory},
		{"element-wise compute", c.Element.Compute}, {"element-wise memory", c.Element.Memory}, {"sustained compute", c.Sustained},
		{"link", c.Link}, {"PCIe", c.PCIe}, {"inter-node", c.InterNode},
	} {
		unknown := slices.Contains([]string{"mixtures' memory", "wide products' memory", "experts' memory"}, e.name)
		if unknown = unknown || strings.HasPrefix(e.name, "experts'") && c.Experts.Memory == 0; unknown && e.share == 0 {
			continue // nothing is known of them
		}
		if !(e.share > 0 && e.share <= 1) {
			return fmt.Errorf("%s efficiency is %v: it must be above 0 and at most 1, a share of the data-sheet peak", e.name, e.share)
		}
	}
	for _, e := range [...]struct {
		name  string
		share float64
	}{
		{"memory", c.Power.Memory}, {"network", c.Power.Network}, {"fixed", c.Power.Fixed}, {"waiting", c.Power.Waiting}, {"idle", c.Power.Idle},
	} {
		if !(e.share >= 0 && e.share < 1) {
			return fmt.Errorf("%s power is %v: it must be at least 0 and below 1, a share of the power limit", e.name, e.share)
		}
	}
	for _, share := range []float64{c.Power.Own, c.Power.Attention} {
		if !(share >= 0 && share <= hardware.MostPower) {
			return fmt.Errorf("the power of own products or of attention is %v: it must be at least 0 and at most %d, a share of the power limit", share, hardware.MostPower)
		}
	}
	return nil
}

// Runs is the format that products in f are computed in, and its peak.
func (m *Machine) Runs(f unit.Format) (unit.Format, unit.FLOPsPerSec) { return m.runs[f], m.rate[f] }

// A Cost is an Op on a Machine, over all its occurrences in a step. The times of
// the resources are expected ones; they overlap, and what is fixed does not.
type Cost struct {
	Compute, Memory, Network unit.Seconds
	Fixed                    unit.Seconds // kernels' and collectives' latency
	Draw                     draw         // that goes with Memory
	Kernels                  float64      // that are launched
	Floor                    floor

	vector bool // Compute is of the vector units, not of the matrix units
}

// Time is what the Op is expected to take.
func (c *Cost) Time() unit.Seconds { return c.Fixed + max(c.Compute, c.Memory, c.Network) }

// piece tells apart the pieces between which the time, the maximum of lines, has
// its corners.
func (c *Cost) piece() uint32 {
	switch t := max(c.Compute, c.Memory, c.Network); {
	case t == c.Memory:
		return 1
	case t == c.Network:
		return 2
	case c.vector:
		return 3
	}
	return 0
}

// Bound is what takes most of the Op's time.
func (c *Cost) Bound() Bound {
	b, t := ByCompute, c.Compute
	if c.Memory > t {
		b, t = ByMemory, c.Memory
	}
	if c.Network > t {
		b, t = ByNetwork, c.Network
	}
	if c.Fixed > t {
		if c.Network > 0 {
			return ByNetwork // the latency of the link, not of a launch
		}
		return ByLaunch
	}
	return b
}

// Bound says which resource a time is waiting for.
type Bound uint8

// The resources.
const (
	ByCompute Bound = iota
	ByMemory
	ByNetwork
	ByLaunch
	numBounds
)

var boundNames = [numBounds]string{"compute", "memory", "network", "launch"}

// String names the bound as the field does, without "-bound".
func (b Bound) String() string { return boundNames[b] }

// MarshalText writes the name of the bound.
func (b Bound) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// floor is the least time that each resource takes at its data-sheet peak.
type floor struct{ matrix, vector, memory, link, node unit.Seconds }

// time is the floor when all resources work at once.
func (f *floor) time() unit.Seconds { return max(f.matrix, f.vector, f.memory, f.link, f.node) }

// which is the resource that the floor waits for.
func (f *floor) which() (w uint64) {
	t := f.time()
	for i, x := range [...]unit.Seconds{f.matrix, f.vector, f.memory, f.link, f.node} {
		if x == t {
			w = uint64(i)
		}
	}
	return w
}

// add adds n times g.
func (f *floor) add(g *floor, n float64) {
	f.matrix += g.matrix.Times(n)
	f.vector += g.vector.Times(n)
	f.memory += g.memory.Times(n)
	f.link += g.link.Times(n)
	f.node += g.node.Times(n)
}

// carried prices o where the kernel of another operator does it (Carries).
func (m *Machine) carried(o *Op) (c Cost) {
	inside := *o
	inside.Kernels, inside.Acts = 0, 0
	return m.Cost(&inside)
}

// own prices a product by the engine's own kernels (hardware.Rows).
func (m *Machine) own(o *Op) Cost {
	c, k, n := m.Cost(o), &m.Cal.Own, o.Layers
	c.Memory = (o.Weights + o.Acts).Over(m.GPU.Bandwidth.Times(k.Memory)).Times(n) + o.Weights.Over(m.GPU.Bandwidth).Times(n*k.Row*o.Rows)
	c.Draw = m.drawOf(m.Cal.Power.Own, c.Memory)
	c.Fixed = k.Fixed.Times(n * o.Kernels)
	return c
}

// wide prices a product of many sequences by the engine's own kernels (hardware.Wide).
func (m *Machine) wide(o *Op) Cost {
	c, k, n := m.Cost(o), &m.Cal.Wide, o.Layers
	c.Memory = o.Weights.Over(m.GPU.Bandwidth.Times(k.Memory)).Times(n) + o.Acts.Over(m.GPU.Bandwidth).Times(n*k.Again)
	c.Draw = m.drawOf(m.Cal.Power.Memory, c.Memory)
	c.Fixed = k.Fixed.Times(n * o.Kernels)
	return c
}

// prompted prices the choice and the experts of a prompt by the engine's own kernels
// (hardware.Experts). What is gathered and summed is a kernel's by itself, beside the product, and
// what arithmetic and memory do not hide of each other is a time in which both wait.
func (m *Machine) prompted(o *Op) Cost {
	c, k, n := m.Cost(o), &m.Cal.Experts, o.Layers
	switch {
	case o.Pairs == 0, o.Kind != GEMM && k.ChoiceFixed == 0: // the router; a choice of which nothing is known
		return c
	case o.Kind != GEMM: // one block's, whatever it waits for
		c.Fixed = (k.ChoiceFixed + k.ChoiceExpert.Times(o.Experts)).Times(n)
		c.Memory, c.Compute, c.Draw = k.ChoicePair.Times(n*o.Pairs), 0, draw{}
		return c
	}
	read := o.Weights.Times(Reread(m.GPU, o.Weights.Times(1/o.Hit), o.Pairs/o.Hit))
	c.Compute = o.FLOPs.Over(m.rate[o.Format].Times(k.Compute)).Times(n)
	c.Memory = read.Over(m.GPU.Bandwidth.Times(k.Memory)).Times(n)
	times := k.Sum
	if o.Up {
		times = k.Gather
	}
	moved := o.Ordered.Over(m.GPU.Bandwidth).Times(n * times)
	waits := unit.Seconds(math.Hypot(float64(c.Compute), float64(c.Memory))) - max(c.Compute, c.Memory)
	c.Draw = m.drawOf(m.Cal.Power.Memory, c.Memory+moved)
	c.Fixed = m.Cal.GEMM.Fixed.Times(n*o.Kernels) + waits + moved
	c.Kernels = 2 * n * o.Kernels
	return c
}

// mixtureKernels is how many operators share a mixture's fixed time: router, choice and
// the experts' two products.
const mixtureKernels = 4

// mixed prices an operator of a mixture by the engine's own kernels (hardware.Mixture). Each
// pair of a token and an expert is 2 FLOPs for each of the expert's weights, which have two
// bytes: as many bytes as FLOPs are met by a row.
func (m *Machine) mixed(o *Op, a aboard) Cost {
	c, k, n := m.Cost(o), &m.Cal.Mixture, o.Layers
	fixed := k.Fixed
	if a.has(severalSequences) {
		fixed = k.Several
	}
	read, more := o.Weights, unit.Bytes(o.FLOPs).Times(k.Row)
	if k.Again > 0 {
		if more = 0; o.Hit > 0 && a.has(severalSequences) { // a product of experts
			expert := o.Weights.Times(1 / o.Hit)
			if o.Up && a.has(pairByPair) {
				more = expert.Times((o.Pairs - o.Hit) * k.Again)
			} else {
				read = expert.Times(o.groups())
			}
		}
	}
	c.Memory = read.Over(m.GPU.Bandwidth.Times(k.Memory)).Times(n) + more.Over(m.GPU.Bandwidth).Times(n)
	c.Draw = m.drawOf(m.Cal.Power.Own, c.Memory)
	c.Fixed = fixed.Times(n / mixtureKernels)
	return c
}

// within prices o in a step that takes some rides along. A product in one kernel with others
// keeps its fixed time: there too it waits for all of the product ahead.
func (m *Machine) within(o *Op, a aboard) Cost {
	switch {
	case o.Mixture && a.has(ownMixture) && m.Cal.Mixture.Memory > 0:
		return m.mixed(o, a)
	case o.Mixture && a.has(promptMixture) && m.Cal.Experts.Memory > 0:
		return m.prompted(o)
	case a.rides(o) && o.Kind == Element:
		return m.carried(o)
	case a.has(wideProduct) && (o.Ride == ownProduct || o.Ride == ownHead) && m.Cal.Wide.Memory > 0:
		return m.wide(o)
	case !a.has(o.Ride):
		return m.Cost(o)
	case o.Kind == GEMM:
		return m.own(o)
	case o.Kind == Collective:
		c := m.Cost(o)
		c.Fixed = m.posted(o, 1, !a.has(ownProduct)).Times(o.Layers * o.Kernels)
		return c
	}
	return m.Cost(o)
}

// Cost prices o as a kernel of its own.
func (m *Machine) Cost(o *Op) (c Cost) {
	g, cal, n := m.GPU, &m.Cal, o.Layers
	vector := m.rate[unit.FP32]
	matrix := vector
	if o.Format != unit.NoFormat {
		matrix = m.rate[o.Format]
	}
	c.Floor = floor{
		matrix: o.FLOPs.Over(matrix).Times(n), vector: o.Vector.Over(vector).Times(n),
		memory: (o.Weights + o.KV + o.State).Over(g.Bandwidth).Times(n),
		link:   o.Wire.Over(g.LinkAmong(int(o.Ranks))).Times(n), node: o.NodeWire.Over(g.NIC).Times(n),
	}
	if o.Kind == Collective {
		share := cal.Link
		if !m.linked(o) {
			share = cal.PCIe
		}
		c.Network = c.Floor.link.Times(1/share) + c.Floor.node.Times(1/cal.InterNode)
		c.Fixed, c.Kernels = m.latency(o, 1).Times(n*o.Kernels), n*o.Kernels
		return c
	}
	k, kernels, acts := &cal.GEMM, o.Kernels, o.Acts
	switch o.Kind {
	case Attention:
		k = &cal.Attention
	case Element:
		k = &cal.Element
	}
	if !m.Engine.Fused {
		kernels, acts = o.Eager, o.apart()
	}
	work := o.FLOPs + o.PerKey.Times(cal.AttentionRamp/2)
	c.Compute = work.Over(matrix.Times(k.Compute)).Times(n)
	if v := o.Vector.Over(vector.Times(cal.Element.Compute)).Times(n); v > c.Compute {
		c.Compute, c.vector = v, true
	}
	c.Memory = (o.Weights + o.KV + o.State + acts).Over(g.Bandwidth.Times(k.Memory)).Times(n)
	if share := m.Engine.Repeat; share > 0 && o.Repeated > 0 {
		c.Memory = o.Repeated.Over(g.Bandwidth.Times(share)).Times(n)
	}
	if m.Engine.Join {
		c.Memory += o.Joined.Over(g.Bandwidth.Times(cal.Element.Memory)).Times(n)
	}
	c.Fixed, c.Kernels = m.fixed(k, o.Kind, kernels).Times(n), n*kernels
	share := cal.Power.Memory
	if o.Kind == Attention && (m.Engine.Repeat == 0 || o.Repeated == 0) { // copies for every head are no attention's
		share = cal.Power.Attention
	}
	c.Draw = m.drawOf(share, c.Memory)
	return c
}

// fixed is the time of kernels launches that no size takes away. An unfused
// engine's element-wise kernels follow each other in a graph.
func (m *Machine) fixed(k *hardware.Kernel, kind Kind, kernels float64) unit.Seconds {
	if kind == Element && !m.Engine.Fused {
		return max(m.Engine.Element, m.Cal.Launch).Times(kernels)
	}
	return k.Fixed.Times(kernels)
}

// oneShotBytes is up to where vLLM and TensorRT-LLM do an all-reduce in kernels
// of their own, over peer memory, instead of by NCCL.
const oneShotBytes = 8e6

// linked reports whether the GPU's own link joins the ranks of a collective.
func (m *Machine) linked(o *Op) bool { return int(o.Ranks) <= m.GPU.LinkGPUs }

// Posted reports whether own products, of few rows or wide ones, sum a message over ranks
// themselves, each posting it to all others: as long as that is faster than two shots, by
// the native engine's rule (measure/engine/native/ranks.go; a test there holds them
// together). The message is counted in 16 bits.
func Posted(ranks int, message unit.Bytes, wide bool) bool {
	const latency, bandwidth = 2e-6, 450e9
	always, each := 2, unit.Bytes(4) // bytes that are posted for each of the message
	if wide {
		always, each = 4, 2
	}
	if ranks <= always {
		return true
	}
	n := float64(ranks)
	return each*message <= unit.Bytes(latency*bandwidth/((n-1)*(1-2/n)))
}

// posted is latency for an all-reduce that own products do themselves where they can.
func (m *Machine) posted(o *Op, x float64, wide bool) unit.Seconds {
	message := o.Wire.Times(x * o.Ranks / (2 * (o.Ranks - 1)))
	if !m.Engine.OneShot || !m.linked(o) || o.NodeWire > 0 || !Posted(int(o.Ranks), message, wide) {
		return m.latency(o, x)
	}
	return m.Cal.PostedBase + m.Cal.PostedPerGPU.Times(o.Ranks)
}

// latency is what a collective of x times the size of o takes besides moving it.
func (m *Machine) latency(o *Op, x float64) unit.Seconds {
	t := m.Cal.LinkBase + m.Cal.LinkPerGPU.Times(o.Ranks)
	if !m.linked(o) {
		t = m.Cal.PCIeBase + m.Cal.PCIePerGPU.Times(o.Ranks)
	} else if m.Engine.OneShot && o.Wire.Times(x) <= oneShotBytes && o.NodeWire == 0 {
		t = min(t, m.Cal.OneShotBase+m.Cal.OneShotPerGPU.Times(o.Ranks))
	}
	if o.NodeWire > 0 {
		t += m.Cal.InterNodeBase
	}
	return t
}
