package main

import (
	"context"

	"llmprof"
	"llmprof/cmd/llmprof/internal/ask"
	"llmprof/hardware"
	"llmprof/models"
)

// model reads the model that a name stands for.
func (a *app) model(ctx context.Context, name string, offline bool) (*models.Model, error) {
	return a.Model(ctx, name, offline, false)
}

// Model reads it and, if lenient, notes what of its config is not understood.
func (a *app) Model(ctx context.Context, name string, offline, lenient bool) (*models.Model, error) {
	table, err := models.Load(llmprof.ModelsJSON)
	if err != nil {
		return nil, err
	}
	hub := models.HubFromEnv(a.env)
	hub.Offline = hub.Offline || offline
	return models.Resolver{Table: table, Hub: hub, Lenient: lenient}.Resolve(ctx, name)
}

// GPU looks a GPU up.
func (a *app) GPU(name, file string) (*hardware.GPU, error) { return a.gpu(name, file) }

// GPUs is the table of GPUs.
func (a *app) GPUs(file string) (*hardware.Table, error) { return a.gpuTable(file) }

// Constants reads the file of constants that was named, if one was.
func (a *app) Constants(file string) (*ask.Calibrations, error) { return ask.NewCalibrations(file) }
