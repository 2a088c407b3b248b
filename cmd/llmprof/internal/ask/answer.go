package ask

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/analytic/energy"
	"llmprof/analytic/engine"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/hardware"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// efficiencies are shares of the peaks that replace those of the calibration;
// 0 leaves one as it is.
type efficiencies struct {
	compute, memory, link, interNode float64
}

// A Question is an estimate as it is asked for by the flags of "llmprof estimate".
type Question struct {
	Model, GPU, Engine, Weights string
	Act, KV                     unit.Format
	Workload                    analytic.Workload
	Parallel                    analytic.Parallelism
	Skew                        string // skew of the experts
	Eff                         efficiencies
	Links                       hardware.Links
	Utilization                 float64
	Cap                         energy.Cap
	Price                       unit.DollarsPerHour
	Hardware, Calibration       string
	Offline, Lenient, Text      bool
	Given                       func(flag string) bool
}

// Sources find what a question names.
type Sources interface {
	// Model is the model that a name stands for; lenient notes what of a config.json is
	// not understood, instead of refusing it.
	Model(ctx context.Context, name string, offline, lenient bool) (*models.Model, error)
	// GPU looks one up in the built-in table, overlaid with that of a file if one is named.
	GPU(name, file string) (*hardware.GPU, error)
	// Constants are what GPUs reach in practice: by a file if one is named, else by those
	// that come with the program.
	Constants(file string) (*Calibrations, error)
}

// An Answer is an estimate with the question that it answers.
type Answer struct {
	view.Estimate
	Q   *Question
	GPU *hardware.GPU

	serving  *analytic.Predictor // prices the steps of servers, as for other workloads of the deployment; nil until a server asks
	node     string              // note on the number of GPUs of a node that was assumed where no flag gives it
	quantize func(m *models.Model, mix string) (*models.Model, error)
}

// Check refuses flags that contradict each other before anything is read.
func (q *Question) Check() error {
	switch {
	case q.Model == "":
		return Usage("which model? Give --model, or an argument as in \"estimate llama3.1-8b h100\"; \"llmprof models list\" has the names")
	case q.GPU == "":
		return Usage("which GPU? Give --gpu, or a second argument as in \"estimate llama3.1-8b h100\"; \"llmprof gpus list\" has the names")
	}
	p := &q.Parallel
	for _, d := range []struct {
		flag string
		n    int
	}{
		{"tp", p.TP}, {"pp", p.PP}, {"ep", p.EP}, {"moe-tp", p.MoETP}, {"dp", p.DP},
		{"micro-batches", p.MicroBatches}, {"gpus-per-node", p.GPUsPerNode},
	} {
		if d.n < 1 && q.Given(d.flag) {
			return Usage("--%s %d: it must be at least 1", d.flag, d.n)
		}
	}
	w := &q.Workload
	switch {
	case w.Chunk == 0 && q.Given("chunk"):
		return Usage("--chunk 0: it must be at least 1; without it the prefill takes one step")
	case w.Budget == 0 && q.Given("max-num-batched-tokens"):
		return Usage("--max-num-batched-tokens 0: it must be at least 1; without it the engine's default holds")
	case q.Given("max-model-len") && w.Longest < w.Context():
		return Usage("--max-model-len %d: prompt and answer are %d tokens", w.Longest, w.Context())
	}
	return nil
}

// Answer computes what was asked.
func (q *Question) Answer(ctx context.Context, from Sources) (*Answer, error) {
	ans := &Answer{Q: q, Estimate: view.Estimate{ModelName: q.Model, GPUName: q.GPU}, quantize: models.Quantize}
	if err := ans.load(ctx, from); err != nil {
		return nil, err
	}
	runs, err := ans.settle()
	if err != nil {
		return nil, UsageError{err}
	}
	constants, err := from.Constants(q.Calibration)
	if err != nil {
		return nil, err
	}
	return ans, ans.explain(func(g *hardware.GPU) (*analytic.Machine, error) { return constants.machines(g, runs) })
}

// explain computes the answer on the machine that was asked for.
func (ans *Answer) explain(of maker) (err error) {
	if ans.Machine, err = ans.machine(of, ans.GPU); err != nil {
		return err
	}
	known := ans.Warnings // The report replaces these notes on how the case was made.
	if ans.Report, err = breakdown.Explain(&ans.Case); err != nil {
		return UsageError{err}
	}
	first := 0
	if !ans.Memory.Fits() {
		first = 1 // after the warning that it does not
	}
	ans.Warnings = slices.Insert(ans.Warnings, first, known...)
	if err := ans.unused(); err != nil {
		return UsageError{err}
	}
	if ans.Links, err = ans.links(of); err != nil {
		return UsageError{err}
	}
	ans.idleFlags()
	for _, said := range []string{ans.node, engine.Starts(&ans.Case, &ans.Memory), ans.Links} {
		if said != "" {
			ans.Warnings = append(ans.Warnings, said)
		}
	}
	if hint := ans.WhatFits(); hint != "" {
		ans.Warnings = slices.Insert(ans.Warnings, 1, hint) // after the warning that it does not
	}
	return nil
}

// mostInNode is how many GPUs without a network are taken to be in one machine.
const mostInNode = 16

// nodeOf is how many GPUs a node has where no flag says so: the usual number, or as many
// as work together where the usual node is smaller and has no network. Then it says so.
func nodeOf(g *hardware.GPU, p *analytic.Parallelism) (n int, note string) {
	together := p.TP * p.PP
	if p.ExpertRanks() > p.TP || p.EP > 1 {
		together = p.GPUs()
	}
	if g.NIC > 0 || together <= g.GPUsPerNode || together > mostInNode || g.LinkAmong(together) == 0 {
		return g.GPUsPerNode, ""
	}
	return together, fmt.Sprintf("%d GPUs are taken to be in one node, where %d are usual: no network is listed for %s; --gpus-per-node "+
		"says otherwise",
		together, g.GPUsPerNode, g.Name)
}

// engine is the engine that was named, if it runs the model, else the default.
func (ans *Answer) engine() (analytic.Engine, error) {
	runs, why := engine.Default(ans.Model, ans.GPU, &ans.Scheme)
	if ans.Q.Engine != "" {
		var err error
		if runs, err = engine.Parse(ans.Q.Engine); err != nil {
			return nil, err
		}
		why = ""
	}
	ans.EngineReason = why
	if err := engine.Runs(runs, ans.Model, ans.GPU, &ans.Scheme); err != nil {
		return nil, err
	}
	ans.Warnings = append(ans.Warnings, engine.Notes(runs, ans.Model, &ans.Parallel)...)
	return runs, engine.Splits(runs, ans.Model, &ans.Scheme, &ans.Parallel)
}

// load reads model and GPU side by side: either takes some milliseconds.
func (ans *Answer) load(ctx context.Context, from Sources) error {
	var gpuErr, modelErr error
	var both sync.WaitGroup
	both.Go(func() { ans.GPU, gpuErr = from.GPU(ans.Q.GPU, ans.Q.Hardware) })
	both.Go(func() { ans.Model, modelErr = from.Model(ctx, ans.Q.Model, ans.Q.Offline, ans.Q.Lenient) })
	both.Wait()
	if gpuErr == nil {
		ans.GPU = ans.GPU.Linked(ans.Q.Links)
	}
	if modelErr != nil && gpuErr != nil {
		if _, err := from.GPU(ans.Q.Model, ans.Q.Hardware); err == nil {
			return Usage("%.40q is a GPU: give the model first, as in \"estimate llama3.1-8b h100\"", ans.Q.Model)
		}
	}
	return errors.Join(modelErr, gpuErr)
}

// settle makes the case once model and GPU are known, and finds the engine that runs it.
func (ans *Answer) settle() (analytic.Engine, error) {
	if ans.Q.Text {
		if ans.Model.Towers == 0 {
			return nil, Usage("--language-model-only: %s has no towers that count", ans.Model.Name)
		}
		ans.Model = ans.Model.WithoutTowers()
	}
	if err := ans.chooseScheme(); err != nil {
		return nil, err
	}
	ans.Workload, ans.Parallel = ans.Q.Workload, ans.Q.Parallel
	if ans.Parallel.GPUsPerNode == 0 {
		ans.Parallel.GPUsPerNode, ans.node = nodeOf(ans.GPU, &ans.Parallel)
	}
	ans.choosePrice()
	p, err := popularity(ans.Q.Skew)
	if err != nil {
		return nil, err
	}
	if ans.Popularity = p; !p.Uniform() {
		ans.Warnings = append(ans.Warnings,
			fmt.Sprintf("experts are chosen unevenly, by --expert-skew %.60s; the busiest rank of --ep is as loaded as the choice makes it",
				ans.Q.Skew))
	}
	runs, err := ans.engine()
	if err == nil && runs.Profile().Pipelined {
		ans.fillPipeline()
	}
	return runs, err
}

// fillPipeline gives each stage of a server under a load a batch of its own, as its scheduler does, unless a flag says otherwise.
func (ans *Answer) fillPipeline() {
	given := ans.Q.Given
	if loaded := given("rate") || given("concurrency") || given("trace"); !loaded || given("micro-batches") || ans.Parallel.PP <= 1 {
		return
	}
	ans.Parallel.MicroBatches = ans.Parallel.PP
	ans.Workload.Batch = max(ans.Workload.Batch, ans.Parallel.PP)
}

// chooseScheme takes the formats that were asked for, else those that the
// published checkpoint has, and notes why.
func (ans *Answer) chooseScheme() error {
	q := ans.Q
	s, stored := models.StoredScheme(ans.Model), ans.Model.Stored
	mix, published := q.Weights, models.PublishedMix(ans.Model)
	if mix == "" && engine.ReadsGGUF(q.Engine) {
		mix = published
	}
	switch {
	case models.IsMix(mix):
		m, err := ans.quantize(ans.Model, mix)
		if err != nil {
			return err
		}
		ans.Model, s = m, models.StoredScheme(m)
		ans.SchemeReason = "as llama.cpp quantizes each matrix"
		if published != "" {
			ans.SchemeReason = "as its GGUF files have it, of " + strings.ToUpper(mix) + ", whose experts stay in MXFP4"
		}
	case q.Weights != "":
		var err error
		if s, err = models.NamedScheme(ans.Model, q.Weights); err != nil {
			return err
		}
		s.KV = ans.Model.Cache
		ans.SchemeReason = "as asked for"
		if s.Stored {
			ans.SchemeReason += ", and as the published checkpoint is stored"
		}
	case stored.Method != "" && stored.Weights != unit.NoFormat:
		ans.SchemeReason = "as the published checkpoint is stored (" + stored.Method + ")"
	default:
		ans.SchemeReason = "16 bits by default, since its checkpoint names no quantization"
	}
	if s.KV != unit.NoFormat && q.KV == unit.NoFormat {
		why := "for which it has scales"
		if s.KV == ans.Model.Cache {
			why = "which is all that kernels of " + ans.Model.Family + " read"
		}
		ans.SchemeReason += fmt.Sprintf("; the cache in %v, %s", s.KV, why)
	}
	if q.Act != unit.NoFormat {
		if !ans.GPU.Has(q.Act) {
			return fmt.Errorf("--act %v: %s has no unit for it; want one of %s", q.Act, ans.GPU.Name, unit.ListFormats(ans.GPU.Formats()))
		}
		s = s.WithAct(q.Act)
	}
	if q.KV != unit.NoFormat {
		s.KV = q.KV
	}
	ans.Scheme = s.For(ans.GPU)
	if ans.Scheme.Weights != s.Weights || ans.Scheme.Act != s.Act {
		ans.SchemeReason += "; " + ans.GPU.Name + " has no unit for bf16"
	}
	return nil
}

// choosePrice takes the price that was given, else the table's.
func (ans *Answer) choosePrice() {
	ans.Price, ans.PriceSource = ans.Q.Price, "--price"
	if ans.Price > 0 {
		return
	}
	if p, ok := ans.GPU.Price(); ok {
		ans.Price, ans.PriceSource = p, ans.GPU.PriceSource
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
	put("--memory-eff", e.memory, roofline.GEMMMemory, roofline.SkinnyGEMMMemory, roofline.WGMMAMemory, roofline.MoEDecodeMemory,
		roofline.MoEPrefillMemory,
		roofline.AttentionMemory, roofline.ElementwiseMemory)
	put("--link-eff", e.link, roofline.LinkShare, roofline.PCIeShare)
	put("--inter-node-eff", e.interNode, roofline.InterNodeShare)
	if len(set) > 0 {
		c.Name += " with " + strings.Join(set, ", ")
	}
	return c
}

// unused refuses flags that this estimate does not depend on.
func (ans *Answer) unused() error {
	given, gpus := ans.Q.Given, ans.GPUs
	wire := ans.Prefill.Wire + ans.Decode.Wire
	switch {
	case given("gpus-per-node") && gpus == 1:
		return fmt.Errorf("--gpus-per-node: one GPU needs no node; give --tp, --pp or --dp")
	case given("link-eff") && wire == 0:
		return fmt.Errorf("--link-eff: nothing is sent between GPUs; give --tp, --pp, --ep or --moe-tp")
	case given("inter-node-eff") && (wire == 0 || ans.Parallel.Nodes() == 1):
		return fmt.Errorf("--inter-node-eff: all %d GPUs are in one node of %d; give a smaller --gpus-per-node or more GPUs",
			gpus, ans.Parallel.GPUsPerNode)
	case given("kv") && ans.Memory.KV == 0:
		return fmt.Errorf("--kv: %s has no KV cache, its state does not grow", ans.Model.Name)
	}
	return nil
}

// idleFlags notes limits that the workload does not reach.
func (ans *Answer) idleFlags() {
	w := &ans.Workload
	fresh := w.PromptLen - w.CachedPrefix
	if w.Chunk >= fresh {
		ans.Warnings = append(ans.Warnings, fmt.Sprintf("--chunk %d: the %d tokens of the prefill take one step", w.Chunk, fresh))
	}
	if w.AllLogits && fresh == 1 {
		ans.Warnings = append(ans.Warnings, "--all-logits: the prefill has one position")
	}
}
