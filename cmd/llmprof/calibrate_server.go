package main

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/spf13/pflag"

	"llmprof/analytic/engine"
	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/hardware"
	"llmprof/measure/calibrate"
	"llmprof/measure/calibrate/probe"
	"llmprof/unit"
)

// serverFit is what is asked of a server.
type serverFit struct {
	probe.Server
	offline bool
}

// defaultServerLimit is after how long no further point is begun.
const defaultServerLimit = 2 * time.Minute

func (s *serverFit) flags(f *pflag.FlagSet) {
	p := &s.Point
	f.StringVar(&p.BaseURL, "base-url", "", "its `URL`, as http://localhost:8000/v1")
	f.StringVarP(&p.Model, "model", "m", "", "built-in `model`, hub id, directory or config.json (default: what it serves)")
	f.StringVar(&s.Engine, "served-engine", "", "`engine` whose profile it has (default: what it says that it is)")
	f.StringVar(&p.ServedModel, "served-model", "", "its `name` of the model (default: the only one that it lists)")
	f.StringVar(&p.ServedWeights, "served-weights", "", "`format` of its weights (default: what it says, else the model's)")
	f.StringVar(&p.ServedKV, "served-kv", "", "`format` of its KV cache (default: what it says)")
	settings.Choice(f, &p.API, "api", p.API, "`endpoint`: %s", "chat", "completions")
	f.IntVar(&s.MaxBatch, "max-batch", 32, "most `requests` at a time")
	f.IntVar(&s.MaxTokens, "max-tokens", 8192, "most `tokens` of a prompt with its answer")
	f.Uint64Var(&s.Seed, "seed", 1, "`seed` of the points that are drawn")
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
	case s.Point.BaseURL == "":
		return usage("--engine openai: give the server's --base-url, as http://localhost:8000/v1")
	case c.gpu == "":
		return usage("--engine openai: give the --gpu that the server runs on; it does not say")
	case c.TP < 1 || c.TP > 1024:
		return usage("--tp %d: want a number of GPUs from 1 to 1024", c.TP)
	case c.Limit <= 0:
		return usage("--limit %v: want a time above 0", c.Limit)
	}
	return s.Check()
}

// calibrateServer measures points of a server, fits constants to them and writes them.
func (a *app) calibrateServer(ctx context.Context, c *fitting) error {
	if err := c.server.check(c); err != nil {
		return err
	}
	table, err := a.library().GPUs(c.hardware)
	if err != nil {
		return err
	}
	limit := defaultServerLimit
	if c.given("limit") {
		limit = c.Limit
	}
	return a.fitServer(c, table, c.gpu, func(s *probe.Server) (*hardware.CalibrationFile, error) { return s.Calibrate(ctx, limit) })
}

// refitServed fits constants to the points of a file again.
func (a *app) refitServed(ctx context.Context, c *fitting, table *hardware.Table) error {
	rows, err := calibrate.ReadRows[calibrate.Server, calibrate.ServedPoint](c.File)
	if err != nil {
		return err
	}
	a.logf("%d points of a server in %s are fitted; to measure what they lack, give --engine openai", len(rows.Rows), c.File)
	if rows.Torn > 0 {
		a.logf("the last line of %s was never finished and is left out", c.File)
	}
	return a.fitServer(c, table, cmp.Or(c.gpu, rows.Head.GPU), func(s *probe.Server) (*hardware.CalibrationFile, error) {
		return s.Refit(ctx, rows)
	})
}

// fitServer prepares what asks a server, and writes the constants that fit makes.
func (a *app) fitServer(c *fitting, table *hardware.Table, gpu string, fit func(*probe.Server) (*hardware.CalibrationFile,
	error)) (err error) {
	g, err := table.GPU(gpu)
	if err != nil {
		return wrong(err)
	}
	lab, err := a.lab(c.server.offline)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lab.Close()) }()
	say := lab.Say
	lab.Say, lab.Progress = func(string) {}, nil // a line a point is enough
	c.GPU = &g
	s := &c.server.Server
	s.GPU, s.TP, s.File, s.Name, s.Version, s.Lab = &g, c.TP, c.File, c.called(), versionText(), lab
	s.Say = func(format string, args ...any) { say(unit.Say(format, args...).In(settings.Flag)) }
	f, err := fit(s)
	if err != nil {
		return err
	}
	return a.writeFitted(c, f)
}
