package worker

import (
	"runtime"
	"time"
)

// waitUntil sleeps until shortly before a time, and spins for the rest.
func (w *worker) waitUntil(ns int64) {
	const spin = time.Millisecond
	if left := time.Duration(ns - w.clock()); left > 2*spin {
		time.Sleep(left - spin)
	}
	for w.clock() < ns && !w.stopped.Load() {
		runtime.Gosched()
	}
}

// idle sleeps until its time is over or the driver asks it to stop.
func (w *worker) idle(long func() bool) {
	for !long() && !w.stopped.Load() {
		time.Sleep(5 * time.Millisecond)
	}
}
