// Package llmprof holds the tables that the program is built with. It is at the
// root because only a package there can embed what lies there; packages that
// read the tables are handed their bytes.
package llmprof

import "embed"

// ModelsJSON is the table of models, read by models.Load.
//
//go:embed models.json
var ModelsJSON []byte

// HardwareTOML is the table of GPUs, read by package hardware.
//
//go:embed hardware.toml
var HardwareTOML string

// Calibrations is a folder of what GPUs reach in practice, hardware/calibrations/KEY.toml,
// read by hardware.BuiltIn.
//
//go:embed hardware/calibrations/*.toml
var Calibrations embed.FS
