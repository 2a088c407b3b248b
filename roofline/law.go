package roofline

import (
	"fmt"
	"math"
	"strings"

	"llmprof/unit"
)

// A Resource is what a kernel keeps busy.
type Resource uint8

// The resources. Serial is memory traffic that nothing overlaps, as that of a
// permutation; Fixed is what starts, ends and latencies take whatever the size.
const (
	Matrix Resource = iota
	Vector
	Memory
	Network
	Serial
	Fixed
	NumResources
)

// A Term is a part of a kernel's time on one resource: Ideal seconds, stretched by
// one constant or by two. The constant None stretches nothing.
type Term struct {
	Resource Resource
	By, And  Constant
	Ideal    float64 // seconds at the peak, or how often a constant that is a time counts
}

// Terms is a list of terms, of a fixed size so that pricing a kernel allocates nothing.
type Terms struct {
	n    int
	list [8]Term
}

// add adds a term of ideal seconds, unless these are 0.
func (t *Terms) add(r Resource, by, and Constant, ideal float64) {
	if ideal != 0 {
		t.list[t.n] = Term{r, by, and, ideal}
		t.n++
	}
}

// List is the terms as a slice.
func (t *Terms) List() []Term { return t.list[:t.n] }

// Times is how long a kernel keeps each resource busy.
type Times [NumResources]unit.Seconds

// Compute is the time of the arithmetic: matrix and vector units work side by side.
func (t *Times) Compute() unit.Seconds { return max(t[Matrix], t[Vector]) }

// An Overlap says how resources hide each other.
type Overlap uint8

// The overlaps.
const (
	// Hidden resources all work at once: fixed + serial + max(compute, memory, network).
	Hidden Overlap = iota
	// Partial overlap of arithmetic and memory, as where a block has few stages of
	// weights in flight: fixed + serial + √(compute² + memory²). The root lies between
	// the larger of them and their sum.
	Partial
)

// longest is the longest of the times that overlap.
func (t *Times) longest() unit.Seconds { return max(t.Compute(), t[Memory], t[Network]) }

// Time is what the overlapping resources take together.
func (o Overlap) Time(t *Times) unit.Seconds {
	busy := t.longest()
	if o == Partial {
		busy = unit.Seconds(math.Hypot(float64(t.Compute()), float64(t[Memory])))
	}
	return t[Fixed] + t[Serial] + busy
}

// share is the part of the kernel's time that resource r accounts for: its
// derivative by the time of r, so that the parts of Hidden and Partial add up.
func (o Overlap) share(t *Times, r Resource) float64 {
	switch {
	case r == Fixed || r == Serial:
		return 1
	case o == Partial:
		busy := math.Hypot(float64(t.Compute()), float64(t[Memory]))
		if r == Network || r != Memory && t[r] < t.Compute() || busy == 0 {
			return 0
		}
		return float64(t[r]) / busy
	case t[r] == t.longest():
		return 1
	}
	return 0
}

// A Law says what the kernels of a class take.
type Law struct {
	Equation string // the terms in words, for files and documents
	List     func(t *Terms, k *Kernel, p *Peaks)
	Overlap  Overlap
	Power    Constant // what the GPU draws while the kernel's bytes move
	Steady   bool     // the GPU draws that all the time, for matrix units wait for vector units
}

// Terms are the terms of a kernel.
func (l *Law) Terms(k *Kernel, p *Peaks) (t Terms) {
	l.List(&t, k, p)
	return t
}

// laws has the law of every class; a test finds a class without one.
var laws = [NumClasses]Law{
	GEMM: gemm, SkinnyGEMM: skinnyGEMM, WGMMAGEMM: wgmmaGEMM, VectorGEMM: vectorGEMM, UnpackGEMM: unpackGEMM, GroupedGEMM: groupedGEMM,
	AttentionPrefill: prefillAttention(&attentionOf, None), AttentionDecode: decodeAttention(&attentionOf),
	AttentionMMA: prefillAttention(&attentionOf, AttentionMMACompute), AttentionCopied: attentionCopied,
	LatentPrefill: prefillAttention(&latentOf, None), LatentDecode: decodeAttention(&latentOf), ChunkedScan: chunkedScan,
	Elementwise: elementwise, SmallElementwise: smallElementwise,
	MoEDecode: moeDecode, MoERouting: moeRouting, MoEPrefill: moePrefill,
	AllReduce: ring(LinkShare, LinkBase, LinkPerGPU), OneShotAllReduce: peerReduce(),
	FusedAllReduce: ring(LinkShare, FusedAllReduceBase, FusedAllReducePerGPU), PCIeCollective: ring(PCIeShare, PCIeBase, PCIePerGPU), HostCopy: hostCopy,
}

// LawOf is the law of a class.
func LawOf(c Class) *Law { return &laws[c] }

// A Machine is a GPU with its constants.
type Machine struct {
	Peaks     Peaks
	constants Constants
	stretch   [NumConstants]float64 // factor by which each constant multiplies a term
}

// NewMachine prepares to price kernels.
func NewMachine(p *Peaks, c *Constants) *Machine {
	m := &Machine{Peaks: *p, constants: *c}
	m.stretch[None] = 1
	for k := Constant(1); int(k) < len(table); k++ {
		if table[k].Base == None {
			m.resolve(k)
		}
	}
	return m
}

// Set changes a constant, and the constants that it stands in for.
func (m *Machine) Set(k Constant, v float64) {
	m.constants[k] = v
	m.resolve(k)
}

// resolve works out the factors of a constant and of the constants that it stands in for.
func (m *Machine) resolve(k Constant) {
	v := m.Constant(k)
	if m.stretch[k] = v; table[k].Quantity == Share {
		m.stretch[k] = 1 / v
	}
	for _, variant := range table[k].variants {
		m.resolve(variant)
	}
}

// Constant is the value of a constant, or of the constant that stands in for it.
func (m *Machine) Constant(k Constant) float64 { return m.constants[m.effective(k)] }

// effective is a constant, or the constant that stands in for it.
func (m *Machine) effective(k Constant) Constant {
	if i := &table[k]; i.Base != None && m.constants[i.Leader] == 0 {
		return m.effective(i.Base)
	}
	return k
}

// Times is how long one occurrence of a kernel keeps each resource busy.
func (m *Machine) Times(k *Kernel) (t Times) {
	terms := laws[k.Class].Terms(k, &m.Peaks)
	for i := range terms.n {
		x := &terms.list[i]
		t[x.Resource] += unit.Seconds(x.Ideal * m.stretch[x.By] * m.stretch[x.And])
	}
	return t
}

// Time is how long one occurrence of a kernel takes.
func (m *Machine) Time(k *Kernel) unit.Seconds {
	t := m.Times(k)
	return laws[k.Class].Overlap.Time(&t)
}

// A Part is how much of a kernel's time a term accounts for.
type Part struct {
	Term
	Time float64 // seconds
}

// Parts appends the terms of a kernel, with the constants in effect and the part of its time that each accounts
// for, and returns that time, of one occurrence.
func (m *Machine) Parts(k *Kernel, dst []Part) (unit.Seconds, []Part) {
	law, t := &laws[k.Class], m.Times(k)
	terms := law.Terms(k, &m.Peaks)
	for _, x := range terms.List() {
		time := x.Ideal * m.stretch[x.By] * m.stretch[x.And]
		x.By, x.And = m.effective(x.By), m.effective(x.And)
		dst = append(dst, Part{x, time * law.Overlap.share(&t, x.Resource)})
	}
	return law.Overlap.Time(&t), dst
}

// A Cost is a kernel on a machine, over all its occurrences in a step.
type Cost struct {
	Times     // expected times of the resources, which overlap
	Class     Class
	Time      unit.Seconds
	Bound     Bound
	Constants Set      // constants of its terms
	Leads     Constant // constant of the longest of the terms whose constant is a share of a peak; None without such a term

	longest unit.Seconds // longest of the times that overlap
	terms   Terms
}

// Cost prices a kernel.
func (m *Machine) Cost(k *Kernel) (c Cost) {
	m.Price(&c, k)
	return c
}

// Price prices a kernel into c, and overwrites what was there.
func (m *Machine) Price(c *Cost, k *Kernel) {
	law, longest := &laws[k.Class], 0.0
	c.Class, c.Times, c.Constants, c.Leads, c.terms.n = k.Class, Times{}, 0, None, 0
	law.List(&c.terms, k, &m.Peaks)
	for i := range c.terms.n {
		x := &c.terms.list[i]
		time := x.Ideal * m.stretch[x.By] * m.stretch[x.And]
		c.Times[x.Resource] += unit.Seconds(time)
		c.Constants |= sets[x.By] | sets[x.And]
		if time > longest && table[x.By].Quantity == Share && x.By != None {
			longest, c.Leads = time, x.By
		}
	}
	for r := range c.Times {
		c.Times[r] = c.Times[r].Times(k.Count)
	}
	c.Time, c.Bound, c.longest = law.Overlap.Time(&c.Times), c.Times.Bound(), c.Times.longest()
}

// Slower is the time of the kernel where its arithmetic takes x times as long. It is longer
// as far as the overlap of the law does not hide the arithmetic.
func (c *Cost) Slower(x float64) unit.Seconds {
	if o := laws[c.Class].Overlap; o == Partial {
		t := c.Times
		t[Matrix], t[Vector] = t[Matrix].Times(x), t[Vector].Times(x)
		return o.Time(&t)
	}
	return c.Time + max(c.Compute().Times(x)-c.longest, 0)
}

// Piece identifies the linear piece that the time lies on: the time is the maximum of several
// linear functions, each of which has its number.
func (c *Cost) Piece() uint64 {
	switch t := c.longest; {
	case t == c.Times[Memory]:
		return 1
	case t == c.Times[Network]:
		return 2
	case t == c.Times[Vector] && t != c.Times[Matrix]:
		return 3
	}
	return 0
}

// Bound says which resource a time is waiting for.
type Bound uint8

// The bounds.
const (
	ByCompute Bound = iota
	ByMemory
	ByNetwork
	ByLaunch
	NumBounds
)

var boundNames = [NumBounds]string{"compute", "memory", "network", "launch"}

// String names the bound as the field does, without "-bound".
func (b Bound) String() string { return boundNames[b] }

// MarshalText writes the name of the bound.
func (b Bound) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText reads the name of a bound.
func (b *Bound) UnmarshalText(text []byte) error {
	for i, name := range boundNames {
		if name == string(text) {
			*b = Bound(i)
			return nil
		}
	}
	return fmt.Errorf("%.40q is no bound: want one of %s", text, strings.Join(boundNames[:], ", "))
}

// Bound is the resource that takes most of the time.
func (t *Times) Bound() Bound {
	b, most := ByCompute, t.Compute()
	if m := t[Memory] + t[Serial]; m > most {
		b, most = ByMemory, m
	}
	if t[Network] > most {
		b, most = ByNetwork, t[Network]
	}
	if t[Fixed] > most {
		if t[Network] > 0 {
			return ByNetwork // the latency of the link, not of a launch
		}
		return ByLaunch
	}
	return b
}
