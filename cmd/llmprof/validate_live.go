package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"llmprof/hardware"
	"llmprof/measure"
	"llmprof/measure/experiment"
	record "llmprof/measure/result"
	"llmprof/models"
	compare "llmprof/validate"
)

// A live is a comparison with what is measured on this machine, as it was asked
// for on the command line.
type live struct {
	wanted                    bool
	batches, prompts          []int
	gen                       int
	grid                      string // experiment file
	device, hardware, results string
	python                    string
	offline, shared           bool

	gpus    func(context.Context) []device // of this machine
	measure experiment.Measure             // nil for a lab of this machine
}

// liveFlags are about measuring.
func (v *validation) liveFlags(cmd *cobra.Command) {
	f, l := cmd.Flags(), &v.live
	f.BoolVar(&l.wanted, "live", false, "predict, then measure on this machine, then compare")
	f.StringVar(&l.grid, "grid", "", "with --live: measure the points of an experiment `FILE`")
	f.IntSliceVarP(&l.batches, "batch", "b", []int{1, 8, 32}, "with --live: `sequences` that run together")
	f.IntSliceVar(&l.prompts, "prompt-len", []int{128, 1024, 4096}, "with --live: `tokens` of each prompt")
	f.IntVar(&l.gen, "gen-len", 32, "with --live: `tokens` generated for each prompt")
	f.StringVar(&l.device, "device", "", "`device` that is measured: cuda or cpu (default: cuda)")
	f.StringVar(&l.hardware, "hardware", "", "TOML `FILE` of GPUs that overlays the built-in table")
	f.StringVar(&l.results, "results", defaultResults, "with --live: `FOLDER` of result files and predictions")
	f.StringVar(&l.python, "python", "", "with --live: Python `interpreter` of the transformers engine")
	f.BoolVar(&l.shared, "shared", false, "with --live: measure although others use the GPU")
	f.BoolVar(&l.offline, "offline", false, "with --live: never use the network")
	_ = cmd.MarkFlagDirname("results")
	_ = cmd.RegisterFlagCompletionFunc("device", words("cuda", "cpu"))
}

// liveOnly are the flags that mean nothing without --live, gridOnly those that a
// grid file leaves nothing to.
var (
	liveOnly = []string{"grid", "batch", "prompt-len", "gen-len", "results", "python", "shared", "offline"}
	gridOnly = []string{"model", "engine", "batch", "prompt-len", "gen-len", "python"}
)

// checkLive refuses command lines that cannot be meant.
func (v *validation) checkLive() error {
	l := &v.live
	switch {
	case l.device != "" && l.device != "cuda" && l.device != "cpu":
		return usage("--device %.40q: want cuda or cpu", l.device)
	case l.device == "cpu" && v.gpu == "":
		return usage("--device cpu: a processor has no row in the table of GPUs; describe it in a file for --hardware and name it with --gpu, " +
			"as docs/validation.md does under \"On your own GPU\"")
	}
	if !l.wanted {
		for _, flag := range liveOnly {
			if v.given(flag) {
				return usage("--%s is about measuring: give --live too", flag)
			}
		}
		return nil
	}
	for _, flag := range gridOnly {
		if l.grid != "" && v.given(flag) {
			return usage("--%s: the points and their settings are those of --grid %s; leave one of the two out", flag, l.grid)
		}
	}
	switch {
	case len(v.files) > 0:
		return usage("%s: --live compares what it measures; leave the files out, or --live", v.files[0])
	case v.ablate:
		return usage("--ablate: first measure with --live, then ablate the result files")
	case l.results == "":
		return usage("--results: want a folder; what is measured is kept there")
	}
	return nil
}

// A rehearsal is a live comparison with all that it is about.
type rehearsal struct {
	*app
	v      *validation
	lab    *measure.Lab
	gpu    hardware.GPU
	gpus   []string // UUIDs of the GPUs to use; none for all that are visible
	exp    *experiment.Experiment
	trials []experiment.Trial
	models map[string]*models.Model // by their own names
	named  map[string]*models.Model // by the names that points have

	predictions *compare.Predictions
	kept        compare.Kept
	outcome     experiment.Summary
	before      int          // results that are older than the predictions
	missing     []unmeasured // points without a result
}

// An unmeasured point has no result.
type unmeasured struct{ id, name, why string }

// runLive predicts, measures and compares.
func (a *app) runLive(ctx context.Context, v *validation) error {
	r, err := a.rehearse(ctx, v)
	if err != nil {
		return err
	}
	if r.kept, err = r.predictions.Keep(v.live.results); err != nil {
		return err
	}
	r.announce()
	if err := r.measured(ctx); err != nil {
		return err
	}
	if err := r.collect(); err != nil {
		return err
	}
	v.rehearsal = r
	if err := a.writeComparison(v); err != nil {
		return err
	}
	if r.outcome.Measured+r.outcome.Kept == 0 {
		return fmt.Errorf("none of %d points could be measured", len(r.trials))
	}
	return v.verdict()
}

// rehearse finds GPU, models and points, and predicts the points.
func (a *app) rehearse(ctx context.Context, v *validation) (r *rehearsal, err error) {
	l := &v.live
	r = &rehearsal{app: a, v: v, models: map[string]*models.Model{}, named: map[string]*models.Model{}}
	table, err := a.gpuTable(l.hardware)
	if err != nil {
		return nil, err
	}
	if r.gpu, r.gpus, err = l.target(ctx, table, v.gpu); err != nil {
		return nil, err
	}
	if r.lab, err = a.lab(l.offline); err != nil {
		return nil, err
	}
	r.lab.GPUs, r.lab.Shared = table, l.shared
	v.scorer = &compare.Scorer{
		Model: func(name string) (*models.Model, error) {
			if m := r.models[name]; m != nil {
				return m, nil
			}
			return r.lab.Models.Table.Model(name)
		},
		GPU: func(name string) (*hardware.GPU, error) { g, err := table.GPU(name); return &g, err },
	}
	if err := r.points(ctx); err != nil {
		return nil, err
	}
	return r, r.predict(ctx)
}

// target is the GPU that is measured, and the UUIDs of those to use where not all
// of the machine's are of that kind.
func (l *live) target(ctx context.Context, table *hardware.Table, name string) (g hardware.GPU, uuids []string, err error) {
	if name != "" {
		if g, err = table.GPU(name); err != nil {
			return g, nil, usageError{err}
		}
	}
	if l.device == "cpu" {
		return g, nil, nil
	}
	found := l.gpus(ctx)
	if len(found) == 0 {
		return g, nil, errors.New("no GPU found to measure on: neither /proc/driver/nvidia/gpus nor /proc/device-tree/model nor nvidia-smi names one; " +
			"--device cpu measures on the processor")
	}
	match(table, found)
	if name == "" {
		return onlyKind(table, found)
	}
	of := slices.IndexFunc(found, func(d device) bool { return d.Key != nil && *d.Key == g.Key })
	unlike := slices.ContainsFunc(found, func(d device) bool { return d.Key == nil || *d.Key != g.Key })
	switch {
	case of < 0 && !slices.ContainsFunc(found, func(d device) bool { return d.Key == nil }):
		return g, nil, usage("--gpu %s: this machine has %s; leave --gpu out, or change that entry with --hardware", name, *found[0].Key)
	case of >= 0 && unlike && found[of].UUID != nil:
		uuids = []string{*found[of].UUID}
	}
	return g, uuids, nil
}

// onlyKind is the kind of GPU that all devices are of.
func onlyKind(table *hardware.Table, found []device) (g hardware.GPU, uuids []string, err error) {
	for _, d := range found {
		switch {
		case d.Key == nil:
			return g, nil, fmt.Errorf("%s; name it with --gpu, or describe it in a file for --hardware", *d.Error)
		case *d.Key != *found[0].Key:
			return g, nil, usage("this machine has unlike GPUs, %s and %s: name the one to measure with --gpu", *found[0].Key, *d.Key)
		}
	}
	g, err = table.GPU(*found[0].Key)
	return g, nil, err
}

// predict predicts every point, and leaves those to be measured that have
// predictions.
func (r *rehearsal) predict(ctx context.Context) error {
	c := hardware.DefaultCalibration(&r.gpu)
	r.predictions = &compare.Predictions{
		Written: time.Now().UTC(), Version: versionText(), GPU: compare.NamedGPU{Key: r.gpu.Key, Name: r.gpu.Name},
		Calibration: compare.Named{Name: c.Name, Source: c.Source}, Grid: r.exp.Name,
	}
	all, err := r.exp.Trials()
	if err != nil {
		return err
	}
	none, seen, twice := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, t := range all {
		if twice[t.ID] {
			continue
		}
		twice[t.ID] = true
		if !seen[t.Hash] {
			p, err := r.predictPoint(ctx, &t)
			if err != nil {
				return err
			}
			seen[t.Hash], none[t.Hash] = true, p.Reason != nil
			if p.Reason != nil {
				r.logf("not measured, since it has no prediction: %s: %s", t.ID, *p.Reason)
				r.missing = append(r.missing, unmeasured{t.ID, nameOf(&p, r.gpu.Key), "no prediction: " + *p.Reason})
			}
			r.predictions.Points = append(r.predictions.Points, p)
		}
		if !none[t.Hash] {
			r.trials = append(r.trials, t)
		}
	}
	if len(r.trials) == 0 {
		return fmt.Errorf("none of %d points can be predicted on %s, so there is nothing to measure: %s",
			len(all), r.gpu.Key, *r.predictions.Points[0].Reason)
	}
	return nil
}

// nameOf is what a point is called.
func nameOf(p *compare.Predicted, gpu string) string {
	c := p.Config(gpu)
	return c.String()
}

// predictPoint predicts one point of the experiment.
func (r *rehearsal) predictPoint(ctx context.Context, t *experiment.Trial) (p compare.Predicted, err error) {
	m, err := r.model(ctx, t.Point.Model)
	if err != nil {
		return p, err
	}
	p = r.v.scorer.Predict(pointConfig(&t.Point, m, r.gpu.Key))
	if why := unlikeEstimate(&t.Point); why != "" {
		p.Figures, p.Reason = []compare.Figure{}, &why
	}
	p.Hash, p.Settings = t.Hash, t.Settings
	return p, nil
}

// model finds a model by the name that a point has. Two models of one name could
// not be told apart in the comparison.
func (r *rehearsal) model(ctx context.Context, name string) (*models.Model, error) {
	if m := r.named[name]; m != nil {
		return m, nil
	}
	m, err := r.lab.Models.Resolve(ctx, name)
	if err != nil {
		return nil, err
	}
	if other := r.models[m.Name]; other != nil && other.Source != m.Source {
		return nil, fmt.Errorf("two models are called %s, of %s and %s: measure them apart", m.Name, other.Source, m.Source)
	}
	r.models[m.Name], r.named[name] = m, m
	return m, nil
}

// unlikeEstimate says why no estimate can be made of a point.
func unlikeEstimate(p *experiment.Point) string {
	switch {
	case p.Engine == experiment.OpenAI:
		return "a server under load makes its own batches: an estimate is of a batch that starts together"
	case p.Device == "cpu" && p.Graph:
		return "graph = true: a processor has no CUDA graph; give graph = false"
	}
	return ""
}

// pointConfig is what the result of a point will say that it is of.
func pointConfig(p *experiment.Point, m *models.Model, gpu string) compare.Config {
	c := compare.Config{
		Model: m.Name, GPU: gpu, Engine: p.Engine, Mode: "eager", TP: max(p.TP, 1), Batch: p.Batch, Prompt: p.PromptLen, Gen: p.GenLen,
		Weights: p.DType, Load: compare.Static, Logits: p.Elana, Params: m.Params(),
	}
	if p.Graph {
		c.Mode = "graph"
	}
	if p.Quantization != "" {
		c.Weights = p.Quantization
	}
	return c
}

// announce says where the predictions are, before anything is measured.
func (r *rehearsal) announce() {
	k := &r.kept
	switch {
	case k.Earlier:
		r.logf("predictions as written on %s, unchanged: %s", k.Written.Format("2006-01-02 15:04:05 MST"), k.File)
	case k.Others > 0:
		r.logf("the predictions differ from those of %d files beside it, so they are written anew: %s", k.Others, k.File)
	default:
		r.logf("predictions of %d points written before the first measurement: %s", len(r.predictions.Points), k.File)
	}
	r.logf("SHA-256 %s", k.SHA256)
}

// measured runs what is left of the points. That some fail is no error here.
func (r *rehearsal) measured(ctx context.Context) (err error) {
	run := r.v.live.measure
	if run == nil {
		run = r.lab.Measure
		defer func() { err = errors.Join(err, r.lab.Close()) }()
	}
	r.outcome, err = experiment.Run(ctx, r.trials, run, experiment.Options{
		Store: experiment.Store{Dir: r.v.live.results}, File: r.exp.File, Gap: r.exp.Gap, Notify: r.notify,
	})
	if r.outcome.Trials > 0 {
		r.logf("%s: %v", r.exp.Name, r.outcome)
	}
	if ctx.Err() != nil {
		r.logf("what was measured is kept in %s: the same command goes on from there", r.v.live.results)
		return ctx.Err()
	}
	if o := &r.outcome; o.Trials > 0 && o.Measured+o.Kept+o.Failed == o.Trials {
		return nil // what failed is said point by point
	}
	return err
}

// collect reads the results of the points and holds them to the predictions.
func (r *rehearsal) collect() error {
	mine := map[string]*experiment.Trial{}
	for i := range r.trials {
		mine[r.trials[i].ID] = &r.trials[i]
	}
	all, _ := record.ReadFolder(r.v.live.results) // files of others are none of this comparison's
	var seen []compare.Observation
	refused := map[string]error{}
	have := map[string]bool{}
	for _, res := range all {
		t := mine[res.ID]
		if t == nil || res.Provenance.Hash != t.Hash {
			continue
		}
		have[t.ID] = true
		if res.Started.Before(r.kept.Written) {
			r.before++
		}
		some, err := r.observations(t, res)
		if err != nil {
			refused[record.FileName(res.ID, res.Process)] = err
		}
		seen = append(seen, some...)
	}
	for i := range r.trials {
		if t := &r.trials[i]; !have[t.ID] {
			c := pointConfig(&t.Point, r.named[t.Point.Model], r.gpu.Key)
			r.missing = append(r.missing, unmeasured{t.ID, c.String(), r.failure(t)})
		}
	}
	v := r.v
	v.total, v.score = len(seen), v.scorer.Score(seen)
	for name, err := range refused {
		v.score.Refuse(name, err)
	}
	return r.predictions.Hold(v.score.Rows)
}

// failure is what was recorded of a point that has no result.
func (r *rehearsal) failure(t *experiment.Trial) string {
	failures, _ := experiment.Store{Dir: r.v.live.results}.Failures() // a file that cannot be read is one without a reason
	for _, f := range failures {
		if f.ID == t.ID && len(f.Errors) > 0 {
			return f.Errors[0]
		}
	}
	return "no reason was recorded"
}

// observations are those of a result, on the GPU that the predictions are for. A
// point that ran otherwise than it was predicted is refused.
func (r *rehearsal) observations(t *experiment.Trial, res *record.Result) ([]compare.Observation, error) {
	if r.unnamed(res) {
		own := *res
		own.Machine.GPUs = []record.GPU{{Key: r.gpu.Key, Name: r.gpu.Name}}
		res = &own
	}
	all, err := compare.Reduce(r.v.live.results, res)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("it holds no time and no energy")
	}
	want := pointConfig(&t.Point, r.named[t.Point.Model], r.gpu.Key)
	if got := all[0].Config; got != want {
		return nil, fmt.Errorf("it ran as %s, and was predicted as %s", got.String(), want.String())
	}
	return all, nil
}

// unnamed reports whether a result does not name its GPU itself: it ran on a
// processor, or on a device that the table lacks and --gpu named.
func (r *rehearsal) unnamed(res *record.Result) bool {
	if len(res.Machine.GPUs) == 0 {
		return r.v.live.device == "cpu"
	}
	return r.v.gpu != "" && !slices.ContainsFunc(res.Machine.GPUs, func(g record.GPU) bool { return g.Key != "" })
}

// thisMachine lists the GPUs of this machine.
func thisMachine(ctx context.Context) []device { return detect(ctx, os.DirFS("/"), true) }
