package roofline

import "llmprof/unit"

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
