package validate

import (
	"cmp"
	"fmt"

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

// energies are the observations of a result's energy, gross.
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

// reduceConfig is what a result is of.
func reduceConfig(r *result.Result) (c Config, err error) {
	switch p := &r.Parallelism; {
	case r.Serving != nil:
		return servedConfig(r)
	case p.PP > 1 || p.EP > 1:
		return c, fmt.Errorf("it is split by pipeline (PP %d) or experts (EP %d): only TP is compared", p.PP, p.EP)
	case len(r.Machine.GPUs) == 0:
		return c, fmt.Errorf("it was not measured on a GPU")
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
