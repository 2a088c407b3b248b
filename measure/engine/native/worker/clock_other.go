//go:build !linux

package worker

import "time"

// newClock gives nanoseconds since it was called: nothing is measured here,
// for the engine runs on Linux alone.
func newClock() func() int64 {
	start := time.Now()
	return func() int64 { return time.Since(start).Nanoseconds() }
}
