package plan

import (
	"cmp"
	"slices"
)

// Deployments are bounded twice: by what a request alone and GPUs that wait say, and by what shares of steps the load takes, which is priced only for
// those that come to the head of the queue. The others rank no better than the head, whatever they take.

// candidate is a deployment that passed the screen, with its place in the list of all.
func (s *search) candidate(c *config) {
	c.place = s.at
	if !s.lazy() && !s.refine(c) {
		return
	}
	s.open = append(s.open, c)
}

// lazy reports whether deployments are bounded by the load only at the head of the queue. Those of clients that wait stand in another order
// than that of their bounds.
func (s *search) lazy() bool {
	return s.q.Load.Concurrency == 0
}

// refine bounds a deployment by the load, and reports whether it may qualify.
func (s *search) refine(c *config) bool {
	before := s.at
	s.at, c.bounded = c.place, true
	defer func() { s.at = before }()
	units, err := s.prepare(&c.Row)
	if err != nil {
		return false
	}
	c.wave.p = units.Predictor
	defer c.wave.forget() // the priced steps of all deployments together would take too much memory
	return s.atLeast(c, c.wave, c.fits)
}

// before compares two deployments in the order in which they are searched.
func (s *search) before(a, b *config) int {
	return cmp.Or(cmp.Compare(s.likely(a), s.likely(b)), cmp.Compare(s.bound(a), s.bound(b)), cmp.Compare(a.place, b.place))
}

// advance bounds deployments by the load until the one at the head is.
func (s *search) advance() {
	for len(s.open) > 0 && !s.open[0].bounded {
		s.sharpen(0)
	}
}

// sharpen bounds one of the open deployments by the load, and moves it to where it then belongs.
func (s *search) sharpen(i int) {
	c := s.open[i]
	s.open = slices.Delete(s.open, i, i+1)
	if s.refine(c) {
		to, _ := slices.BinarySearchFunc(s.open, c, s.before)
		s.open = slices.Insert(s.open, to, c)
	}
}

// next leaves the deployment at the head.
func (s *search) next() {
	s.open = s.open[1:]
	s.advance()
}
