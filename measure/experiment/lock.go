package experiment

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"llmprof/internal/atomicfile"
	"llmprof/internal/input"
)

// lockFile holds the process that runs in a store. The system's lock on the open
// file is what counts: it goes with the process however that ends, while the
// number in it stays and says who it was. Where the system has no locks nothing is run: two runs could measure the same point, each
// disturbing the other.
const lockFile = ".llmprof.lock"

// A lock keeps a second runner out of a store.
type lock struct {
	f    *os.File
	note string // note on a process that ended without releasing the lock
}

// lock takes the store's lock, or that of one shard of an experiment, or says who has it.
// Shards may run at a time, but none beside a run of the whole.
func (s Store) lock(shard string) (*lock, error) {
	if shard == "" {
		l, err := s.lockAs(lockFile)
		if err != nil {
			return nil, err
		}
		others, _ := input.Files(s.Dir, ".llmprof-*"+lockFile[len(".llmprof"):]) // the pattern is well formed
		for _, other := range others {
			if err := s.free(filepath.Base(other)); err != nil {
				return nil, errors.Join(err, l.release())
			}
		}
		return l, nil
	}
	l, err := s.lockAs(".llmprof-" + strings.ReplaceAll(shard, "/", "-of-") + ".lock")
	if err != nil {
		return nil, err
	}
	if err := s.free(lockFile); err != nil {
		return nil, errors.Join(err, l.release())
	}
	return l, nil
}

// free reports who has a lock, if anyone does.
func (s Store) free(name string) error {
	f, err := s.take(name)
	if err != nil {
		return err
	}
	return f.Close()
}

// take locks a file of the store, or says why that is not possible.
func (s Store) take(name string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(s.Dir, name), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("locking the results folder: %w", err)
	}
	if err = atomicfile.TryLock(f); err == nil {
		return f, nil
	}
	if errors.Is(err, atomicfile.ErrLocked) {
		err = fmt.Errorf("the results folder %s is in use by another run (process %s): wait for it, or give another folder", s.Dir, ownerOf(f))
	} else {
		err = fmt.Errorf("locking the results folder %s: %w", s.Dir, err)
	}
	return nil, errors.Join(err, f.Close())
}

func (s Store) lockAs(name string) (*lock, error) {
	f, err := s.take(name)
	if err != nil {
		return nil, err
	}
	l := &lock{f: f}
	if owner := ownerOf(f); owner != "" {
		l.note = fmt.Sprintf("process %s ended in the middle of a run here: its lock is taken over, and what it finished is kept", owner)
	}
	if err = f.Truncate(0); err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking the results folder %s: %w", s.Dir, err), f.Close())
	}
	return l, nil
}

// ownerOf is the process that has the lock, "" if it was released.
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
