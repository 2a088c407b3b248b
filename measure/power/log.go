package power

import (
	"context"
	"sync"
	"time"

	"llmprof/measure/result"
	"llmprof/measure/stats"
)

// A log gathers samples of a board until it is finished.
type log struct {
	samples []Sample
	states  []state
	slowest time.Duration // read
	err     error
	mu      sync.Mutex // of slowest
	stop    context.CancelFunc
	done    chan struct{}
}

// start samples the board from now on. The pauses differ, so that a board that
// does the same again and again is not always looked at in the same moment.
func (l *log) start(ctx context.Context, s *gpuSensor) {
	ctx, l.stop = context.WithCancel(ctx)
	l.done = make(chan struct{})
	go func() {
		defer close(l.done)
		var looked time.Time
		for i := 0; ; i++ {
			if l.err = l.sample(s); l.err != nil {
				return
			}
			if time.Since(looked) >= statePeriod {
				looked = time.Now()
				if l.err = l.look(s.board); l.err != nil {
					return
				}
			}
			if pause(ctx, spread(s.period, i)) != nil {
				return
			}
		}
	}()
}

// spread is the i-th pause: from half to one and a half times the period, evenly
// spread by the golden ratio, whose multiples modulo 1 fall nowhere twice.
func spread(period time.Duration, i int) time.Duration {
	const golden = 0.6180339887498949
	x := golden * float64(i)
	return time.Duration(float64(period) * (0.5 + x - float64(int(x))))
}

// finish ends the sampling, and says what went wrong with it.
func (l *log) finish() error {
	l.stop()
	<-l.done
	return l.err
}

// sample takes the power; its time is the middle of the read.
func (l *log) sample(s *gpuSensor) error {
	at, watts, err := l.timed(s.board.watts)
	if err != nil {
		return err
	}
	l.samples = append(l.samples, Sample{Time: at, Domain: s.name, Watts: watts})
	return nil
}

func (l *log) look(b board) error {
	st, err := b.state()
	if err != nil {
		return err
	}
	l.states = append(l.states, *st)
	return nil
}

// joules reads the counter.
func (l *log) joules(b board) (time.Time, float64, error) { return l.timed(b.joules) }

// timed reads a value, and says in the middle of which time.
func (l *log) timed(read func() (float64, error)) (time.Time, float64, error) {
	begin := time.Now()
	v, err := read()
	took := time.Since(begin)
	l.mu.Lock()
	l.slowest = max(l.slowest, took)
	l.mu.Unlock()
	return begin.Add(took / 2), v, err
}

// condition sums up the states of the window.
func (w *gpuWatch) condition(seconds float64) (*result.Condition, error) {
	c := &result.Condition{UUID: w.board.id(), ThrottledS: map[string]float64{}, OtherPIDs: []int{}}
	var err error
	gather := func(of func(*state) *float64) *stats.Summary {
		var xs []float64
		for i := range w.states {
			if x := of(&w.states[i]); x != nil {
				xs = append(xs, *x)
			}
		}
		if len(xs) == 0 || err != nil {
			return nil
		}
		var s *stats.Summary
		s, err = stats.Summarize(xs)
		return s
	}
	c.SMClockHz = gather(func(s *state) *float64 { return s.smHz })
	c.MemClockHz = gather(func(s *state) *float64 { return s.memoryHz })
	c.Temperature = gather(func(s *state) *float64 { return s.celsius })
	c.Utilization = gather(func(s *state) *float64 { return s.busy })
	c.MemoryUtil = gather(func(s *state) *float64 { return s.memoryBusy })
	if err != nil {
		return nil, err
	}
	for i := range w.states {
		if w.states[i].used != nil {
			c.MemoryUsed = w.states[i].used
		}
	}
	w.throttled(c, seconds)
	running, err := w.board.processes()
	for _, p := range running {
		c.OtherPIDs = append(c.OtherPIDs, p.PID) // the monitor takes out its own
	}
	return c, err
}

// throttled fills in for how long clocks were held down: by the board's own count
// where it has one, else by the share of the states that say so.
func (w *gpuWatch) throttled(c *result.Condition, seconds float64) {
	if now := w.board.held(); now != nil && w.held0 != nil {
		for reason, s := range now {
			if d := s - w.held0[reason]; d > 0 {
				c.ThrottledS[reason] = min(d, seconds)
			}
		}
		return
	}
	for i := range w.states {
		for _, reason := range w.states[i].reasons {
			c.ThrottledS[reason] += seconds / float64(len(w.states))
		}
	}
}
