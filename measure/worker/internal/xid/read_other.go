//go:build !linux

package xid

import (
	"errors"
	"time"
)

func read(time.Duration) ([]Event, error) {
	return nil, errors.New("it is known of Linux alone")
}
