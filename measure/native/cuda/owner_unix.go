//go:build unix

package cuda

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// checkOwner says why others than this user may have written a file or a folder.
func checkOwner(path string, info fs.FileInfo) error {
	const others = 0o022 // may be written by the group, or by anybody
	if info.Mode().Perm()&others != 0 {
		return fmt.Errorf("%s may be written by others (mode %v): chmod go-w takes that away", path, info.Mode().Perm())
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && int(s.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d, and this is user %d", path, s.Uid, os.Geteuid())
	}
	return nil
}
