//go:build !linux

package process

import "errors"

// Monotonic fails: the clock that workers use is not read on this system.
func Monotonic() (ns int64, err error) {
	return 0, errors.New("the sensors' clock can be set against the engine's on Linux alone")
}
