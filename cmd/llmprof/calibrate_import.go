package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/hardware"
	"llmprof/internal/input"
	"llmprof/measure/calibrate"
	"llmprof/measure/calibrate/tables"
	"llmprof/unit"
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
	source, err := tables.Source(c.imports, c.source)
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
	f, err := hardware.NewCalibrationFile(&g, unit.BF16)
	if err != nil {
		return err
	}
	f.Name, f.Engine, f.Kernels, f.Device.Name = c.called(), c.Engine, strings.Join(found.Versions, ", "), strings.Join(found.Devices, ", ")
	f.Version, f.Made, f.Tables, f.Notes = versionText(), time.Now().UTC().Truncate(time.Second), &source, found.Notes
	if err := calibrate.FitImport(f, &g, found.Rows, found.Launched); err != nil {
		return err
	}
	return a.writeFitted(c, f)
}
