package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/hardware"
	"llmprof/internal/input"
	"llmprof/measure/calibrate"
	"llmprof/measure/calibrate/tables"
)

// importTables fits constants to published tables of operator times.
func (a *app) importTables(c *fitting) error {
	if c.gpu == "" || c.Engine == "" {
		return usage("--import: give --gpu and --engine, whose tables are to be read")
	}
	measuring := []string{"device", "dtype", "tp", "python", "cuda-libs", "rows", "limit", "quick", "shared"}
	if err := settings.Refuse(c.given, measuring, "--import measures nothing: --%s has no meaning beside it"); err != nil {
		return err
	}
	if _, err := os.Stat(c.imports); err != nil {
		return fmt.Errorf("--import %s: %w", c.imports, input.Cause(err))
	}
	table, err := a.library().GPUs(c.hardware)
	if err != nil {
		return err
	}
	g, err := table.GPU(c.gpu)
	if err != nil {
		return err
	}
	source, err := sourceOf(c.imports, c.source)
	if err != nil {
		return err
	}
	found, err := tables.Import(c.imports, c.Engine)
	if err != nil {
		return err
	}
	for _, device := range found.Devices {
		if of, err := table.Match(device, 0); err == nil && of.Key != g.Key {
			return fmt.Errorf("%s is of %s, not of %s: give --gpu %s", c.imports, device, g.Key, of.Key)
		}
	}
	a.logf("%d rows of %d tables are fitted", len(found.Rows), len(found.Files))
	source.Files = found.Files
	c.GPU = &g
	f, err := calibrate.FitImport(&calibrate.Import{
		Rows: found.Rows, Tables: source, Engine: c.Engine, Kernels: strings.Join(found.Versions, ", "),
		Device: strings.Join(found.Devices, ", "),
		Name:   c.called(), Version: versionText(), Made: time.Now().UTC().Truncate(time.Second), Notes: found.Notes, Launched: found.Launched,
	}, &g)
	if err != nil {
		return err
	}
	return a.writeFitted(c, f)
}

// sourceOf says which package tables are of: what --source names, else the Python
// distribution that they lie in.
func sourceOf(path, given string) (s hardware.Tables, err error) {
	if given != "" {
		parts := strings.Split(given, ",")
		if len(parts) != 3 {
			return s, usage("--source %.60q: want NAME,VERSION,LICENCE, as aiconfigurator-core,0.12.0,Apache-2.0", given)
		}
		return hardware.Tables{Package: strings.TrimSpace(parts[0]), Version: strings.TrimSpace(parts[1]), Licence: strings.TrimSpace(parts[2])},
			nil
	}
	dir, err := filepath.Abs(path)
	if err != nil {
		return s, err
	}
	for range 8 {
		dir = filepath.Dir(dir)
		found, _ := input.Files(dir, "*.dist-info/METADATA") // the pattern is well formed
		for _, file := range found {
			if inside(path, file) {
				return distribution(file)
			}
		}
	}
	return s, errors.New("nothing beside the tables says where they come from: give --source NAME,VERSION,LICENCE")
}

// inside reports whether a path lies in the folder of the distribution that a METADATA file is of.
func inside(path, metadata string) bool {
	name, _, _ := strings.Cut(filepath.Base(filepath.Dir(metadata)), "-")
	abs, err := filepath.Abs(path)
	return err == nil && strings.HasPrefix(abs+string(os.PathSeparator),
		filepath.Join(filepath.Dir(filepath.Dir(metadata)), name)+string(os.PathSeparator))
}

// mostMetadata is longer than any METADATA file of a wheel.
const mostMetadata = 1 << 20

// distribution reads name, version and licence of a Python distribution.
func distribution(file string) (s hardware.Tables, err error) {
	text, err := input.Read(file, mostMetadata)
	if err != nil {
		return s, err
	}
	for line := range strings.Lines(string(text)) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			break // the header has ended
		}
		switch value = strings.TrimSpace(value); key {
		case "Name":
			s.Package = value
		case "Version":
			s.Version = value
		case "License-Expression", "License":
			s.Licence = value
		}
	}
	if s.Package == "" || s.Version == "" || s.Licence == "" {
		return s, fmt.Errorf("%s names no package, version or licence: give --source NAME,VERSION,LICENCE", file)
	}
	return s, nil
}
