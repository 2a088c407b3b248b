// Package input takes in files that others wrote. A file has to be a regular one
// of bounded size; how deep its text is nested and how many values it has is
// counted before a parser sees it, since parsers recurse and copy; and what a
// message repeats of it is short.
package input

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Open opens a regular file and says how many bytes it has. A pipe or a device may
// never end.
func Open(path string) (*os.File, int64, error) {
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

// Read reads a regular file of at most the given bytes. It may grow while it is
// read, so its size is not trusted.
func Read(path string, most int64) ([]byte, error) {
	f, size, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > most {
		return nil, tooLarge(path, most)
	}
	data := make([]byte, 0, size+1)
	for int64(len(data)) <= most {
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		n, err := f.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if err == io.EOF {
			return data, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, tooLarge(path, most)
}

func tooLarge(path string, most int64) error {
	return fmt.Errorf("%s is larger than %d bytes, the most that is read of such a file", path, most)
}
