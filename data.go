// Package llmprof holds the two tables that the program is built with. It is
// at the root because only a package there can embed what lies there; packages
// that read the tables are handed their bytes.
package llmprof

import _ "embed"

// ModelsJSON is the table of models, read by models.Load.
//
//go:embed models.json
var ModelsJSON []byte

// HardwareTOML is the table of GPUs and systems, read by package hardware.
//
//go:embed hardware.toml
var HardwareTOML string
