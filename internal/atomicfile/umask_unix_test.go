//go:build unix

package atomicfile

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A result is as private as its user asked for.
func TestWriteFileKeepsTheUmask(t *testing.T) {
	for _, mask := range []int{0o077, 0o027, 0o022} {
		path := filepath.Join(t.TempDir(), "r.json")
		before := syscall.Umask(mask)
		err := WriteFile(path, []byte("x"), 0o666)
		syscall.Umask(before)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if want := os.FileMode(0o666 &^ mask); err != nil || info.Mode().Perm() != want {
			t.Errorf("umask %03o: %v, %v, want %v", mask, info.Mode(), err, want)
		}
	}
}
