package main

import (
	"cmp"
	"context"
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
	"llmprof/measure"
	"llmprof/measure/calibrate"
	"llmprof/measure/experiment"
	"llmprof/measure/openai"
	"llmprof/measure/result"
	"llmprof/models"
)

// A probe asks one server.
type probe struct {
	*serverFit
	lab   *measure.Lab
	gpu   *hardware.GPU
	tp    int
	about *openai.About
	plan  calibrate.ServedPlan
	rows  string // file that keeps the points; "" for none
	say   func(string)
}

// inquire finds out what the server runs.
func (p *probe) inquire(ctx context.Context) (*calibrate.Served, error) {
	about, err := openai.Inquire(ctx, openai.Options{
		BaseURL: p.point.BaseURL, API: p.point.API, Model: p.point.ServedModel, Key: p.lab.Env(measure.KeyVariable),
		Timeout:     openai.DefaultTimeout,
		Concurrency: 1, Requests: 1, GenLen: 1,
	})
	if err != nil {
		return nil, err
	}
	p.about = about
	if p.point.ServedModel == "" {
		p.point.ServedModel = p.point.Model
		if len(about.Models) == 1 {
			p.point.ServedModel = about.Models[0]
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
func (p *probe) known(ctx context.Context) (s *calibrate.Served, err error) {
	s = &calibrate.Served{Parallel: analytic.Parallelism{TP: max(p.tp, p.about.TP)}, Tools: map[string]string{}}
	if s.Engine, err = p.profile(); err != nil {
		return nil, err
	}
	if s.Model, err = p.model(ctx); err != nil {
		return nil, err
	}
	if s.Scheme, err = p.scheme(s.Model); err != nil {
		return nil, err
	}
	if err := engine.Runs(s.Engine, s.Model, p.gpu, &s.Scheme); err != nil {
		return nil, err
	}
	all, err := deployment.NewCalibrations("")
	if err != nil {
		return nil, err
	}
	s.Base, err = all.Of(p.gpu, s.Engine.Profile().Engine())
	return s, err
}

// profile is the engine that the server says it is, or that was given.
func (p *probe) profile() (analytic.Engine, error) {
	name := cmp.Or(p.engine, p.about.Kind)
	if name == "" {
		return nil, usage("the server does not say what it is: give --served-engine, one of %s", strings.Join(engine.Names(), ", "))
	}
	e, err := engine.Parse(name)
	if err != nil {
		return nil, usage("--served-engine: %w", err)
	}
	return e, nil
}

// model is the shape of what the server runs.
func (p *probe) model(ctx context.Context) (*models.Model, error) {
	name := cmp.Or(p.point.Model, p.point.ServedModel)
	if name == "" {
		return nil, usage("the server lists %d models: give --model, and its name there as --served-model", len(p.about.Models))
	}
	m, err := p.lab.Models.Resolve(ctx, name)
	switch {
	case err != nil && p.point.Model == "":
		return nil, usage("the server's model %q is not known here, so nothing can be fitted to its times: give --model, a built-in name, a "+
			"hub id or its config.json (%w)", name, err)
	case err != nil:
		return nil, wrong(err)
	}
	p.point.Model = name
	return m, nil
}

// scheme is in which formats the server keeps weights and cache.
func (p *probe) scheme(m *models.Model) (s models.Scheme, err error) {
	s = models.StoredScheme(m)
	if name := cmp.Or(p.point.ServedWeights, p.about.Weights); name != "" {
		if s, err = models.ParseScheme(name); err != nil {
			return s, usage("--served-weights: %w", err)
		}
	}
	if name := cmp.Or(p.point.ServedKV, p.about.KV); name != "" {
		if err := s.KV.UnmarshalText([]byte(name)); err != nil {
			return s, usage("--served-kv: %w", err)
		}
	}
	return s.For(p.gpu), nil
}

// describe keeps what the constants are of.
func (p *probe) describe(s *calibrate.Served) {
	kind := cmp.Or(p.about.Kind, s.Engine.Profile().Engine())
	s.Kernels = strings.TrimSpace(kind+" "+p.about.Version) + " as its client sees it"
	if p.about.Version != "" {
		s.Tools[kind] = p.about.Version
	}
	s.Notes = append(s.Notes, fmt.Sprintf("server: %s in %s, TP %d", s.Model.Name, s.Scheme.Name, max(s.Parallel.TP, 1)))
	for _, key := range slices.Sorted(maps.Keys(p.about.Options)) {
		s.Notes = append(s.Notes, "server: "+key+" = "+p.about.Options[key])
	}
}

// answerTokens is how many tokens are generated for a decode step's time.
const answerTokens = 48

// aloneAnswers is how many answers the decode step of a request alone is timed by.
const aloneAnswers = 3

// bound keeps points within what the server and the model take, and decode steps free of
// prompts for most of an answer.
func (p *probe) bound(s *calibrate.Served) {
	most := p.maxTokens
	for _, limit := range []int{p.about.MaxLen, s.Model.MaxContext} {
		if limit > 0 {
			most = min(most, limit)
		}
	}
	together := 1 << 17
	if of := s.Engine.Profile().Budget; of != nil {
		together = of(p.gpu) * answerTokens / 4
	}
	p.plan = calibrate.ServedPlan{Seed: p.seed, MostTokens: most - 8, MostBatch: p.maxBatch, MostTogether: together, Answer: answerTokens}
}

// largestPart is how many points, at least, the time that is allowed has to hold: prompts of
// one that would take longer are left out.
const largestPart = 10

// measure takes the time of points that the file lacks, as many as the time allows.
func (p *probe) measure(ctx context.Context, rows *calibrate.ServedFile, limit time.Duration) error {
	points := p.plan.Draw()
	begun := time.Now()
	left, token := 0, 0.0
	for i := range points {
		x := &points[i]
		switch {
		case rows.Has(i):
			continue
		case time.Since(begun) > limit || token*float64(x.Batch*x.Context) > limit.Seconds()/largestPart:
			left++
			continue
		}
		r, err := p.ask(ctx, x)
		if err != nil {
			p.stopped(rows, len(points))
			return fmt.Errorf("%v: %w", x, err)
		}
		if why := take(x, r); why != "" {
			p.say(fmt.Sprintf("%v is left out: %s", x, why))
			continue
		}
		if x.First {
			token = x.Seconds / float64(x.Context)
		}
		role := ""
		if x.HeldOut {
			role = ", held out"
		}
		p.say(fmt.Sprintf("%d/%d: %v: %.4g ms%s", i+1, len(points), x, 1e3*x.Seconds, role))
		if err := rows.Add(i, x); err != nil {
			return err
		}
	}
	if left > 0 {
		p.say(fmt.Sprintf("%d points did not fit into %v; --limit allows for more", left, limit))
	}
	return nil
}

// stopped says what is kept of points that an error ended.
func (p *probe) stopped(rows *calibrate.ServedFile, all int) {
	if p.rows == "" {
		p.say(fmt.Sprintf("stopped after %d of %d points, of which nothing is kept without --rows", len(rows.Points), all))
		return
	}
	p.say(fmt.Sprintf("stopped: %s has %d of %d points; the same command goes on there, and --rows %s alone fits those", p.rows, len(
		rows.Points), all, p.rows))
}

func (p *probe) ask(ctx context.Context, x *calibrate.ServedPoint) (*result.Result, error) {
	q := experiment.Default()
	q.Engine, q.Client, q.Model = experiment.OpenAI, p.point.Client, p.point.Model
	q.Energy, q.Size = false, false
	q.PromptLen, q.GenLen, q.Concurrency, q.Requests, q.Warmup = x.Context, 2, 1, 4, 1
	if !x.First {
		q.PromptLen, q.GenLen, q.Concurrency, q.Requests = x.Context, answerTokens, x.Batch, x.Batch
		if x.Batch == 1 {
			q.Requests = aloneAnswers
		}
	}
	all, err := p.lab.Measure(ctx, q)
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
