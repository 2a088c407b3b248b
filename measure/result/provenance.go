package result

import "encoding/json"

// Provenance is what it takes to do it again.
type Provenance struct {
	Version string   `json:"version"` // version of llmprof
	Command []string `json:"command"`
	Seed    uint64   `json:"seed"`
	Hash    string   `json:"config_hash"` // hash of the experiment's settings
	Config  string   `json:"config"`      // the experiment file

	// Settings are all that the hash is of, in canonical JSON: keys sorted, what
	// is zero left out. Null for a measurement without an experiment.
	Settings json.RawMessage `json:"settings"`
}
