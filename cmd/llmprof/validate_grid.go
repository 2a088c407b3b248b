package main

import (
	"context"
	"fmt"
	"strings"

	"llmprof/measure/experiment"
	record "llmprof/measure/result"
	"llmprof/unit"
)

// liveModels are tried in this order where no model was named: the first that the
// GPU holds at every point, and the smallest, whose steps are made of launches.
var liveModels = []string{"llama3.1-8b", "llama3.2-3b", "llama3.2-1b"}

// points fills in what is to be measured: those of the grid file, or the cross
// product of the flags.
func (r *rehearsal) points(ctx context.Context) error {
	l := &r.v.live
	if l.grid != "" {
		return r.readGrid()
	}
	r.exp = &experiment.Experiment{Name: "live", Cycles: 1, Order: experiment.Sequential}
	names := r.v.models
	if len(names) == 0 {
		var err error
		if names, err = r.fitting(ctx); err != nil {
			return err
		}
	}
	engines := r.v.engines
	if len(engines) == 0 {
		engines = []string{""}
	}
	for _, name := range names {
		for _, engine := range engines {
			some, err := r.product(ctx, name, engine)
			if err != nil {
				return err
			}
			r.exp.Points = append(r.exp.Points, some...)
		}
	}
	if len(r.exp.Points) == 0 {
		return usage("no point is left to measure: want at least one model, --batch and --prompt-len")
	}
	return nil
}

// readGrid takes the points of an experiment file, on the device and the GPUs of
// the command line.
func (r *rehearsal) readGrid() (err error) {
	l := &r.v.live
	if r.exp, err = experiment.Load(l.grid); err != nil {
		return fmt.Errorf("the grid has mistakes:\n%w", err)
	}
	for _, w := range r.exp.Warnings {
		r.logf("warning: %s", w)
	}
	for i := range r.exp.Points {
		p := &r.exp.Points[i]
		switch {
		case p.Device == "cpu" && l.device != "cpu":
			return usage("--grid %s: device = \"cpu\": give --device cpu too, and --gpu for what predicts it", l.grid)
		case p.Device == "cuda" && l.device == "cpu":
			return usage("--device cpu: the points of --grid %s have device = \"cuda\"", l.grid)
		}
		r.place(p)
	}
	return nil
}

// place puts a point on the device that it is predicted for. A point without a
// device is on a GPU; its settings stay as they are, so that what "llmprof run"
// measured of the same file is kept.
func (r *rehearsal) place(p *experiment.Point) {
	if p.Engine == experiment.OpenAI {
		return
	}
	if r.v.live.device == "cpu" {
		p.Device = "cpu"
	}
	if len(p.GPUs) == 0 {
		p.GPUs = r.gpus
	}
}

// placed measures points without a device on a GPU. Else an engine that finds none
// would run on the processor, and be compared with a GPU.
func placed(measure experiment.Measure) experiment.Measure {
	return func(ctx context.Context, p experiment.Point) ([]*record.Result, error) {
		if p.Device == "" {
			p.Device = "cuda"
		}
		return measure(ctx, p)
	}
}

// product are the points of one model by one engine: every batch with every
// prompt.
func (r *rehearsal) product(ctx context.Context, model, engine string) (all []experiment.Point, err error) {
	l := &r.v.live
	for _, batch := range l.batches {
		for _, prompt := range l.prompts {
			p := experiment.Default()
			p.Model, p.RandomWeights, p.Batch, p.PromptLen, p.GenLen = model, true, batch, prompt, l.gen
			p.TPOT, p.DType, p.Python, p.Libraries = l.gen > 1, r.dtype(), l.python, l.libraries
			if err := r.engine(ctx, &p, engine); err != nil {
				return nil, err
			}
			if p.Engine != experiment.Native {
				p.Libraries = "" // no other opens them
			}
			r.place(&p)
			if err := p.Check(); err != nil {
				return nil, usageError{err}
			}
			all = append(all, p)
		}
	}
	return all, nil
}

// dtype is the format that the GPU has of those that are usual.
func (r *rehearsal) dtype() string {
	for _, f := range []unit.Format{unit.BF16, unit.FP16} {
		if r.gpu.Has(f) {
			return f.String()
		}
	}
	return unit.FP32.String()
}

// engine sets engine and mode. Decoding runs in a graph but on a processor, which
// has none.
func (r *rehearsal) engine(ctx context.Context, p *experiment.Point, name string) error {
	p.Graph = r.v.live.device != "cpu"
	switch strings.ToLower(name) {
	case "":
		if r.v.live.device != "cpu" {
			p.Engine = r.lab.Engine(ctx, *p)
		}
	case experiment.Native:
		p.Engine = experiment.Native
	case experiment.Transformers:
	case "transformers graph", "transformers-graph":
		p.Graph = true
	case "transformers eager", "transformers-eager":
		p.Graph = false
	default:
		return usage("--engine %.40q: --live runs native, transformers, \"transformers graph\" or \"transformers eager\"", name)
	}
	return nil
}

// fitting are the models that are measured where none was named.
func (r *rehearsal) fitting(ctx context.Context) ([]string, error) {
	smallest := liveModels[len(liveModels)-1]
	for _, name := range liveModels {
		fits := true
		points, err := r.product(ctx, name, experiment.Transformers)
		if err != nil {
			return nil, err
		}
		m, err := r.model(ctx, name)
		if err != nil {
			return nil, err
		}
		for i := range points {
			if _, err := r.v.scorer.Forecast(pointConfig(&points[i], m, r.gpu.Key)); err != nil {
				fits = false
			}
		}
		if fits && name != smallest {
			return []string{name, smallest}, nil
		}
	}
	return []string{smallest}, nil
}
