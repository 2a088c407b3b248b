package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"llmprof/internal/input"
	"llmprof/measure/result"
	"llmprof/validate"
	"llmprof/validate/reports"
)

// A refusal is a file that no observations could be made of.
type refusal struct {
	path string
	err  error
	read bool // The file is a whole result of something that cannot be compared.
}

// unread is an error where files are damaged or of another kind.
func unread(refused []refusal) error {
	if n := len(slices.DeleteFunc(slices.Clone(refused), func(r refusal) bool { return r.read })); n > 0 {
		return fmt.Errorf("%d of the files could not be read", n)
	}
	return nil
}

// noneOf is why files have no observation.
func noneOf(refused []refusal) error {
	var all []error
	for _, r := range refused {
		all = append(all, fmt.Errorf("%s: %w", r.path, r.err))
	}
	return errors.Join(all...)
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
		inside, err := result.Files(path)
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
		if all, wrong := v.reported(path); wrong == nil || !errors.Is(wrong, reports.ErrUnknown) {
			return all, refusing(path, wrong)
		}
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

// refusing is nil where there is no error.
func refusing(path string, err error) *refusal {
	if err == nil {
		return nil
	}
	return &refusal{path, err, true}
}

// reported reads the report of another tool, of which the flags say what it does not. What it is goes to said.
func (v *comparison) reported(path string) (all []validate.Observation, err error) {
	text, err := input.Read(path, reports.Most)
	if err != nil {
		return nil, errors.Join(err, reports.ErrUnknown)
	}
	runs, err := reports.Read(path, text)
	if err != nil {
		return nil, err
	}
	ask := reports.Given{GPU: v.gpu, Weights: v.trace.weights, KV: v.trace.kv}
	if len(v.models) == 1 {
		ask.Model = v.models[0]
	}
	if len(v.engines) == 1 {
		ask.Engine = v.engines[0]
	}
	if v.given("tp") {
		ask.TP = v.trace.tp
	}
	var wrong []error
	for i, r := range runs {
		some, err := r.Observations(path, &ask)
		for k := range some {
			some[k].ID = fmt.Sprintf("run %d", i+1)
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("run %d: %w", i+1, err))
		}
		v.said = append(v.said, fmt.Sprintf("%s, run %d of %d: %v", path, i+1, len(runs), r))
		all = append(all, some...)
	}
	return all, errors.Join(wrong...)
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

func (a *app) validateReduce() *cobra.Command {
	var source, file string
	var conditions bool
	cmd := &cobra.Command{
		Use:   "reduce FILE...",
		Short: "Reduce result files to observations",
		Long: "Reduce result files of \"llmprof measure\", or folders of them, to observations: the median of each\n" +
			"time with its interval, and the energies, one a line of CSV. \"llmprof validate\" reads that file in\n" +
			"place of them. With --conditions it is the conditions and versions under which each file was made,\n" +
			"with its SHA-256.",
		Example: "  llmprof validate reduce --source lab results -o lab.csv",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("reduce which results? Give files of \"llmprof measure\"")
			}
			return a.runReduce(args, source, file, conditions)
		},
	}
	f := cmd.Flags()
	f.StringVar(&source, "source", "", "`name` of where they are from (default: each file's own)")
	f.StringVarP(&file, "output", "o", "", "write to `FILE`, whole or not at all")
	f.BoolVar(&conditions, "conditions", false, "write conditions and versions instead of observations")
	return cmd
}

// runReduce writes nothing unless all files could be read.
func (a *app) runReduce(paths []string, source, file string, conditions bool) error {
	var all []validate.Observation
	var files []validate.File
	var wrong []error
	paths, err := expand(paths)
	if err != nil {
		return err
	}
	for _, path := range paths {
		data, r, err := readRecord(path)
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		name := cmp.Or(source, path)
		some, err := validate.Reduce(name, r)
		for i := range some {
			err = errors.Join(err, some[i].Check()) // files that are written can be read
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", path, err))
			continue
		}
		all = append(all, some...)
		files = append(files, validate.Describe(data, r))
	}
	if err := errors.Join(wrong...); err != nil {
		return err
	}
	var b bytes.Buffer
	write := func() error { return validate.WriteCSV(&b, all) }
	if conditions {
		write = func() error { return validate.WriteFiles(&b, files) }
	}
	if err := write(); err != nil {
		return err
	}
	return a.put("observations", file, b.Bytes())
}

func readRecord(path string) ([]byte, *result.Result, error) {
	data, err := result.Load(path)
	if err != nil {
		return nil, nil, err
	}
	r, err := result.Decode(path, data)
	return data, r, err
}
