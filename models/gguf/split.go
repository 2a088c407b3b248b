package gguf

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
)

// partName is how llama.cpp names the parts of a split file.
var partName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})\.gguf$`) })

// mostParts is the most parts that a file is read in.
const mostParts = 1000

// Parts lists the files of which path is one: itself alone unless its name says that it is a part.
func Parts(path string) ([]string, error) {
	found := partName().FindStringSubmatch(filepath.Base(path))
	if found == nil {
		return []string{path}, nil
	}
	part, _ := strconv.Atoi(found[2]) // five digits
	of, _ := strconv.Atoi(found[3])
	if part < 1 || part > of || of > mostParts {
		return nil, fmt.Errorf("%s names part %d of %d; want a part from 1 to at most %d", filepath.Base(path), part, of, mostParts)
	}
	paths := make([]string, of)
	for i := range paths {
		paths[i] = filepath.Join(filepath.Dir(path), fmt.Sprintf("%s-%05d-of-%05d.gguf", found[1], i+1, of))
	}
	return paths, nil
}

// Join is the header of all parts of a split file together: the values of the first one, and the
// tensors of all.
func Join(parts []*Header) (*Header, error) {
	if len(parts) == 0 {
		return nil, errors.New("no header of a GGUF file is given")
	}
	first := parts[0]
	count, isSplit := first.Values["split.count"].(int64)
	if !isSplit || count == 0 {
		count = 1
	}
	if count != int64(len(parts)) {
		return nil, fmt.Errorf("it is one of %d parts and %d are given; all of them are needed, under their names -00001-of-%05d.gguf", count,
			len(parts), count)
	}
	if len(parts) == 1 {
		return first, nil
	}
	whole := &Header{Version: first.Version, Values: first.Values}
	seen := make(map[string]bool)
	for i, h := range parts {
		if no, ok := h.Values["split.no"].(int64); !ok || no != int64(i) {
			return nil, fmt.Errorf("part %d says that it is part %v (split.no, from 0)", i+1, h.Values["split.no"])
		}
		for _, t := range h.Tensors {
			if seen[t.Name] {
				return nil, fmt.Errorf("the tensor %.80q is in two parts", t.Name)
			}
			seen[t.Name] = true
		}
		whole.Tensors = append(whole.Tensors, h.Tensors...)
		whole.Size += h.Size
	}
	if want, ok := first.Values["split.tensors.count"].(int64); ok && want != int64(len(whole.Tensors)) {
		return nil, fmt.Errorf("the parts hold %d tensors of %d (split.tensors.count)", len(whole.Tensors), want)
	}
	return whole, nil
}
