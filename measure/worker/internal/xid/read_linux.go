package xid

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// slack is how far the kernel log's clock may be from CLOCK_MONOTONIC.
const slack = time.Second

// read gives what the kernel's log has of the last while, the oldest first.
func read(while time.Duration) (events []Event, err error) {
	const log = "/dev/kmsg"
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return nil, err
	}
	since := time.Duration(now.Nano()) - while - slack
	fd, err := unix.Open(log, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", log, err)
	}
	defer func() { _ = unix.Close(fd) }()
	record := make([]byte, 16<<10)
	for range 1 << 20 { // The bound keeps the loop from being endless.
		n, err := unix.Read(fd, record)
		switch {
		case errors.Is(err, unix.EPIPE), errors.Is(err, unix.EINTR), errors.Is(err, unix.EINVAL):
			continue // a record was overwritten, or is longer than any report
		case errors.Is(err, unix.EAGAIN), err == nil && n == 0:
			return events, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", log, err)
		}
		if at, e, ok := parseRecord(string(record[:n])); ok && at >= since {
			events = append(events, e)
		}
	}
	return events, nil
}
