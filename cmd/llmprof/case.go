package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"llmprof"
	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/analytic/engine"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/hardware"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// efficiencies are shares of the peaks that replace those of the calibration;
// 0 leaves one as it is.
type efficiencies struct{ compute, memory, link, interNode float64 }

// An answer is an estimate with the question that it answers.
type answer struct {
	view.Estimate
	q   *question
	gpu *hardware.GPU
}

// check refuses command lines that cannot be meant before anything is read.
func (q *question) check() error {
	if err := q.output.check(); err != nil {
		return err
	}
	switch {
	case q.model == "":
		return usage("which model? Give --model, as in --model llama3.1-8b; \"llmprof models list\" has the names")
	case q.gpu == "":
		return usage("which GPU? Give --gpu, as in --gpu h100; \"llmprof gpus list\" has the names")
	case q.top < 0:
		return usage("--top %d: want a number of operators, or 0 for all", q.top)
	}
	p := &q.parallel
	for _, d := range []struct {
		flag string
		n    int
	}{
		{"tp", p.TP}, {"pp", p.PP}, {"ep", p.EP}, {"dp", p.DP},
		{"micro-batches", p.MicroBatches}, {"gpus-per-node", p.GPUsPerNode},
	} {
		if d.n < 1 && q.given(d.flag) {
			return usage("--%s %d: it must be at least 1", d.flag, d.n)
		}
	}
	return nil
}

// answer computes what was asked.
func (a *app) answer(ctx context.Context, q *question) (*answer, error) {
	ans := &answer{q: q, Estimate: view.Estimate{ModelName: q.model, GPUName: q.gpu, Top: q.top}}
	if err := a.load(ctx, ans); err != nil {
		return nil, err
	}
	if err := ans.chooseScheme(); err != nil {
		return nil, usageError{err}
	}
	runs, err := ans.engine()
	if err != nil {
		return nil, usageError{err}
	}
	ans.Workload, ans.Parallel = q.workload, q.parallel
	node := ""
	if ans.Parallel.GPUsPerNode == 0 {
		ans.Parallel.GPUsPerNode, node = nodeOf(ans.gpu, &ans.Parallel)
	}
	ans.choosePrice()
	if ans.Machine, err = ans.machine(runs); err != nil {
		return nil, err
	}
	if ans.Report, err = breakdown.Explain(&ans.Case); err != nil {
		return nil, usageError{err}
	}
	if err := ans.unused(); err != nil {
		return nil, usageError{err}
	}
	ans.idleFlags()
	if node != "" {
		ans.Warnings = append(ans.Warnings, node)
	}
	if hint := ans.WhatFits(); hint != "" {
		ans.Warnings = slices.Insert(ans.Warnings, 1, hint) // after the warning that it does not
	}
	return ans, nil
}

// mostInNode is how many GPUs without a network are taken to be in one machine.
const mostInNode = 16

// nodeOf is how many GPUs a node has where no flag says so: the usual number, or as many
// as work together where the usual node is smaller and has no network. Then it says so.
func nodeOf(g *hardware.GPU, p *analytic.Parallelism) (n int, note string) {
	together := p.TP * p.PP
	if p.EP > 1 {
		together = p.GPUs()
	}
	if g.NIC > 0 || together <= g.GPUsPerNode || together > mostInNode || g.LinkAmong(together) == 0 {
		return g.GPUsPerNode, ""
	}
	return together, fmt.Sprintf("%d GPUs are taken to be in one node, where %d are usual: no network is listed for %s; --gpus-per-node says otherwise",
		together, g.GPUsPerNode, g.Name)
}

// engine is the engine that was named, if it runs the model, else the default.
func (ans *answer) engine() (analytic.Engine, error) {
	runs := engine.Default(ans.Model, ans.gpu, &ans.Scheme)
	if ans.q.engine != "" {
		var err error
		if runs, err = engine.Parse(ans.q.engine); err != nil {
			return nil, err
		}
	}
	return runs, engine.Runs(runs, ans.Model, ans.gpu, &ans.Scheme)
}

// load reads model and GPU side by side: either takes some milliseconds.
func (a *app) load(ctx context.Context, ans *answer) error {
	var gpuErr, modelErr error
	var both sync.WaitGroup
	both.Go(func() { ans.gpu, gpuErr = a.gpu(ans.q.gpu, ans.q.hardware) })
	both.Go(func() { ans.Model, modelErr = a.model(ctx, ans.q.model, ans.q.offline) })
	both.Wait()
	return errors.Join(modelErr, gpuErr)
}

// model reads the model that a name stands for.
func (a *app) model(ctx context.Context, name string, offline bool) (*models.Model, error) {
	table, err := models.Load(llmprof.ModelsJSON)
	if err != nil {
		return nil, err
	}
	hub := models.HubFromEnv(a.env)
	hub.Offline = hub.Offline || offline
	return models.Resolver{Table: table, Hub: hub}.Resolve(ctx, name)
}

// chooseScheme takes the formats that were asked for, else those that the
// published checkpoint has, and notes why.
func (ans *answer) chooseScheme() error {
	q := ans.q
	s, stored := models.StoredScheme(ans.Model), ans.Model.Stored
	switch {
	case q.weights != "":
		var err error
		if s, err = models.ParseScheme(q.weights); err != nil {
			return err
		}
		ans.SchemeReason = "as asked for"
	case stored.Method != "" && stored.Weights != unit.NoFormat:
		ans.SchemeReason = "as the published checkpoint is stored (" + stored.Method + ")"
	default:
		ans.SchemeReason = "16 bits by default, since its checkpoint names no quantization"
	}
	if q.act != unit.NoFormat {
		if !ans.gpu.Has(q.act) {
			return fmt.Errorf("--act %v: %s has no unit for it; want one of %s", q.act, ans.gpu.Name, formatList(ans.gpu.Formats()))
		}
		s = s.WithAct(q.act)
	}
	if q.kv != unit.NoFormat {
		s.KV = q.kv
	}
	ans.Scheme = s.For(ans.gpu)
	if ans.Scheme.Weights != s.Weights || ans.Scheme.Act != s.Act {
		ans.SchemeReason += "; " + ans.gpu.Name + " has no unit for bf16"
	}
	return nil
}

func formatList(formats []unit.Format) string {
	names := make([]string, len(formats))
	for i, f := range formats {
		names[i] = f.String()
	}
	return strings.Join(names, ", ")
}

// choosePrice takes the price that was given, else the table's.
func (ans *answer) choosePrice() {
	ans.Price, ans.PriceSource = unit.DollarsPerHour(ans.q.price), "--price"
	if ans.Price > 0 {
		return
	}
	if p, ok := ans.gpu.Price(); ok {
		ans.Price, ans.PriceSource = p, ans.gpu.PriceSource
	}
}

// apply puts the shares that were given in place of those of c.
func (e *efficiencies) apply(c hardware.Calibration) hardware.Calibration {
	var set []string
	put := func(flag string, share float64, to ...roofline.Constant) {
		if share == 0 {
			return
		}
		for _, k := range to {
			if c.Constants[k] > 0 { // a kernel class of which nothing is known stays so
				c.Constants[k] = share
			}
		}
		set = append(set, fmt.Sprintf("%s %g", flag, share))
	}
	put("--compute-eff", e.compute, roofline.GEMMCompute, roofline.AttentionCompute, roofline.GEMMSustained, roofline.MoEPrefillCompute)
	put("--memory-eff", e.memory, roofline.GEMMMemory, roofline.SkinnyGEMMMemory, roofline.WGMMAMemory, roofline.MoEDecodeMemory, roofline.MoEPrefillMemory,
		roofline.AttentionMemory, roofline.ElementwiseMemory)
	put("--link-eff", e.link, roofline.LinkShare, roofline.PCIeShare)
	put("--inter-node-eff", e.interNode, roofline.InterNodeShare)
	if len(set) > 0 {
		c.Name += " with " + strings.Join(set, ", ")
	}
	return c
}

// unused refuses flags that this estimate does not depend on.
func (ans *answer) unused() error {
	given, gpus := ans.q.given, ans.GPUs
	wire := ans.Prefill.Wire + ans.Decode.Wire
	switch {
	case given("gpus-per-node") && gpus == 1:
		return fmt.Errorf("--gpus-per-node: one GPU needs no node; give --tp, --pp or --dp")
	case given("link-eff") && wire == 0:
		return fmt.Errorf("--link-eff: nothing is sent between GPUs; give --tp, --pp or --ep")
	case given("inter-node-eff") && (wire == 0 || ans.Parallel.Nodes() == 1):
		return fmt.Errorf("--inter-node-eff: all %d GPUs are in one node of %d; give a smaller --gpus-per-node or more GPUs",
			gpus, ans.Parallel.GPUsPerNode)
	case given("kv") && ans.Memory.KV == 0:
		return fmt.Errorf("--kv: %s has no KV cache, its state does not grow", ans.Model.Name)
	}
	return nil
}

// idleFlags notes limits that the workload does not reach.
func (ans *answer) idleFlags() {
	w := &ans.Workload
	fresh := w.Prompt - w.CachedPrefix
	if w.Chunk >= fresh {
		ans.Warnings = append(ans.Warnings, fmt.Sprintf("--chunk %d: the %d tokens of the prefill take one step", w.Chunk, fresh))
	}
	if w.AllLogits && fresh == 1 {
		ans.Warnings = append(ans.Warnings, "--all-logits: the prefill has one position")
	}
}
