//go:build unix && !linux

package child

import "syscall"

// dieWithUs does nothing: only Linux has a death signal.
func dieWithUs(*syscall.SysProcAttr, bool) {}
