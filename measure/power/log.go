package power

import (
	"context"
	"sync"
	"time"
)

// A log gathers samples of a board until it is finished.
type log struct {
	loop
	samples []Sample
	states  []state
	slowest time.Duration // read
	mu      sync.Mutex    // guards slowest
}

// start samples the board from now on.
func (l *log) start(ctx context.Context, s *gpuSensor) {
	var looked time.Time
	l.run(ctx, atOnce(s.period), func() error {
		at, watts, err := l.timed(s.board.watts) // the sample's time is the middle of the read
		if err != nil {
			return err
		}
		l.samples = append(l.samples, Sample{Time: at, Domain: s.name, Watts: watts})
		if time.Since(looked) < statePeriod {
			return nil
		}
		looked = time.Now()
		st, err := s.board.state()
		if err == nil {
			l.states = append(l.states, *st)
		}
		return err
	})
}

// timed reads a value, and returns the middle of the time of the read.
func (l *log) timed(read func() (float64, error)) (time.Time, float64, error) {
	begin := time.Now()
	v, err := read()
	took := time.Since(begin)
	l.mu.Lock()
	l.slowest = max(l.slowest, took)
	l.mu.Unlock()
	return begin.Add(took / 2), v, err
}
