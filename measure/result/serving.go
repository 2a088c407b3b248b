package result

// Serving is what a server's clients saw.
type Serving struct {
	Endpoint    string         `json:"endpoint"` // without user, key or query
	API         string         `json:"api"`      // "chat" or "completions"
	Concurrency int            `json:"concurrency"`
	RateHz      *float64       `json:"request_rate_hz"` // of Poisson arrivals; null in a closed loop
	Warmups     int            `json:"warmups"`         // requests before the first that counts
	Requests    int            `json:"requests"`
	Completed   int            `json:"completed"`
	Failures    map[string]int `json:"failures"` // kind to number
	FirstChunk  *Times         `json:"first_chunk_s"`
	TTFO        *Times         `json:"ttfo_s"` // first token that is no reasoning
	ChunkGap    *Times         `json:"chunk_gap_s"`
	Usage       *UsageCheck    `json:"usage"`
	Duration    float64        `json:"duration_s"`
	RequestRate float64        `json:"completed_hz"`
	Notes       []string       `json:"notes"` // what the server refused, and what makes figures doubtful
	Records     []Record       `json:"records"`
}

// UsageCheck sets the tokens that the server says against the chunks that came.
type UsageCheck struct {
	Tokens         int     `json:"tokens"`
	Chunks         int     `json:"chunks"`
	TokensPerChunk float64 `json:"tokens_per_chunk"`
	Missing        int     `json:"missing"`    // requests whose server gave no usage
	Discrepant     int     `json:"discrepant"` // requests whose tokens are not what was asked for
}

// A Record is one request. Times are seconds from when it was begun or, where
// requests have a rate, from when it was due.
type Record struct {
	Index        int      `json:"index"`
	SentS        float64  `json:"sent_s"`  // when it was begun or due, from the start of the run
	WroteS       *float64 `json:"wrote_s"` // its last byte was sent
	HeadersS     *float64 `json:"headers_s"`
	FirstChunkS  *float64 `json:"first_chunk_s"`
	FirstTokenS  *float64 `json:"first_token_s"`
	FirstOutputS *float64 `json:"first_output_s"`
	LastTokenS   *float64 `json:"last_token_s"`
	DoneS        *float64 `json:"done_s"`
	Prompt       *int     `json:"prompt_tokens"`
	Generated    *int     `json:"generated_tokens"`
	Chunks       int      `json:"chunks"` // with a token in them
	Status       int      `json:"status"`
	Failure      string   `json:"failure"`         // "" if it was completed
	Error        string   `json:"error,omitempty"` // what the server or the system said to it
	Output       string   `json:"output,omitempty"`
}
