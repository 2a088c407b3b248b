package live

import (
	"context"
	"fmt"
	"strings"

	"llmprof/measure/experiment"
	"llmprof/measure/result"
	"llmprof/unit"
)

// defaultModels are what is measured where no model is named: the first of them that
// fits the GPU at every point, and the last, whose time is mostly kernel launches.
var defaultModels = []string{"llama3.1-8b", "llama3.2-3b", "llama3.2-1b"}

// points makes the experiment: that of the grid's file, or the product of its lists.
func (s *session) points(ctx context.Context) error {
	if s.Grid.File != "" {
		return s.readGrid()
	}
	s.exp = &experiment.Experiment{Name: "live", Cycles: 1, Order: experiment.Sequential}
	names := s.Grid.Models
	if len(names) == 0 {
		var err error
		if names, err = s.fitting(ctx); err != nil {
			return err
		}
	}
	engines := s.Grid.Engines
	if len(engines) == 0 {
		engines = []string{""}
	}
	for _, name := range names {
		for _, engine := range engines {
			some, err := s.product(ctx, name, engine)
			if err != nil {
				return err
			}
			s.exp.Points = append(s.exp.Points, some...)
		}
	}
	if len(s.exp.Points) == 0 {
		return request("no point is left to measure: want at least one model, batch and prompt length")
	}
	return nil
}

// readGrid reads the points of an experiment file and puts them on the target.
func (s *session) readGrid() (err error) {
	file := s.Grid.File
	if s.exp, err = experiment.Load(file); err != nil {
		return fmt.Errorf("the grid has mistakes:\n%w", err)
	}
	for _, w := range s.exp.Warnings {
		s.report.Logf("warning: %s", w)
	}
	for i := range s.exp.Points {
		p := &s.exp.Points[i]
		switch {
		case p.Device == "cpu" && !s.Target.CPU:
			return request("grid %s: the points have device = \"cpu\", and a GPU is to be measured: choose the device cpu, and name the GPU "+
				"entry that predicts it", file)
		case p.Device == "cuda" && s.Target.CPU:
			return request("grid %s: the points have device = \"cuda\", and the processor is to be measured", file)
		}
		s.place(p)
	}
	return nil
}

// place puts a point on the target. The device of a point that names none stays
// unset, so that the point has the hash, and keeps the results, of "llmprof run".
func (s *session) place(p *experiment.Point) {
	if p.Engine == experiment.OpenAI {
		return
	}
	if s.Target.CPU {
		p.Device = "cpu"
	}
	if len(p.GPUs) == 0 {
		p.GPUs = s.Target.UUIDs
	}
}

// onGPU measures points that name no device on a GPU. Without it, an engine that
// finds no GPU would run on the processor and be compared with a GPU's prediction.
func onGPU(measure experiment.Measure) experiment.Measure {
	return func(ctx context.Context, p experiment.Point) ([]*result.Result, error) {
		if p.Device == "" {
			p.Device = "cuda"
		}
		return measure(ctx, p)
	}
}

// product makes the points of one model by one engine: every batch with every prompt length.
func (s *session) product(ctx context.Context, model, engine string) (all []experiment.Point, err error) {
	g := &s.Grid
	for _, batch := range g.Batches {
		for _, prompt := range g.PromptLens {
			p := experiment.Default()
			p.Model, p.RandomWeights, p.Batch, p.PromptLen, p.GenLen = model, true, batch, prompt, g.GenLen
			p.TPOT, p.DType, p.Python, p.Libraries = g.GenLen > 1, s.dtype(), g.Python, g.Libraries
			if err := s.setEngine(ctx, &p, engine); err != nil {
				return nil, err
			}
			if p.Engine != experiment.Native {
				p.Libraries = "" // no other engine opens them
			}
			s.place(&p)
			if err := p.Check(); err != nil {
				return nil, RequestError{err}
			}
			all = append(all, p)
		}
	}
	return all, nil
}

// dtype is bf16 or fp16, whichever the GPU has, else fp32.
func (s *session) dtype() string {
	for _, f := range []unit.Format{unit.BF16, unit.FP16} {
		if s.Target.GPU.Has(f) {
			return f.String()
		}
	}
	return unit.FP32.String()
}

// setEngine sets the engine and its mode. Decoding runs in a CUDA graph unless the
// name says otherwise or the processor is measured, which has no graphs.
func (s *session) setEngine(ctx context.Context, p *experiment.Point, name string) error {
	p.Graph = !s.Target.CPU
	switch strings.ToLower(name) {
	case "":
		if !s.Target.CPU {
			p.Engine = s.Engine.Choose(ctx, *p)
		}
	case experiment.Native:
		p.Engine = experiment.Native
	case experiment.Transformers:
	case "transformers graph", "transformers-graph":
		p.Graph = true
	case "transformers eager", "transformers-eager":
		p.Graph = false
	default:
		return request("engine %.40q: want native, transformers, \"transformers graph\" or \"transformers eager\"", name)
	}
	return nil
}

// fitting picks the models to measure where none is named.
func (s *session) fitting(ctx context.Context) ([]string, error) {
	smallest := defaultModels[len(defaultModels)-1]
	for _, name := range defaultModels {
		fits := true
		points, err := s.product(ctx, name, experiment.Transformers)
		if err != nil {
			return nil, err
		}
		m, err := s.model(ctx, name)
		if err != nil {
			return nil, err
		}
		for i := range points {
			if _, err := s.made.Scorer.Forecast(configOf(&points[i], m, s.Target.GPU.Key)); err != nil {
				fits = false
			}
		}
		if fits && name != smallest {
			return []string{name, smallest}, nil
		}
	}
	return []string{smallest}, nil
}
