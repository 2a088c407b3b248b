package result

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// ReadFolder reads all results of a folder, in the order of their files' names.
// Those that cannot be read are errors, joined, beside the others. Files of
// predictions are passed over.
func ReadFolder(dir string) ([]*Result, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the results: %w", err)
	}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool {
		return e.IsDir() || strings.HasPrefix(e.Name(), ".") || filepath.Ext(e.Name()) != Extension || IsPredictions(e.Name())
	})
	read, errs := make([]*Result, len(entries)), make([]error, len(entries))
	var workers sync.WaitGroup
	var next atomic.Int64
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(entries); i = int(next.Add(1)) - 1 {
				read[i], errs[i] = readNamed(dir, entries[i].Name())
			}
		})
	}
	workers.Wait()
	return slices.DeleteFunc(read, func(r *Result) bool { return r == nil }), errors.Join(errs...)
}

// readNamed reads a result of a folder, whose file has to have its name.
func readNamed(dir, name string) (*Result, error) {
	file := filepath.Join(dir, name)
	r, err := Read(file)
	switch {
	case err != nil:
		return nil, err
	case FileName(r.ID, r.Process) != name:
		return nil, fmt.Errorf("%s: it is of %s, process %d: its name has to be %s", file, r.ID, r.Process, FileName(r.ID, r.Process))
	}
	return r, nil
}
