package result

// Workload is what it was given. The lengths are tokens of each sequence.
type Workload struct {
	Batch     int    `json:"batch"`
	PromptLen int    `json:"prompt_len"`
	GenLen    int    `json:"gen_len"`
	Weights   string `json:"weights"`
	KV        string `json:"kv"`
	Act       string `json:"act"`
	Prompts   string `json:"prompts"` // "random", or the file that they came from
	Seed      uint64 `json:"seed"`
	Elana     bool   `json:"elana"` // ELANA's protocol: frozen context, logits of all positions
}
