package result

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ReadFolder reads all results of a folder, in the order of their files' names.
// Those that cannot be read are errors, joined, beside the others. Files of
// predictions are passed over.
func ReadFolder(dir string) ([]*Result, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the results: %w", err)
	}
	var all []*Result
	var errs []error
	for _, e := range entries {
		if e.IsDir() || strings.HasPrefix(e.Name(), ".") || filepath.Ext(e.Name()) != Extension || IsPredictions(e.Name()) {
			continue
		}
		file := filepath.Join(dir, e.Name())
		r, err := Read(file)
		if err == nil && FileName(r.ID, r.Process) != e.Name() {
			err = fmt.Errorf("%s: it is of %s, process %d: its name has to be %s", file, r.ID, r.Process, FileName(r.ID, r.Process))
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, r)
	}
	return all, errors.Join(errs...)
}
