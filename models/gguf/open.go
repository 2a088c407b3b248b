package gguf

import (
	"fmt"

	"llmprof/input"
)

// Open reads the header of a file, and those of the other parts if it is split.
func Open(path string) ([]*Header, error) {
	paths, err := Parts(path)
	if err != nil {
		return nil, err
	}
	headers := make([]*Header, len(paths))
	for i, p := range paths {
		if headers[i], err = openOne(p); err != nil {
			return nil, err
		}
	}
	return headers, nil
}

func openOne(path string) (*Header, error) {
	f, size, err := input.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h, err := Parse(f, size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return h, nil
}
