package roofline

import "llmprof/unit"

// A Machine is a GPU with its constants.
type Machine struct {
	Peaks     Peaks
	constants Constants
	stretch   [NumConstants]float64  // factor by which each constant multiplies a term
	repeats   [NumConstants]float64  // stretch, but 1 for shares of a peak: how often bytes are moved
	effective [NumConstants]Constant // each constant, or the constant that stands in for it
}

// NewMachine prepares to price kernels.
func NewMachine(p *Peaks, c *Constants) *Machine {
	m := &Machine{Peaks: *p, constants: *c}
	m.resolve()
	return m
}

// Set changes a constant, and so those that it stands in for.
func (m *Machine) Set(k Constant, v float64) {
	m.constants[k] = v
	m.resolve()
}

// resolve works out the factors of the constants.
func (m *Machine) resolve() {
	m.stretch[None], m.repeats[None] = 1, 1
	for k := Constant(1); int(k) < len(table); k++ {
		m.effective[k] = m.constants.Effective(k)
		v := m.Constant(k)
		if m.stretch[k], m.repeats[k] = v, v; table[k].Quantity == Share {
			m.stretch[k], m.repeats[k] = 1/v, 1
		}
	}
}

// Constant is the value of a constant, or of the constant that stands in for it.
func (m *Machine) Constant(k Constant) float64 { return m.constants[m.effective[k]] }

// Own reports whether a constant has a value, and no other stands in for it.
func (m *Machine) Own(k Constant) bool { return m.effective[k] == k }

// terms lists the terms of a kernel on the machine.
func (m *Machine) terms(t *Terms, k *Kernel) {
	law := &laws[k.Class]
	if law.List(t, k, &m.Peaks); law.Choose != nil {
		law.Choose(m, t, k)
	}
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

// Depends lists the constants that the time of a kernel is computed from, those in effect.
func (m *Machine) Depends(k *Kernel) (all []Constant) {
	var terms Terms
	m.terms(&terms, k)
	for _, x := range terms.List() {
		all = append(all, m.effective[x.By], m.effective[x.And])
	}
	return append(all, m.effective[terms.exposed])
}
