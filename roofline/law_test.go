package roofline

import (
	"math"
	"math/rand/v2"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/unit"
)

// peaks are of no GPU in particular.
func peaks() *Peaks {
	p := &Peaks{Vector: 60e12, Memory: 3e12, SMs: 132, Link: 450e9, LinkGPUs: 8, PCIe: 32e9, NIC: 50e9, HostMemory: 80e9, HostVector: 40e9,
		Pageable: 7e9}
	for f := range p.Matrix {
		p.Matrix[f] = unit.FLOPsPerSec(100e12 * float64(1+f))
	}
	return p
}

// constants are values that are all possible and all different.
func constants(random *rand.Rand) *Constants {
	var c Constants
	for _, k := range All() {
		switch table[k].Quantity {
		case Share, Power:
			c[k] = 0.3 + 0.6*random.Float64()
		case Time, Delay:
			c[k] = 1e-6 + 9e-6*random.Float64()
		case Tokens:
			c[k] = 1000 * random.Float64()
		case Shown:
			c[k] = random.Float64()
		case Growth:
			c[k] = 0.1 * random.Float64()
		default:
			c[k] = 0.2 + 2*random.Float64()
		}
	}
	return &c
}

// kernel is a kernel of a class at random.
func kernel(random *rand.Rand, c Class) *Kernel {
	up := func(decades float64) float64 { return math.Exp(decades * math.Ln10 * random.Float64()) }
	return &Kernel{
		Class: c, Format: unit.BF16, Scheme: Scheme(random.IntN(int(NumSchemes))), Launches: 1 + float64(random.IntN(3)),
		Count: float64(1 + random.IntN(80)),
		Shape: Shape{
			M: up(4), N: up(4), K: up(4), Matrices: 1, Experts: 64, TopK: 4, Hit: 1 + 63*random.Float64(), Pairs: up(4), Tokens: math.Ceil(up(3)),
			Ranks: float64(2 + random.IntN(7)), Tiles: up(3),
		},
		Work: Work{
			FLOPs: unit.FLOPs(up(13)), Vector: unit.FLOPs(up(10)), Weights: unit.Bytes(up(9)), KV: unit.Bytes(up(8)), State: unit.Bytes(up(7)),
			Acts: unit.Bytes(up(8)), Wire: unit.Bytes(up(7)), NodeWire: unit.Bytes(up(7) - 1),
		},
		Reread: unit.Bytes(up(8)), Reload: unit.Bytes(up(8)), Permuted: unit.Bytes(up(7)), Unpermuted: unit.Bytes(up(7)), Quantized: up(4),
		Sliced: float64(random.IntN(2)), Tile: Tile{Rows: up(2), Columns: up(2), Blocks: 2},
	}
}

// trials calls do with kernels of every class at random.
func trials(do func(random *rand.Rand, m *Machine, k *Kernel)) {
	random := rand.New(rand.NewPCG(4, 2))
	for range testkit.Cases(30, 300) {
		m := NewMachine(peaks(), constants(random))
		for c := range NumClasses {
			do(random, m, kernel(random, c))
		}
	}
}

// Every class has a law, with an equation, terms, and a constant for each of them that is
// a known one.
func TestEveryClassHasALaw(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for c := range NumClasses {
		law := LawOf(c)
		if law.Equation == "" || law.List == nil {
			t.Errorf("class %d has no law: %+v", c, law)
			continue
		}
		terms := listed(law, kernel(random, c), peaks())
		if len(terms.List()) == 0 {
			t.Errorf("class %d: a kernel takes no time", c)
		}
		for _, x := range terms.List() {
			if x.By == None || x.By >= NumConstants || x.And >= NumConstants || x.Resource >= NumResources || !(x.Ideal > 0) {
				t.Errorf("class %d: term %+v", c, x)
			}
		}
	}
}

// listed is the terms of a kernel, run by the algorithm that needs no machine's constants to be chosen.
func listed(l *Law, k *Kernel, p *Peaks) (t Terms) {
	l.List(&t, k, p)
	return t
}

// The time of a kernel is, by another route, what its terms and its overlap say.
func TestCostIsTermsOverlapped(t *testing.T) {
	trials(func(_ *rand.Rand, m *Machine, k *Kernel) {
		var sum [NumResources]float64
		var terms Terms
		m.terms(&terms, k)
		for _, x := range terms.List() {
			time := x.Ideal
			for _, c := range []Constant{x.By, x.And} {
				switch {
				case c == None:
				case c.Info().Quantity == Share:
					time /= m.Constant(c)
				default:
					time *= m.Constant(c)
				}
			}
			sum[x.Resource] += time
		}
		compute := math.Max(sum[Matrix], sum[Vector])
		busy := math.Max(compute, math.Max(sum[Memory], sum[Network]))
		exposed := LawOf(k.Class).Exposed
		if terms.exposed != None {
			exposed = m.Constant(terms.exposed)
		}
		busy = math.Max(busy, math.Sqrt(compute*compute+sum[Memory]*sum[Memory]-(1-exposed)*math.Pow(
			math.Min(compute, sum[Memory]), 2)+sum[Chain]*sum[Chain]))
		want := (busy + sum[Fixed] + sum[Serial]) * k.Count
		c := m.Cost(k)
		if d := float64(c.Time)/want - 1; math.Abs(d) > 1e-9 {
			t.Errorf("class %d takes %v, want %v s", k.Class, c.Time, want)
		}
		if c.Slower(1) != c.Time || c.Slower(2) < c.Time || c.Slower(2) > c.Time.Times(2) {
			t.Errorf("class %d takes %v, %v at half the clock", k.Class, c.Time, c.Slower(2))
		}
	})
}

// The derivatives by the resources add up to the time of the kernel, and none is below zero.
func TestSlopesAddUp(t *testing.T) {
	trials(func(_ *rand.Rand, m *Machine, k *Kernel) {
		var slopes Slopes
		c := m.Cost(k)
		m.AddSlopes(&slopes, &c)
		sum := 0.0
		for _, x := range slopes.On {
			if sum += float64(x); x < 0 {
				t.Errorf("class %d: slopes %v", k.Class, slopes.On)
			}
		}
		if d := sum/float64(c.Time) - 1; math.Abs(d) > 1e-9 {
			t.Errorf("class %d takes %v, its derivatives %v s", k.Class, c.Time, sum)
		}
		if d := float64(m.Time(k)/c.Time)*k.Count - 1; math.Abs(d) > 1e-9 {
			t.Errorf("class %d: %v occurrences of %v take %v", k.Class, k.Count, m.Time(k), c.Time)
		}
	})
}

// More work of any kind, and a slower constant, shorten no kernel; a kernel that reads
// and computes no less than once takes no less than its floor.
func TestLawsAreMonotone(t *testing.T) {
	trials(func(random *rand.Rand, m *Machine, k *Kernel) {
		if k.Class == GEMM && random.IntN(2) == 0 {
			k.Tile = Tile{}
		}
		base := m.Cost(k).Time
		x := 1 + random.Float64()
		for i, grow := range []func(k *Kernel){
			func(k *Kernel) { k.Work.FLOPs *= unit.FLOPs(x) }, func(k *Kernel) { k.Work.Vector *= unit.FLOPs(x) },
			func(k *Kernel) { k.Work.Weights *= unit.Bytes(x) },
			func(k *Kernel) { k.Work.KV *= unit.Bytes(x) }, func(k *Kernel) { k.Work.Acts *= unit.Bytes(x) },
			func(k *Kernel) { k.Work.Wire *= unit.Bytes(x) },
			func(k *Kernel) { k.Work.NodeWire *= unit.Bytes(x) }, func(k *Kernel) { k.Reread *= unit.Bytes(x) },
			func(k *Kernel) { k.Reload *= unit.Bytes(x) },
			func(k *Kernel) { k.Permuted *= unit.Bytes(x) }, func(k *Kernel) { k.Launches *= x }, func(k *Kernel) {
				if k.Class != GEMM || k.Tile.Rows == 0 { // a tile with more rows takes less
					k.Shape.M *= x
				}
			}, func(k *Kernel) { k.Shape.Pairs, k.Shape.Tiles = k.Shape.Pairs*x, k.Shape.Tiles*x },
			func(k *Kernel) { k.Shape.Tiles *= x },
		} {
			more := *k
			grow(&more)
			if got := m.Cost(&more).Time; got < base.Times(1-1e-12) {
				t.Errorf("class %d takes %v, with more of the work %d %v", k.Class, base, i, got)
			}
		}
		for _, c := range All() {
			slow := *m
			longer := 1 + c.Longer(0.1)
			if c.Info().Quantity == Share {
				longer = 1 / longer
			}
			slow.Set(c, m.Constant(c)*longer)
			if got := slow.Cost(k).Time; got < base.Times(1-1e-12) {
				t.Errorf("class %d takes %v, with a slower %s %v", k.Class, base, c, got)
			}
		}
	})
}

// No kernel that does all of its work beats the floor of it.
func TestFloor(t *testing.T) {
	trials(func(_ *rand.Rand, m *Machine, k *Kernel) {
		w := k.Work
		switch k.Class {
		case MoERouting: // its law counts pairs, not bytes
			return
		case HostProduct, WeightCopy, PageableCopy, HostCrossing: // no work of the GPU
			return
		case AllReduce, OneShotAllReduce, FusedAllReduce, PCIeCollective:
			w = Work{Wire: w.Wire, NodeWire: w.NodeWire}
		case WGMMAGEMM, GroupedGEMM, MoEDecode, MoEPrefill:
			w.KV, w.State, w.Wire, w.NodeWire = 0, 0, 0, 0
		default:
			w.Wire, w.NodeWire = 0, 0
		}
		var f Floor
		f.AddWork(&m.Peaks, &w, k.Format, k.Shape.Ranks, k.Count)
		if got := m.Cost(k).Time; got < f.Time() {
			t.Errorf("class %d takes %v, less than the floor %v", k.Class, got, f.Time())
		}
	})
}

// A bound is the resource with the most time; a step within a link's latency waits for
// the network.
func TestBound(t *testing.T) {
	for _, x := range []struct {
		times Times
		want  Bound
	}{
		{Times{Matrix: 2, Memory: 1}, ByCompute}, {Times{Vector: 2, Memory: 1}, ByCompute}, {Times{Matrix: 1, Memory: 2}, ByMemory},
		{Times{Matrix: 2, Memory: 1, Serial: 1.5}, ByMemory}, {Times{Network: 1, Fixed: 2}, ByNetwork}, {Times{Memory: 1, Fixed: 2}, ByLaunch},
		{Times{Memory: 1, Network: 3, Fixed: 2}, ByNetwork},
	} {
		if got := x.times.Bound(); got != x.want {
			t.Errorf("%v is %v-bound, want %v", x.times, got, x.want)
		}
	}
}

// TestSlowerIsLessPeak checks that a kernel whose arithmetic is slowed takes what it takes on a
// GPU with so much less peak, by the overlap of its law.
func TestSlowerIsLessPeak(t *testing.T) {
	trials(func(random *rand.Rand, m *Machine, k *Kernel) {
		x := 1 + 3*random.Float64()
		cost, slow := m.Cost(k), m.Peaks
		slow.Vector, slow.HostVector = unit.FLOPsPerSec(float64(slow.Vector)/x), unit.FLOPsPerSec(float64(slow.HostVector)/x)
		for f := range slow.Matrix {
			slow.Matrix[f] = unit.FLOPsPerSec(float64(slow.Matrix[f]) / x)
		}
		want := NewMachine(&slow, &m.constants).Cost(k).Time
		if got := cost.Slower(x); math.Abs(float64(got/want-1)) > 1e-9 {
			t.Errorf("class %d: %v times slower it takes %v, on a slower GPU %v", k.Class, x, got, want)
		}
	})
}

// A message that takes two exchanges takes no less than the largest that takes one, and as long as that where two would be faster.
func TestTwoExchangesTakeNoLessThanOne(t *testing.T) {
	m := NewMachine(peaks(), constants(rand.New(rand.NewPCG(3, 3))))
	m.Set(OneShotShare, 0.5)
	m.Set(OneShotSlicedShare, 1)
	m.Set(OneShotSecond, 1e-12)
	const largest, ranks = unit.Bytes(1 << 20), 4.0
	time := func(message unit.Bytes) unit.Seconds {
		k := Kernel{Class: OneShotAllReduce, Launches: 1, Count: 1, Shape: Shape{Ranks: ranks}}
		k.Work.Wire = message.Times(2 * (ranks - 1) / ranks)
		k.Exchange(func(int) unit.Bytes { return largest })
		return m.Cost(&k).Time
	}
	if one, two := time(largest), time(largest.Times(1.01)); one != two {
		t.Errorf("one exchange of the largest message takes %v, two of a slightly larger one %v", one, two)
	}
}

// Lower clocks lengthen the steps of a block that wait for each other as they lengthen arithmetic.
func TestChainsFollowTheClock(t *testing.T) {
	var c Cost
	c.Times[Chain] = 1
	if got := c.Clocked(2); got != 2 {
		t.Errorf("a chain of 1 s takes %v at half of the clock", got)
	}
}
