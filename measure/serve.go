package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"llmprof/measure/engine/openai"
	"llmprof/measure/experiment"
	"llmprof/measure/power"
	"llmprof/measure/result"
	"llmprof/models"
)

// Defaults of asking a server: enough requests for a 99th percentile to be more
// than the greatest of a few.
const (
	leastRequests     = 100
	requestsPerClient = 10
)

// KeyVariable is where the key of a server is looked for: never on a command
// line, where others see it.
const KeyVariable = "OPENAI_API_KEY"

// firstToken is where random tokens of a vocabulary begin: special ones are
// mostly below.
const firstToken = 1000

// A visit is one point that is measured by asking a server.
type visit struct {
	*Lab
	point  *experiment.Point
	model  *models.Model // nil if the server's name of it is no model that is known
	asks   openai.Options
	meters *meters
	carbon *result.CO2 // intensity of the grid; nil if not known
	mark   power.Mark
	err    error // of the meter's first edge
}

// serve measures a point by asking a server, which is started and stopped around
// it where the point says how.
func (l *Lab) serve(ctx context.Context, p *experiment.Point) (_ []*result.Result, err error) {
	if err := l.Close(); err != nil { // GPUs that a worker holds are none of a server's
		return nil, err
	}
	v := &visit{Lab: l, point: p, meters: &meters{why: errors.New(notWanted)}}
	if v.model, err = l.Models.Resolve(ctx, p.Model); err != nil {
		v.model = nil
	}
	if v.carbon, err = carbon(p); err != nil {
		return nil, err
	}
	if v.asks, err = v.options(ctx); err != nil {
		return nil, err
	}
	started := time.Now()
	if p.EngineCmd == "" {
		if p.Energy {
			v.meters.why = errors.New("nothing ties the GPUs of this machine to a server that was started elsewhere: engine_cmd starts one around the run")
			if l.NeedEnergy {
				return nil, fmt.Errorf("energy: %w", v.meters.why)
			}
		}
		r, err := v.measure(ctx)
		return v.finish(started, r, err)
	}
	if v.meters, err = l.openMeters(ctx, p); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, v.meters.close()) }()
	r, err := v.around(ctx)
	return v.finish(started, r, err)
}

// around starts the server, measures, and stops it.
func (v *visit) around(ctx context.Context) (r *result.Result, err error) {
	ready, err := openai.Answers(v.asks)
	if err != nil {
		return nil, err
	}
	v.say("start the server")
	begun := time.Now()
	server, err := openai.StartServer(ctx, openai.ServerSpec{Command: v.point.EngineCmd, Ready: ready, Env: v.environment()})
	if err != nil {
		return nil, withLeft(err)
	}
	took := time.Since(begun).Seconds()
	defer func() { err = errors.Join(err, server.Stop()) }()
	if m := v.meters.of(0); m != nil {
		m.Own(server.PIDs()...)
	}
	if r, err = v.measure(ctx); r != nil {
		r.Engine.LoadS = &took
	}
	if err != nil {
		err = errors.Join(err, server.Died())
	}
	return r, err
}

// environment shows the server the GPUs that are measured.
func (v *visit) environment() []string {
	visible := ""
	for _, uuid := range v.meters.shares(v.point)[0] {
		visible += "," + uuid
	}
	if visible == "" {
		return nil
	}
	return []string{"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=" + visible[1:]}
}

// options are what the point wants of the server.
func (v *visit) options(ctx context.Context) (o openai.Options, err error) {
	p := v.point
	o = openai.Options{
		BaseURL: p.BaseURL, API: p.API, Model: p.Model, Key: v.Env(KeyVariable),
		Concurrency: p.Concurrency, RequestRate: p.RequestRate, Requests: p.Requests, Warmup: p.Warmup,
		GenLen: p.GenLen, IgnoreEOS: p.Prompts == randomPrompts, Seed: p.Seed,
		Timeout: time.Duration(float64(p.Timeout) * float64(time.Second)), SaveOutputs: p.SaveOutputs,
	}
	if p.RequestRate == 0 {
		o.Concurrency = cmp.Or(p.Concurrency, 1)
		o.Warmup = cmp.Or(p.Warmup, 2*o.Concurrency)
	}
	o.Requests = cmp.Or(p.Requests, max(leastRequests, requestsPerClient*o.Concurrency))
	o.Prompts, err = v.prompts(o.Requests + o.Warmup)
	o.Begin = func() {
		if m := v.meters.of(0); m != nil && p.Energy {
			v.mark, v.err = m.Begin(ctx)
		}
		v.say(fmt.Sprintf("%d requests", o.Requests))
	}
	return o, err
}

// prompts are those of the file, or random ones: as tokens where the interface
// takes them and the vocabulary is known, so that they have the length that was
// asked for; else as so many words.
func (v *visit) prompts(n int) ([]openai.Prompt, error) {
	p := v.point
	if p.Prompts == randomPrompts {
		if v.model != nil && p.API == openai.Completions && v.model.Vocab > firstToken {
			return openai.RandomTokens(n, p.PromptLen, firstToken, v.model.Vocab, p.Seed), nil
		}
		return openai.RandomText(n, p.PromptLen, p.Seed), nil
	}
	tokens, texts, err := readPrompts(p.Prompts)
	if err != nil {
		return nil, err
	}
	var all []openai.Prompt
	for _, ids := range tokens {
		all = append(all, openai.Prompt{Tokens: ids})
	}
	for _, text := range texts {
		all = append(all, openai.Prompt{Text: text})
	}
	return all, nil
}

// measure asks the server, with the meters around the requests that count.
func (v *visit) measure(ctx context.Context) (*result.Result, error) {
	p := v.point
	r := &result.Result{
		Schema: result.Schema, Processes: 1, Started: time.Now(),
		Model:       result.Model{Name: p.Model},
		Engine:      result.Engine{Name: p.Engine, Timer: "client clock, from when a request is begun (in an open loop: due) to the arrival of chunks"},
		Parallelism: result.Parallelism{TP: p.TP, PP: 1, EP: 1, DP: 1, Replicas: p.Replicas},
		Workload:    workload(p),
		Reasons: map[string]string{
			"step_s": "a server does not say its steps", "sizes_bytes": "a server does not say what it holds",
			"operators": "a server does not say its operators",
		},
	}
	if m := v.model; m != nil {
		r.Model = result.Model{Name: m.Name, Source: m.Source, Family: m.Family, ParamsTotal: m.Params()}
	}
	s, err := openai.Run(ctx, v.asks, nil)
	if s == nil || len(s.Records) == 0 && err != nil {
		return nil, err
	}
	r.Serving = s
	if s.Completed == 0 {
		return nil, err
	}
	r.TTFT, r.TPOT, r.TTLT = openai.Times(s)
	r.Warnings = append(r.Warnings, s.Notes...)
	if s.Usage != nil && s.Duration > 0 {
		r.Throughput = &result.Rates{Generated: of(float64(s.Usage.Tokens) / s.Duration)}
	}
	if err != nil {
		r.Reasons["energy"] = "the run stopped before its last request"
		return r, err
	}
	return r, v.energy(ctx, r)
}

// energy closes the window around the requests. Prefill and decode of different
// requests run at once, so there is energy of a request, and none of a phase.
func (v *visit) energy(ctx context.Context, r *result.Result) error {
	m := v.meters.of(0)
	if m == nil || !v.point.Energy {
		return nil
	}
	if v.err != nil {
		return v.err
	}
	seen, err := m.End(ctx, v.mark)
	if err != nil {
		return err
	}
	s := r.Serving
	w := &result.Window{Seconds: seen.End.Sub(seen.Begin).Seconds(), Passes: float64(s.Completed), Domains: seen.Domains}
	e := &result.Energy{Scope: m.Scope(), Request: w, Idle: v.meters.idle}
	joules := meanPower(w) * w.Seconds
	e.PerRequest = of(joules / w.Passes)
	if e.Idle != nil {
		e.Net = &result.NetEnergy{PerRequest: of((joules - meanPower(e.Idle)*w.Seconds) / w.Passes)}
	}
	e.CO2 = emitted(v.carbon, *e.PerRequest)
	r.Energy = e
	r.Meter = &result.Meter{ReadS: seen.ReadS}
	if gap := interval(seen.Samples); gap != nil {
		r.Meter.PeriodS = *gap
	}
	for _, c := range seen.Conditions {
		c.Phase = "request"
		r.Conditions = append(r.Conditions, c)
	}
	if why := seen.Throttled(throttledShare); len(why) > 0 {
		r.Marks = append(r.Marks, "throttled")
		r.Warnings = append(r.Warnings, fmt.Sprintf("clocks were held down for more than %.0f %% of the time: %v", 100*throttledShare, why))
	}
	return nil
}

// finish says what the requests were measured on and with.
func (v *visit) finish(started time.Time, r *result.Result, err error) ([]*result.Result, error) {
	if r == nil {
		return nil, err
	}
	r.Started, r.Ended = started, time.Now()
	r.Provenance = result.Provenance{Version: v.Version, Command: v.Command, Seed: v.point.Seed}
	v.describe(r, v.meters, 0)
	return []*result.Result{r}, err
}
