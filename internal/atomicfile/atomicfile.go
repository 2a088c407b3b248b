// Package atomicfile writes files whole or not at all. A reader finds the old
// content or the new; a crash at any moment leaves at worst a hidden temporary
// file beside them, which goes when the same file is written again.
package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// ErrLocked is another process's lock.
var ErrLocked = errors.New("locked")

// A File is written under a temporary name beside its own, which Keep gives it.
type File struct {
	*os.File
	path string   // "" where the file is written in place
	held *os.File // locks the temporary file, so that nobody takes it for one that a crash left; nil where the system cannot
}

// Create begins a file that will replace what path has. It has the permissions that
// the umask leaves of perm.
func Create(path string, perm os.FileMode) (*File, error) {
	removeStale(path)
	for {
		name := filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%d.%d.tmp", filepath.Base(path), os.Getpid(), rand.Uint64()))
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
		if err != nil {
			return nil, err
		}
		held := hold(name)
		if _, err := os.Lstat(name); err == nil {
			return &File{f, path, held}, nil
		}
		_ = release(held) // Another process took the file for a stale one before it was locked.
		_ = f.Close()
	}
}

// temporary matches what follows the name of a file in that of a temporary one.
var temporary = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\.[0-9]+\.[0-9]+\.tmp$`) })

// removeStale removes the temporary files of a file whose writers were killed. That it cannot is no reason not to write.
func removeStale(path string) {
	dir, begin := filepath.Dir(path), "."+filepath.Base(path)
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if end, ok := strings.CutPrefix(e.Name(), begin); ok && e.Type().IsRegular() && temporary().MatchString(end) {
			removeUnheld(filepath.Join(dir, e.Name()))
		}
	}
}

func release(held *os.File) error {
	if held == nil {
		return nil
	}
	return held.Close()
}

// Replace begins a file that a user named: it keeps the permissions of the one that it replaces, a link goes on
// pointing to its target, and what is no regular file, as /dev/null or a named pipe, is written in place.
func Replace(path string, perm os.FileMode) (*File, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
	case info.IsDir():
		return nil, errors.New("it is a directory; give the name of a file in it")
	case !info.Mode().IsRegular():
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		return &File{f, "", nil}, nil
	default:
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return nil, err
		}
	}
	f, created := Create(path, perm)
	if created == nil && err == nil {
		_ = f.Chmod(info.Mode().Perm())
	}
	return f, created
}

// probeBytes is what a file system without room for anything does not take.
const probeBytes = 4096

// Probe reports why a file that a user named cannot be written, and changes nothing. It opens no pipe and no device.
func Probe(path string) error {
	if info, err := os.Stat(path); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		return nil
	}
	f, err := Replace(path, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, probeBytes))
	return errors.Join(err, f.Drop())
}

// Keep puts the file on the disk and only then under its name. One that cannot be
// kept is removed.
func (f *File) Keep() error {
	if f.path == "" {
		return f.Close()
	}
	err := errors.Join(f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), f.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()), release(f.held))
	}
	return errors.Join(release(f.held), syncDir(filepath.Dir(f.path)))
}

// Drop removes a file that is not kept.
func (f *File) Drop() error {
	if f.path == "" {
		return f.Close()
	}
	return errors.Join(f.Close(), os.Remove(f.Name()), release(f.held))
}

// Write replaces a file by what write writes.
func Write(path string, perm os.FileMode, write func(io.Writer) error) error {
	f, err := Create(path, perm)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		return errors.Join(err, f.Drop())
	}
	return f.Keep()
}

// WriteFile replaces a file by data, as os.WriteFile does.
func WriteFile(path string, data []byte, perm os.FileMode) error {
	return Write(path, perm, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// syncDir makes a new name last. Systems that cannot sync a folder keep names by themselves.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return nil //nolint:nilerr // a folder that may be written and not read: the file is there
	}
	_ = d.Sync()
	return d.Close()
}
