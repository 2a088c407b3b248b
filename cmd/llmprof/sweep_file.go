package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"llmprof/internal/atomicfile"
	"llmprof/internal/input"
	"llmprof/plan/sweep"
)

// A gridFile is where the rows of a sweep go: a new file that takes its name once it has rows, or one with the first of them.
type gridFile struct {
	*os.File
	name  string
	whole *atomicfile.File // the new file; nil where rows are appended
	begin int64            // bytes of the rows that were there before
	key   string           // what the rows are computed from
	shard bool             // a shard without rows has a file all the same
}

// A gridRest stands beside the file of a sweep that was interrupted, and says what is in it.
type gridRest struct {
	Key   string `json:"key"` // what the rows are computed from
	Done  uint64 `json:"done"`
	Bytes int64  `json:"bytes"`
}

// restName is the file of a gridRest.
func restName(file string) string { return file + ".rest.json" }

// open opens the file of the rows. Nothing can be appended to a file of Parquet, so the rest goes to another one.
func (o *gridOrder) open(key string, form sweep.Format) (f *gridFile, err error) {
	f = &gridFile{name: o.file, key: key, shard: o.shard != ""}
	switch {
	case o.from == 0:
		if f.whole, err = atomicfile.Replace(o.file, 0o666); err == nil {
			f.File = f.whole.File
		}
	case form == sweep.Parquet:
		f.File, err = os.OpenFile(o.file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	default:
		if f.File, err = os.OpenFile(o.file, os.O_RDWR, 0); err == nil {
			if err = f.resume(o.from); err != nil {
				return nil, errors.Join(err, f.Close())
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", o.file, input.Cause(err))
	}
	return f, nil
}

// resume goes to the end of the rows that are there, without a row that was cut, and sees that they are of this grid.
func (f *gridFile) resume(from uint64) error {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("writing %s: %w", f.name, input.Cause(err))
	}
	text, err := input.Read(restName(f.name), 1<<16)
	var rest gridRest
	if err == nil {
		err = json.Unmarshal(text, &rest)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s has no %s beside it, by which a sweep that stops says what it has: leave out --from", f.name, restName(f.name))
	case err != nil:
		return fmt.Errorf("reading %s, which says what %s has: %w", restName(f.name), f.name, err)
	case rest.Key != f.key:
		return fmt.Errorf("%s has rows of another grid, or a file that it follows from has changed since: give the same command, or another file",
			f.name)
	case rest.Done != from || rest.Bytes > end || rest.Bytes < 0:
		return fmt.Errorf("%s has the rows of %d points: go on with --from %d", f.name, rest.Done, rest.Done)
	}
	f.begin = rest.Bytes
	if err := f.Truncate(f.begin); err != nil {
		return fmt.Errorf("writing %s: %w", f.name, input.Cause(err))
	}
	_, err = f.Seek(f.begin, io.SeekStart)
	return err
}

// finish keeps the rows that are whole, and what was there before where none came. A failed sweep leaves a note of what the file has.
func (f *gridFile) finish(s *sweep.Summary, form sweep.Format, failed error) error {
	info, err := f.Stat()
	regular := err == nil && info.Mode().IsRegular()
	if failed != nil && regular && form != sweep.Parquet {
		failed = errors.Join(failed, f.Truncate(f.begin+s.Bytes))
	}
	none := s.Written == 0 && !f.shard && (f.whole != nil || form == sweep.Parquet)
	switch {
	case f.whole != nil && none && regular:
		err = f.whole.Drop()
	case f.whole != nil:
		err = f.whole.Keep()
	default:
		if err = f.Close(); none {
			err = errors.Join(err, os.Remove(f.name))
		}
	}
	if err == nil && regular && !none {
		err = f.note(s, failed)
	}
	if err != nil {
		err = fmt.Errorf("writing %s: %w", f.name, input.Cause(err))
	}
	return errors.Join(failed, err)
}

// note says beside the file of a sweep that failed what it has.
func (f *gridFile) note(s *sweep.Summary, failed error) error {
	if failed != nil {
		text, err := json.Marshal(gridRest{f.key, s.Done, f.begin + s.Bytes})
		if err != nil {
			return err
		}
		return atomicfile.WriteFile(restName(f.name), append(text, '\n'), 0o666)
	}
	if err := os.Remove(restName(f.name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
