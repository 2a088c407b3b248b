package power

import (
	"context"
	"sync"
	"time"
)

// A log gathers samples of a board until it is finished.
type log struct {
	samples []Sample
	states  []state
	slowest time.Duration // read
	err     error
	mu      sync.Mutex // guards slowest
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

func (l *log) joules(b board) (time.Time, float64, error) { return l.timed(b.joules) }

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
