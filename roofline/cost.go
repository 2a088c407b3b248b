package roofline

import "llmprof/unit"

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
