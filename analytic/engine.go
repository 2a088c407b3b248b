package analytic

import (
	"slices"
	"strings"

	"llmprof/analytic/operator"
	"llmprof/hardware"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// An Engine is how an inference engine runs a model: which operators its kernels fuse, and
// what its host adds. Package engine has the known ones, one file each.
type Engine interface {
	Profile() *Profile
	// Lower appends the kernels that do the operators of a part of a step, and leaves the
	// operators as they are.
	Lower(l *Lowering)
}

// A Profile is what an engine adds to its kernels.
type Profile struct {
	Name    string   // name, with the release where one was asked for: vllm@0.19.0
	Aliases []string // further names that find it
	Source  string

	Support   Support
	Constants func(c *roofline.Constants) // sets the constants of the engine that no calibration has; nil without any
	// Sets the constants of its kernels on a GPU that no calibration has; nil if none are known.
	Operators func(g *hardware.GPU, c *hardware.Calibration)
	Tabled    bool // Operators are from tables of the engine's kernels, which say what of them was measured
	Pipelined bool // a server has as many batches in its pipeline as there are stages
	TextAlone bool // it runs no encoders of vision and audio
	Blocking  bool // the host schedules a step after the one before has ended, so that nothing hides that time
	// The host launches the next step before it hands out the tokens of a step, so a first token waits for that launch too.
	Ahead bool
	// Prompts of a batch that is sent at once with which the first step begins, before the others arrive; 0 for all.
	Early int
	Eager bool   // no CUDA graphs are captured
	Told  string // what it was told of CUDA graphs; "" where it has its own
	Graph bool   // a decode step is one CUDA graph, whose launches take the host no time
	// State is the format of recurrent states where the model's config names none, NoFormat for that of the residual stream; nil for that.
	State func(*models.Model) unit.Format
	Cache unit.Format // format of a KV cache, whatever that of the residual stream; NoFormat for that
	Conv  unit.Format // format of the inputs that convolutions remember; NoFormat for that of the residual stream
	// The table of the input embedding lies in the memory of the host, which looks tokens up.
	HostEmbedding bool
	Newest        bool       // A convolution's newest input is kept too, though the next token needs only those before.
	Reserve       unit.Bytes // memory that it takes besides weights, KV cache and activations

	// Padding is the multiples of the sizes in which it keeps experts in MXFP4; nil for the sizes that they have.
	Padding func(g *hardware.GPU) operator.Padding

	// Allocate is how it shares out the memory of a rank's GPU; nil for a cache of bytes a token beside the workload's activations.
	Allocate func(r *operator.Rank, g *hardware.GPU) *operator.Allocation

	FixedCache  func(*models.Model) bool        // reports whether its kernels for a model depend on Step.Cache; nil if none do
	Budget      func(g *hardware.GPU) int       // default of the most tokens of a step; nil for no limit
	Utilization func(memory unit.Bytes) float64 // default of the share of a GPU's memory that it takes; nil for all of it
	OfFree      bool                            // Utilization is of what weights, reserve and activations leave
	Static      bool                            // Utilization is of weights and caches alone; activations and CUDA graphs lie in the rest

	// Switches are the batch sizes up to which kernels for small batches decode. A larger batch
	// is taken to be no faster than one of this size: if other kernels were faster, the engine
	// would switch to them earlier.
	Switches []float64

	// DenseExperts is the tokens of a step above which constants of its dense kernels price kernels of experts; 0 for none.
	DenseExperts float64

	// Additional time that another host may take, as a share of the host's time; another host may be faster by this factor too.
	HostError float64

	// RanksError is the additional time that ranks of TP may take which are processes that schedule, as a share of the
	// host's time: the slowest of them counts.
	RanksError float64

	// Older is the additional time that older releases than the one with these constants may
	// take, as a share of the expected time. It adds to the upper end of the interval alone.
	Older float64

	// Unmeasured says that the release that was asked for was not measured, and whose constants stand for it; "" for one that was.
	Unmeasured string
	// ReleaseError is by how much the times of that release may differ from those of the measured ones, as a share of the expected time.
	ReleaseError float64
	// Traced is the generation of GPUs on which that release was measured all the same, so that it has no such error there; "" for none.
	Traced string
}

// Engine is the name without the release and what it runs with.
func (e *Profile) Engine() string {
	if i := strings.IndexAny(e.Name, "@+"); i > 0 {
		return e.Name[:i]
	}
	return e.Name
}

// Set sets the constants of the engine on a GPU where no calibration has them.
func (e *Profile) Set(g *hardware.GPU, c *hardware.Calibration) {
	if e.Operators == nil {
		c.Board = 0 // no operators of the engine were timed
	} else {
		e.Operators(g, c)
	}
	if e.Constants != nil {
		e.Constants(&c.Constants)
	}
	if g.Host.Sync > 0 {
		c.Constants[roofline.HostSync] = float64(g.Host.Sync)
	}
}

// GGUFSupport says what an engine makes of llama.cpp's quantizations (GGUF).
type GGUFSupport uint8

// An engine may run them beside other weights, not at all, or as its only weights in 8 and 4 bits.
const (
	GGUFToo GGUFSupport = iota
	NoGGUF
	OnlyGGUF
)

// Support is what an engine runs. A nil list is no limit.
type Support struct {
	Default    bool     // the engine is offered to a user who named none
	Families   []string // the engine runs these model families: Hugging Face's model_type without _text
	Not        []string // the engine does not run these families
	Vendors    []string
	Capability float64             // NVIDIA's GPUs need at least this compute capability
	Builds     map[string][]string // compute capabilities of a vendor's GPUs that the engine is built for; without an entry, all
	Integrated bool                // the engine runs only on modules whose GPU and CPU share their memory: Jetson, DGX Spark
	Weights    []unit.Format
	Since      map[unit.Format]float64  // weights in a format need at least this compute capability of NVIDIA's GPUs
	Lacks      map[string][]unit.Format // GPUs of a generation run no weights in these formats
	Acts       []unit.Format            // products run in these formats
	KV         []unit.Format
	GGUF       GGUFSupport
	OwnCache   bool // a model whose checkpoint names a format of its KV cache runs with that alone

	Split       func(*Parallelism) string // why the engine cannot split experts so, "" if it can; nil where replicas share whole experts alone
	Blocks      bool                      // weights in FP8 run only with a scale for each block of 128
	WholeBlocks bool                      // experts in FP8 are cut between their blocks of scales alone
}

// A Kernel is a kernel of an engine and the operators that it does.
type Kernel struct {
	roofline.Kernel
	Main int    // index of the operator that it is named after, in the part
	Ops  uint64 // bit i is set for operator i of the part, which has at most 64 operators

	// What the host does for the kernel besides its own launches: further launches, as those of kernels whose times its law includes and of
	// the CUDA graph of others ahead of it, and calls of Python code. It does nothing where the kernel is launched with others.
	Helpers, Calls float64
	Graphed        bool   // the kernel is part of a CUDA graph, so that its launch takes the host no time
	Phase          string // persistent kernel that it is a phase of, with whose launch it starts; "" for a separate launch

	Overlapped bool // the kernel is of shared experts, which the engine runs in a stream beside those that the router chose
	HalfSums   bool // products are summed in FP16, for which the kernel's FLOPs are halved
	Partial    bool // the engine does only a part of the main operator, as the final norm of the last token
}

// A Lowering is a part of a step whose operators an engine lowers to kernels.
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

// Fuse adds operator i to kernel k. The activations between the operators stay on the chip,
// so those of operator i do not move.
func (l *Lowering) Fuse(k *Kernel, i int) {
	acts := k.Work.Acts
	k.Work.Add(&l.Ops[i].Work, 1)
	k.Work.Acts = acts
	k.Ops |= 1 << i
}

// FuseInputs adds operator i, which has other inputs, to kernel k.
func (l *Lowering) FuseInputs(k *Kernel, i int) {
	k.Work.Add(&l.Ops[i].Work, 1)
	k.Ops |= 1 << i
}

// Next is the index of the first operator of a type from i on; -1 if there is none.
func (l *Lowering) Next(i int, t operator.Type) int {
	for ; i < len(l.Ops); i++ {
		if l.Ops[i].Type == t {
			return i
		}
	}
	return -1
}

// correctOps sets the work of a partial kernel's main operator to that of the kernel, and the number format
// and the sums of a GEMM's main operator to those of the GEMM, so that floors are of the work that the engine does.
func (l *Lowering) correctOps() {
	for i := range l.Kernels {
		k := &l.Kernels[i]
		if k.Partial {
			l.Ops[k.Main].Work = k.Work
		}
		if k.Format != unit.NoFormat {
			l.Ops[k.Main].Format = k.Format
		}
		if k.HalfSums {
			l.Ops[k.Main].HalfSums = true
		}
	}
}
