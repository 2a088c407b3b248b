package ask

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"llmprof/analytic/engine"
	"llmprof/models"
	"llmprof/sweep"
)

// A GridSource prepares the settings of a grid through the flags of "llmprof estimate", so
// that a point is what estimate says of it.
type GridSource struct {
	ctx   context.Context
	known *Deployments
	grid  *sweep.Grid
	q     *Question
	flags *pflag.FlagSet
	set   []string // values that the flags have
	given []string // names of the flags that the grid gives
	lists []int    // axes of several values that have no column of their own
}

// NewGridSource makes the source of a grid for one goroutine.
func NewGridSource(ctx context.Context, known *Deployments, g *sweep.Grid) *GridSource {
	s := &GridSource{ctx: ctx, known: known, grid: g, q: &Question{}, set: make([]string, len(g.Axes))}
	s.flags = Flags(s.q)
	columns := append(sweep.Columns(), "micro-batches", "all-logits")
	for i := range g.Axes {
		a := &g.Axes[i]
		s.given = append(s.given, a.Name)
		if len(a.Values) > 1 && !slices.Contains(columns, a.Name) {
			s.lists = append(s.lists, i)
		}
	}
	s.q.Given = func(name string) bool { return slices.Contains(s.given, name) }
	return s
}

// Prepare sets the flags and prepares the case.
func (s *GridSource) Prepare(values []string) (*sweep.Setup, error) {
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
	if err := s.q.Check(); err != nil {
		return setup, err
	}
	d, err := s.known.Prepare(s.ctx, s.q)
	if d != nil {
		s.settled(&setup.Setting, d)
	}
	if err != nil {
		return setup, err
	}
	setup.Case, setup.Workload, setup.MaxContext = d.prepared, s.q.Workload, d.Model.MaxContext
	return setup, nil
}

// asked is what is known of a setting before it was prepared.
func (s *GridSource) asked(values []string) sweep.Setting {
	p := &s.q.Parallel
	return sweep.Setting{
		Model: s.q.Model, GPU: s.q.GPU, Engine: s.q.Engine, TP: p.TP, PP: p.PP, EP: p.EP, DP: p.DP, SP: p.SP, MicroBatches: p.MicroBatches,
		Weights: s.q.Weights, AllLogits: s.q.Workload.AllLogits, Other: s.other(values),
	}
}

// other are the values of the lists that have no column of their own.
func (s *GridSource) other(values []string) string {
	var all []string
	for _, i := range s.lists {
		all = append(all, "--"+s.grid.Axes[i].Name+"="+values[i])
	}
	return strings.Join(all, " ")
}

// settled fills in what the flags come to.
func (s *GridSource) settled(row *sweep.Setting, d *Deployment) {
	gpus := d.Parallel.GPUs()
	row.Model, row.GPU, row.Engine = d.Model.Name, d.GPU.Key, d.Machine.Engine.Profile().Name
	row.Calibration, row.Measured, row.GPUs = d.Machine.Cal.Name, d.Machine.Cal.Measured, gpus
	row.Weights, row.Act, row.KV = d.Scheme.Name, d.Scheme.Act.String(), d.Scheme.KV.String()
	row.PerHour = float64(d.Price) * float64(gpus)
}

// Known looks up a name of the grid.
func (d *Deployments) Known(ctx context.Context, q *Question, flag, value string) (err error) {
	switch flag {
	case "model":
		_, err = d.model(ctx, value, q.Offline)
		return err
	case "gpu":
		_, err = d.gpu(value, q.Hardware)
		return err
	case "engine":
		_, err = engine.Parse(value)
	case "weights":
		_, err = models.ParseScheme(value)
	}
	if err != nil {
		return UsageError{err}
	}
	return nil
}
