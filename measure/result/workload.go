package result

import (
	"encoding/json"

	"llmprof/workload"
)

// Workload is what it was given. The lengths are tokens of each sequence; those of a
// server's prompts are the mean by its own count, where it counts them. The batch
// and formats that are not known of a server are zero here and null in a file.
type Workload struct {
	workload.Workload
	Weights     string  `json:"weights"`
	KV          string  `json:"kv"`
	Act         string  `json:"act"`
	Prompts     string  `json:"prompts"` // "random", or the file that they came from
	Seed        uint64  `json:"seed"`
	Temperature float64 `json:"temperature,omitempty"` // sampling temperature of a server; 0 for greedy decoding
	Elana       bool    `json:"elana"`                 // ELANA's protocol: frozen context, logits of all positions
}

// MarshalJSON writes null for what is not known.
func (w Workload) MarshalJSON() ([]byte, error) {
	type plain Workload // without this method
	return json.Marshal(struct {
		Batch   *int    `json:"batch"`
		Weights *string `json:"weights"`
		KV      *string `json:"kv"`
		Act     *string `json:"act"`
		plain
	}{known(w.Batch), known(w.Weights), known(w.KV), known(w.Act), plain(w)})
}
