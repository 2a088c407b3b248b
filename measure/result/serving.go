package result

// Serving is what a server's clients saw.
type Serving struct {
	Endpoint    string         `json:"endpoint"` // without user, key or query
	API         string         `json:"api"`      // "chat" or "completions"
	Concurrency int            `json:"concurrency"`
	RateHz      *float64       `json:"request_rate_hz"` // of Poisson arrivals; null in a closed loop
	Requests    int            `json:"requests"`
	Completed   int            `json:"completed"`
	Failures    map[string]int `json:"failures"` // kind to number
	FirstChunk  *Times         `json:"first_chunk_s"`
	TTFO        *Times         `json:"ttfo_s"` // first token that is no reasoning
	ChunkGap    *Times         `json:"chunk_gap_s"`
	Usage       *UsageCheck    `json:"usage"`
	Duration    float64        `json:"duration_s"`
	RequestRate float64        `json:"completed_hz"`
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

// A Record is one request. Times are seconds from when it was sent.
type Record struct {
	Index        int      `json:"index"`
	SentS        float64  `json:"sent_s"` // from the start of the run
	HeadersS     *float64 `json:"headers_s"`
	FirstChunkS  *float64 `json:"first_chunk_s"`
	FirstTokenS  *float64 `json:"first_token_s"`
	FirstOutputS *float64 `json:"first_output_s"`
	LastTokenS   *float64 `json:"last_token_s"`
	DoneS        *float64 `json:"done_s"`
	Prompt       *int     `json:"prompt_tokens"`
	Generated    *int     `json:"generated_tokens"`
	Chunks       int      `json:"chunks"`
	Status       int      `json:"status"`
	Failure      string   `json:"failure"` // "" if it was completed
	Output       string   `json:"output,omitempty"`
}
