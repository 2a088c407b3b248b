package process

import "golang.org/x/sys/unix"

// Monotonic is now on the clock that workers use: CLOCK_MONOTONIC, which time.Now reads too.
func Monotonic() (ns int64, err error) {
	var ts unix.Timespec
	err = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano(), err
}
