package serving

import (
	"math"
	"slices"

	"llmprof/unit"
)

// A Sketch is a distribution of positive values in constant memory: a histogram whose bins
// are 0.4 % wide, so that a quantile is within 0.2 %.
type Sketch struct {
	Counts []int   `json:"counts"` // number of values in each bin of their logarithm, from Base on
	Base   int     `json:"base"`
	N      int     `json:"n"`
	Sum    float64 `json:"sum"`
}

// width is the logarithm of the ratio of a bin's ends.
const width = 0.004

// Add adds a value n times.
func (s *Sketch) Add(v float64, n int) {
	if n <= 0 {
		return
	}
	s.N += n
	s.Sum += v * float64(n)
	bin := binOf(v)
	switch {
	case len(s.Counts) == 0:
		s.Base = bin
	case bin < s.Base:
		s.Counts = slices.Insert(s.Counts, 0, make([]int, s.Base-bin)...)
		s.Base = bin
	}
	if more := bin - s.Base + 1 - len(s.Counts); more > 0 {
		s.Counts = append(s.Counts, make([]int, more)...)
	}
	s.Counts[bin-s.Base] += n
}

// below is how many values are at most v, or in one bin with it.
func (s *Sketch) below(v float64) (n int) {
	for i, count := range s.Counts {
		if i+s.Base > binOf(v) {
			break
		}
		n += count
	}
	return n
}

func binOf(v float64) int { return int(math.Floor(math.Log(max(v, 1e-9)) / width)) }

// Merge adds the values of another one.
func (s *Sketch) Merge(o *Sketch) {
	sum := s.Sum + o.Sum
	for i, n := range o.Counts {
		s.Add(o.value(i), n)
	}
	s.Sum = sum
}

// later is the distribution of values that are larger by as much.
func (s *Sketch) later(by float64) (l Sketch) {
	for i, n := range s.Counts {
		l.Add(s.value(i)+by, n)
	}
	l.Sum = s.Sum + by*float64(s.N)
	return l
}

// value is what stands for those of a bin.
func (s *Sketch) value(bin int) float64 { return math.Exp((float64(s.Base+bin) + 0.5) * width) }

// Mean is the mean of the values.
func (s *Sketch) Mean() float64 { return s.Sum / float64(s.N) }

// Quantile is the value below which a share of the values lie.
func (s *Sketch) Quantile(share float64) float64 {
	rank := max(share*float64(s.N), 1)
	seen := 0.0
	for i, n := range s.Counts {
		if seen += float64(n); seen >= rank {
			return s.value(i)
		}
	}
	return math.NaN()
}

// An SLO is what a request has to meet to count for goodput; 0 for no limit.
type SLO struct{ TTFT, TPOT, E2E unit.Seconds }

func (s *SLO) meets(r *Record) bool {
	tpot, _ := r.TPOT()
	return (s.TTFT == 0 || r.TTFT() <= s.TTFT) && (s.TPOT == 0 || tpot <= s.TPOT) && (s.E2E == 0 || r.E2E() <= s.E2E)
}

// A Result is what a simulation came to.
type Result struct {
	Figures                // figures of the requests that count
	Transient   *Transient // nil where no steady state was looked for
	Completed   int
	Refused     int    // longer than the model or the cache
	Refusal     string // the first request that was refused, and why
	Preempted   int    // times
	Limited     bool   // there is an SLO
	Energy      unit.Joules
	Steps       int
	Busy        float64 // share of the time in which a replica ran a step
	MeanRunning float64 // sequences of all replicas, over time
	MeanCache   float64 // share of the blocks, over time
	Timeline    []Bin
	Interrupted bool
	Intervals   *Intervals // nil where none were asked for

	summing
}

// A summing is sums over the time of a simulation so far.
type summing struct {
	batches  *batchMeans
	underWay filling
	arrived  unit.Seconds // the last request
	busy     float64
	running  float64
	cache    float64
	replicas float64
	bins     timeline
}

// A Bin is a part of the timeline.
type Bin struct {
	Begin   unit.Seconds `json:"begin_s"`
	End     unit.Seconds `json:"end_s"`
	Waiting float64      `json:"waiting"` // requests, mean
	Running float64      `json:"running"`
	Cache   float64      `json:"kv_cache_share"`
	Tokens  float64      `json:"tok_s"` // processed, prompt and generated, a second
}

// arrive enters a request that arrives when so many were answered or refused.
func (r *Result) arrive(index int, at unit.Seconds) {
	r.arrived = at
	if index >= r.batches.warmup {
		r.underWay.arrive(index - r.Completed - r.Refused)
	}
	r.batches.arrive(index, at)
}

func (r *Result) step(one *replica) {
	r.Steps++
	r.Energy += one.cost.Energy
	t := float64(one.cost.Time)
	r.busy += t
	running := float64(len(one.running) + len(one.ending))
	r.running += running * t
	used := 1 - float64(one.pool.available())/float64(one.pool.total)
	r.cache += used * t
	r.bins.add(one.begin, one.end, sample{waiting: float64(one.waiting.len()), running: running, cache: used, tokens: float64(one.tokens) / t})
}

// answered enters a request that was answered.
func (r *Result) answered(q *Record, o *Options) {
	r.Completed++
	if o.Each != nil {
		o.Each(q)
	}
	r.batches.of(q.Index).answered(q, &o.SLO)
}

// finish works out what is of the whole.
func (r *Result) finish(all []*replica, now unit.Seconds, steady bool) {
	if steady {
		r.Figures, r.Transient = r.batches.steady(&r.underWay, r.arrived)
	} else {
		r.Figures = r.batches.all()
	}
	for _, one := range all {
		r.Preempted += one.preempted
	}
	if whole := float64(now) * r.replicas; whole > 0 {
		r.Busy = r.busy / whole
		r.MeanRunning = r.running / float64(now)
		r.MeanCache = r.cache / whole
		idle := all[0].server.idle()
		r.Energy += idle.For(unit.Seconds(max(whole-r.busy, 0)))
	}
	r.Timeline = r.bins.all(r.replicas)
}

// idle is what all GPUs of a replica draw while no step runs.
func (s *Server) idle() unit.Watts {
	gpus, _ := s.Predictor.Replica()
	return unit.Watts(float64(s.Predictor.Waiting()) * float64(gpus))
}

// timeline sums samples over at most maxBins bins of equal width, which doubles when
// the time goes beyond the last.
type timeline struct {
	width float64
	sums  []*sample
}

type sample struct{ waiting, running, cache, tokens float64 }

func (s *sample) add(o sample, n float64) {
	s.waiting += o.waiting * n
	s.running += o.running * n
	s.cache += o.cache * n
	s.tokens += o.tokens * n
}

const maxBins = 512

func (t *timeline) add(begin, end unit.Seconds, s sample) {
	for float64(end) >= t.width*maxBins {
		t.sums, t.width = halved(t.sums, func(to, from *sample) { to.add(*from, 1) }), 2*t.width
	}
	for at := float64(begin); at < float64(end); {
		bin := int(at / t.width)
		stop := min(float64(end), float64(bin+1)*t.width)
		for len(t.sums) <= bin {
			t.sums = append(t.sums, &sample{})
		}
		if stop <= at { // rounding
			break
		}
		t.sums[bin].add(s, stop-at)
		at = stop
	}
}

// all is the bins, of so many replicas together.
func (t *timeline) all(replicas float64) (bins []Bin) {
	for i, s := range t.sums {
		bins = append(bins, Bin{
			Begin: unit.Seconds(float64(i) * t.width), End: unit.Seconds(float64(i+1) * t.width),
			Waiting: s.waiting / t.width, Running: s.running / t.width, Cache: s.cache / t.width / replicas, Tokens: s.tokens / t.width,
		})
	}
	return bins
}
