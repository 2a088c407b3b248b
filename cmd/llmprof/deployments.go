package main

import (
	"context"
	"sync"

	"llmprof/analytic"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/hardware"
	"llmprof/models"
)

// deployments prepare many questions, and read each model, GPU and calibration once. They
// may be used by several goroutines at once.
type deployments struct {
	a        *app
	mu       sync.Mutex
	models   map[string]*models.Model
	gpus     map[[2]string]*hardware.GPU
	files    map[string]*calibrations
	machines map[[4]string]*analytic.Machines
}

func (a *app) deployments() *deployments {
	return &deployments{
		a: a, models: map[string]*models.Model{}, gpus: map[[2]string]*hardware.GPU{}, files: map[string]*calibrations{},
		machines: map[[4]string]*analytic.Machines{},
	}
}

// once finds what was made before by its key, or makes it.
func once[K comparable, V any](all map[K]V, key K, create func() (V, error)) (V, error) {
	if v, ok := all[key]; ok {
		return v, nil
	}
	v, err := create()
	if err == nil {
		all[key] = v
	}
	return v, err
}

// model reads a model.
func (d *deployments) model(ctx context.Context, name string, offline bool) (*models.Model, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return once(d.models, name, func() (*models.Model, error) { return d.a.model(ctx, name, offline) })
}

// gpu reads a GPU.
func (d *deployments) gpu(name, file string) (*hardware.GPU, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return once(d.gpus, [2]string{name, file}, func() (*hardware.GPU, error) { return d.a.gpu(name, file) })
}

// machinesOf are the GPU of a question with its engine.
func (d *deployments) machinesOf(q *question, g *hardware.GPU, e analytic.Engine) (*analytic.Machines, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := e.Profile().Name
	return once(d.machines, [4]string{q.gpu, q.hardware, name, q.calibration}, func() (*analytic.Machines, error) {
		files, err := once(d.files, q.calibration, func() (*calibrations, error) { return newCalibrations(q.calibration) })
		if err != nil {
			return nil, err
		}
		file, err := files.only(g, name)
		if err != nil {
			return nil, err
		}
		return analytic.NewMachines(g, e, file)
	})
}

// A deployment is a question prepared for any number of workloads.
type deployment struct {
	*answer
	prepared *analytic.Prepared
}

// prepare prepares a question.
func (d *deployments) prepare(ctx context.Context, q *question) (*deployment, error) {
	ans := &answer{q: q, Estimate: view.Estimate{ModelName: q.model, GPUName: q.gpu}}
	var err error
	if ans.Model, err = d.model(ctx, q.model, q.offline); err != nil {
		return nil, err
	}
	if ans.gpu, err = d.gpu(q.gpu, q.hardware); err != nil {
		return nil, err
	}
	if err := ans.settle(); err != nil {
		return nil, usageError{err}
	}
	runs, err := ans.engine()
	if err != nil {
		return nil, usageError{err}
	}
	all, err := d.machinesOf(q, ans.gpu, runs)
	if err != nil {
		return nil, err
	}
	ans.Machine = all.Machine
	if q.eff != (efficiencies{}) || q.utilization > 0 {
		if ans.Machine, err = ans.Machine.With(q.eff.apply(ans.Machine.Cal)); err != nil {
			return nil, err
		}
		if q.utilization > 0 {
			ans.Machine.Utilization = q.utilization
		}
	}
	p, err := ans.Prepare(all, ans.Machine)
	return &deployment{ans, p}, err
}
