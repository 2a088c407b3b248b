package experiment

import (
	"errors"
	"path/filepath"
	"reflect"
	"strings"

	"llmprof/internal/fileerror"
	"llmprof/internal/tree"
	"llmprof/measure/result"
	"llmprof/unit"
)

// An Experiment is the points of a file, and in which order they are run.
type Experiment struct {
	Name      string
	File      string
	Points    []Point
	Cycles    int // how often each point is run
	Order     Order
	OrderSeed uint64
	Gap       unit.Seconds // rest between two runs
	Metadata  map[string]any
	Warnings  []string // settings that are allowed and probably not meant
}

// mostPoints, mostCycles and mostRuns, points times cycles, bound an experiment: each run takes minutes.
const (
	mostPoints = 100_000
	mostCycles = 10_000
	mostRuns   = 1_000_000
)

// Load reads an experiment. What is wrong with it is one error, Mistakes, with
// all that was found; beside it the experiment has warnings alone. Checks, if there are
// any, find what the files alone do not show: of models, or of other files that settings
// name.
func Load(file string, checks ...func(*Point) []Problem) (*Experiment, error) {
	return load(file, readFile, checks...)
}

func load(file string, open func(string) ([]byte, error), checks ...func(*Point) []Problem) (*Experiment, error) {
	r := &reader{open: open, checks: checks}
	n, err := r.file(file, tree.Place{}, nil)
	if err != nil {
		if m, ok := errors.AsType[*fileerror.Error](err); ok {
			return nil, append(r.errs, m)
		}
		return nil, err
	}
	r.other().Joined(n)
	base := filepath.Base(file)
	e := &Experiment{File: file, Name: strings.TrimSuffix(base, filepath.Ext(base)), Cycles: 1, Order: Sequential}
	r.experiment(e, n)
	for _, w := range r.warnings {
		e.Warnings = append(e.Warnings, w.Error())
	}
	if err := r.errs.Err(); err != nil {
		return &Experiment{File: file, Warnings: e.Warnings}, err
	}
	return e, nil
}

// experiment reads a whole table: what is about the experiment, then its points.
func (r *reader) experiment(e *Experiment, n *tree.Node) {
	plan := plan{grid: n.Take("grid"), points: n.Take("points"), exclude: n.Take("exclude")}
	r.frame(e, n)
	plan.base = n
	e.Points = r.points(&plan)
	if runs := len(e.Points) * e.Cycles; runs > mostRuns {
		r.wrong(n.At.Errorf("%d points in %d cycles are %d runs: want at most %d", len(e.Points), e.Cycles, runs, mostRuns))
	}
	if len(r.errs) == 0 {
		pinAll(e.Points)
	}
	for i := range e.Points {
		r.advise(&e.Points[i], &plan)
	}
}

// frame takes what is about the experiment as a whole off n.
func (r *reader) frame(e *Experiment, n *tree.Node) {
	if v := n.Take("name"); v != nil {
		name, _ := v.Scalar.(string)
		if !result.ValidID(name) || len(name) > mostName {
			r.wrong(v.At.Errorf("name: %s: results are files that are named after it; want up to %d letters, digits, dots, dashes and "+
				"underscores, a letter or digit first",
				v.What(), mostName))
		}
		e.Name = name
	}
	e.Name = fileName(e.Name)
	e.Cycles = int(r.count(n.Take("cycles"), "cycles", 1, mostCycles, 1))
	e.OrderSeed = r.count(n.Take("order_seed"), "order_seed", 0, 1<<62, 0)
	if v := n.Take("order"); v != nil {
		var err error
		text, _ := v.Scalar.(string)
		if e.Order, err = parseOrder(text); err != nil {
			r.wrong(v.At.Errorf("order: %v", err))
		}
	}
	if v := n.Take("gap_s"); v != nil {
		if err := assign(reflect.ValueOf(&e.Gap).Elem(), v); err != nil {
			r.wrong(v.At.Errorf("gap_s: %v", err))
		}
	}
	if v := n.Take("metadata"); v != nil {
		table, ok := v.Plain().(map[string]any)
		if !ok {
			r.wrong(v.At.Errorf("metadata: %s: want a table", v.What()))
		}
		e.Metadata = table
	}
}

// mostName leaves room in a file's name for the hash, the cycle and the process.
const mostName = 100

// fileName makes a name of a file out of one that was not checked.
func fileName(name string) string {
	name = strings.Map(func(c rune) rune {
		if c < 128 && result.ValidID("x"+string(c)) {
			return c
		}
		return '-'
	}, name)
	name = strings.TrimLeft(name, "-._")
	if name == "" {
		return "experiment"
	}
	return name[:min(len(name), mostName)]
}

// count reads a whole number of the experiment's frame.
func (r *reader) count(n *tree.Node, key string, least, most, otherwise uint64) uint64 {
	if n == nil {
		return otherwise
	}
	v, ok := tree.Whole(n.Scalar)
	if !ok || v < least || v > most {
		r.wrong(n.At.Errorf("%s: %s: want a whole number from %d to %d", key, n.What(), least, most))
		return otherwise
	}
	return v
}
