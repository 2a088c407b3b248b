package experiment

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// lockFile holds the process that runs in a store. The system's lock on the open
// file is what counts: it goes with the process however that ends, while the
// number in it stays and tells who it was.
const lockFile = ".llmprof.lock"

// errLocked is another process's lock.
var errLocked = errors.New("locked")

// A lock keeps a second runner out of a store.
type lock struct {
	f    *os.File
	note string // of a process that ended without releasing it
}

// lock takes the store's lock, or says who has it.
func (s Store) lock() (*lock, error) {
	file := filepath.Join(s.Dir, lockFile)
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("locking the results folder: %w", err)
	}
	err = lockSystem(f)
	owner := ownerOf(f)
	if err != nil {
		_ = f.Close()
		if errors.Is(err, errLocked) {
			return nil, fmt.Errorf("the results folder %s is in use by another run (process %s): wait for it, or give another folder", s.Dir, owner)
		}
		return nil, fmt.Errorf("locking the results folder %s: %w", s.Dir, err)
	}
	l := &lock{f: f}
	if owner != "" {
		l.note = fmt.Sprintf("process %s ended in the middle of a run here: its lock is taken over, and what it finished is kept", owner)
	}
	err = errors.Join(f.Truncate(0), writeAt(f, strconv.Itoa(os.Getpid())+"\n"))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking the results folder %s: %w", s.Dir, err), f.Close())
	}
	return l, nil
}

func writeAt(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

// ownerOf is the process that wrote the lock, "" if it was released.
func ownerOf(f *os.File) string {
	data, _ := io.ReadAll(io.NewSectionReader(f, 0, 32))
	text := strings.TrimSpace(string(data))
	if _, err := strconv.Atoi(text); text != "" && err != nil {
		return "unknown"
	}
	return text
}

// release gives the lock up. The file stays, since a second runner may have it
// open already.
func (l *lock) release() error { return errors.Join(l.f.Truncate(0), l.f.Close()) }
