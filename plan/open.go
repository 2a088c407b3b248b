package plan

import (
	"cmp"
	"slices"
)

// The deployments of a split are bounded three times: first by the GPUs of a replica and the power of those that wait, then by the time of
// a request alone, and last by the share of its steps that the load takes.
// The search prices steps of the deployment at the head of the queue only, because the others rank no better than the head, whatever their
// steps cost.

// list lists a split, or its deployments where it takes steps to bound what they rank by.
func (s *search) list(f Formats, split Split) {
	c := s.whole(f, split)
	if c.GPUs > s.q.MaxGPUs {
		return
	}
	if s.at += len(microBatches(split)); s.lazy() && (s.fewestGPUs() || s.q.By == Energy) {
		s.open = append(s.open, c)
	} else {
		s.open = append(s.open, s.deployments(c)...)
	}
}

// whole stands for all deployments of a split.
func (s *search) whole(f Formats, split Split) *config {
	r := s.unit(f, split)
	return &config{Row: r, least: 1, idle: s.waits(&r), whole: true, place: s.at}
}

// deployments are those of a split that may qualify, one for each number of micro-batches.
func (s *search) deployments(split *config) (open []*config) {
	before := s.at
	defer func() { s.at = before }()
	var single Spans // a request alone has the pipeline for itself, however many micro-batches there are
	for i, parts := range microBatches(split.Split) {
		c := &config{Row: split.Row, single: single, idle: split.idle, place: split.place + i}
		c.MicroBatches, s.at = parts, c.place
		if s.screen(c) && (s.lazy() || s.refine(c)) {
			open = append(open, c)
		}
		single = c.single
	}
	return open
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
	c.wave.p = units
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

// sharpen bounds one of the open deployments by the load, or lists those of a split, and moves them to where they then belong.
func (s *search) sharpen(i int) {
	c := s.open[i]
	s.open = slices.Delete(s.open, i, i+1)
	miss := s.miss
	s.miss = s.certain
	for _, c := range s.sharper(c) {
		to, _ := slices.BinarySearchFunc(s.open, c, s.before)
		s.open = slices.Insert(s.open, to, c)
	}
	if s.certain = s.miss; miss.nearer(&s.miss) {
		s.miss = miss
	}
}

// sharper is a deployment that is bounded by the load, or those of a split; none that cannot qualify.
func (s *search) sharper(c *config) []*config {
	if c.whole {
		return s.deployments(c)
	}
	if s.refine(c) {
		return []*config{c}
	}
	return nil
}

// next passes the deployment at the head.
func (s *search) next() {
	s.passed, s.open = append(s.passed, s.open[0]), s.open[1:]
	s.advance()
}
