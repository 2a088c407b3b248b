package result

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"llmprof/internal/concurrent"
	"llmprof/internal/input"
)

// packed is what follows the name of a file that gzip packed.
const packed = ".gz"

// Base is the name of a result's file, or its path, without its ending; ok is whether it has that of a
// result, packed or not.
func Base(file string) (base string, ok bool) {
	plain := file
	if strings.EqualFold(filepath.Ext(file), packed) {
		plain = file[:len(file)-len(packed)]
	}
	if !strings.EqualFold(filepath.Ext(plain), Extension) {
		return strings.TrimSuffix(file, filepath.Ext(file)), false
	}
	return plain[:len(plain)-len(Extension)], true
}

// Find is the path of the file of one process of an experiment: packed if there is only a packed one.
func Find(dir, id string, process int) string {
	file := filepath.Join(dir, FileName(id, process))
	if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(file + packed); err == nil {
			return file + packed
		}
	}
	return file
}

var processName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\.p[0-9]+$`) })

// packedResult tells packed results from what else is packed, such as traces of profilers: by the name that Write
// gives, or by how they begin.
func packedResult(file, base string) bool {
	if processName().MatchString(base) {
		return true
	}
	f, _, err := input.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	from, err := gzip.NewReader(f)
	if err != nil {
		return false
	}
	head, _ := io.ReadAll(io.LimitReader(from, 64))
	return bytes.Contains(head, []byte(`"`+Schema+`"`))
}

// Files lists the files of a folder that have the name of a result, in order: not those of predictions and not
// hidden ones, and of one that lies there packed and unpacked the latter.
func Files(dir string) ([]string, error) {
	entries, err := os.ReadDir(cmp.Or(dir, "."))
	if err != nil {
		return nil, err
	}
	var files []string
	last := ""
	for _, e := range entries {
		base, ok := Base(e.Name())
		if !ok || e.IsDir() || base == last || strings.HasPrefix(base, ".") || IsPredictions(e.Name()) {
			continue
		}
		file := filepath.Join(dir, e.Name())
		if strings.EqualFold(filepath.Ext(file), packed) && !packedResult(file, base) {
			continue
		}
		last = base
		files = append(files, file)
	}
	return files, nil
}

// ReadFolder reads all results of a folder, in the order of their files' names.
// Those that cannot be read are errors, joined, beside the others. Files of
// predictions are passed over.
func ReadFolder(dir string) ([]*Result, error) {
	files, err := Files(dir)
	if err != nil {
		return nil, fmt.Errorf("no results in the folder %s: %w", dir, input.Cause(err))
	}
	read, errs := make([]*Result, len(files)), make([]error, len(files))
	concurrent.Each(len(read), func(i int) { read[i], errs[i] = readNamed(files[i]) })
	return slices.DeleteFunc(read, func(r *Result) bool { return r == nil }), errors.Join(errs...)
}

// readNamed reads a result of a folder, whose file has to have its name.
func readNamed(file string) (*Result, error) {
	r, err := Read(file)
	if err != nil {
		return nil, err
	}
	want := FileName(r.ID, r.Process)
	if name := filepath.Base(file); name != want && name != want+packed {
		return nil, fmt.Errorf("%s: it is of %s, process %d: its name has to be %s", file, r.ID, r.Process, want)
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
