package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"llmprof/analytic/engine"
	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/hardware"
	"llmprof/internal/stats"
	"llmprof/measure/calibrate"
	"llmprof/measure/experiment"
	"llmprof/measure/openai"
)

// A serverFit is the calibration of a server that is asked over HTTP.
type serverFit struct {
	point     experiment.Point
	engine    string // engine whose profile the server has
	maxBatch  int
	maxTokens int
	seed      uint64
	offline   bool
}

// defaultServerLimit is after how long no further point is begun.
const defaultServerLimit = 2 * time.Minute

func (s *serverFit) flags(f *pflag.FlagSet) {
	p := &s.point
	f.StringVar(&p.BaseURL, "base-url", "", "its `URL`, as http://localhost:8000/v1")
	f.StringVarP(&p.Model, "model", "m", "", "built-in `model`, hub id, directory or config.json (default: what it serves)")
	f.StringVar(&s.engine, "served-engine", "", "`engine` whose profile it has (default: what it says that it is)")
	f.StringVar(&p.ServedModel, "served-model", "", "its `name` of the model (default: the only one that it lists)")
	f.StringVar(&p.ServedWeights, "served-weights", "", "`format` of its weights (default: what it says, else the model's)")
	f.StringVar(&p.ServedKV, "served-kv", "", "`format` of its KV cache (default: what it says)")
	settings.Choice(f, &p.API, "api", p.API, "`endpoint`: %s", "chat", "completions")
	f.IntVar(&s.maxBatch, "max-batch", 32, "most `requests` at a time")
	f.IntVar(&s.maxTokens, "max-tokens", 8192, "most `tokens` of a prompt with its answer")
	f.Uint64Var(&s.seed, "seed", 1, "`seed` of the points that are drawn")
	f.BoolVar(&s.offline, "offline", false, "never use the network but for the server")
	settings.Words(f, "served-engine", engine.Names()...)
}

// ofServer are the flags that have a meaning for a server alone.
var ofServer = []string{"base-url", "model", "served-engine", "served-model", "served-weights", "served-kv", "api", "max-batch",
	"max-tokens", "seed", "offline"}

func (s *serverFit) check(c *fitting) error {
	measuring := []string{"device", "dtype", "python", "cuda-libs", "quick", "shared", "import", "source"}
	if err := settings.Refuse(c.given, measuring, "--engine openai asks a server: --%s has no meaning beside it"); err != nil {
		return err
	}
	switch {
	case s.point.BaseURL == "":
		return usage("--engine openai: give the server's --base-url, as http://localhost:8000/v1")
	case c.gpu == "":
		return usage("--engine openai: give the --gpu that the server runs on; it does not say")
	case c.TP < 1 || c.TP > 1024:
		return usage("--tp %d: want a number of GPUs from 1 to 1024", c.TP)
	case s.maxBatch < 1 || s.maxBatch > 1024:
		return usage("--max-batch %d: want from 1 to 1024 requests", s.maxBatch)
	case s.maxTokens < leastServedTokens || s.maxTokens > 1<<20:
		return usage("--max-tokens %d: want from %d to %d tokens", s.maxTokens, leastServedTokens, 1<<20)
	case c.Limit <= 0:
		return usage("--limit %v: want a time above 0", c.Limit)
	}
	return nil
}

// leastServedTokens is what prompts of some lengths and an answer need.
const leastServedTokens = 256

// calibrateServer measures points of a server, fits constants to them and writes them.
func (a *app) calibrateServer(ctx context.Context, c *fitting) (err error) {
	s := &c.server
	if err := s.check(c); err != nil {
		return err
	}
	table, err := a.library().GPUs(c.hardware)
	if err != nil {
		return err
	}
	g, err := table.GPU(c.gpu)
	if err != nil {
		return wrong(err)
	}
	c.GPU = &g
	p, err := a.probe(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.lab.Close()) }()
	served, err := p.inquire(ctx)
	if err != nil {
		return err
	}
	rows, err := calibrate.OpenServed(c.File, p.server(served))
	if err != nil {
		return err
	}
	limit := defaultServerLimit
	if c.given("limit") {
		limit = c.Limit
	}
	if err := errors.Join(p.measure(ctx, rows, limit), rows.Close()); err != nil {
		return err
	}
	return a.fitServed(c, served, &rows.ServedRows)
}

// probe prepares what asks a server, or reads what was asked of one.
func (a *app) probe(c *fitting) (*probe, error) {
	lab, err := a.lab(c.server.offline)
	if err != nil {
		return nil, err
	}
	p := &probe{serverFit: &c.server, lab: lab, gpu: c.GPU, tp: c.TP, say: lab.Say, rows: c.File}
	lab.Say, lab.Progress = func(string) {}, nil // a line a point is enough
	return p, nil
}

// server is the first line of the file of points.
func (p *probe) server(s *calibrate.Served) *calibrate.Server {
	return &calibrate.Server{
		GPU: p.gpu.Key, Engine: s.Engine.Profile().Name, Model: p.point.Model, Weights: cmp.Or(p.point.ServedWeights, p.about.Weights),
		KV: cmp.Or(p.point.ServedKV, p.about.KV), TP: max(s.Parallel.TP, 1), Kernels: s.Kernels, Plan: p.plan, Tools: s.Tools,
		Version: versionText(), When: time.Now().UTC().Truncate(time.Second), Notes: s.Notes,
	}
}

// refitServed fits constants to the points of a file again.
func (a *app) refitServed(ctx context.Context, c *fitting, table *hardware.Table) (err error) {
	rows, err := calibrate.ReadServed(c.File)
	if err != nil {
		return err
	}
	a.logf("%d points of a server in %s are fitted; to measure what they lack, give --engine openai", len(rows.Points), c.File)
	if rows.Torn > 0 {
		a.logf("the last line of %s was never finished and is left out", c.File)
	}
	of := &rows.Server
	g, err := table.GPU(cmp.Or(c.gpu, of.GPU))
	if err != nil {
		return err
	}
	if g.Key != of.GPU {
		return fmt.Errorf("the points are of %s, not of %s", of.GPU, g.Key)
	}
	c.GPU, c.TP, c.server.point.Model = &g, of.TP, of.Model
	p, err := a.probe(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.lab.Close()) }()
	p.about = &openai.About{Kind: of.Engine, Weights: of.Weights, KV: of.KV, TP: of.TP}
	served, err := p.known(ctx)
	if err != nil {
		return err
	}
	return a.fitServed(c, served, rows)
}

func (a *app) fitServed(c *fitting, s *calibrate.Served, rows *calibrate.ServedRows) error {
	of := &rows.Server
	s.Name, s.Version, s.Made, s.Kernels, s.Tools, s.Notes = c.called(), of.Version, of.When, of.Kernels, of.Tools, slices.Clone(of.Notes)
	s.Points = rows.Points
	if all := of.Plan.Draw(); len(rows.Points) < len(all) {
		s.Notes = append(s.Notes, fmt.Sprintf("%d of %d points were measured", len(rows.Points), len(all)))
	}
	f, err := calibrate.FitServed(s, c.GPU)
	if err != nil {
		return err
	}
	all, err := s.Score(c.GPU, f)
	if err != nil {
		return err
	}
	a.sayServed(f, all)
	return a.writeFitted(c, f)
}

// sayServed prints what was found, and errors of points before and after.
func (a *app) sayServed(f *hardware.CalibrationFile, all []calibrate.ServedError) {
	for _, key := range slices.Sorted(maps.Keys(f.Values)) {
		if v := f.Values[key]; strings.HasSuffix(v.From, "of the server") {
			a.logf("%s = %.4g ± %.2g (%s; %d depend on it)", key, v.Value, v.Uncertainty, v.From, v.N)
		}
	}
	for _, of := range []struct {
		name        string
		first, held bool
	}{{"TTFT, held out", true, true}, {"TPOT, held out", false, true}, {"TTFT, fitted", true, false}, {"TPOT, fitted", false, false}} {
		before, after := errorsOf(all, of.first, of.held)
		if len(before) == 0 {
			continue
		}
		was, is := stats.Percentile(before, 50), stats.Percentile(after, 50)
		a.logf("%s: %d points, median error %.1f %% without this calibration, %.1f %% with it (worst %.1f %%, %.1f %%)", of.name, len(before),
			100*was, 100*is, 100*before[len(before)-1], 100*after[len(after)-1])
		if of.held && is > was {
			a.logf("warning: it predicts held-out points worse than nothing did: let nothing else run on the server, and give --limit more time")
		}
		if of.held {
			f.Notes = append(f.Notes, fmt.Sprintf("%s: %d points, median error %.1f %%; %.1f %% without this calibration", of.name, len(before),
				100*is, 100*was))
		}
	}
}

// errorsOf are the errors of points of a kind, without the calibration and with it, in order.
func errorsOf(all []calibrate.ServedError, first, held bool) (before, after []float64) {
	for i := range all {
		if e := &all[i]; e.Point.First == first && e.Point.HeldOut == held {
			before, after = append(before, math.Abs(e.Before)), append(after, math.Abs(e.After))
		}
	}
	slices.Sort(before)
	slices.Sort(after)
	return before, after
}
