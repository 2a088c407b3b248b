package deployment

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"llmprof/analytic"
	"llmprof/analytic/energy"
	"llmprof/analytic/engine"
	"llmprof/analytic/operator"
	"llmprof/hardware"
	"llmprof/internal/input"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/serving"
	"llmprof/unit"
)

// A Deployment is a request resolved: a case, with the reasons for what nobody asked for.
type Deployment struct {
	Request *Request
	analytic.Case
	GPU          *hardware.GPU
	SchemeReason string            // why these formats were taken
	EngineReason string            // why this engine was taken, empty where it was asked for
	PriceSource  string            // empty where no price is known, or it was given
	Home         *Home             // nil unless a part of the model may lie in the memory of the host
	Placement    *engine.Placement // says which tensors lie in host memory; nil where none may
	MediaTokens  int               // tokens of images and audio that a prompt has beside its text

	from     *Library
	bare     *Deployment // before a part of it was put into the memory of the host
	runs     analytic.Engine
	known    []unit.Warning      // how the case was made
	node     *unit.Warning       // the number of GPUs of a node that was assumed where nothing gives it
	prepared *analytic.Predictor // nil until it is asked for
	prompts  *serving.Lengths    // lengths of prompts with images and audio, where they are drawn and have some
}

// Resolve reads what a request names and makes its case.
func (l *Library) Resolve(ctx context.Context, q *Request) (*Deployment, error) {
	bare, err := l.Bare(ctx, q)
	if err != nil {
		return nil, err
	}
	d := *bare
	return &d, d.place()
}

// Bare is Resolve for a deployment of which Spread makes others: nothing of it was put into the memory of the host.
func (l *Library) Bare(ctx context.Context, q *Request) (*Deployment, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	d := &Deployment{Request: q, from: l}
	var err error
	if d.Model, d.GPU, err = l.both(ctx, q); err != nil {
		return nil, err
	}
	d.GPU = d.GPU.Linked(q.links())
	if err := d.inHost(); err != nil {
		return nil, err
	}
	if err := d.resolve(); err != nil {
		return nil, unit.Wrong(err)
	}
	if d.Machine, err = d.machine(d.GPU); err != nil {
		return nil, err
	}
	d.known, d.bare = slices.Clip(d.known), d
	return d, nil
}

// resolve makes the case once model and GPU are known, and finds the engine that runs it.
func (d *Deployment) resolve() error {
	q := d.Request
	if q.Text {
		if d.Model.EncoderParams == 0 {
			return unit.Errorf("{language_model_only}: %s has no towers that count", d.Model.Name)
		}
		d.Model = d.Model.WithoutEncoders()
	}
	if err := d.chooseScheme(); err != nil {
		return err
	}
	d.size()
	d.choosePrice()
	p, err := popularity(q.Skew)
	if err != nil {
		return err
	}
	if d.Popularity = p; !p.Uniform() {
		d.known = append(d.known, unit.Warn("experts_skewed",
			"experts are chosen unevenly, by {expert_skew} %.60s; the busiest rank of {ep} is as loaded as the choice makes it", q.Skew))
	}
	if err := d.chooseEngine(); err != nil {
		return err
	}
	if err := d.encode(); err != nil {
		return err
	}
	if q.Loaded() {
		d.leaveBatch()
	}
	return nil
}

// size takes the workload, the split and the settings of memory from the request.
func (d *Deployment) size() {
	q := d.Request
	d.Workload, d.Parallel = q.Workload(), q.Split()
	d.Settings = operator.Settings{Sequences: or(q.MaxSeqs, 0), NoPrefixCache: q.NoCache, PrefixCache: q.Cache, Drafts: or(q.Drafts, 0),
		OwnDrafts: or(q.Drafts, 0) > 0 && q.DraftModel == "" && d.Model.Drafts > 0}
	if d.Parallel.GPUsPerNode == 0 {
		d.Parallel.GPUsPerNode, d.node = nodeOf(d.GPU, &d.Parallel)
	}
}

// leaveBatch makes the batch the least that can be where a load is asked for: nobody chooses it then. Each stage of a pipeline has a batch
// of its own, as the engine's scheduler gives it, unless the request says otherwise.
func (d *Deployment) leaveBatch() {
	if d.Request.MicroBatches == nil && d.Parallel.PP > 1 && d.runs.Profile().Pipelined {
		d.Parallel.MicroBatches = min(d.Parallel.PP, or(d.Request.MaxSeqs, d.Parallel.PP)) // a batch has a sequence at least
	}
	d.Workload.Batch = max(or(d.Request.Batch, 1), d.Parallel.MicroBatches)
}

// mostInNode is how many GPUs without a network are taken to be in one machine.
const mostInNode = 16

// nodeOf is how many GPUs a node has where nothing says so: the usual number, or as many as work together where the usual node is smaller
// and has no network. Then it says so.
func nodeOf(g *hardware.GPU, p *analytic.Parallelism) (n int, note *unit.Warning) {
	together := p.TP * p.PP
	if p.ExpertRanks() > p.TP || p.EP > 1 {
		together = p.GPUs()
	}
	if g.NIC > 0 || together <= g.GPUsPerNode || together > mostInNode || g.LinkAmong(together) == 0 {
		return g.GPUsPerNode, nil
	}
	return together, new(unit.Warn("node_assumed", "%d GPUs are taken to be in one node, where %d are usual: no network is listed for %s; "+
		"{gpus_per_node} says otherwise", together, g.GPUsPerNode, g.Name))
}

// chooseEngine takes the engine that was named, if it runs the model, else the default.
func (d *Deployment) chooseEngine() (err error) {
	d.runs, d.EngineReason = engine.Default(d.Model, d.GPU, &d.Scheme)
	if d.Request.Engine == "" && d.Request.atHome() {
		d.runs, d.EngineReason = engine.AtHome(), "which leaves weights in host memory"
	}
	if d.Request.Engine != "" {
		if d.runs, err = engine.Parse(d.Request.Engine); err != nil {
			return err
		}
		d.EngineReason = ""
	}
	if c := d.runs.Profile().Cache; c != unit.NoFormat && d.Request.KV == unit.NoFormat && d.Scheme.KV == unit.FP32 {
		d.Scheme.KV = c // that of weights in 16 bits has 16 bits too
	}
	if err := engine.Runs(d.runs, d.Model, d.GPU, &d.Scheme); err != nil {
		return err
	}
	if d.runs, err = engine.WithGraphs(d.runs, d.Request.graphs()); err != nil {
		return unit.Errorf("{"+d.Request.given("enforce_eager", "max_cudagraph_capture_size")+"}: %w", err)
	}
	d.known = append(d.known, engine.Notes(d.runs, d.Model, &d.Parallel)...)
	return engine.Splits(d.runs, d.Model, &d.Scheme, &d.Parallel)
}

// chooseFileType quantizes the model by the file type of llama.cpp that was asked for, or by that of the published GGUF files of the model,
// and reports whether there is one.
func (d *Deployment) chooseFileType() (bool, error) {
	mix, published := d.Request.Weights, models.PublishedFileType(d.Model)
	if mix == "" && (engine.ReadsGGUF(d.Request.Engine) || d.Request.Engine == "" && d.Request.atHome()) {
		mix = published
	}
	if !models.IsFileType(mix) {
		return false, nil
	}
	m, err := d.from.quantize(d.Model, mix)
	if err != nil {
		return false, err
	}
	d.Model, d.SchemeReason = m, "as llama.cpp quantizes each matrix"
	if published != "" {
		d.SchemeReason = "as its GGUF files have it, of " + strings.ToUpper(mix) + ", whose experts stay in MXFP4"
	}
	return true, nil
}

// chooseScheme takes the formats that were asked for, else those that the published checkpoint has, and notes why.
func (d *Deployment) chooseScheme() error {
	q := d.Request
	mixed, err := d.chooseFileType()
	if err != nil {
		return err
	}
	s, stored := models.StoredScheme(d.Model), d.Model.Stored
	switch {
	case mixed:
	case q.Weights != "":
		if s, err = models.NamedScheme(d.Model, q.Weights); err != nil {
			return err
		}
		s.KV = d.Model.Cache
		d.SchemeReason = "as asked for"
		if s.Stored {
			d.SchemeReason += ", and as the published checkpoint is stored"
		}
	case stored.Method != "" && stored.Weights != unit.NoFormat:
		d.SchemeReason = "as the published checkpoint is stored (" + stored.Method + ")"
	default:
		d.SchemeReason = "16 bits by default, since its checkpoint names no quantization"
	}
	if s.KV != unit.NoFormat && q.KV == unit.NoFormat {
		why := "for which it has scales"
		if s.KV == d.Model.Cache {
			why = "which is all that kernels of " + d.Model.Family + " read"
		}
		d.SchemeReason += fmt.Sprintf("; the cache in %v, %s", s.KV, why)
	}
	if q.Act != unit.NoFormat {
		if !d.GPU.Has(q.Act) {
			return unit.Errorf("{act} %v: %s has no unit for it; want one of %s", q.Act, d.GPU.Name, unit.ListFormats(d.GPU.Formats()))
		}
		s = s.WithAct(q.Act)
	}
	if q.KV != unit.NoFormat {
		s.KV = q.KV
	}
	d.Scheme = s.For(d.GPU)
	if d.Scheme.Weights != s.Weights || d.Scheme.Act != s.Act {
		d.SchemeReason += "; " + d.GPU.Name + " has no unit for bf16"
	}
	return nil
}

// choosePrice takes the price that was given, else the table's.
func (d *Deployment) choosePrice() {
	d.Price = or(d.Request.Price, 0)
	if d.Price > 0 {
		return
	}
	if p, ok := d.GPU.Price(); ok {
		d.Price, d.PriceSource = p, d.GPU.PriceSource
	}
}

// machine is a GPU with the engine, with the shares of the peaks and of the memory that the request gives, and under its limits.
func (d *Deployment) machine(g *hardware.GPU) (*analytic.Machine, error) {
	q := d.Request
	m, err := d.from.machine(q, g, d.runs)
	if err == nil && q.cap() != (energy.Cap{}) {
		if m, err = m.Capped(Over(q.cap(), m.Cap())); err != nil {
			return nil, unit.Wrong(err)
		}
	}
	cal, changed := hardware.Calibration{}, false
	if err == nil {
		cal, changed = q.efficiencies(m.Cal)
	}
	if err != nil || !changed && q.MemoryUtilization == nil {
		return m, err
	}
	m, err = m.With(cal)
	if err == nil && q.MemoryUtilization != nil {
		m.Utilization = float64(*q.MemoryUtilization)
	}
	return m, err
}

// Over is the limits that are given, over those that a hardware file gives.
func Over(given, file energy.Cap) energy.Cap {
	return energy.Cap{Limit: cmp.Or(given.Limit, file.Limit), Clock: cmp.Or(given.Clock, file.Clock)}
}

// efficiencies puts the shares of the peaks that were given in place of those of a calibration.
func (q *Request) efficiencies(c hardware.Calibration) (hardware.Calibration, bool) {
	var set []string
	for _, x := range []struct {
		name  string
		share *Share
		to    []roofline.Constant
	}{
		{"--compute-eff", q.ComputeEff, []roofline.Constant{roofline.GEMMCompute, roofline.AttentionCompute, roofline.GEMMSustained,
			roofline.MoEPrefillCompute}},
		{"--memory-eff", q.MemoryEff, []roofline.Constant{roofline.GEMMMemory, roofline.SkinnyGEMMMemory, roofline.WGMMAMemory,
			roofline.MoEDecodeMemory, roofline.MoEPrefillMemory, roofline.AttentionMemory, roofline.ElementwiseMemory}},
		{"--link-eff", q.LinkEff, []roofline.Constant{roofline.LinkShare, roofline.PCIeShare}},
		{"--inter-node-eff", q.InterNodeEff, []roofline.Constant{roofline.InterNodeShare}},
	} {
		if x.share == nil {
			continue
		}
		for _, k := range x.to {
			if c.Constants[k] > 0 { // a kernel class of which nothing is known stays so
				c.Constants[k] = float64(*x.share)
			}
		}
		set = append(set, fmt.Sprintf("%s %g", x.name, *x.share))
	}
	if len(set) > 0 {
		c.Name += " with " + strings.Join(set, ", ")
	}
	return c, len(set) > 0
}

// skewLimits bound a file of loads.
var skewLimits = input.Limits{Bytes: 1 << 20, Depth: 2, Values: 1 << 16}

// popularity is how unevenly experts are chosen: an exponent, "text", or a file with a JSON array, or with
// a number a line.
func popularity(text string) (*operator.Popularity, error) {
	switch text {
	case "":
		return nil, nil
	case "text":
		return &operator.Popularity{Text: true}, nil
	}
	if zipf, err := strconv.ParseFloat(text, 64); err == nil {
		return &operator.Popularity{Zipf: zipf}, nil
	}
	data, err := input.Read(text, int64(skewLimits.Bytes))
	if err != nil {
		return nil, unit.Errorf("{expert_skew} %.60q: want an exponent as 0.8, text, or a file of loads: %w", text, err)
	}
	p := &operator.Popularity{}
	if body := strings.TrimSpace(string(data)); strings.HasPrefix(body, "[") {
		if err = skewLimits.JSON(body); err == nil {
			err = json.Unmarshal([]byte(body), &p.Loads)
		}
	} else {
		for number, field := range strings.Fields(body) {
			v, failed := strconv.ParseFloat(field, 64)
			if failed != nil {
				err = fmt.Errorf("number %d is %.40q", number+1, field)
				break
			}
			p.Loads = append(p.Loads, v)
		}
	}
	if err == nil && len(p.Loads) == 0 {
		err = fmt.Errorf("it has no numbers")
	}
	if err != nil {
		return nil, unit.Errorf("{expert_skew} %s: want a JSON array of loads, or a number a line: %w", text, err)
	}
	return p, nil
}
