package ask

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/models"
	"llmprof/plan/sweep"
)

// Alone reports whether a flag's value is no list.
func Alone(flag string) bool {
	return slices.Contains([]string{"hardware", "offline", "lenient", "calibration"}, flag)
}

// lists are the flags of a grid: the settings of an estimate, a list each.
type lists struct {
	given func(flag string) bool
	text  func(flag string) string
	count func(text string) (int, error)
}

// NewGrid makes the axes of the lists that were given. Every value is tried, so that a
// mistake in one is not counted as an impossible point. Count reads whole numbers.
func NewGrid(given func(flag string) bool, text func(flag string) string, count func(text string) (int, error)) (g *sweep.Grid, err error) {
	o := &lists{given, text, count}
	g = &sweep.Grid{}
	if err := goTogether(given); err != nil {
		return nil, err
	}
	of := GridFlags(&Question{}, &SteadyLoad{})
	of.VisitAll(func(f *pflag.Flag) {
		if err != nil {
			return
		}
		var a sweep.Axis
		if a, err = o.axis(f); err == nil && len(a.Values) > 0 {
			err = g.Add(a)
		}
	})
	if err != nil {
		return nil, Wrong(err)
	}
	return g, nil
}

// GridFlags are the settings of "llmprof estimate" with those of a load, in the order of the axes of a grid: the
// load varies fastest of them, so that a server's steps are priced once for all loads.
func GridFlags(q *Question, l *SteadyLoad) *pflag.FlagSet {
	f := Flags(q)
	l.Service.Flags(f)
	l.loadFlags(f)
	return f
}

// axis is the values of a flag. A number of the workload that was not given has its
// default.
func (o *lists) axis(f *pflag.Flag) (a sweep.Axis, err error) {
	a.Name = f.Name
	_, number := sweep.NumberOf(f.Name)
	given := o.given(f.Name)
	text := o.text(f.Name)
	switch {
	case !given && number:
		text = f.DefValue
	case !given:
		return a, nil
	}
	switch {
	case Alone(f.Name):
		a.Values, err = []string{text}, try(f, text)
	case f.Value.Type() == "int" || number:
		a.Values, err = sweep.Range(text, func(s string) (int, error) {
			n, err := o.count(s)
			switch {
			case err != nil:
				return 0, err
			case given && n < least(f.Name):
				return 0, fmt.Errorf("want at least %d", least(f.Name))
			}
			return n, f.Value.Set(strconv.Itoa(n))
		})
	default:
		a.Values, err = sweep.Values(text)
		for i := 0; i < len(a.Values) && err == nil; i++ {
			err = try(f, a.Values[i])
		}
	}
	if err != nil {
		return a, fmt.Errorf("--%s: %w", f.Name, err)
	}
	return a, nil
}

// least is the smallest count that a flag of whole numbers takes.
func least(flag string) int {
	if slices.Contains([]string{"cached-prefix", "speculative-tokens", "prefill-replicas"}, flag) {
		return 0
	}
	return 1
}

// try sets a flag, and says which value it is that the flag does not take.
func try(f *pflag.Flag, value string) error {
	err := f.Value.Set(value)
	if err == nil {
		return nil
	}
	return fmt.Errorf("%.60q: %w", value, Plain(f, err))
}

// Plain says what a flag wants whose type has errors of package strconv.
func Plain(f *pflag.Flag, err error) error {
	switch f.Value.Type() {
	case "bool":
		return errors.New("want true or false")
	case "float64":
		return errors.New("want a number, as 0.5")
	}
	return err
}

// A GridSource prepares the settings of a grid through the flags of "llmprof estimate". A point
// has the figures that estimate gives.
type GridSource struct {
	ctx   context.Context
	known *Deployments
	grid  *sweep.Grid
	q     *Question
	load  *SteadyLoad
	flags *pflag.FlagSet
	set   []string // values that the flags have
	given []string // names of the flags that the grid gives
	lists []int    // axes of several values that have no column of their own

	servers map[lengths]*Rates // Each answers any load, and is made by the settings in of.
	of      string             // It spells the settings that servers have, without the load.
}

// lengths are what the steady states of a server at any rate depend on besides its setting.
type lengths struct{ prompt, cached, gen int }

// mostServers bounds how many servers are kept for further rates.
const mostServers = 64

// NewGridSource makes the source of a grid for one goroutine.
func NewGridSource(ctx context.Context, known *Deployments, g *sweep.Grid) *GridSource {
	s := &GridSource{ctx: ctx, known: known, grid: g, q: &Question{}, load: &SteadyLoad{}, set: make([]string, len(g.Axes))}
	s.flags = GridFlags(s.q, s.load)
	columns := append(sweep.Columns(true), "micro-batches", "all-logits", "rate")
	for i := range g.Axes {
		a := &g.Axes[i]
		s.given = append(s.given, a.Name)
		if len(a.Values) > 1 && !slices.Contains(columns, a.Name) {
			s.lists = append(s.lists, i)
		}
	}
	s.q.Given = s.isGiven
	return s
}

// isGiven reports whether the grid gives a flag at the point. The flags of speculation and of prefilling replicas mean
// nothing where there is none, so that the first of their values stands for none there, and others are
// refused as the same point again.
func (s *GridSource) isGiven(name string) bool {
	i := slices.Index(s.given, name)
	if i < 0 {
		return false
	}
	idle := (name == "acceptance" || name == "draft-model") && s.load.asked.Drafts == 0 || name == "kv-link" && s.load.asked.Prefillers == 0
	needs := "speculative-tokens"
	if name == "kv-link" {
		needs = "prefill-replicas"
	}
	return !idle || s.set[i] != s.grid.Axes[i].Values[0] || !slices.Contains(s.given, needs)
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
	if s.grid.Loaded() {
		setup.Load = s.loadOf(d, values)
	}
	return setup, nil
}

func (s *GridSource) loadOf(d *Deployment, values []string) func(*analytic.Workload, *analytic.Estimate) (sweep.Loaded, error) {
	var others []string
	for i, v := range values {
		if name := s.grid.Axes[i].Name; name != "rate" && name != "concurrency" {
			others = append(others, v)
		}
	}
	if of := strings.Join(others, "\x00"); of != s.of {
		s.servers, s.of = map[lengths]*Rates{}, of
	}
	return func(w *analytic.Workload, e *analytic.Estimate) (sweep.Loaded, error) {
		d.Workload, s.q.Workload, d.Estimate.Estimate = *w, *w, *e
		load, err := s.steady(d.Answer)
		if err != nil {
			return sweep.Loaded{}, err
		}
		return rowOf(load), nil
	}
}

// rowOf is a steady state as a row has it.
func rowOf(l *view.Load) sweep.Loaded {
	s := l.Steady
	row := sweep.Loaded{
		LoadTTFT: float64(s.TTFT), LoadTPOT: float64(s.TPOT), LoadE2E: float64(s.E2E), Requests: s.Rate, Generated: s.Throughput,
		Running: s.Running, Waiting: s.Waiting,
		Utilization: s.Utilization, KVShare: s.Cache, LoadJ: float64(s.Energy), LoadUSD: float64(s.Cost), Most: s.Capacity.Rate,
		MostBound: s.Capacity.Bound,
	}
	if h := l.High; h != nil {
		row.LoadTTFTHigh, row.LoadTPOTHigh, row.LoadE2EHigh = float64(h.TTFT), float64(h.TPOT), float64(h.E2E)
	}
	return row
}

// steady is the steady state of an answer's server, which is prepared once for all loads.
func (s *GridSource) steady(ans *Answer) (*view.Load, error) {
	key := lengths{ans.Workload.PromptLen, ans.Workload.CachedPrefix, ans.Workload.GenLen}
	if s.servers[key] == nil {
		all, err := s.load.Rates(s.ctx, s.known, ans)
		if err != nil {
			return nil, err
		}
		if len(s.servers) >= mostServers {
			clear(s.servers)
		}
		s.servers[key] = all
	}
	return s.load.Of(s.servers[key])
}

// asked is what is known of a setting before it was prepared.
func (s *GridSource) asked(values []string) sweep.Setting {
	p := &s.q.Parallel
	return sweep.Setting{
		Model: s.q.Model, GPU: s.q.GPU, Engine: s.q.Engine, TP: p.TP, PP: p.PP, EP: p.EP, MoETP: p.MoETP, DP: p.DP, SP: p.SP,
		MicroBatches: p.MicroBatches,
		Weights:      s.q.Weights, AllLogits: s.q.Workload.AllLogits, Other: s.other(values), Concurrency: s.load.concurrency,
		Rate: s.load.rate(),
	}
}

// other are the values of the lists that have no column of their own, as flag=value. Dashes before a flag would be an apostrophe more in
// CSV.
func (s *GridSource) other(values []string) string {
	var all []string
	for _, i := range s.lists {
		all = append(all, s.grid.Axes[i].Name+"="+values[i])
	}
	return strings.Join(all, " ")
}

// settled fills in what the flags come to.
func (s *GridSource) settled(row *sweep.Setting, d *Deployment) {
	replica := d.Parallel.GPUs() / max(d.Parallel.DP, 1)
	gpus := d.Parallel.GPUs() + replica*s.load.asked.Prefillers
	row.Model, row.GPU, row.Engine = d.Model.Name, d.GPU.Key, d.Machine.Engine.Profile().Name
	row.MicroBatches = d.Parallel.MicroBatches
	row.Calibration, row.Measured, row.GPUs = d.Machine.Cal.Name, d.Machine.Cal.Measured, gpus
	row.Weights, row.Act, row.KV = d.Scheme.Name, d.Scheme.Act.String(), d.Scheme.KV.String()
	row.PerHour = float64(d.Price) * float64(gpus)
}

// Known looks up a name of the grid.
func (d *Deployments) Known(ctx context.Context, q *Question, flag, value string) (err error) {
	switch flag {
	case "model":
		_, err = d.Model(ctx, value, q.Offline, q.Lenient)
		return err
	case "draft-model":
		if value != "ngram" {
			_, err = d.Model(ctx, value, q.Offline, false)
		}
		return err
	case "gpu":
		_, err = d.GPU(value, q.Hardware)
		return err
	case "engine":
		_, err = engine.Parse(value)
	case "scheduler":
		if !slices.Contains(engine.SchedulerNames(), value) {
			err = fmt.Errorf("--scheduler: no scheduler %.40q is known: want one of %s", value, strings.Join(engine.SchedulerNames(), ", "))
		}
	case "weights":
		err = models.CheckWeights(value)
	case "calibration":
		_, err = d.Constants(value)
		return err
	case "expert-skew":
		_, err = popularity(value)
	}
	if err != nil {
		return UsageError{err}
	}
	return nil
}
