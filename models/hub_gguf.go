package models

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"llmprof/internal/input"
)

// cachedGGUF is the path in the cache of the GGUF file that an id names, "" for none.
func (h Hub) cachedGGUF(id HubID, commit string) string {
	if h.CacheDir == "" || commit == "" {
		return ""
	}
	dir := filepath.Join(h.folder(id), "snapshots", commit)
	paths, err := input.Files(dir, "*.gguf")
	if err != nil {
		return ""
	}
	for i := range paths {
		paths[i] = filepath.Base(paths[i])
	}
	name, err := pickGGUF(paths, id.File)
	if err != nil {
		return ""
	}
	return filepath.Join(dir, name)
}

// pickGGUF picks the GGUF file that a text names: by its whole name, or by the quantization in it.
func pickGGUF(files []string, text string) (string, error) {
	files = slices.DeleteFunc(slices.Sorted(slices.Values(files)), func(name string) bool {
		base := strings.ToLower(path.Base(name))
		return !strings.HasSuffix(base, ".gguf") || strings.HasPrefix(base, "mmproj") // a tower
	})
	var found, kinds []string
	for _, name := range files {
		if name == text {
			return name, nil
		}
		first := !strings.Contains(name, "-of-") || strings.Contains(name, "-00001-of-")
		if first {
			kinds = append(kinds, path.Base(name))
		}
		if first && wordIn(strings.ToLower(path.Base(name)), strings.ToLower(text)) {
			found = append(found, name)
		}
	}
	switch {
	case len(files) == 0:
		return "", errors.New("it has no GGUF files")
	case len(found) == 0:
		return "", fmt.Errorf("it has no GGUF file of %.40q (it has %s)", text, strings.Join(kinds[:min(len(kinds), 40)], ", "))
	}
	slices.SortStableFunc(found, func(a, b string) int { return len(a) - len(b) })
	return found[0], nil
}

// wordIn reports whether a word stands in a name between characters that are neither letters nor digits.
func wordIn(name, word string) bool {
	for at := 0; ; {
		i := strings.Index(name[at:], word)
		if i < 0 || word == "" {
			return false
		}
		begin, end := at+i, at+i+len(word)
		inner := func(i int) bool {
			return i >= 0 && i < len(name) && (name[i] == '_' || name[i] >= '0' && name[i] <= '9' || name[i] >= 'a' && name[i] <= 'z')
		}
		if !inner(begin-1) && !inner(end) {
			return true
		}
		at = begin + 1
	}
}
