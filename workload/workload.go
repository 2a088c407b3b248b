// Package workload has what requests, settings, results and predictions say of the
// sequences that an engine is given.
package workload

// Sequences are equal sequences that are started together.
type Sequences struct {
	Batch     int `json:"batch"`
	PromptLen int `json:"prompt_len"` // tokens of each prompt
	GenLen    int `json:"gen_len"`    // tokens generated for each, the first by the prefill
}
