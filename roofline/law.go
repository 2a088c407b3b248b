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
// permutation; Chain is the steps of a thread block that wait for each other, however few blocks there
// are; Fixed is what starts, ends and latencies take whatever the size.
const (
	Matrix Resource = iota
	Vector
	Memory
	Network
	Serial
	Chain
	Fixed
	NumResources
)

// A Term is a part of a kernel's time on one resource: Ideal seconds, stretched by
// one constant or by two. The constant None stretches nothing.
type Term struct {
	Resource Resource
	Waste    bool // time of matrix units without data, which draw no power: zeros of rows and tiles, SMs that have nothing to do
	By, And  Constant
	Ideal    float64 // seconds at the peak, or how often a constant that is a time counts
	Data     float64 // seconds at the peak of waste that are products of data after all
}

// Terms is a list of terms, of a fixed size so that pricing a kernel allocates nothing.
type Terms struct {
	n       int
	list    [12]Term
	exposed Constant // how far arithmetic and memory traffic hide each other; None where the law says so
	chosen  bool     // a machine with other constants may choose another algorithm
}

// add adds a term of ideal seconds, unless these are 0.
func (t *Terms) add(r Resource, by, and Constant, ideal float64) {
	if ideal != 0 {
		t.list[t.n] = Term{Resource: r, By: by, And: and, Ideal: ideal}
		t.n++
	}
}

// waste adds a term of matrix units without data, but for so many seconds at the peak.
func (t *Terms) waste(by, and Constant, ideal, data float64) {
	n := t.n
	if t.add(Matrix, by, and, ideal); t.n > n {
		t.list[n].Waste, t.list[n].Data = true, data
	}
}

func (t *Terms) divide(r Resource, by float64) {
	for i := range t.List() {
		if x := &t.list[i]; x.Resource == r {
			x.Ideal /= by
		}
	}
}

// List is the terms as a slice.
func (t *Terms) List() []Term { return t.list[:t.n] }

// Times is how long a kernel keeps each resource busy.
type Times [NumResources]unit.Seconds

// Compute is the time of the arithmetic: matrix and vector units work side by side.
func (t *Times) Compute() unit.Seconds { return unit.Larger(t[Matrix], t[Vector]) }

// longest is the longest of the times that overlap.
func (t *Times) longest() unit.Seconds {
	return unit.Larger(unit.Larger(t.Compute(), t[Memory]), t[Network])
}

// both is what arithmetic and memory traffic take together: √(greater² + exposed × lesser² + chain²). They
// hide each other wholly where exposed is 0. It is 1 where a block has few stages of weights in
// flight; at 3 nothing hides where both take as long. The chain of a block's steps shows as far as
// the arithmetic and the traffic of all blocks are not longer.
func (t *Times) both(exposed float64) unit.Seconds {
	compute, memory, chain := float64(t.Compute()), float64(t[Memory]), float64(t[Chain])
	if exposed == 0 && chain == 0 {
		return unit.Seconds(unit.Larger(compute, memory))
	}
	greater, lesser := unit.Larger(compute, memory), unit.Smaller(compute, memory)
	return unit.Seconds(math.Sqrt(greater*greater + exposed*lesser*lesser + chain*chain))
}

// least is the time of a kernel whose work all hides behind the longest.
func (t *Times) least() unit.Seconds { return t[Fixed] + t[Serial] + t.longest() }

// overlapped is the time of a kernel whose arithmetic and memory traffic hide each other but for exposed.
func (t *Times) overlapped(exposed float64) unit.Seconds {
	return t[Fixed] + t[Serial] + unit.Larger(t.both(exposed), t[Network])
}

// share is the part of the kernel's time that resource r accounts for: its
// derivative by the time of r, so that the parts add up.
func (t *Times) share(r Resource, exposed float64) float64 {
	both := t.both(exposed)
	switch compute := t.Compute(); {
	case r == Fixed || r == Serial:
		return 1
	case r == Network || t[Network] > both:
		if r == Network && t[r] > both {
			return 1
		}
	case r == Chain && both > 0:
		return float64(t[r] / both)
	case r != Memory && t[r] < compute || both == 0: // the other units of arithmetic are busy for longer
	case (r == Memory) == (t[Memory] > compute):
		return float64(t[r] / both)
	default:
		return exposed * float64(t[r]/both)
	}
	return 0
}

// A Law says what the kernels of a class take.
type Law struct {
	Equation string // the terms in words, for files and documents
	List     func(t *Terms, k *Kernel, p *Peaks)
	Choose   func(m *Machine, t *Terms, k *Kernel) // changes the terms to those of the fastest algorithm that a library has for the kernel; nil where it has one
	Exposed  float64                               // how far arithmetic and memory traffic hide each other (Times.both), of a law that has no constant for it
	Power    Constant                              // power of the GPU while the kernel's bytes move
	ByByte   bool                                  // a byte takes the same energy at every rate
	Steady   bool                                  // the GPU draws that all the time, for matrix units wait for vector units
}

// Terms are the terms of a kernel, run by the algorithm that needs no machine's constants to be chosen.
func (l *Law) Terms(k *Kernel, p *Peaks) (t Terms) {
	l.List(&t, k, p)
	return t
}

// terms lists the terms of a kernel on the machine.
func (m *Machine) terms(t *Terms, k *Kernel) {
	law := &laws[k.Class]
	if law.List(t, k, &m.Peaks); law.Choose != nil {
		law.Choose(m, t, k)
	}
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
	repeats   [NumConstants]float64 // the same but for shares of a peak: how often bytes are moved
}

// NewMachine prepares to price kernels.
func NewMachine(p *Peaks, c *Constants) *Machine {
	m := &Machine{Peaks: *p, constants: *c}
	m.stretch[None], m.repeats[None] = 1, 1
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
	if m.stretch[k], m.repeats[k] = v, v; table[k].Quantity == Share {
		m.stretch[k], m.repeats[k] = 1/v, 1
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
func (m *Machine) Times(k *Kernel) Times {
	var terms Terms
	m.terms(&terms, k)
	return m.times(&terms)
}

// times is how long the terms of a kernel keep each resource busy.
func (m *Machine) times(terms *Terms) (t Times) {
	for i := range terms.n {
		x := &terms.list[i]
		t[x.Resource] += unit.Seconds(x.Ideal * m.stretch[x.By] * m.stretch[x.And])
	}
	return t
}

// Time is how long one occurrence of a kernel takes.
func (m *Machine) Time(k *Kernel) unit.Seconds {
	var terms Terms
	m.terms(&terms, k)
	t := m.times(&terms)
	return t.overlapped(m.exposed(k.Class, &terms))
}

// exposed is how far arithmetic and memory traffic of a kernel hide each other.
func (m *Machine) exposed(c Class, t *Terms) float64 {
	if t.exposed != None {
		return m.stretch[t.exposed]
	}
	return laws[c].Exposed
}

// A Part is how much of a kernel's time a term accounts for.
type Part struct {
	Term
	Time float64 // seconds
}

// Parts appends the terms of a kernel, with the constants in effect and the part of its time that each accounts
// for, and returns that time, of one occurrence. Behind them is the constant of what arithmetic and memory
// traffic do not hide of each other, with the part of the terms' times that shows because of it.
func (m *Machine) Parts(k *Kernel, dst []Part) (unit.Seconds, []Part) {
	var terms Terms
	m.terms(&terms, k)
	t, exposed := m.times(&terms), m.exposed(k.Class, &terms)
	for _, x := range terms.List() {
		time := x.Ideal * m.stretch[x.By] * m.stretch[x.And]
		x.By, x.And = m.effective(x.By), m.effective(x.And)
		dst = append(dst, Part{x, time * t.share(x.Resource, exposed)})
	}
	time := t.overlapped(exposed)
	if terms.exposed != None {
		dst = append(dst, Part{Term{By: m.effective(terms.exposed)}, float64(time - t.overlapped(0))})
	}
	return time, dst
}

// A Cost is a kernel on a machine, over all its occurrences in a step.
type Cost struct {
	Times     // expected times of the resources, which overlap
	Class     Class
	Time      unit.Seconds
	Traffic   unit.Seconds // time of the memory traffic at the data-sheet bandwidth
	Useful    unit.Seconds // time of the matrix units without waste
	Bound     Bound
	Constants Set      // constants of its terms
	Leads     Constant // constant of the longest of the terms whose constant is a share of a peak; None without such a term

	longest unit.Seconds // longest of the times that overlap
	exposed float64      // share of the lesser of arithmetic and memory traffic that shows
	terms   Terms
}

// Cost prices a kernel.
func (m *Machine) Cost(k *Kernel) (c Cost) {
	m.Price(&c, k)
	return c
}

// Price prices a kernel into c, and overwrites what was there.
func (m *Machine) Price(c *Cost, k *Kernel) {
	c.terms.n, c.terms.exposed, c.terms.chosen = 0, None, false
	m.terms(&c.terms, k)
	m.sum(c, &c.terms, k)
}

// Reprice prices a kernel into c whose cost on a machine with other constants is known.
func (m *Machine) Reprice(c, known *Cost, k *Kernel) {
	if known.terms.chosen {
		m.Price(c, k)
		return
	}
	m.sum(c, &known.terms, k)
}

// sum makes the cost of a kernel of its terms.
func (m *Machine) sum(c *Cost, terms *Terms, k *Kernel) {
	longest, traffic, useful := 0.0, 0.0, 0.0
	c.Class, c.Times, c.Constants, c.Leads = k.Class, Times{}, 0, None
	for i := range terms.n {
		x := &terms.list[i]
		time := x.Ideal * m.stretch[x.By] * m.stretch[x.And]
		c.Times[x.Resource] += unit.Seconds(time)
		c.Constants |= sets[x.By] | sets[x.And]
		switch {
		case x.Resource == Memory:
			traffic += x.Ideal * m.repeats[x.By] * m.repeats[x.And]
		case x.Waste:
			useful += unit.Smaller(x.Data*m.stretch[x.By], time)
		case x.Resource == Matrix:
			useful += time
		}
		if time > longest && shares[x.By] {
			longest, c.Leads = time, x.By
		}
	}
	t, n := &c.Times, k.Count // a loop takes three times as many instructions
	t[Matrix], t[Vector], t[Memory], t[Network] = t[Matrix].Times(n), t[Vector].Times(n), t[Memory].Times(n), t[Network].Times(n)
	t[Serial], t[Chain], t[Fixed] = t[Serial].Times(n), t[Chain].Times(n), t[Fixed].Times(n)
	c.Traffic, c.Useful = unit.Seconds(traffic).Times(n), unit.Seconds(useful).Times(n)
	c.exposed = m.exposed(k.Class, terms)
	c.Constants |= sets[terms.exposed]
	c.Bound, c.longest = c.Times.Bound(), c.Times.longest()
	if c.Time = c.Times[Fixed] + c.Times[Serial] + c.longest; c.shows() {
		c.Time = c.overlapped(c.exposed)
	}
}

// shows reports whether more than the longest of the times that overlap shows.
func (c *Cost) shows() bool { return c.exposed != 0 || c.Times[Chain] != 0 }

// Slower is the time of the kernel where its arithmetic takes x times as long. It is longer
// as far as the overlap of the law does not hide the arithmetic.
func (c *Cost) Slower(x float64) unit.Seconds {
	if c.shows() {
		t := c.Times
		t[Matrix], t[Vector] = t[Matrix].Times(x), t[Vector].Times(x)
		return t.overlapped(c.exposed)
	}
	return c.Time + unit.Larger(c.Compute().Times(x)-c.longest, 0)
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
	if t[Fixed]+t[Chain] > most {
		if t[Network] > 0 {
			return ByNetwork // the latency of the link, not of a launch
		}
		return ByLaunch
	}
	return b
}
