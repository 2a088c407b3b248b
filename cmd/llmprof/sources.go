package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"llmprof"
	"llmprof/cmd/llmprof/internal/ask"
	"llmprof/hardware"
	"llmprof/models"
)

// Model reads the model that a name stands for and, if lenient, notes what of its config is not understood.
func (a *app) Model(ctx context.Context, name string, offline, lenient bool) (*models.Model, error) {
	if !strings.ContainsAny(name, `/\`) { // otherwise it is a path or a hub id
		if m, err := models.Find(llmprof.ModelsJSON, name); m != nil || err != nil {
			return m, err
		}
	}
	table, err := models.Load(llmprof.ModelsJSON)
	if err != nil {
		return nil, err
	}
	hub := models.HubFromEnv(a.env)
	hub.Offline = hub.Offline || offline
	return models.Resolver{Table: table, Hub: hub, Lenient: lenient}.Resolve(ctx, name)
}

// GPUs is the built-in table overlaid with the user's. The user's table is the file that was named, or else the
// one in the configuration folder, if there is one.
func (a *app) GPUs(file string) (*hardware.Table, error) {
	t, err := hardware.Load(llmprof.HardwareTOML)
	if err != nil {
		return nil, err
	}
	if file != "" {
		return t.OverlayFile(file)
	}
	if path, err := userFile(); err == nil {
		u, err := t.OverlayFile(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return u, err
		}
	}
	return t, nil
}

// GPU looks a GPU up.
func (a *app) GPU(name, file string) (*hardware.GPU, error) {
	if file == "" && !userFileExists() {
		g, err := hardware.Find(llmprof.HardwareTOML, name)
		return &g, err
	}
	t, err := a.GPUs(file)
	if err != nil {
		return nil, err
	}
	g, err := t.GPU(name)
	if err != nil {
		return nil, err
	}
	return &g, nil
}

// userFileExists reports whether the user has a table of GPUs, or may have: what
// cannot be looked at is left to the reader to report.
func userFileExists() bool {
	path, err := userFile()
	if err != nil {
		return false
	}
	_, err = os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// Constants reads the file of constants that was named, if one was.
func (a *app) Constants(file string) (*ask.Calibrations, error) { return ask.NewCalibrations(file) }

// userFile is where a user's own table is looked for unless one is named:
// llmprof/hardware.toml in the user's configuration folder. It need not exist.
func userFile() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("no folder for a hardware file: %w", err)
	}
	return filepath.Join(dir, "llmprof", "hardware.toml"), nil
}
