package analytic

import (
	"slices"
	"strings"

	"llmprof/hardware"
	"llmprof/models"
	"llmprof/operator"
	"llmprof/roofline"
	"llmprof/unit"
)

// An Engine is how an inference engine runs a model: which operators its kernels
// fuse, and what its host adds. Package engine has those that are known, one file
// each.
type Engine interface {
	Profile() *Profile
	// Lower appends the kernels that do the operators of a part of a step, and leaves the
	// operators as they are.
	Lower(l *Lowering)
}

// A Profile is what an engine adds to its kernels.
type Profile struct {
	Name   string // with its release where one was asked for: vllm@0.19.0
	Source string

	Support   Support
	Constants func(c *roofline.Constants)                    // sets the engine's own constants where no calibration has them; nil if it has none
	Operators func(g *hardware.GPU, c *hardware.Calibration) // sets those of its kernels on a GPU where no calibration has them; nil if none are known
	Blocking  bool                                           // a step is scheduled when the one before has ended: nothing hides the host's time for it
	Graph     bool                                           // decode steps are one CUDA graph, so that their launches take the host no time
	Reserve   unit.Bytes                                     // memory that it holds besides weights, cache and activations

	// Sampler is the memory that it keeps to choose the tokens of as many sequences as may
	// run, on a GPU with so much memory; nil for none.
	Sampler func(m *models.Model, memory unit.Bytes) unit.Bytes

	FixedCache  func(*models.Model) bool        // whether its kernels for a model depend on Step.Cache; nil for none
	Budget      func(memory unit.Bytes) int     // most tokens of a step of all sequences on a GPU with so much memory, by default; nil for no limit
	Utilization func(memory unit.Bytes) float64 // share of that memory that it takes, by default; nil for all of it

	// Switches are the batch sizes up to which kernels for small batches decode. The
	// kernels beyond are taken to be no faster than those at the limit: an engine whose
	// were would switch earlier.
	Switches []float64

	Error     float64 // what its kernels add to the half-width of the interval, as a share of the time
	HostError float64 // by how much longer another host may take, as a share of the host's time; it may be as many times faster

	// Older is by how much longer than expected, as a share of the time, releases may
	// take that are older than the one that the constants are of: it adds to the upper
	// end of the interval alone.
	Older float64
}

// Engine is the name without the release.
func (e *Profile) Engine() string {
	name, _, _ := strings.Cut(e.Name, "@")
	return name
}

// Set sets the constants of the engine on a GPU that no calibration has.
func (e *Profile) Set(g *hardware.GPU, c *hardware.Calibration) {
	if e.Operators == nil {
		c.Board = 0 // no operators of the engine were timed
	} else {
		e.Operators(g, c)
	}
	if e.Constants != nil {
		e.Constants(&c.Constants)
	}
}

// Support is what an engine runs. A nil list is no limit.
type Support struct {
	Default    bool     // the engine is offered to a user who named none
	Families   []string // the engine runs these model families: Hugging Face's model_type without _text
	Not        []string // the engine does not run these families
	Vendors    []string
	Capability float64 // NVIDIA's GPUs need at least this compute capability
	Integrated bool    // it runs on modules alone whose memory is the CPU's too: Jetson, DGX Spark
	Weights    []unit.Format
	Since      map[unit.Format]float64 // weights in a format need at least this compute capability of NVIDIA's GPUs
	Acts       []unit.Format           // products run in these formats
	KV         []unit.Format
}

// A Kernel is a kernel of an engine and the operators that it does.
type Kernel struct {
	roofline.Kernel
	Main    int     // the operator that it is named after, of the part's
	Ops     uint64  // bit i for operator i of the part, which has at most 64
	Helpers float64 // further launches, whose time is in the terms of the law
	Graphed bool    // the kernel is part of a CUDA graph, so that its launch takes the host no time
	Pieces  float64 // CUDA graphs of other kernels that the host launches ahead of it

	Dispatches float64 // calls of Python that the host makes for it beyond its launches: an operator, a compiled piece

	Partial bool   // the engine does only Work of the main operator, such as the final norm of the last token alone
	Phase   string // the persistent kernel that it is a phase of, whose launch it shares; "" for a launch of its own
}

// A Lowering is a part of a step while an engine turns its operators to kernels.
type Lowering struct {
	Step      *operator.Step
	Part      operator.Part
	Ops       []operator.Op
	GPU       *hardware.GPU
	Constants *roofline.Constants
	Kernels   []Kernel

	step  operator.Step // Step points to it
	costs []roofline.Cost
}

// Launch appends a kernel of a class that does operator i.
func (l *Lowering) Launch(i int, class roofline.Class, launches float64) *Kernel {
	o := &l.Ops[i]
	n := len(l.Kernels)
	l.Kernels = slices.Grow(l.Kernels, 1)[:n+1]
	k := &l.Kernels[n]
	*k = Kernel{}
	k.Main, k.Ops = i, 1<<i
	k.Class, k.Format, k.Scheme, k.Launches, k.Count = class, o.Format, o.Scheme, launches, o.Count
	k.Shape, k.Work = o.Shape, o.Work
	return k
}

// Fuse lets k do operator i too. What passes between the operators stays on the chip,
// so the activations of i do not move.
func (l *Lowering) Fuse(k *Kernel, i int) {
	acts := k.Work.Acts
	k.Work.Add(&l.Ops[i].Work, 1)
	k.Work.Acts = acts
	k.Ops |= 1 << i
}

// Beside lets k do operator i, which has inputs of its own, in the same launch.
func (l *Lowering) Beside(k *Kernel, i int) {
	k.Work.Add(&l.Ops[i].Work, 1)
	k.Ops |= 1 << i
}

// Next finds the first operator from i on that has the type, -1 if there is none.
func (l *Lowering) Next(i int, t operator.Type) int {
	for ; i < len(l.Ops); i++ {
		if l.Ops[i].Type == t {
			return i
		}
	}
	return -1
}

// correctOps sets the work of a partial kernel's main operator to that of the kernel, and the number format
// of a GEMM's main operator to that of the GEMM. Floors are then those of the work that the engine does.
func (l *Lowering) correctOps() {
	for i := range l.Kernels {
		k := &l.Kernels[i]
		if k.Partial {
			l.Ops[k.Main].Work = k.Work
		}
		if k.Format != unit.NoFormat {
			l.Ops[k.Main].Format = k.Format
		}
	}
}
