package serving

import (
	"math"
	"slices"
)

// Where more prompts come than a step takes, the step is full, and the next one begins with the backlog that it leaves. The chain has backlogs of whole
// prompts, and of whole prompts and one rest: where prompts are alike, the rest that the fewest prompts leave that overflow a step, else half a prompt.

// overflow is the least probability of more prompts than a step takes with which the chain has backlogs.
const overflow = 1e-3

// overflows reports whether the chain needs backlogs where m prompts come in a step on average.
func (p *piece) overflows(m float64) bool {
	if p.handed || p.takes(1)/p.fills.mean > few {
		return false
	}
	if p.room < 1 {
		return true
	}
	chance, fits := math.Exp(-m), math.Exp(-m)
	for k := 1; k <= int(math.Ceil(p.room)); k++ {
		chance *= m / float64(k)
		if k > counted { // their tokens hardly vary
			if float64(k) <= p.room {
				fits += chance
			}
			continue
		}
		sums := p.fills.sum(k)
		within, _ := slices.BinarySearch(sums, p.takes(k)*(1+1e-9))
		fits += chance * float64(within) / float64(len(sums))
	}
	return 1-fits > overflow
}

// filled is the mean length of a step that takes the prompts that come in one as far as it has room; false where more come than steps take.
func (p *piece) filled(rate float64) (c float64, ok bool) {
	full := p.following(p.full())
	if rate*float64(full.Time) > 0.999*p.room {
		return 0, false
	}
	d := float64(p.decode.Time)
	most := float64(full.Time)
	if !p.apart {
		most -= d
	}
	c = d
	for range 100 {
		m := rate * c
		chance, rest, next := math.Exp(-m), 1-math.Exp(-m), d
		for k := 1; k <= int(p.room); k++ {
			chance *= m / float64(k)
			rest -= chance
			next += chance * p.add(k).time
		}
		if next += max(rest, 0) * most; math.Abs(next-c) < 1e-6*c {
			break
		}
		c = next
	}
	return min(c, float64(full.Time)), true
}

// fraction is the rest of a prompt that backlogs may have besides whole ones; 0 for none.
func (p *piece) fraction() float64 {
	one := p.fills.sum(1)
	if one[len(one)-1]-one[0] > 0.01*p.fills.mean {
		return 0.5
	}
	if rest := math.Ceil(p.room) - p.room; rest > 0.01 {
		return rest
	}
	return 0
}

// of is the number of prompts of a backlog, whose rest is a fraction of one.
func (b *backlog) of(rest float64) float64 {
	if b.rest {
		return float64(b.prompts) + rest
	}
	return float64(b.prompts)
}

// overflowing are the kinds of steps with backlogs where m prompts come in a step on average.
func (p *piece) overflowing(m float64) (all []timed) {
	more := min(9.2*m/max(p.room-m, 0.02*p.room), 120) // longer backlogs have a probability of 1e-4 even where prompts have an exponential distribution
	most := int(math.Ceil(p.room+m+6*math.Sqrt(m)+more)) + 1
	fraction := p.fraction()
	for i := range p.backlogs {
		if i == 1 && fraction == 0 {
			break
		}
		kinds := &p.backlogs[i]
		for k := len(*kinds); k <= most; k++ {
			*kinds = append(*kinds, p.backlogged(backlog{k, i == 1}, fraction))
		}
		for _, some := range (*kinds)[:most+1] {
			all = append(all, some...)
		}
	}
	return all
}

// backlogged are the kinds of steps with a backlog.
func (p *piece) backlogged(b backlog, fraction float64) (all []timed) {
	if b == (backlog{}) {
		return []timed{newTimed(&p.decode, b, 1)}
	}
	sums := []float64{float64(b.prompts) * p.fills.mean}
	if b.prompts > 0 && b.prompts <= counted {
		sums = slices.Clone(p.fills.sum(b.prompts))
	}
	if b.rest {
		for i := range sums {
			sums[i] += fraction * p.fills.mean
		}
	}
	waiting := b.waiting()
	takes := p.takes(waiting)
	fits, _ := slices.BinarySearch(sums, takes*(1+1e-9))
	if fits > 0 {
		all = p.prefillOf(sums[:fits], waiting).timed(b, float64(fits)/float64(len(sums)))
	}
	if full := sums[fits:]; len(full) > 0 {
		c := p.once(takes, waiting)
		t := newTimed(&c, b, float64(len(full))/float64(len(sums)))
		for _, tokens := range full {
			t.carry((tokens-takes)/p.fills.mean, fraction, 1/float64(len(full)))
		}
		all = append(all, t)
	}
	return all
}

// carry lets the step leave a number of prompts with a probability, which two neighbouring backlogs share so that their mean is that number.
func (t *timed) carry(prompts, fraction, chance float64) {
	whole := math.Floor(prompts)
	low, high := backlog{int(whole), false}, backlog{int(whole) + 1, false}
	switch middle := whole + fraction; {
	case fraction == 0:
	case prompts < middle:
		high = backlog{int(whole), true}
	default:
		low = backlog{int(whole), true}
	}
	a, b := low.of(fraction), high.of(fraction)
	x := (prompts - a) / (b - a)
	t.leave(low, chance*(1-x))
	t.leave(high, chance*x)
}

func (t *timed) leave(b backlog, chance float64) {
	for i := range t.carried {
		if t.carried[i].backlog == b {
			t.carried[i].chance += chance
			return
		}
	}
	if chance > 1e-9 {
		t.carried = append(t.carried, carried{b, chance})
	}
}

// fullSteps are means over the steps of a chain that leave a backlog, and over the steps after them.
type fullSteps struct {
	piece          *piece
	come           float64 // prompts between the forming of a full step and that of the next one
	length, lead   float64 // length of a full step; from the forming of the one after it to its begin
	next, nextLate float64 // length of the step after it, and the time from its begin until the next one is formed
	nones          []float64
	last           [lasts + 1]joined // steps after it whose room for prompts is used by 0, 1/16, 2/16, ... all
}

const lasts = 16

// rare is the share of full steps below which the chain has no means of them.
const rare = 1e-6

// among takes the means over a chain; where it has hardly any full steps, those of a full step after one that decodes.
func (s *fullSteps) among(x *chain) {
	var full, after float64
	for i, row := range x.shares {
		before := &x.groups[i]
		for j, share := range row {
			filled := x.steps[j].carried != nil
			if share < negligible || !before.full && !filled {
				continue
			}
			length, late := x.run(j, before.lead)
			if filled {
				full, s.length, s.lead = full+share, s.length+share*length, s.lead+share*(length-late)
				s.come += share * x.rate * x.window(before, j, length, late)
			}
			if before.full {
				after, s.next, s.nextLate = after+share, s.next+share*length, s.nextLate+share*late
			}
		}
	}
	if full < rare || after < rare {
		c := s.piece.full()
		t := newTimed(&c, backlog{}, 1)
		full, after = 1, 1
		s.length, s.nextLate = t.time, t.time
		if x.async {
			s.length, s.nextLate = t.run(x.groups[0].lead)
		}
		s.lead, s.come, s.next = s.length-s.nextLate, x.rate*s.length, s.length
	}
	s.length, s.lead, s.come, s.next, s.nextLate = s.length/full, s.lead/full, s.come/full, s.next/after, s.nextLate/after
	for i := range s.last {
		c := s.piece.once(max(float64(i)/lasts*s.piece.left, 1), 0)
		t := newTimed(&c, backlog{}, 1)
		length, late := t.time, t.time
		if x.async {
			length, late = t.run(s.lead)
		}
		s.last[i] = joined{length: length, late: late}
	}
}

// joined is the step that ends a prompt which comes with others after a backlog, where the first step is full.
func (s *fullSteps) joined(b backlog, others int, lead, length, late float64) *joined {
	j, p := &joined{}, s.piece
	before := b.of(p.fraction())
	long := p.fills.rough // lengths of the prompt with which the step overflows
	for len(long) > 1 && before+float64(others)+long[0]/p.fills.mean <= p.room {
		long = long[1:]
	}
	for _, tokens := range long {
		for ahead, last := 0, 0; ahead <= others; ahead = last + 1 { // with from ahead to last prompts before it, it takes the same number of further steps
			first := before + tokens/p.fills.mean
			further := math.Ceil((first+float64(ahead))/p.room-1e-9) - 1
			last = min(max(int((further+1+1e-9)*p.room-first), ahead), others)
			weight := float64(last-ahead+1) / float64((others+1)*len(long))
			if further <= 0 {
				j.add(&joined{own: length, lead: lead, length: length, late: late, full: 1}, weight)
				continue
			}
			left := before + float64(others) + tokens/p.fills.mean - further*p.room
			none, come := s.none(further), 1.0
			if none < 1 {
				come = further * s.come / (1 - none)
			}
			for _, y := range [...][2]float64{{none, 0}, {1 - none, come}} {
				one := s.after((left + y[1]) / p.room)
				one.own, one.lead = length+(further-1)*s.length+one.length, s.lead
				j.add(&one, weight*y[0])
			}
		}
	}
	return j
}

// none is the probability that no prompts come in a number of full steps.
func (s *fullSteps) none(steps float64) float64 {
	for len(s.nones) <= int(steps) {
		s.nones = append(s.nones, math.Exp(-float64(len(s.nones))*s.come))
	}
	return s.nones[int(steps)]
}

// after is a step after a full one, of whose room for prompts a share is used.
func (s *fullSteps) after(share float64) joined {
	if share >= 1 {
		last := s.last[lasts]
		last.full = 1
		return last
	}
	i := int(share * lasts)
	a, b, x := &s.last[i], &s.last[i+1], share*lasts-float64(i)
	return joined{length: a.length + x*(b.length-a.length), late: a.late + x*(b.late-a.late)}
}
