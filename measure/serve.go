package measure

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"llmprof/measure/engine"
	"llmprof/measure/engine/openai"
	"llmprof/measure/experiment"
	"llmprof/measure/power"
	"llmprof/measure/result"
	"llmprof/models"
)

// A benchmark is one point that is measured by asking a server.
type benchmark struct {
	*Lab
	point  *experiment.Point
	model  *models.Model // nil if the server's name of it is no model that is known
	asks   openai.Options
	about  *openai.About // description that the server gave
	meters *meters
	carbon *result.CO2 // intensity of the grid; nil if not known
	mark   power.Mark
	err    error                              // error at the meter's first edge
	looked func() ([]result.Condition, error) // ends the reading of clocks where no energy is measured
	seed   uint64
	asked  progress

	decided   string // what the file of a load was taken for; "" without one
	counted   string // how the server counted the tokens of random texts; "" where they are tokens
	unwritten error  // error of writing a record
}

// serve measures a point by asking a server, which is started and stopped around
// it where the point says how.
func (l *Lab) serve(ctx context.Context, p *experiment.Point) (_ []*result.Result, err error) {
	if err := l.Close(); err != nil { // GPUs that a worker holds are none of a server's
		return nil, err
	}
	b := &benchmark{Lab: l, point: p, meters: &meters{why: errors.New(notWanted)}, seed: p.Seed}
	if b.seed == 0 {
		b.seed = 1 + rand.Uint64N(1<<53-1) // integers that every JSON reader keeps exactly
	}
	if b.model, err = l.Models.Resolve(ctx, p.Model); err != nil {
		b.model = nil
	}
	if b.carbon, err = carbon(p); err != nil {
		return nil, err
	}
	if b.asks, err = b.options(ctx); err != nil {
		return nil, err
	}
	if p.Prompts != randomPrompts {
		if b.asks.Prompts, err = promptsOf(p.Prompts); err != nil {
			return nil, err
		}
	}
	started := time.Now()
	if p.EngineCmd == "" {
		if p.Energy {
			if b.meters, err = l.besideServer(ctx, p); err != nil {
				return nil, fmt.Errorf("energy: %w", err)
			}
		}
		defer func() { err = errors.Join(err, b.meters.close()) }()
		r, err := b.measure(ctx)
		if r != nil && b.meters.of(0) == nil {
			r.Reasons["conditions"] = b.meters.why.Error()
		}
		return b.finish(started, r, err)
	}
	if b.meters, err = l.openMeters(ctx, p); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.meters.close()) }()
	r, err := b.around(ctx)
	return b.finish(started, r, err)
}

// around starts the server, measures, and stops it.
func (b *benchmark) around(ctx context.Context) (r *result.Result, err error) {
	ready, err := openai.Answers(b.asks)
	if err != nil {
		return nil, err
	}
	b.say("start the server")
	begun := time.Now()
	server, err := openai.StartServer(ctx, openai.ServerSpec{Command: b.point.EngineCmd, Ready: ready, Env: b.environment()})
	if err != nil {
		return nil, withLeft(err)
	}
	took := time.Since(begun).Seconds()
	defer func() { err = errors.Join(err, server.Stop()) }()
	if m := b.meters.of(0); m != nil {
		m.Own(server.PIDs()...)
	}
	if r, err = b.measure(ctx); r != nil {
		r.Engine.LoadS = &took
	}
	if err != nil {
		err = errors.Join(err, server.Died())
	}
	return r, err
}

// environment shows the server the GPUs that are measured.
func (b *benchmark) environment() []string {
	gpus := b.meters.shares(b.point)[0]
	if len(gpus) == 0 {
		return nil
	}
	return []string{"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=" + strings.Join(gpus, ",")}
}

// energy closes the window around the requests. Prefill and decode of different
// requests run at once, so there is energy of a request, and none of a phase.
func (b *benchmark) energy(ctx context.Context, r *result.Result) error {
	m := b.meters.of(0)
	if m == nil || !b.point.Energy {
		return nil
	}
	if b.err != nil {
		return b.err
	}
	seen, err := m.End(ctx, b.mark)
	if err != nil {
		return err
	}
	s := r.Serving
	w := &result.Window{Seconds: seen.End.Sub(seen.Begin).Seconds(), Passes: float64(s.Completed), Domains: seen.Domains}
	e := &result.Energy{Scope: m.Scope(), Request: w, Idle: b.meters.idle}
	joules := meanPower(w) * w.Seconds
	e.PerRequest = new(joules / w.Passes)
	if e.Idle != nil {
		e.Net = &result.NetEnergy{PerRequest: new((joules - meanPower(e.Idle)*w.Seconds) / w.Passes)}
	}
	e.CO2 = emitted(b.carbon, *e.PerRequest)
	r.Energy = e
	r.Meter = &result.Meter{}
	noteReads(r.Meter, seen)
	saw(r, engine.Request, seen.Conditions)
	powerKeepsLimit(r)
	return nil
}

// finish says what the requests were measured on and with.
func (b *benchmark) finish(started time.Time, r *result.Result, err error) ([]*result.Result, error) {
	if r == nil {
		return nil, err
	}
	r.Started, r.Ended = started, time.Now()
	r.Provenance = result.Provenance{Version: b.Version, Command: b.Command, Seed: b.seed}
	b.describe(r, b.meters, 0)
	return []*result.Result{r}, err
}
