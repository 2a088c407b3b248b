package reports

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"llmprof/internal/input"
	"llmprof/measure/result"
	"llmprof/serving/replay"
	"llmprof/validate"
)

// A Collection is what files hold: results, observations as CSV, and reports of other tools.
type Collection struct {
	Observations []validate.Observation
	Refused      []Refusal
	Said         []string // what files of other tools are
}

// A Refusal is a file that no observations could be made of.
type Refusal struct {
	Path  string
	Err   error
	Whole bool // The file is a whole result of something that cannot be compared.
}

// Expand lists the files, and the result files of folders.
func Expand(paths []string) (all []string, err error) {
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

// Collect reads files and the result files of folders. What cannot be read, or cannot be compared, is refused by itself.
func Collect(paths []string, over *Overrides) (*Collection, error) {
	paths, err := Expand(paths)
	if err != nil {
		return nil, err
	}
	c := &Collection{}
	for _, path := range paths {
		c.add(path, over)
	}
	return c, nil
}

// mostObservations is the most bytes of a file of observations.
const mostObservations = 32 << 20

func (c *Collection) add(path string, over *Overrides) {
	all, whole, err := []validate.Observation(nil), false, error(nil)
	if isCSV(path) {
		var data []byte
		if data, err = input.Read(path, mostObservations); err == nil {
			all, err = validate.Parse(path, data)
		}
	} else {
		all, whole, err = c.result(path, over)
	}
	c.Observations = append(c.Observations, all...)
	if err != nil {
		c.Refused = append(c.Refused, Refusal{path, cmp.Or(untimed(path), err), whole})
	}
}

// untimed is an error where a file is a trace of requests without times of their answers; nil for any other file.
func untimed(path string) error {
	f, _, err := input.Open(path)
	if err != nil {
		return nil // the reading of the file tells why
	}
	defer f.Close()
	what := replay.Arrivals(f)
	if what == "" {
		return nil
	}
	return fmt.Errorf("this is %s, which lacks measured times: want results, observations or a report of a benchmark; "+
		"llmprof simulate --trace replays the requests", what)
}

func isCSV(path string) bool { return strings.EqualFold(filepath.Ext(path), ".csv") }

// result reads a result, or what another tool wrote. A file is whole where it can be read and not compared.
func (c *Collection) result(path string, over *Overrides) (all []validate.Observation, whole bool, err error) {
	data, r, err := read(path)
	if err != nil {
		all, wrong := c.report(path, over)
		if wrong == nil || !errors.Is(wrong, ErrUnknown) {
			return all, true, wrong
		}
		if data != nil && !bytes.Contains(data, []byte(`"schema"`)) {
			err = wrong // It is no document of llmprof either.
		}
		return nil, false, err
	}
	if all, err = validate.ReduceFile(path, data, over.named(r)); err == nil && len(all) == 0 {
		err = errors.New("it holds no time and no energy")
	}
	return all, true, err
}

func read(path string) ([]byte, *result.Result, error) {
	data, err := result.Load(path)
	if err != nil {
		return nil, nil, err
	}
	r, err := result.Decode(path, data)
	return data, r, err
}

// report reads what another tool wrote.
func (c *Collection) report(path string, over *Overrides) (all []validate.Observation, err error) {
	text, err := input.Read(path, Most)
	if err != nil {
		return nil, errors.Join(err, ErrUnknown)
	}
	runs, err := Read(path, text)
	if err != nil {
		return nil, err
	}
	var wrong []error
	for i, r := range runs {
		some, err := r.Observations(path, over)
		for k := range some {
			some[k].ID = fmt.Sprintf("run %d", i+1)
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("run %d: %w", i+1, err))
		}
		c.Said = append(c.Said, fmt.Sprintf("%s, run %d of %d: %v", path, i+1, len(runs), r))
		all = append(all, some...)
	}
	return all, errors.Join(wrong...)
}

// named is a result with what is given of it where it does not say so itself: a processor as the GPU that describes it, and of a server
// elsewhere the GPU, and how it runs the model.
func (g *Overrides) named(r *result.Result) *result.Result {
	own, gpu := *r, g.Processor
	if r.Serving != nil {
		gpu = cmp.Or(gpu, g.GPU)
		own.Workload.Weights, own.Workload.KV = cmp.Or(r.Workload.Weights, g.Weights), cmp.Or(r.Workload.KV, g.KV)
		own.Parallelism.TP = cmp.Or(r.Parallelism.TP, g.TP)
	}
	if gpu != "" && len(r.Machine.GPUs) == 0 {
		own.Machine.GPUs = []result.GPU{{Key: gpu, Name: gpu}}
	}
	return &own
}

// Operators are the operators that results among the files hold, where their configuration is wanted.
func Operators(
	paths []string, by *validate.Scorer, wanted *validate.Selection, over *Overrides,
) (all []validate.ResultOperators, err error) {
	if paths, err = Expand(paths); err != nil {
		return nil, err
	}
	for _, path := range paths {
		if isCSV(path) {
			continue
		}
		r, err := result.Read(path)
		if err != nil || r.Operators == nil {
			continue
		}
		if phases := by.Operators(over.named(r)); wanted.Wants(phases[0].Config) {
			all = append(all, validate.ResultOperators{File: result.FileName(r.ID, r.Process), Phases: phases})
		}
	}
	return all, nil
}

// Reduce makes observations of results, and says under which conditions their files were made. Source is where they are from; "" takes each
// file's name.
func Reduce(paths []string, source string) (all []validate.Observation, files []validate.File, err error) {
	if paths, err = Expand(paths); err != nil {
		return nil, nil, err
	}
	var wrong []error
	for _, path := range paths {
		data, r, err := read(path)
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		some, err := validate.Reduce(cmp.Or(source, path), r)
		for i := range some {
			err = errors.Join(err, some[i].Check()) // files that are written can be read
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", path, err))
			continue
		}
		all, files = append(all, some...), append(files, validate.Describe(data, r))
	}
	return all, files, errors.Join(wrong...)
}
