package result

import "llmprof/internal/stats"

// Serving is what a server's clients saw.
type Serving struct {
	Endpoint    string         `json:"endpoint"` // URL without user, key and query
	API         string         `json:"api"`      // "chat" or "completions"
	Concurrency int            `json:"concurrency"`
	RateHz      *float64       `json:"request_rate_hz" jsonschema:"minimum=0"` // rate of Poisson arrivals; null for a closed loop or a trace
	Warmups     int            `json:"warmups"`                                // requests before the first that counts
	Requests    int            `json:"requests"`
	Completed   int            `json:"completed"`
	Failures    map[string]int `json:"failures"` // kind to number
	FirstChunk  *Times         `json:"first_chunk_s"`
	TTFO        *Times         `json:"ttfo_s"` // first token that is no reasoning
	ChunkGap    *Times         `json:"chunk_gap_s"`
	Usage       *UsageCheck    `json:"usage"`
	Duration    float64        `json:"duration_s" jsonschema:"minimum=0"`
	RequestRate float64        `json:"completed_hz" jsonschema:"minimum=0"`
	Notes       []string       `json:"notes"`   // options that the server refused, and reasons to doubt figures
	Records     []Record       `json:"records"` // empty where there are more than a file that is read can have

	Arrivals    string `json:"arrivals" late:"true"`     // "closed", "poisson" or "trace"
	ServedModel string `json:"served_model" late:"true"` // the name of the model in requests
	// "pooled": a kept one for any request, "new": one a request, "worker": one a client.
	Connections string `json:"connections" late:"true"`
	// Requests sent once more, because the server had closed the kept connection.
	Reconnects int `json:"reconnects" late:"true"`
	// other hosts that answered, after a redirect, to the number of requests
	Redirected map[string]int `json:"redirected" late:"true"`
	// longest silence until the first byte and between two events
	TimeoutS float64 `json:"timeout_s" late:"true" jsonschema:"minimum=0"`
	// tokens that a prompt was meant to have; 0 for prompts of a file
	PromptAsked int `json:"prompt_len_asked" late:"true"`

	PromptTokens    *stats.Summary `json:"prompt_tokens" late:"true"`    // prompt tokens of completed requests, by the server's count
	GeneratedTokens *stats.Summary `json:"generated_tokens" late:"true"` // generated tokens of a request
	Adjusted        *Adjusted      `json:"error_adjusted" late:"true"`
	Goodput         *Goodput       `json:"goodput" late:"true"` // null without --slo: no request can be told from a good one
	PrefixCache     *PrefixCache   `json:"prefix_cache" late:"true"`
	Metrics         *ServerMetrics `json:"server_metrics" late:"true"` // null where the server has no /metrics
	// Null where none was looked for: in a closed loop, of a trace, of fewer than 50 requests.
	Steady *SteadyState `json:"steady_state" late:"true"`
}

// Counted are the records of the requests that times and goodput are of: all, or those in the steady state.
func (s *Serving) Counted() []Record {
	if s.Steady == nil || len(s.Records) == 0 {
		return s.Records
	}
	return s.Records[s.Steady.Begin:s.Steady.End]
}

// recorded is how many requests there are records of, or were before the records were left out.
func (s *Serving) recorded() int {
	if len(s.Records) == 0 {
		return s.Requests
	}
	return len(s.Records)
}

// After is how many requests came after the steady state.
func (s *Serving) After() int { return s.recorded() - s.Steady.End }

// A SteadyState says which requests at a rate saw the server in its steady state: those before fill it, and
// those after are answered while no more come.
type SteadyState struct {
	Method  string `json:"method"`  // how the transient was found: "MSER-5"
	Reached bool   `json:"reached"` // false if the load overloads the server or is too short: then all requests count
	Begin   int    `json:"begin"`   // the first record that counts
	End     int    `json:"end"`     // the first one after those that count
}

// Adjusted are percentiles over all requests that count, a failed one counted as one that
// took longer than any that was completed. A percentile that falls among the failed
// is null.
type Adjusted struct {
	TTFT Tail `json:"ttft_s"`
	TPOT Tail `json:"tpot_s"`
	TTLT Tail `json:"ttlt_s"`
}

// A Tail is the upper percentiles of a time in seconds.
type Tail struct {
	P50 *float64 `json:"p50" jsonschema:"minimum=0"`
	P90 *float64 `json:"p90" jsonschema:"minimum=0"`
	P95 *float64 `json:"p95" jsonschema:"minimum=0"`
	P99 *float64 `json:"p99" jsonschema:"minimum=0"`
}

// Goodput is the rate of requests that were completed within every limit.
type Goodput struct {
	TTFT      *float64 `json:"ttft_limit_s" jsonschema:"minimum=0"` // null for no limit
	TPOT      *float64 `json:"tpot_limit_s" jsonschema:"minimum=0"`
	TTLT      *float64 `json:"ttlt_limit_s" jsonschema:"minimum=0"`
	Good      int      `json:"good"`                               // requests within all of them; one that failed is none
	Share     float64  `json:"share" jsonschema:"minimum=0"`       // share of the counted requests
	PerSecond float64  `json:"requests_hz" jsonschema:"minimum=0"` // requests within the limits, over the duration
}

// PrefixCache says how much of the prompts the server did not compute, because it
// had computed their beginnings before.
type PrefixCache struct {
	Source string `json:"source"` // "usage", "metrics", "control prompts", or "unknown"
	// cached tokens of all prompts; null where the server does not count them
	CachedTokens *int     `json:"cached_tokens"`
	Share        *float64 `json:"share" jsonschema:"minimum=0"` // cached share of the prompts' tokens, 0 to 1
	// median of prompts that were never sent before; null if none were sent
	ControlTTFT *float64 `json:"control_ttft_s" jsonschema:"minimum=0"`
}

// ServerMetrics are what the server said of itself while the requests ran.
type ServerMetrics struct {
	Source  string         `json:"source"`                          // the names' prefix: "vllm", "sglang", "llamacpp", ...
	PeriodS float64        `json:"period_s" jsonschema:"minimum=0"` // between two samples
	Running *stats.Summary `json:"running"`                         // requests that are computed
	Waiting *stats.Summary `json:"waiting"`                         // requests in its queue
	KVUse   *stats.Summary `json:"kv_use"`                          // share of its KV cache, 0 to 1
	// Increases of its counters during the run: prompt_tokens, generated_tokens, preemptions, prefix_hits, prefix_queries.
	Counters    map[string]float64 `json:"counters"`
	Samples     []ServerSample     `json:"samples"`
	ReadSeconds float64            `json:"read_s" jsonschema:"minimum=0"` // median time that a page took
	Failed      int                `json:"failed"`                        // pages that did not come
}

// A ServerSample is one page of the server's metrics.
type ServerSample struct {
	AtS     float64  `json:"at_s" jsonschema:"minimum=0"` // time since the start of the run, like sent_s of a record
	Running *float64 `json:"running" jsonschema:"minimum=0"`
	Waiting *float64 `json:"waiting" jsonschema:"minimum=0"`
	KVUse   *float64 `json:"kv_use" jsonschema:"minimum=0"`
}

// UsageCheck sets the tokens that the server says against the chunks that came.
type UsageCheck struct {
	// generated tokens of the answers that came with usage; null where none did
	Tokens         *int     `json:"tokens"`
	Chunks         int      `json:"chunks"`                                  // chunks of the answers that came with usage
	TokensPerChunk *float64 `json:"tokens_per_chunk" jsonschema:"minimum=0"` // null where no answer has usage
	Missing        int      `json:"missing"`                                 // requests whose server gave no usage
	Discrepant     int      `json:"discrepant"`                              // requests whose tokens are not what was asked for

	// FirstUnknown counts requests whose first chunk may hold several tokens, so many that TPOT would be more than
	// 1 % longer: they have fewer chunks than tokens, and the tokens of the first one are not known. TPOT takes it for one.
	FirstUnknown int `json:"first_chunk_unknown" late:"true"`
}

// A Record is one request. Times are seconds from when it was begun or, where
// requests have a rate, from when it was due.
type Record struct {
	Index        int      `json:"index"`
	SentS        float64  `json:"sent_s" jsonschema:"minimum=0"`  // when it was begun or due, from the start of the run
	WroteS       *float64 `json:"wrote_s" jsonschema:"minimum=0"` // time at which the last byte was sent
	HeadersS     *float64 `json:"headers_s" jsonschema:"minimum=0"`
	FirstChunkS  *float64 `json:"first_chunk_s" jsonschema:"minimum=0"`
	FirstTokenS  *float64 `json:"first_token_s" jsonschema:"minimum=0"`
	FirstOutputS *float64 `json:"first_output_s" jsonschema:"minimum=0"`
	LastTokenS   *float64 `json:"last_token_s" jsonschema:"minimum=0"`
	DoneS        *float64 `json:"done_s" jsonschema:"minimum=0"`
	Prompt       *int     `json:"prompt_tokens"`
	Generated    *int     `json:"generated_tokens"`
	Cached       *int     `json:"cached_tokens,omitempty"` // cached tokens of the prompt, by the server's count
	// Generated tokens of the first chunk with a token; absent where they were not counted.
	FirstTokens *int   `json:"first_chunk_tokens,omitempty" jsonschema:"minimum=1"`
	Chunks      int    `json:"chunks"` // chunks with a token in them
	Status      int    `json:"status"`
	Failure     string `json:"failure"`         // "" if it was completed
	Error       string `json:"error,omitempty"` // error message of the server or the system
	Output      string `json:"output,omitempty"`
}
