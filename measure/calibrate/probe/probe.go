// Package probe asks a server that runs for the times that a calibration is fitted to: it finds out what the server runs, draws points,
// measures them and fits the constants that they depend on.
package probe

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

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/deployment"
	"llmprof/hardware"
	"llmprof/internal/stats"
	"llmprof/measure"
	"llmprof/measure/calibrate"
	"llmprof/measure/experiment"
	"llmprof/measure/openai"
	"llmprof/measure/result"
	"llmprof/models"
	"llmprof/unit"
)

// A Server is one that is asked.
type Server struct {
	Point     experiment.Point // how it is asked, and what is known of it
	Engine    string           // whose profile it has; "" for what it says that it is
	MaxBatch  int              // most requests at a time
	MaxTokens int              // most tokens of a prompt with its answer
	Seed      uint64           // of the points that are drawn
	GPU       *hardware.GPU
	TP        int
	File      string // file that keeps the points; "" for none
	Name      string // name of the calibration
	Version   string // of this program
	Lab       *measure.Lab
	Say       func(format string, args ...any) // is told what goes on, with settings by their keys in braces

	about *openai.About
}

// leastTokens is what prompts of some lengths and an answer need.
const leastTokens = 256

// Check reports what cannot be asked of a server.
func (p *Server) Check() error {
	switch {
	case p.MaxBatch < 1 || p.MaxBatch > 1024:
		return unit.Errorf("{max_batch} %d: want from 1 to 1024 requests", p.MaxBatch)
	case p.MaxTokens < leastTokens || p.MaxTokens > 1<<20:
		return unit.Errorf("{max_tokens} %d: want from %d to %d tokens", p.MaxTokens, leastTokens, 1<<20)
	}
	return nil
}

// Calibrate measures points, and begins none after limit, and fits constants to them.
func (p *Server) Calibrate(ctx context.Context, limit time.Duration) (*hardware.CalibrationFile, error) {
	served, err := p.inquire(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := calibrate.OpenRows[calibrate.Server, calibrate.ServedPoint](p.File, served.Server)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(p.measure(ctx, rows, limit), rows.Close()); err != nil {
		return nil, err
	}
	return p.fit(served, rows)
}

// Refit fits constants to points that were measured before.
func (p *Server) Refit(ctx context.Context, rows *calibrate.ServedRows) (*hardware.CalibrationFile, error) {
	of := &rows.Head
	if p.GPU.Key != of.GPU {
		return nil, fmt.Errorf("the points are of %s, not of %s", of.GPU, p.GPU.Key)
	}
	p.TP, p.Point.Model = of.TP, of.Model
	p.about = &openai.About{Kind: of.Engine, Weights: of.Weights, KV: of.KV, TP: of.TP}
	served, err := p.known(ctx)
	if err != nil {
		return nil, err
	}
	return p.fit(served, rows)
}

// inquire finds out what the server runs.
func (p *Server) inquire(ctx context.Context) (*calibrate.Served, error) {
	about, err := openai.Inquire(ctx, openai.Options{
		BaseURL: p.Point.BaseURL, API: p.Point.API, Model: p.Point.ServedModel, Key: p.Lab.Env(measure.KeyVariable),
		Timeout:     openai.DefaultTimeout,
		Concurrency: 1, Requests: 1, GenLen: 1,
	})
	if err != nil {
		return nil, err
	}
	p.about = about
	if p.Point.ServedModel == "" {
		p.Point.ServedModel = p.Point.Model
		if len(about.Models) == 1 {
			p.Point.ServedModel = about.Models[0]
		}
	}
	s, err := p.known(ctx)
	if err != nil {
		return nil, err
	}
	p.describe(s)
	p.bound(s)
	return s, nil
}

// known is what the server runs, in the words of estimates.
func (p *Server) known(ctx context.Context) (s *calibrate.Served, err error) {
	s = &calibrate.Served{Parallel: analytic.Parallelism{TP: max(p.TP, p.about.TP)}, Name: p.Name}
	if s.Engine, err = p.profile(); err != nil {
		return nil, err
	}
	if s.Model, err = p.model(ctx); err != nil {
		return nil, err
	}
	if s.Scheme, err = p.scheme(s.Model); err != nil {
		return nil, err
	}
	if err := engine.Runs(s.Engine, s.Model, p.GPU, &s.Scheme); err != nil {
		return nil, err
	}
	all, err := deployment.NewCalibrations("")
	if err != nil {
		return nil, err
	}
	s.Base, err = all.Of(p.GPU, s.Engine.Profile().Engine())
	return s, err
}

// profile is the engine that the server says it is, or that was given.
func (p *Server) profile() (analytic.Engine, error) {
	name := cmp.Or(p.Engine, p.about.Kind)
	if name == "" {
		return nil, unit.Errorf("the server does not say what it is: give {served_engine}, one of %s", strings.Join(engine.Names(), ", "))
	}
	e, err := engine.Parse(name)
	if err != nil {
		return nil, unit.Errorf("{served_engine}: %w", err)
	}
	return e, nil
}

// model is the shape of what the server runs.
func (p *Server) model(ctx context.Context) (*models.Model, error) {
	name := cmp.Or(p.Point.Model, p.Point.ServedModel)
	if name == "" {
		return nil, unit.Errorf("the server lists %d models: give {model}, and its name there as {served_model}", len(p.about.Models))
	}
	m, err := p.Lab.Models.Resolve(ctx, name)
	switch {
	case err != nil && p.Point.Model == "":
		return nil, unit.Errorf("the server's model %q is not known here, so nothing can be fitted to its times: give {model}, a built-in name, "+
			"a "+
			"hub id or its config.json (%w)", name, err)
	case err != nil:
		return nil, unit.Wrong(err)
	}
	p.Point.Model = name
	return m, nil
}

// scheme is in which formats the server keeps weights and cache.
func (p *Server) scheme(m *models.Model) (s models.Scheme, err error) {
	s = models.StoredScheme(m)
	if name := cmp.Or(p.Point.ServedWeights, p.about.Weights); name != "" {
		if s, err = models.ParseScheme(name); err != nil {
			return s, unit.Errorf("{served_weights}: %w", err)
		}
	}
	if name := cmp.Or(p.Point.ServedKV, p.about.KV); name != "" {
		if err := s.KV.UnmarshalText([]byte(name)); err != nil {
			return s, unit.Errorf("{served_kv}: %w", err)
		}
	}
	return s.For(p.GPU), nil
}

// describe is what the constants are of: the first line of the file of points.
func (p *Server) describe(s *calibrate.Served) {
	kind, tp := cmp.Or(p.about.Kind, s.Engine.Profile().Engine()), max(s.Parallel.TP, 1)
	s.Server = calibrate.Server{
		Schema: calibrate.RowSchema, Kind: calibrate.ServerKind, GPU: p.GPU.Key, Engine: s.Engine.Profile().Name, Model: p.Point.Model,
		Weights: cmp.Or(p.Point.ServedWeights, p.about.Weights), KV: cmp.Or(p.Point.ServedKV, p.about.KV), TP: tp,
		Kernels: strings.TrimSpace(kind+" "+p.about.Version) + " as its client sees it", Tools: map[string]string{},
		Version: p.Version, When: time.Now().UTC().Truncate(time.Second),
		Notes: []string{fmt.Sprintf("server: %s in %s, TP %d", s.Model.Name, s.Scheme.Name, tp)},
	}
	if p.about.Version != "" {
		s.Server.Tools[kind] = p.about.Version
	}
	for _, key := range slices.Sorted(maps.Keys(p.about.Options)) {
		s.Server.Notes = append(s.Server.Notes, "server: "+key+" = "+p.about.Options[key])
	}
}

// answerTokens is how many tokens are generated for a decode step's time.
const answerTokens = 48

// aloneAnswers is how many answers the decode step of a request alone is timed by.
const aloneAnswers = 3

// bound keeps points within what the server and the model take, and decode steps free of
// prompts for most of an answer.
func (p *Server) bound(s *calibrate.Served) {
	most := p.MaxTokens
	for _, limit := range []int{p.about.MaxLen, s.Model.MaxContext} {
		if limit > 0 {
			most = min(most, limit)
		}
	}
	together := 1 << 17
	if of := s.Engine.Profile().Budget; of != nil {
		together = of(p.GPU) * answerTokens / 4
	}
	s.Server.Plan = calibrate.ServedPlan{
		Seed: p.Seed, MostTokens: most - 8, MostBatch: p.MaxBatch, MostTogether: together, Answer: answerTokens,
	}
}

// largestPart is how many points, at least, the time that is allowed has to hold: prompts of
// one that would take longer are left out.
const largestPart = 10

// measure takes the time of points that the file lacks, as many as the time allows.
func (p *Server) measure(ctx context.Context, rows *calibrate.ServedRows, limit time.Duration) error {
	points := rows.Head.Plan.Draw()
	begun := time.Now()
	left, token := 0, 0.0
	for i := range points {
		x := &points[i]
		switch {
		case has(rows, i):
			continue
		case time.Since(begun) > limit || token*float64(x.Batch*x.Context) > limit.Seconds()/largestPart:
			left++
			continue
		}
		r, err := p.measurePoint(ctx, x)
		if err != nil {
			p.stopped(rows, len(points))
			return fmt.Errorf("%v: %w", x, err)
		}
		if why := take(x, r); why != "" {
			p.Say("%v is left out: %s", x, why)
			continue
		}
		if x.First {
			token = x.Seconds / float64(x.Context)
		}
		role := ""
		if x.HeldOut {
			role = ", held out"
		}
		p.Say("%d/%d: %v: %.4g ms%s", i+1, len(points), x, 1e3*x.Seconds, role)
		if err := rows.Add(*x); err != nil {
			return err
		}
	}
	if left > 0 {
		p.Say("%d points did not fit into %v; {limit} allows for more", left, limit)
	}
	return nil
}

// has reports whether the point at a place in the plan was measured.
func has(rows *calibrate.ServedRows, index int) bool {
	return slices.ContainsFunc(rows.Rows, func(x calibrate.ServedPoint) bool { return x.Index == index })
}

// stopped says what is kept of points that an error ended.
func (p *Server) stopped(rows *calibrate.ServedRows, all int) {
	if p.File == "" {
		p.Say("stopped after %d of %d points, of which nothing is kept without {rows}", len(rows.Rows), all)
		return
	}
	p.Say("stopped: %s has %d of %d points; the same command goes on there, and {rows} %s alone fits those", p.File, len(
		rows.Rows), all, p.File)
}

func (p *Server) measurePoint(ctx context.Context, x *calibrate.ServedPoint) (*result.Result, error) {
	q := experiment.Default()
	q.Engine, q.Client, q.Model = experiment.OpenAI, p.Point.Client, p.Point.Model
	q.Energy, q.Size = false, false
	q.PromptLen, q.GenLen, q.Concurrency, q.Requests, q.Warmup = x.Context, 2, 1, 4, 1
	if !x.First {
		q.PromptLen, q.GenLen, q.Concurrency, q.Requests = x.Context, answerTokens, x.Batch, x.Batch
		if x.Batch == 1 {
			q.Requests = aloneAnswers
		}
	}
	all, err := p.Lab.Measure(ctx, q)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// take keeps what a run shows of a point; it says why it shows nothing.
func take(x *calibrate.ServedPoint, r *result.Result) string {
	s := r.Serving
	if slices.Contains(r.Marks, "cached") {
		return "prompts came from a cache of prefixes"
	}
	if s.PromptTokens != nil {
		x.Context = int(math.Round(s.PromptTokens.Mean))
	}
	if x.First {
		if r.TTFT == nil {
			return "no first token was seen"
		}
		x.Seconds = r.TTFT.Median
		return ""
	}
	x.Context += answerTokens / 2
	tokens, chunks := 0, 0
	for i := range s.Records {
		if n := s.Records[i].Generated; n != nil {
			tokens += *n
		}
		chunks += s.Records[i].Chunks
	}
	switch {
	case s.ChunkGap == nil || s.ChunkGap.Median <= 0:
		return "no answer came in several parts over time"
	case float64(tokens) > 1.05*float64(chunks) || tokens == 0:
		return fmt.Sprintf("%d tokens came in %d parts, so that the time between parts is no step's", tokens, chunks)
	}
	x.Seconds = s.ChunkGap.Median
	// A client that was late saw several tokens at once, and no other prompt lies between them.
	if x.Batch == 1 && r.TPOT != nil && x.Seconds < r.TPOT.Median/2 {
		x.Seconds = r.TPOT.Median
	}
	return ""
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

// fit fits constants to the points, and says how far they are off.
func (p *Server) fit(s *calibrate.Served, rows *calibrate.ServedRows) (*hardware.CalibrationFile, error) {
	s.Server, s.Points = rows.Head, rows.Rows
	if all := s.Server.Plan.Draw(); len(rows.Rows) < len(all) {
		s.Server.Notes = append(s.Server.Notes, fmt.Sprintf("%d of %d points were measured", len(rows.Rows), len(all)))
	}
	f, err := calibrate.FitServed(s, p.GPU)
	if err != nil {
		return nil, err
	}
	all, err := s.Score(p.GPU, f)
	if err != nil {
		return nil, err
	}
	p.report(f, all)
	return f, nil
}

// report says what was found, and errors of points before and after.
func (p *Server) report(f *hardware.CalibrationFile, all []calibrate.ServedError) {
	for _, key := range slices.Sorted(maps.Keys(f.Values)) {
		if v := f.Values[key]; strings.HasSuffix(v.From, "of the server") {
			p.Say("%s = %.4g ± %.2g (%s; %d depend on it)", key, v.Value, v.Uncertainty, v.From, v.N)
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
		p.Say("%s: %d points, median error %.1f %% without this calibration, %.1f %% with it (worst %.1f %%, %.1f %%)", of.name, len(before),
			100*was, 100*is, 100*before[len(before)-1], 100*after[len(after)-1])
		if of.held && is > was {
			p.Say("warning: it predicts held-out points worse than nothing did: let nothing else run on the server, and give {limit} more time")
		}
		if of.held {
			f.Notes = append(f.Notes, fmt.Sprintf("%s: %d points, median error %.1f %%; %.1f %% without this calibration", of.name, len(before),
				100*is, 100*was))
		}
	}
}
