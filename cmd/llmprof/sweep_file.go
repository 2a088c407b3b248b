package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"llmprof/internal/atomicfile"
	"llmprof/internal/input"
	"llmprof/plan/sweep"
)

// A gridFile is where the rows of a sweep go: a new file that takes its name once it has rows, or one with the first of them.
type gridFile struct {
	*os.File
	name  string
	whole *atomicfile.File // the new file; nil where rows are appended
	bare  bool             // no note says of which grid the rows are that were there before
	last  string           // last of them then
	begin int64            // bytes of the rows that were there before
	head  string           // first line; "" where the rows have none
	json  bool             // rows are objects of JSON
	key   string
	shard bool // a shard without rows has a file all the same
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
func (o *gridOrder) open(key, head string, form sweep.Format) (f *gridFile, err error) {
	f = &gridFile{name: o.file, key: key, head: head, json: form == sweep.JSONL, shard: o.shard != ""}
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
	if errors.Is(err, fs.ErrNotExist) {
		f.begin, f.bare = end, true
		return f.look(from)
	}
	var rest gridRest
	if err == nil {
		err = json.Unmarshal(text, &rest)
	}
	switch {
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

// look sees that a file of which no note says what it has can be the beginning of this sweep's.
func (f *gridFile) look(from uint64) error {
	_, err := f.Seek(0, io.SeekStart)
	lines, rows := bufio.NewReaderSize(f, 1<<20), uint64(0)
	for first := true; err == nil; first = false {
		var part []byte
		part, err = lines.ReadSlice('\n')
		switch {
		case len(part) == 0:
		case part[len(part)-1] != '\n' && errors.Is(err, io.EOF):
			return fmt.Errorf("the last row of %s is cut: remove it, and count the points of the others for --from", f.name)
		case first && f.head != "" && string(part) != f.head, first && f.head == "" && f.json && part[0] != '{':
			return fmt.Errorf("%s does not begin as the rows of this sweep do: give another file", f.name)
		case !first || f.head == "":
			rows++
			f.last = string(part)
		}
	}
	switch {
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("reading %s: %w", f.name, input.Cause(err))
	case f.begin == 0:
		return fmt.Errorf("%s is empty: leave out --from", f.name)
	case rows > from:
		return fmt.Errorf("%s has %d rows, more than the %d points before --from", f.name, rows, from)
	}
	_, err = f.Seek(f.begin, io.SeekStart)
	return err
}

// follows sees that a file without a note ends with the last row before those that are appended. Where none of a block of points before is
// possible it cannot tell.
func (f *gridFile) follows(ctx context.Context, g *sweep.Grid, o sweep.Options) error {
	if !f.bare {
		return nil
	}
	rows, err := sweep.Before(ctx, g, o, o.Skip)
	rows, last := "\n"+strings.TrimPrefix(rows, f.head), "\n"+f.last
	switch {
	case err != nil:
		return err
	case rows == "\n", f.last != "" && strings.HasSuffix(rows, last):
	case f.last == "", strings.Contains(rows, last):
		return fmt.Errorf("%s lacks rows of points before --from %d", f.name, o.Skip)
	default:
		return fmt.Errorf("%s has rows of another grid: its last one is none of those before --from %d; give the same command, or another file",
			f.name, o.Skip)
	}
	return nil
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
