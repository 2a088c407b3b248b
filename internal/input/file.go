// Package input takes in files that others wrote. A file has to be a regular one
// of bounded size; how deep its text is nested and how many values it has is
// counted before a parser sees it, since parsers recurse and copy; and what a
// message repeats of it is short.
package input

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Open opens a regular file and says how many bytes it has. A pipe or a device may
// never end.
func Open(path string) (*os.File, int64, error) {
	f, size, err := open(path)
	if err == nil {
		note(Content{Name: path})
	}
	return f, size, err
}

func open(path string) (*os.File, int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() { // before it is opened: a pipe without a writer would block
		return nil, 0, notRegular(path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	if info, err = f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, 0, notRegular(path)
	}
	return f, info.Size(), nil
}

func notRegular(path string) error {
	return &fs.PathError{Op: "open", Path: path, Err: errors.New("not a regular file")}
}

// Files lists the files of a folder whose names match a pattern, none where there is no folder.
func Files(folder, pattern string) ([]string, error) {
	folder = cmp.Or(folder, ".")
	names, err := fs.Glob(os.DirFS(folder), pattern) // filepath.Glob would take a [ in the folder's name for a pattern.
	for i, name := range names {
		names[i] = filepath.Join(folder, filepath.FromSlash(name))
	}
	return names, err
}

// Read reads a regular file of at most the given bytes, without the byte order mark that editors of Windows put before a text.
// What gzip packed is unpacked, whatever its name, and has at most so many bytes then.
func Read(path string, most int64) ([]byte, error) {
	data, err := ReadUnrecorded(path, most)
	if err == nil {
		note(Content{Name: path})
	}
	return data, err
}

// ReadUnrecorded is Read of what no result depends on: a secret, or where a file lies that is read then.
func ReadUnrecorded(path string, most int64) ([]byte, error) {
	data, err := read(path, most)
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return nil, fmt.Errorf("%s is in UTF-16: want a text in UTF-8", path)
	}
	return bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), err
}

// read reads a whole file. It may grow while it is read, so its size is not trusted.
func read(path string, most int64) ([]byte, error) {
	f, size, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > most {
		return nil, tooLarge(path, most)
	}
	from, err := Unpack(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if _, packed := from.(*unpacked); packed {
		size = said(f, size)
	}
	out := bytes.NewBuffer(make([]byte, 0, min(size, most)+bytes.MinRead))
	switch _, err := out.ReadFrom(io.LimitReader(from, most+1)); {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, Cause(err))
	case int64(out.Len()) > most:
		return nil, tooLarge(path, most)
	}
	return out.Bytes(), nil
}

func tooLarge(path string, most int64) error {
	return fmt.Errorf("%s is larger than %s, the most that is read of such a file", path, Size(most))
}

// Cause is what the system said of a file, without the file's name: the user may not have given it.
func Cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// Size is a number of bytes for people, in two digits: 8.4 MB.
func Size(bytes int64) string {
	v, prefix := float64(bytes), ""
	for _, p := range []string{"k", "M", "G", "T"} {
		if v < 999.5 {
			break
		}
		v, prefix = v/1000, p
	}
	if prefix == "" || v >= 9.95 {
		return fmt.Sprintf("%.0f %sB", v, prefix)
	}
	return fmt.Sprintf("%.1f %sB", v, prefix)
}

// Limits are what a text may have at most.
type Limits struct {
	Bytes  int
	Depth  int // tables and lists within each other, parts of a dotted key among them
	Values int // values, keys and tables together
}

// An LimitError is where a text exceeds a limit.
type LimitError struct {
	Line, Column int // from 1, in bytes
	Problem      string
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Problem)
}

// A counter counts the values of a text against the limits.
type counter struct {
	Limits
	text   string
	values int
}

func (l Limits) counter(text string) (*counter, error) {
	c := &counter{Limits: l, text: text}
	if len(text) > l.Bytes {
		return nil, &LimitError{1, 1, fmt.Sprintf("the text is larger than %s, the most that is read", Size(int64(l.Bytes)))}
	}
	return c, nil
}

// at is an Excess at a byte of the text.
func (c *counter) at(offset int, format string, args ...any) error {
	before := c.text[:min(offset, len(c.text))]
	line := 1 + strings.Count(before, "\n")
	return &LimitError{line, offset - strings.LastIndexByte(before, '\n'), fmt.Sprintf(format, args...)}
}

func (c *counter) deep(offset, depth int) error {
	if depth > c.Depth {
		return c.at(offset, "nested more than %d deep", c.Depth)
	}
	return nil
}

func (c *counter) value(offset int) error {
	if c.values++; c.values > c.Values {
		return c.at(offset, "more than %d values", c.Values)
	}
	return nil
}
