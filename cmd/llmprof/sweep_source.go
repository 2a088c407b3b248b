package main

import (
	"context"
	"slices"
	"strings"

	"llmprof/models"

	"github.com/spf13/pflag"

	"llmprof/analytic/engine"
	"llmprof/sweep"
)

// A gridSource prepares the settings of a grid through the flags of "llmprof estimate", so
// that a point is what estimate says of it.
type gridSource struct {
	ctx   context.Context
	known *deployments
	grid  *sweep.Grid
	q     *question
	flags *pflag.FlagSet
	set   []string // values that the flags have
	given []string // names of the flags that the grid gives
}

func newGridSource(ctx context.Context, known *deployments, g *sweep.Grid) *gridSource {
	s := &gridSource{ctx: ctx, known: known, grid: g, q: &question{}, set: make([]string, len(g.Axes))}
	s.flags = estimateFlags(s.q)
	for i := range g.Axes {
		s.given = append(s.given, g.Axes[i].Name)
	}
	s.q.output.format, s.q.output.color = "table", "auto"
	s.q.given = func(name string) bool { return slices.Contains(s.given, name) }
	return s
}

// Prepare sets the flags and prepares the case.
func (s *gridSource) Prepare(values []string) (*sweep.Setup, error) {
	for i, v := range values {
		if s.set[i] == v {
			continue
		}
		if err := s.flags.Set(s.grid.Axes[i].Name, v); err != nil {
			return nil, err
		}
		s.set[i] = v
	}
	setup := &sweep.Setup{Setting: s.asked(values)}
	if err := s.q.check(); err != nil {
		return setup, err
	}
	d, err := s.known.prepare(s.ctx, s.q)
	if d != nil {
		s.settled(&setup.Setting, d)
	}
	if err != nil {
		return setup, err
	}
	setup.Case, setup.Workload, setup.MaxContext = d.prepared, s.q.workload, d.Model.MaxContext
	return setup, nil
}

// asked is what is known of a setting before it was prepared.
func (s *gridSource) asked(values []string) sweep.Setting {
	p := &s.q.parallel
	return sweep.Setting{
		Model: s.q.model, GPU: s.q.gpu, Engine: s.q.engine, TP: p.TP, PP: p.PP, EP: p.EP, DP: p.DP, SP: p.SP, MicroBatches: p.MicroBatches,
		Weights: s.q.weights, AllLogits: s.q.workload.AllLogits, Other: s.other(values),
	}
}

// other are the values of the lists that have no column of their own.
func (s *gridSource) other(values []string) string {
	columns := append(sweep.Columns(), "micro-batches", "all-logits")
	var all []string
	for i := range s.grid.Axes {
		if a := &s.grid.Axes[i]; len(a.Values) > 1 && !slices.Contains(columns, a.Name) {
			all = append(all, "--"+a.Name+"="+values[i])
		}
	}
	return strings.Join(all, " ")
}

// settled fills in what the flags come to.
func (s *gridSource) settled(row *sweep.Setting, d *deployment) {
	gpus := d.Parallel.GPUs()
	row.Model, row.GPU, row.Engine = d.Model.Name, d.gpu.Key, d.Machine.Engine.Profile().Name
	row.Calibration, row.Measured, row.GPUs = d.Machine.Cal.Name, d.Machine.Cal.Measured, gpus
	row.Weights, row.Act, row.KV = d.Scheme.Name, d.Scheme.Act.String(), d.Scheme.KV.String()
	row.PerHour = float64(d.Price) * float64(gpus)
}

// knownValue looks up a name of the grid.
func (a *app) knownValue(ctx context.Context, d *deployments, q *question, flag, value string) (err error) {
	switch flag {
	case "model":
		_, err = d.model(ctx, value, q.offline)
		return err
	case "gpu":
		_, err = d.gpu(value, q.hardware)
		return err
	case "engine":
		_, err = engine.Parse(value)
	case "weights":
		_, err = models.ParseScheme(value)
	}
	if err != nil {
		return usageError{err}
	}
	return nil
}
