package ask

import (
	"cmp"
	"context"
	"sync"

	"llmprof"
	"llmprof/analytic"
	"llmprof/analytic/energy"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/hardware"
	"llmprof/models"
)

// Deployments prepare many questions, and read each model, GPU and calibration once. They
// may be used by several goroutines at once.
type Deployments struct {
	from     Sources
	mu       sync.Mutex
	models   map[modelKey]*models.Model
	gpus     map[[2]string]*hardware.GPU
	files    map[string]*Calibrations
	machines map[machineKey]*analytic.Machine
	mixed    map[string]*models.Model // the last model that was quantized, by the mix
	mixedOf  *models.Model
}

// A modelKey is a model as it is asked for.
type modelKey struct {
	name    string
	lenient bool
}

// A machineKey is a GPU with its engine as they are asked for.
type machineKey struct {
	gpu, hardware, engine, calibration string
	links                              hardware.Links
}

// NewDeployments reads from where models and GPUs are found.
func NewDeployments(from Sources) *Deployments {
	return &Deployments{
		from: from, models: map[modelKey]*models.Model{}, gpus: map[[2]string]*hardware.GPU{}, files: map[string]*Calibrations{},
		machines: map[machineKey]*analytic.Machine{},
	}
}

// Once finds what was made before by its key, or makes it. An error is not kept.
func Once[K comparable, V any](all map[K]V, key K, create func() (V, error)) (V, error) {
	if v, ok := all[key]; ok {
		return v, nil
	}
	v, err := create()
	if err == nil {
		all[key] = v
	}
	return v, err
}

// Model reads a model.
func (d *Deployments) Model(ctx context.Context, name string, offline, lenient bool) (*models.Model, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return Once(d.models, modelKey{name, lenient}, func() (*models.Model, error) { return d.from.Model(ctx, name, offline, lenient) })
}

// Constants reads calibrations.
func (d *Deployments) Constants(file string) (*Calibrations, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.constants(file)
}

func (d *Deployments) constants(file string) (*Calibrations, error) {
	return Once(d.files, file, func() (*Calibrations, error) { return d.from.Constants(file) })
}

// GPU reads a GPU.
func (d *Deployments) GPU(name, file string) (*hardware.GPU, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return Once(d.gpus, [2]string{name, file}, func() (*hardware.GPU, error) { return d.from.GPU(name, file) })
}

// quantize is models.Quantize, which takes longest of all that is prepared for a model.
func (d *Deployments) quantize(m *models.Model, mix string) (*models.Model, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mixedOf != m {
		d.mixed, d.mixedOf = map[string]*models.Model{}, m
	}
	return Once(d.mixed, mix, func() (*models.Model, error) { return models.Quantize(m, mix) })
}

// machinesOf are the GPU of a question with its engine.
func (d *Deployments) machinesOf(q *Question, g *hardware.GPU, e analytic.Engine) (*analytic.Machine, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := machineKey{q.GPU, q.Hardware, e.Profile().Name, q.Calibration, g.Links}
	return Once(d.machines, key, func() (*analytic.Machine, error) {
		files, err := d.constants(q.Calibration)
		if err != nil {
			return nil, err
		}
		return files.machines(g, e)
	})
}

// A Deployment is a question prepared for any number of workloads.
type Deployment struct {
	*Answer
	prepared *analytic.Predictor
}

// Predict answers for the workload of another question about the deployment, without operators and warnings.
func (d *Deployment) Predict(q *Question) (*Answer, error) {
	w := q.Workload
	if d.Parallel.MicroBatches > q.Parallel.MicroBatches {
		w.Batch = max(w.Batch, d.Parallel.MicroBatches) // fillPipeline
	}
	e, err := d.prepared.Predict(&w)
	if err != nil {
		return nil, UsageError{err}
	}
	if d.serving == nil {
		d.serving = d.prepared
	}
	ans := *d.Answer
	ans.Q, ans.Workload, ans.Estimate.Estimate = q, w, e
	return &ans, nil
}

// Prepare prepares a question.
func (d *Deployments) Prepare(ctx context.Context, q *Question) (*Deployment, error) {
	ans, of, err := d.settled(ctx, q)
	if err != nil {
		return nil, err
	}
	if ans.Machine, err = ans.machine(of, ans.GPU); err != nil {
		return nil, err
	}
	p, err := analytic.NewPredictor(&ans.Case)
	return &Deployment{ans, p}, err
}

// Answer computes what was asked.
func (d *Deployments) Answer(ctx context.Context, q *Question) (*Answer, error) {
	ans, of, err := d.settled(ctx, q)
	if err != nil {
		return nil, err
	}
	return ans, ans.explain(of)
}

// A maker makes a GPU with the engine of a question.
type maker func(*hardware.GPU) (*analytic.Machine, error)

// settled is the case of a question, and what makes the machine that it runs on.
func (d *Deployments) settled(ctx context.Context, q *Question) (*Answer, maker, error) {
	ans := &Answer{Q: q, Estimate: view.Estimate{ModelName: q.Model, GPUName: q.GPU}, quantize: d.quantize}
	var err error
	if ans.Model, err = d.Model(ctx, q.Model, q.Offline, q.Lenient); err != nil {
		return nil, nil, err
	}
	if ans.GPU, err = d.GPU(q.GPU, q.Hardware); err != nil {
		return nil, nil, err
	}
	ans.GPU = ans.GPU.Linked(q.Links)
	runs, err := ans.settle()
	if err != nil {
		return nil, nil, UsageError{err}
	}
	return ans, func(g *hardware.GPU) (*analytic.Machine, error) { return d.machinesOf(q, g, runs) }, nil
}

// noCalibration asks for the defaults of the GPU's generation.
const noCalibration = "default"

// A Calibrations finds what a GPU and an engine reach in practice. A file that was named
// comes before those that come with the program.
type Calibrations struct {
	none  bool                      // the generation's defaults are asked for
	named *hardware.CalibrationFile // nil if none was
	found map[string]*hardware.CalibrationFile
	used  bool // named was
}

// NewCalibrations reads the file that was named, if one was.
func NewCalibrations(file string) (*Calibrations, error) {
	c := &Calibrations{none: file == noCalibration, found: map[string]*hardware.CalibrationFile{}}
	if file == "" || c.none {
		return c, nil
	}
	var err error
	c.named, err = hardware.ReadCalibration(file)
	return c, err
}

// Of is the calibration of a GPU and an engine, nil where there is none.
func (c *Calibrations) Of(g *hardware.GPU, engine string) (*hardware.CalibrationFile, error) {
	if c.none {
		return nil, nil
	}
	key := g.Key + "\x00" + engine
	if f, ok := c.found[key]; ok {
		return f, nil
	}
	f, err := hardware.BuiltIn(llmprof.Calibrations, g, engine)
	c.found[key] = f
	return f, err
}

// Only is the calibration of the one GPU that is asked for: a file of another is
// an error.
func (c *Calibrations) Only(g *hardware.GPU, engine string) (*hardware.CalibrationFile, error) {
	if c.named == nil {
		return c.Of(g, engine)
	}
	if err := c.named.Check(g); err != nil {
		return nil, Usage("--calibration: %w", err)
	}
	return c.named, nil
}

// Among is the calibration of one GPU of many: the file serves its own.
func (c *Calibrations) Among(g *hardware.GPU, engine string) (*hardware.CalibrationFile, error) {
	if c.named == nil || c.named.GPU != g.Key {
		return c.Of(g, engine)
	}
	if !c.used { // predictions that run at once read it after the first
		c.used = true
	}
	return c.named, c.named.Check(g)
}

// machines are a GPU and an engine with what they reach in practice.
func (c *Calibrations) machines(g *hardware.GPU, e analytic.Engine) (*analytic.Machine, error) {
	file, err := c.Only(g, e.Profile().Engine())
	if err != nil {
		return nil, err
	}
	return analytic.Calibrated(g, e, file)
}

// machine is a machine with the shares of the peaks and of the memory that the question gives, and under its limits.
func (ans *Answer) machine(of maker, g *hardware.GPU) (*analytic.Machine, error) {
	q := ans.Q
	m, err := of(g)
	if err == nil && q.Cap != (energy.Cap{}) {
		if m, err = m.Capped(over(q.Cap, m.Cap())); err != nil {
			return nil, UsageError{err}
		}
	}
	if err != nil || q.Eff == (efficiencies{}) && q.Utilization <= 0 {
		return m, err
	}
	m, err = m.With(q.Eff.apply(m.Cal))
	if err == nil && q.Utilization > 0 {
		m.Utilization = q.Utilization
	}
	return m, err
}

// over is the limits that are given, over those that a hardware file gives.
func over(given, file energy.Cap) energy.Cap {
	return energy.Cap{Limit: cmp.Or(given.Limit, file.Limit), Clock: cmp.Or(given.Clock, file.Clock)}
}

// Unused is the GPU of the file that was named if nothing asked for it; "" otherwise.
func (c *Calibrations) Unused() string {
	if c.named == nil || c.used {
		return ""
	}
	return c.named.GPU
}
