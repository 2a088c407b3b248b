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
	"llmprof/measure/result"
	"llmprof/measure/stats"
)

// servedConfig is what a server's result is of: a batch of one, where requests came
// one after the other. With more of them under way a server makes batches of its own,
// which no estimate is of.
func servedConfig(r *result.Result) (c Config, err error) {
	if err := alone(r); err != nil {
		return c, err
	}
	name, err := gpuOf(r)
	if err != nil {
		return c, err
	}
	engine, err := servedBy(r)
	if err != nil {
		return c, err
	}
	c = Config{
		Model: r.Model.Name, GPU: name, Engine: engine, TP: r.Parallelism.TP, Batch: 1, Prompt: r.Workload.PromptLen, Gen: r.Workload.GenLen,
		Weights: r.Workload.Weights, Load: Static, Params: r.Model.ParamsTotal,
	}
	if r.Workload.KV != "" && r.Workload.KV != r.Workload.Act {
		c.KV = r.Workload.KV
	}
	for _, n := range []struct {
		to *int
		of *stats.Summary
	}{{&c.Prompt, r.Serving.PromptTokens}, {&c.Gen, r.Serving.GeneratedTokens}} {
		if n.of != nil { // a count by the server
			*n.to = int(math.Round(n.of.Mean))
		}
	}
	return c, nil
}

// alone says what of a server's result keeps it from being compared.
func alone(r *result.Result) error {
	s := r.Serving
	switch {
	case s.RateHz != nil:
		return fmt.Errorf("requests came at %v a second: their times include waiting for each other, and an estimate is of a batch that starts together; "+
			"one request at a time (--concurrency 1) is compared", *s.RateHz)
	case s.Concurrency != 1:
		return fmt.Errorf("%d requests were under way at a time: the server made its own batches of them, and an estimate is of a batch that starts together; "+
			"one request at a time (--concurrency 1) is compared", s.Concurrency)
	case slices.Contains(r.Marks, "failed") || slices.Contains(r.Marks, "interrupted"):
		return fmt.Errorf("the run did not finish: it is marked %s", strings.Join(r.Marks, ", "))
	case len(r.Machine.GPUs) == 0:
		return errors.New("on which GPU the server runs is not known: --engine-cmd starts one on the GPUs of this machine")
	case r.Workload.Weights == "":
		return fmt.Errorf("the format of the server's weights is not known: %s; --served-weights gives it", cmp.Or(r.Reasons["workload.weights"], "the server does not say it"))
	case r.Parallelism.TP == 0:
		return fmt.Errorf("over how many GPUs the server splits the model is not known: %s; --served-tp gives it", cmp.Or(r.Reasons["parallelism.tp"], "the server does not say it"))
	case s.PrefixCache != nil && s.PrefixCache.Share != nil && *s.PrefixCache.Share > 0.01:
		return fmt.Errorf("the server took %.0f %% of the prompts from its cache of prefixes, which an estimate computes", 100**s.PrefixCache.Share)
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
