//go:build unix && !solaris && !illumos && !aix

package experiment

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func lockSystem(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errLocked
	}
	return err
}
