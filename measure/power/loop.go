package power

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"llmprof/internal/concurrent"
)

// mostInARow is how many reads in a row may fail. A sensor that stops goes on to fail; one that once says what is no
// figure does not.
const mostInARow = 3

// A loop reads a sensor again and again in a goroutine of its own, until it is ended or reads fail.
type loop struct {
	stop context.CancelFunc
	done chan struct{}
	err  error

	dropped int   // reads that failed
	why     error // why the first of them did
	inARow  int   // failed reads since one that did not

	mu      sync.Mutex // guards slowest
	slowest time.Duration
}

// run waits for the i-th period before each read; there is no wait for a period of 0.
func (l *loop) run(ctx context.Context, period func(i int) time.Duration, read func() error) {
	ctx, l.stop = context.WithCancel(ctx)
	l.done = make(chan struct{})
	go func() {
		defer close(l.done)
		for i := 0; l.err == nil && (period(i) == 0 || concurrent.Wait(ctx, period(i)) == nil); i++ {
			l.heed(read())
		}
	}()
}

// heed counts a read that failed; too many in a row end the loop.
func (l *loop) heed(err error) {
	if err == nil {
		l.inARow = 0
		return
	}
	l.dropped++
	l.inARow++
	l.why = cmp.Or(l.why, err)
	if l.inARow == mostInARow {
		l.err = err
	}
}

// finish ends the loop, and says what went wrong in it.
func (l *loop) finish() error {
	l.stop()
	<-l.done
	if l.err == nil && l.inARow > 0 { // It may have stopped.
		return l.why
	}
	return l.err
}

// notes says which reads were left out, of a sensor that has ended.
func (l *loop) notes(sensor string) []string {
	if l.dropped == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s: a reading is left out where the sensor gave none, %d in all: %v", sensor, l.dropped, l.why)}
}

// last ends the loop, and reads once more unless something went wrong in it.
func (l *loop) last(read func() error) error {
	if err := l.finish(); err != nil {
		return err
	}
	return read()
}

// timed reads a value, and returns the middle of the time of the read.
func (l *loop) timed(read func() (float64, error)) (time.Time, float64, error) {
	begin := time.Now()
	v, err := read()
	took := time.Since(begin)
	l.mu.Lock()
	l.slowest = max(l.slowest, took)
	l.mu.Unlock()
	return begin.Add(took / 2), v, err
}

// spread is the i-th pause: from half to one and a half times the period, evenly
// spread by the golden ratio, whose multiples modulo 1 fall nowhere twice. The pauses differ, so
// that a board that does the same again and again is not always looked at in the same moment.
func spread(period time.Duration, i int) time.Duration {
	const golden = 0.6180339887498949
	x := golden * float64(i)
	return time.Duration(float64(period) * (0.5 + x - float64(int(x))))
}

// atOnce are such pauses after a first read without one.
func atOnce(period time.Duration) func(i int) time.Duration {
	return func(i int) time.Duration {
		if i == 0 {
			return 0
		}
		return spread(period, i-1)
	}
}
