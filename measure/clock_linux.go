package measure

import (
	"time"

	"golang.org/x/sys/unix"
)

// workerTime is a moment on the clock that workers use: CLOCK_MONOTONIC, which
// time.Now reads too.
func workerTime(t time.Time) (int64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0, err
	}
	return ts.Nano() + time.Until(t).Nanoseconds(), nil
}
