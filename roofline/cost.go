package roofline

import (
	"math"

	"llmprof/unit"
)

// A Cost is a kernel on a machine, over all its occurrences in a step.
type Cost struct {
	Times   // expected times of the resources, which overlap
	Class   Class
	Scheme  Scheme
	Unpacks bool // tiles unpack the weights of their expert, for as long as these move
	Time    unit.Seconds
	Traffic unit.Seconds // time of the memory traffic at the data-sheet bandwidth
	Useful  unit.Seconds // time of the matrix units without waste
	Bound   Bound
	Leads   Constant // constant of the longest of the terms whose constant is a share of a peak; None without such a term

	exposed float64 // share of the lesser of arithmetic and memory traffic that shows
	count   float64 // occurrences in a step
	terms   Terms
}

// Cost prices a kernel.
func (m *Machine) Cost(k *Kernel) (c Cost) {
	m.Price(&c, k)
	return c
}

// Price prices a kernel into c, and overwrites what was there.
func (m *Machine) Price(c *Cost, k *Kernel) {
	c.terms.n, c.terms.exposed = 0, None
	m.terms(&c.terms, k)
	longest, traffic, useful := 0.0, 0.0, 0.0
	c.Class, c.Scheme, c.Unpacks, c.Times, c.Leads = k.Class, k.Scheme, k.Tile.Unpacks, Times{}, None
	for i := range c.terms.n {
		x := &c.terms.list[i]
		time := x.Ideal * m.stretch[x.By] * m.stretch[x.And]
		c.Times[x.Resource] += unit.Seconds(time)
		switch {
		case x.Resource == Memory && !x.Waste:
			traffic += x.Ideal * m.repeats[x.By] * m.repeats[x.And]
		case x.Waste:
			useful += unit.Smaller(x.Data*m.stretch[x.By], time)
		case x.Resource == Matrix:
			useful += time
		}
		if time > longest && table[x.By].Quantity == Share {
			longest, c.Leads = time, x.By
		}
	}
	n := k.Count
	for r := range c.Times {
		c.Times[r] = c.Times[r].Times(n)
	}
	c.Traffic, c.Useful = unit.Seconds(traffic).Times(n), unit.Seconds(useful).Times(n)
	c.exposed, c.count = m.exposed(k.Class, &c.terms), n
	c.Bound, c.Time = c.Times.Bound(), c.overlapped(c.exposed)
}

const (
	// requests is the share of the full clock at which the multiprocessors have as many requests in flight as the full bandwidth of the
	// memory takes. Two RTX 3090 under vLLM lose 3 % at 0.76 of their clock and 9 % at 0.56, for which starts account in part; what
	// is below was not measured.
	requests = 0.3
	// starts is the share of the time in which a kernel starts and ends that the multiprocessors' clock decides, of the same cards. The rest
	// are latencies of the memory, of links and of the launch.
	starts = 0.3
)

// Clocked is the time of the kernel where the multiprocessors take x times as long for all that they do: arithmetic, the
// steps of a block that wait for each other, and a part of what starts and ends. The memory has a clock of its own, and keeps its
// rate as long as the multiprocessors send enough requests; links keep theirs.
func (c *Cost) Clocked(x float64) unit.Seconds {
	t := c.Times
	for _, r := range [...]Resource{Matrix, Vector, Chain} {
		t[r] = t[r].Times(x)
	}
	t[Fixed] = t[Fixed].Times(1 + starts*(x-1))
	fourth := func(x float64) float64 { return x * x * x * x }
	served := math.Sqrt(math.Sqrt((1 + fourth(requests*x)) / (1 + fourth(requests))))
	t[Memory], t[Serial] = t[Memory].Times(served), t[Serial].Times(served)
	return t.overlapped(c.exposed)
}

// Slower is the time of the kernel where its arithmetic takes x times as long. It is longer
// as far as the overlap of the law does not hide the arithmetic.
func (c *Cost) Slower(x float64) unit.Seconds {
	t := c.Times
	t[Matrix], t[Vector] = t[Matrix].Times(x), t[Vector].Times(x)
	if c.exposed != 0 || t[Chain] != 0 {
		return t.overlapped(c.exposed)
	}
	return c.Time + unit.Larger(t.Compute()-unit.Larger(c.both(0), t[Network]), 0)
}

// Slopes are the derivatives of the time of kernels: by the logarithm of the factor that each constant stretches its terms by, and by the
// logarithm of the time that each resource is busy. A constant whose terms take one percent longer lengthens the kernels by
// a percent of its slope. The derivatives by the resources add up to the time, which is homogeneous in them.
type Slopes struct {
	By [NumConstants]unit.Seconds
	On [NumResources]unit.Seconds
}

// Add adds n times u.
func (s *Slopes) Add(u *Slopes, n float64) {
	for i := range u.By {
		s.By[i] += u.By[i].Times(n)
	}
	for i := range u.On {
		s.On[i] += u.On[i].Times(n)
	}
}

// Scale multiplies all derivatives.
func (s *Slopes) Scale(n float64) {
	var scaled Slopes
	scaled.Add(s, n)
	*s = scaled
}

// AddSlopes adds the derivatives of a kernel's time. Those of a constant that stands in for another are its own.
func (m *Machine) AddSlopes(s *Slopes, c *Cost) {
	var shares [NumResources]float64
	for r := range shares {
		if c.Times[r] != 0 {
			shares[r] = c.share(Resource(r), c.exposed)
			s.On[r] += c.Times[r].Times(shares[r])
		}
	}
	for i := range c.terms.n {
		x := &c.terms.list[i]
		time := unit.Seconds(x.Ideal * m.stretch[x.By] * m.stretch[x.And]).Times(c.count * shares[x.Resource])
		s.By[m.effective[x.By]] += time
		if x.And != None {
			s.By[m.effective[x.And]] += time
		}
	}
	if x := c.terms.exposed; x != None {
		s.By[m.effective[x]] += c.exposedSlope(c.exposed)
	}
}

// exposedSlope is the derivative of the time by the logarithm of exposed.
func (t *Times) exposedSlope(exposed float64) unit.Seconds {
	both, lesser := t.both(exposed), unit.Smaller(t.Compute(), t[Memory])
	if both == 0 || t[Network] > both {
		return 0
	}
	return lesser.Times(exposed * float64(lesser/both) / 2)
}
