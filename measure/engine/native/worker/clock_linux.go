package worker

import (
	"time"

	"golang.org/x/sys/unix"
)

// newClock gives nanoseconds of CLOCK_MONOTONIC, by which Go counts too.
func newClock() func() int64 {
	start := time.Now()
	var ts unix.Timespec
	base := int64(0)
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err == nil { // this clock cannot fail
		base = ts.Nano()
	}
	return func() int64 { return base + time.Since(start).Nanoseconds() }
}
