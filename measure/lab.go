package measure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"llmprof/hardware"
	"llmprof/internal/child"
	"llmprof/measure/experiment"
	"llmprof/measure/internal/transformers"
	"llmprof/measure/native/process"
	"llmprof/measure/result"
	"llmprof/measure/worker"
	"llmprof/models"
)

// A Lab measures points one after the other. It keeps workers from one point to
// the next where both want the same engine, since starting one takes longer than
// most measurements. Close it when done.
type Lab struct {
	Models  models.Resolver
	GPUs    *hardware.Table
	Root    fs.FS // files of this machine: "/" as an fs.FS
	Env     func(string) string
	Version string   // version of llmprof, for the provenance
	Command []string // command line, for the provenance

	NativeCommand []string // this program as the native engine's worker

	NeedEnergy bool // a machine without a sensor is an error; else energy is null, and the result says why
	Node       int  // this host among those that a point is spread over; 0 leads, the others only run their ranks
	Shared     bool // measure although others use the GPUs; the result is marked

	// Warmup, window and idle times; zero for the defaults.
	WarmupBlock, WarmupLimit, Window, Idle time.Duration

	Say      func(string) // receives a line about each step; nil for nobody
	Progress func(string) // how far requests of a server or passes of an engine are, and "" at the end; nil for nobody
	Records  io.Writer    // takes each request of a server as it ends, a JSON object a line; nil for nothing

	bench  *bench
	looked bool // processes that an earlier llmprof left behind were looked for
}

// A bench is workers that run, and the meters beside them.
type bench struct {
	wanted  string // settings that the bench was set up for
	workers worker.Group
	meters  *meters
}

// Measure measures one point: it is an experiment.Measure. Results beside an error are
// of a server's run that did not finish or of which too many requests failed, or lack their operators or their trace.
func (l *Lab) Measure(ctx context.Context, p experiment.Point) ([]*result.Result, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if err := traceable(&p); err != nil {
		return nil, err
	}
	l.sayLeft()
	if p.Engine == experiment.OpenAI {
		results, err := l.serve(ctx, &p)
		return judge(ctx, &p, results, err)
	}
	if p.Nodes > 1 && p.Energy {
		if l.NeedEnergy {
			return nil, fmt.Errorf("energy of %d nodes: the sensors of this one see its own GPUs alone", p.Nodes)
		}
		p.Energy = false
		l.say("no energy: the sensors of this node see its own GPUs alone")
	}
	set, err := l.settings(ctx, &p)
	if err != nil {
		return nil, err
	}
	l.sayWeights(set, &p)
	b, err := l.setUp(ctx, &p)
	if err != nil {
		return nil, err
	}
	results, err := l.replicas(ctx, set, &p, b)
	if err != nil {
		_ = l.Close() // the next point gets fresh workers, so that no failure reaches from one into another
		return nil, err
	}
	fit := true
	if p.Ops {
		fit, err = l.timeOperators(ctx, set, b.workers[0], results)
	}
	switch {
	case err != nil || p.Trace == "":
	case !fit:
		warn(results[0], "", "no trace: the engine ended when its operators were timed")
	default:
		err = l.trace(ctx, set, &p, b, results)
	}
	if err != nil || !fit {
		_ = l.Close() // no other point gets a worker that failed
	}
	return results, err
}

// Join runs this host's ranks of a point that is measured on node 0, until that
// has ended.
func (l *Lab) Join(ctx context.Context, p experiment.Point) error {
	if err := p.Check(); err != nil {
		return err
	}
	l.say(fmt.Sprintf("node %d of %d joins %s", l.Node, p.Nodes, p.Rdzv))
	return transformers.Join(ctx, transformers.Options{Python: p.Python, GPUs: p.GPUs, TP: p.TP, Nodes: p.Nodes, Node: l.Node, Rdzv: p.Rdzv})
}

// replicas measures all replicas of a point, and says of each what it ran on.
func (l *Lab) replicas(ctx context.Context, set *Settings, p *experiment.Point, b *bench) ([]*result.Result, error) {
	workers, readers := make([]Worker, len(b.workers)), make([]Meter, len(b.workers))
	for i, w := range b.workers {
		workers[i] = w
		if m := b.meters.of(i); m != nil {
			readers[i] = m
		}
	}
	set.Unloaded = b.meters.idle
	results, err := runReplicas(ctx, set, workers, readers, l.say)
	if err != nil {
		return nil, err
	}
	for i, r := range results {
		r.Provenance = result.Provenance{Version: l.Version, Command: l.Command, Seed: p.Seed}
		l.describe(r, b.meters, i)
	}
	return results, nil
}

// Close ends the workers, if there are any.
func (l *Lab) Close() error {
	b := l.bench
	l.bench = nil
	if b == nil {
		return nil
	}
	b.workers.Close()
	return b.meters.close()
}

func (l *Lab) say(line string) {
	if l.Say != nil {
		l.Say(line)
	}
}

// setUp returns workers for the point, and meters: those of the last point, if
// they were set up alike.
func (l *Lab) setUp(ctx context.Context, p *experiment.Point) (*bench, error) {
	want, err := json.Marshal([]any{p.Engine, p.Python, p.Placement, p.Libraries, p.Device, p.Energy})
	if err != nil {
		return nil, err
	}
	if l.bench != nil && l.bench.wanted == string(want) {
		return l.bench, nil
	}
	if err := l.Close(); err != nil {
		return nil, err
	}
	b := &bench{wanted: string(want)}
	if b.meters, err = l.openMeters(ctx, p); err != nil {
		return nil, err
	}
	l.say("start " + p.Engine)
	if b.workers, err = l.startWorkers(ctx, p, b.meters); err != nil {
		return nil, errors.Join(err, b.meters.close())
	}
	l.bench = b
	return b, nil
}

// startWorkers starts a worker for each replica, on the GPUs of its own meter.
func (l *Lab) startWorkers(ctx context.Context, p *experiment.Point, m *meters) (worker.Group, error) {
	gpus := m.shares(p)
	return worker.StartGroup(ctx, len(gpus), func(ctx context.Context, i int) (*worker.Worker, error) {
		switch p.Engine {
		case experiment.Native:
			return process.Start(ctx, process.Options{Command: l.NativeCommand, GPUs: gpus[i]})
		case experiment.Transformers:
			return transformers.Start(ctx, transformers.Options{Python: p.Python, GPUs: gpus[i], TP: p.TP, Nodes: p.Nodes, Rdzv: p.Rdzv})
		}
		return nil, fmt.Errorf("engine %q has no worker: want %s, %s or %s", p.Engine, experiment.Native, experiment.Transformers,
			experiment.OpenAI)
	})
}

// model finds the shape of the model, and its config where the built-in table
// has it: the engine needs no file then.
func (l *Lab) model(ctx context.Context, name string) (*models.Model, json.RawMessage, error) {
	m, err := l.Models.Resolve(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	if !strings.ContainsAny(name, `/\`) && l.Models.Table.Has(name) {
		config, err := l.Models.Table.Config(name)
		return m, config, err
	}
	return m, nil, nil
}

// sayLeft names, once, the processes that an earlier llmprof left behind: they may
// hold memory of a GPU, or the address that a server is to have.
func (l *Lab) sayLeft() {
	if l.looked {
		return
	}
	l.looked = true
	for _, p := range child.Left() {
		l.say(p.String())
	}
}

// withLeft is an error of starting a server, with what an earlier llmprof left behind
// and may be in its way.
func withLeft(err error) error {
	for _, p := range child.Left() {
		err = fmt.Errorf("%w; %v", err, &p)
	}
	return err
}
