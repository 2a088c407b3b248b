package validate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"llmprof/analytic/engine"
	"llmprof/internal/stats"
	"llmprof/measure/result"
)

// Reduce makes observations of a result: the median of each time with its 95 %
// interval, and the energies. A result that no static estimate can be made of,
// as that of a server with several requests at a time, is an error.
func Reduce(source string, r *result.Result) ([]Observation, error) {
	c, err := reduceConfig(r)
	if err != nil {
		return nil, err
	}
	base := Observation{Config: c, Source: source, ID: result.FileName(r.ID, r.Process), Marks: r.Marks}
	var all []Observation
	for _, t := range []struct {
		metric Metric
		times  *result.Times
	}{{TTFT, r.TTFT}, {TPOT, r.TPOT}, {TTLT, r.TTLT}} {
		if t.times == nil {
			continue
		}
		o := base
		o.Metric, o.Value, o.Samples = t.metric, t.times.Median, t.times.N
		o.Low, o.High, o.Device = t.times.MedianLow, t.times.MedianHigh, t.times.Device
		if o.Low == nil || o.High == nil {
			o.Low, o.High = nil, nil
		}
		all = append(all, o)
	}
	return append(all, energies(&base, r.Energy)...), nil
}

func energies(base *Observation, e *result.Energy) (all []Observation) {
	if e == nil {
		return nil
	}
	for _, j := range []struct {
		metric Metric
		value  *float64
	}{{EnergyPerPrompt, e.PerPrompt}, {EnergyPerToken, e.PerToken}, {EnergyPerRequest, e.PerRequest}} {
		if j.value == nil {
			continue
		}
		o := *base
		o.Metric, o.Value = j.metric, *j.value
		o.Note = e.Scope
		all = append(all, o)
	}
	return all
}

func reduceConfig(r *result.Result) (c Config, err error) {
	switch p := &r.Parallelism; {
	case r.Serving != nil:
		err = alone(r)
	case p.PP > 1 || p.EP > 1:
		err = fmt.Errorf("it is split by pipeline (PP %d) or experts (EP %d): only TP is compared", p.PP, p.EP)
	case len(r.Machine.GPUs) == 0:
		err = errors.New("it was not measured on a GPU")
	}
	if err != nil {
		return c, err
	}
	name, err := gpuOf(r)
	if err != nil {
		return c, err
	}
	c = Config{
		Model: r.Model.Name, GPU: name, Engine: r.Engine.Name, TP: max(r.Parallelism.TP, 1),
		Batch: r.Workload.Batch, Prompt: r.Workload.PromptLen, Gen: r.Workload.GenLen,
		Weights: r.Workload.Weights, Load: Static, Logits: r.Workload.Elana, Params: r.Model.ParamsTotal,
	}
	if r.Workload.KV != r.Workload.Act {
		c.KV = r.Workload.KV
	}
	if r.Serving != nil {
		return c, c.serve(r)
	}
	switch r.Engine.Options["graph"] {
	case "true":
		c.Mode = "graph"
	case "false":
		c.Mode = "eager"
	}
	return c, nil
}

// gpuOf names the kind of GPU that a result is of.
func gpuOf(r *result.Result) (string, error) {
	gpu := r.Machine.GPUs[0]
	for _, g := range r.Machine.GPUs {
		if g.Key != gpu.Key || g.Name != gpu.Name {
			return "", fmt.Errorf("it is of unlike GPUs, %q and %q", gpu.Name, g.Name)
		}
	}
	return cmp.Or(gpu.Key, gpu.Name), nil // unknown to the table when it was measured, it may be known now
}

// serve sets what a server's result is of: a batch of one, where requests came one after the other. With more of
// them under way a server makes batches of its own, which no estimate is of.
func (c *Config) serve(r *result.Result) (err error) {
	if c.Engine, err = servedBy(r); err != nil {
		return err
	}
	c.Batch = 1
	for _, n := range []struct {
		to *int
		of *stats.Summary
	}{{&c.Prompt, r.Serving.PromptTokens}, {&c.Gen, r.Serving.GeneratedTokens}} {
		if n.of != nil { // a count by the server
			*n.to = int(math.Round(n.of.Mean))
		}
	}
	return nil
}

// alone says what of a server's result keeps it from being compared.
func alone(r *result.Result) error {
	s := r.Serving
	switch {
	case s.RateHz != nil:
		return fmt.Errorf("requests came at %v a second: their times include waiting for each other, and an estimate is of a batch that "+
			"starts together; "+
			"one request at a time (--concurrency 1) is compared", *s.RateHz)
	case s.Concurrency != 1:
		return fmt.Errorf("%d requests were under way at a time: the server made its own batches of them, and an estimate is of a batch that "+
			"starts together; "+
			"one request at a time (--concurrency 1) is compared", s.Concurrency)
	case slices.Contains(r.Marks, "failed") || slices.Contains(r.Marks, "interrupted"):
		return fmt.Errorf("the run did not finish: it is marked %s", strings.Join(r.Marks, ", "))
	case len(r.Machine.GPUs) == 0:
		return errors.New("on which GPU the server runs is not known: --gpu names it, or --engine-cmd starts one on the GPUs of this machine")
	case r.Workload.Weights == "":
		return fmt.Errorf("the format of the server's weights is not known: %s; --weights gives it",
			cmp.Or(r.Reasons["workload.weights"], "the server does not say it"))
	case r.Parallelism.TP == 0:
		return fmt.Errorf("over how many GPUs the server splits the model is not known: %s; --tp gives it",
			cmp.Or(r.Reasons["parallelism.tp"], "the server does not say it"))
	case s.PrefixCache != nil && s.PrefixCache.Share != nil && *s.PrefixCache.Share > 0.01:
		return fmt.Errorf("the server took %.0f %% of the prompts from its cache of prefixes, which an estimate computes",
			100**s.PrefixCache.Share)
	}
	return nil
}

// servedBy names the engine that a server runs, by what the server said of itself.
func servedBy(r *result.Result) (string, error) {
	said := []string{r.Engine.Name, r.Engine.Options["server"]}
	if m := r.Serving.Metrics; m != nil {
		said = append(said, m.Source)
	}
	said = append(said, slices.Sorted(maps.Keys(r.Engine.Versions))...)
	known := slices.IndexFunc(said, func(name string) bool { _, err := engine.Parse(name); return name != "" && err == nil })
	if known < 0 {
		return "", errors.New("which engine the server runs is not known: neither its version nor its metrics say it")
	}
	return said[known], nil
}
