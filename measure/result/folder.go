package result

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"llmprof/concurrent"
	"llmprof/input"
)

// ReadFolder reads all results of a folder, in the order of their files' names.
// Those that cannot be read are errors, joined, beside the others. Files of
// predictions are passed over.
func ReadFolder(dir string) ([]*Result, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("no results in the folder %s: %w", dir, input.Cause(err))
	}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool {
		return e.IsDir() || strings.HasPrefix(e.Name(), ".") || filepath.Ext(e.Name()) != Extension || IsPredictions(e.Name())
	})
	read, errs := make([]*Result, len(entries)), make([]error, len(entries))
	concurrent.Each(len(read), func(i int) { read[i], errs[i] = readNamed(dir, entries[i].Name()) })
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

// Files of predictions lie beside the results that they were written before.
// They are named after the SHA-256 of their content, in hexadecimal.
const predictions = "predictions-"

var predictionsName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^` + predictions + `[0-9a-f]{64}\` + Extension + `$`)
})

// PredictionsName is the name of the file of predictions whose content has a hash.
func PredictionsName(hash string) string { return predictions + hash + Extension }

// IsPredictions reports whether a file of that name holds predictions rather than
// a result.
func IsPredictions(name string) bool { return predictionsName().MatchString(name) }

// PredictionsHash is the hash in the name of a file of predictions, "" if it is
// none.
func PredictionsHash(name string) string {
	if !IsPredictions(name) {
		return ""
	}
	return strings.TrimSuffix(strings.TrimPrefix(name, predictions), Extension)
}
