package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"llmprof/input"
	"llmprof/measure/result"
	"llmprof/validate"
)

// A refusal is a file that no observations could be made of.
type refusal struct {
	path string
	err  error
	read bool // The file is a whole result of something that cannot be compared.
}

// unread is an error where files are damaged or of another kind.
func unread(refused []refusal) error {
	n := 0
	for _, r := range refused {
		if !r.read {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%d of the files could not be read", n)
}

// readObservations reads the files, or those that come with the program.
func (v *comparison) readObservations() (all []validate.Observation, refused []refusal, err error) {
	if len(v.Files) == 0 {
		all, err = validate.Embedded()
		return all, nil, err
	}
	paths, err := expand(v.Files)
	if err != nil {
		return nil, nil, err
	}
	for _, path := range paths {
		some, wrong := v.observationsOf(path)
		if wrong != nil {
			refused = append(refused, *wrong)
		}
		all = append(all, some...)
	}
	return all, refused, nil
}

// expand puts the result files in a folder in its place.
func expand(paths []string) (all []string, err error) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("reading observations: %w", err)
		}
		if !info.IsDir() {
			all = append(all, path)
			continue
		}
		inside, err := input.Files(path, "*"+result.Extension)
		inside = slices.DeleteFunc(inside, func(file string) bool { return result.IsPredictions(filepath.Base(file)) })
		if err != nil || len(inside) == 0 {
			return nil, fmt.Errorf("reading observations: %s has no result files (*%s)", path, result.Extension)
		}
		all = append(all, inside...)
	}
	return all, nil
}

// mostObservations bounds a file of observations: a hundred thousand of them.
const mostObservations = 32 << 20

// observationsOf reads one file: CSV of observations, else a result.
func (v *comparison) observationsOf(path string) ([]validate.Observation, *refusal) {
	if strings.EqualFold(filepath.Ext(path), ".csv") {
		data, err := input.Read(path, mostObservations)
		if err != nil {
			return nil, &refusal{path: path, err: err}
		}
		all, err := validate.Parse(path, data)
		if err != nil {
			return nil, &refusal{path: path, err: err}
		}
		return all, nil
	}
	data, r, err := readRecord(path)
	if err != nil {
		return nil, &refusal{path: path, err: err}
	}
	all, err := validate.ReduceFile(path, data, v.named(r))
	if err == nil && len(all) == 0 {
		err = errors.New("it holds no time and no energy")
	}
	if err != nil {
		return nil, &refusal{path, err, true}
	}
	return all, nil
}

// named is a result with a name for what it ran on: that of --gpu where it ran on
// a processor and --device cpu says that this is meant, else its own.
func (v *comparison) named(r *result.Result) *result.Result {
	if v.live.device != "cpu" || len(r.Machine.GPUs) > 0 {
		return r
	}
	own := *r
	own.Machine.GPUs = []result.GPU{{Key: v.gpu, Name: v.gpu}}
	return &own
}

// operators reads those of the given files that the flags ask for. Files that are
// no whole results were refused already.
func (v *comparison) operators() ([]validate.ResultOperators, error) {
	if len(v.Files) == 0 {
		return nil, nil
	}
	paths, err := expand(v.Files)
	if err != nil {
		return nil, err
	}
	var all []validate.ResultOperators
	for _, path := range paths {
		if strings.EqualFold(filepath.Ext(path), ".csv") {
			continue
		}
		r, err := result.Read(path)
		if err != nil || r.Operators == nil {
			continue
		}
		phases := v.Scorer.Operators(v.named(r))
		if !v.wants(phases[0].Config) {
			continue
		}
		all = append(all, validate.ResultOperators{File: result.FileName(r.ID, r.Process), Phases: phases})
	}
	return all, nil
}
