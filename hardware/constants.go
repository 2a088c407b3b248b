package hardware

import (
	"math"

	"llmprof/unit"
)

// Host is what a calibration knows of an engine on its host. What it does not
// know is 0: the engine's own profile has it then.
type Host struct {
	Step        unit.Seconds // of the host in every step, not hidden behind the GPU
	Launch      unit.Seconds // of the host for every kernel that is launched eagerly
	SmallKernel unit.Seconds // least time of an element-wise kernel that is not fused
}

// A quantity is what a constant is measured in.
type quantity uint8

const (
	share   quantity = iota // of a peak of the data sheet
	seconds                 // written with its unit
	delay                   // the same, which may be none
	tokens
	growth // of a time, with each row
	times  // that something is done
	watts  // a share of the power limit, less what is drawn anyway
	more   // the same, of what the limit may cut
)

// MostPower is the most that kernels can ask for, in shares of what lies between the
// waiting power and the limit.
const MostPower = 3

// limits are what a constant of these decades can be: above the first, and up to
// the second.
func (q quantity) limits() (above, most float64) {
	switch q {
	case share:
		return 0, 1
	case seconds:
		return 0, 0.1
	case delay:
		return -1e-30, 0.1
	case growth:
		return 0, 1
	case times:
		return 0, 1000
	case watts:
		return -1e-9, 0.99
	case more:
		return 0, MostPower
	}
	return -1, 1e5
}

// want says it in words.
func (q quantity) want() string {
	switch q {
	case share:
		return "a share of the data-sheet peak, above 0 and at most 1"
	case seconds:
		return "a time above 0 and at most 100 ms, with its unit, as \"3.8 µs\""
	case delay:
		return "a time from 0 to 100 ms, with its unit, as \"90 ns\""
	case growth:
		return "what each row adds to the time of the weights, above 0 and at most 1"
	case times:
		return "how often something is done, above 0 and at most 1000"
	case watts:
		return "a share of the power limit, from 0 to 0.99"
	case more:
		return "a share of the power limit, above 0 and at most 3"
	}
	return "a number of tokens, from 0 to 100000"
}

// timed reports whether it has a unit of time.
func (q quantity) timed() bool { return q == seconds || q == delay }

// A Constant is one that a calibration file holds.
type Constant struct {
	Key      string // section and name: "gemm.compute"
	Help     string // what it is, as the file says it
	quantity quantity
	optional bool // a file may leave it out
	of       func(*Calibration) *float64
	host     func(*Host) *float64
}

// Relative reports whether the constant is a share.
func (c *Constant) Relative() bool { return c.quantity == share || c.Power() }

// Power reports whether it says what the GPU draws, on which no time is taken to
// depend but through the power limit.
func (c *Constant) Power() bool { return c.quantity == watts || c.quantity == more }

// Host reports whether it is the engine's and its host's, not the GPU's.
func (c *Constant) Host() bool { return c.host != nil }

// Of is the constant in a calibration, which has none of the host's.
func (c *Constant) Of(cal *Calibration) float64 {
	if c.of == nil {
		return math.NaN()
	}
	return *c.of(cal)
}

// Want says in words what the constant can be.
func (c *Constant) Want() string { return c.quantity.want() }

// Valid reports whether v can be the constant. NaN cannot.
func (c *Constant) Valid(v float64) bool {
	above, most := c.quantity.limits()
	return v > above && v <= most
}

// slower is the constant v moved by the share x to where everything takes longer.
func (c *Constant) slower(v, x float64) float64 {
	if c.quantity == share {
		return v * math.Max(1-x, 0.05)
	}
	return v * (1 + x)
}

// ConstantOf finds a constant by its key, nil where there is none.
func ConstantOf(key string) *Constant {
	for i := range constants {
		if constants[i].Key == key {
			return &constants[i]
		}
	}
	return nil
}

// constants are those of a calibration file, in its order. Those of PCIe and of
// the network between nodes are no part of it: nothing here measures them.
var constants = []Constant{
	{Key: "gemm.compute", Help: "share of the peak in short bursts", of: func(c *Calibration) *float64 { return &c.GEMM.Compute }},
	{Key: "gemm.sustained", Help: "share of the peak after seconds at the power limit", optional: true, of: func(c *Calibration) *float64 { return &c.Sustained }},
	{Key: "gemm.memory", Help: "share of the memory bandwidth", of: func(c *Calibration) *float64 { return &c.GEMM.Memory }},
	{Key: "gemm.fixed", Help: "time of a launch that no size takes away", quantity: seconds, of: func(c *Calibration) *float64 { return (*float64)(&c.GEMM.Fixed) }},

	{Key: "own.memory", Help: "share of the memory bandwidth", optional: true, of: func(c *Calibration) *float64 { return &c.Own.Memory }},
	{Key: "own.row", Help: "what each row adds, of the time that the weights take at the bandwidth", quantity: growth, optional: true, of: func(c *Calibration) *float64 { return &c.Own.Row }},
	{Key: "own.fixed", Help: "time of a launch that no size takes away", quantity: seconds, optional: true, of: func(c *Calibration) *float64 { return (*float64)(&c.Own.Fixed) }},

	{Key: "wide.memory", Help: "share of the memory bandwidth", optional: true, of: func(c *Calibration) *float64 { return &c.Wide.Memory }},
	{Key: "wide.again", Help: "how often inputs and results are moved", quantity: times, optional: true, of: func(c *Calibration) *float64 { return &c.Wide.Again }},
	{Key: "wide.fixed", Help: "time of a launch that no size takes away", quantity: seconds, optional: true, of: func(c *Calibration) *float64 { return (*float64)(&c.Wide.Fixed) }},

	{Key: "mixture.memory", Help: "share of the memory bandwidth", optional: true, of: func(c *Calibration) *float64 { return &c.Mixture.Memory }},
	{Key: "mixture.again", Help: "what comes again, of the time that it takes at the bandwidth", quantity: times, optional: true, of: func(c *Calibration) *float64 { return &c.Mixture.Again }},
	{Key: "mixture.row", Help: "what each row of an expert adds, of the time that its weights take at the bandwidth", quantity: growth, optional: true, of: func(c *Calibration) *float64 { return &c.Mixture.Row }},
	{Key: "mixture.fixed", Help: "time of router, choice and products that no size takes away, of one sequence", quantity: seconds, optional: true, of: func(c *Calibration) *float64 { return (*float64)(&c.Mixture.Fixed) }},
	{Key: "mixture.several", Help: "the same of several sequences", quantity: seconds, optional: true, of: func(c *Calibration) *float64 { return (*float64)(&c.Mixture.Several) }},

	{Key: "experts.compute", Help: "share of the peak", optional: true, of: func(c *Calibration) *float64 { return &c.Experts.Compute }},
	{Key: "experts.memory", Help: "share of the memory bandwidth", optional: true, of: func(c *Calibration) *float64 { return &c.Experts.Memory }},
	{Key: "experts.gather", Help: "how often the pairs' inputs are moved", quantity: times, optional: true, of: func(c *Calibration) *float64 { return &c.Experts.Gather }},
	{Key: "experts.sum", Help: "how often the pairs' results are moved", quantity: times, optional: true, of: func(c *Calibration) *float64 { return &c.Experts.Sum }},

	{Key: "choice.pair", Help: "time of a pair of a token and an expert", quantity: seconds, optional: true, of: func(c *Calibration) *float64 { return (*float64)(&c.Experts.ChoicePair) }},
	{Key: "choice.expert", Help: "time of an expert", quantity: seconds, optional: true, of: func(c *Calibration) *float64 { return (*float64)(&c.Experts.ChoiceExpert) }},
	{Key: "choice.fixed", Help: "time that no number of pairs or experts takes away", quantity: seconds, optional: true, of: func(c *Calibration) *float64 { return (*float64)(&c.Experts.ChoiceFixed) }},

	{Key: "attention.compute", Help: "share of the peak, prefill", of: func(c *Calibration) *float64 { return &c.Attention.Compute }},
	{Key: "attention.memory", Help: "share of the memory bandwidth, decode", of: func(c *Calibration) *float64 { return &c.Attention.Memory }},
	{Key: "attention.fixed", Help: "time of a launch that no size takes away", quantity: seconds, of: func(c *Calibration) *float64 { return (*float64)(&c.Attention.Fixed) }},
	{Key: "attention.ramp", Help: "tokens of a prefill at which it reaches half of its rate", quantity: tokens, of: func(c *Calibration) *float64 { return &c.AttentionRamp }},

	{Key: "element.compute", Help: "share of the FP32 vector peak", of: func(c *Calibration) *float64 { return &c.Element.Compute }},
	{Key: "element.memory", Help: "share of the memory bandwidth", of: func(c *Calibration) *float64 { return &c.Element.Memory }},
	{Key: "element.fixed", Help: "time of a launch that no size takes away", quantity: seconds, of: func(c *Calibration) *float64 { return (*float64)(&c.Element.Fixed) }},

	{Key: "graph.node", Help: "one kernel of a CUDA graph, from the end of the one before it", quantity: seconds, of: func(c *Calibration) *float64 { return (*float64)(&c.Launch) }},

	{Key: "stream.node", Help: "by how much longer a kernel takes that is launched by itself", quantity: seconds, optional: true, of: func(c *Calibration) *float64 { return (*float64)(&c.Stream) }},

	{Key: "link.share", Help: "share of the link that a large all-reduce reaches", of: func(c *Calibration) *float64 { return &c.Link }},
	{Key: "link.base", Help: "latency of an all-reduce over n GPUs: base + n × per_gpu", quantity: seconds, of: func(c *Calibration) *float64 { return (*float64)(&c.LinkBase) }},
	{Key: "link.per_gpu", Help: "see base", quantity: seconds, of: func(c *Calibration) *float64 { return (*float64)(&c.LinkPerGPU) }},

	{Key: "one_shot.base", Help: "the same for small all-reduces over peer memory", quantity: seconds, of: func(c *Calibration) *float64 { return (*float64)(&c.OneShotBase) }},
	{Key: "one_shot.per_gpu", Help: "see base", quantity: seconds, of: func(c *Calibration) *float64 { return (*float64)(&c.OneShotPerGPU) }},

	{Key: "posted.base", Help: "the same for sums within own products", quantity: seconds, optional: true, of: func(c *Calibration) *float64 { return (*float64)(&c.PostedBase) }},
	{Key: "posted.per_gpu", Help: "see base", quantity: delay, optional: true, of: func(c *Calibration) *float64 { return (*float64)(&c.PostedPerGPU) }},

	{Key: "power.waiting", Help: "at full clocks with nothing to do, of what lies between idle power and limit", quantity: watts, optional: true, of: func(c *Calibration) *float64 { return &c.Power.Waiting }},
	{Key: "power.memory", Help: "while products of a library read their weights", quantity: watts, optional: true, of: func(c *Calibration) *float64 { return &c.Power.Memory }},
	{Key: "power.own", Help: "while the engine's own products of few rows do", quantity: more, optional: true, of: func(c *Calibration) *float64 { return &c.Power.Own }},
	{Key: "power.attention", Help: "while decode attention reads the cache", quantity: more, optional: true, of: func(c *Calibration) *float64 { return &c.Power.Attention }},
	{Key: "power.fixed", Help: "while a kernel starts and ends", quantity: watts, optional: true, of: func(c *Calibration) *float64 { return &c.Power.Fixed }},

	{Key: "host.step", Help: "the host in every step, not hidden behind the GPU", quantity: seconds, optional: true, host: func(h *Host) *float64 { return (*float64)(&h.Step) }},
	{Key: "host.launch", Help: "the host for every kernel that is launched eagerly", quantity: seconds, optional: true, host: func(h *Host) *float64 { return (*float64)(&h.Launch) }},
	{Key: "host.small_kernel", Help: "least time of an element-wise kernel that is not fused", quantity: seconds, optional: true, host: func(h *Host) *float64 { return (*float64)(&h.SmallKernel) }},
}

// Constants lists the constants that a calibration file holds.
func Constants() []Constant { return append([]Constant{}, constants...) }
