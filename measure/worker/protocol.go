// Package worker runs a model in a process of its own and says when each of
// its tokens was known.
//
// A worker is a program that reads commands and writes events, one JSON object
// a line, on its standard input and output; what it writes to standard error is
// its log. So a crash, a lack of memory or a hang of the engine is an error
// with the log's end, and never costs a result that was finished.
//
//	worker: hello
//	driver: load            worker: ready
//	driver: run             worker: step, token ... pass, step, token ... pass, done
//	driver: run, size, ...
//	driver: quit            worker: exits with 0
//
// A worker answers anything that it cannot do with error, and stays able to
// take the next command unless Fatal is set. It keeps steps and tokens in memory
// while a pass runs and writes them after it, so that the pipe is not part of
// what is timed; pass closes them, so that a pass whose end was never written
// is not taken for a whole one.
package worker

import (
	"encoding/json"

	"llmprof/analytic/operator"
)

// Protocol is the version of the messages; a worker of another is refused.
const Protocol = 1

// A Phase is what a worker repeats.
type Phase string

// The phases. A pass of Prefill reads the prompt and samples the first token; a
// pass of Decode generates the others after a prompt that is in the cache
// already, the context growing with each, and leaves the cache as it found it;
// a pass of Request is a prefill with all its decode steps.
const (
	Prefill Phase = "prefill"
	Decode  Phase = "decode"
	Request Phase = "request"
)

// A Command is what the driver asks of a worker: one of its fields beside Do.
type Command struct {
	Do    string `json:"do"` // "load", "prepare", "run", "stop", "size", "ops", "trace", "bench", "quit"
	Load  *Load  `json:"load,omitempty"`
	Run   *Run   `json:"run,omitempty"` // the phase of "run" and of "prepare"
	Ops   *Ops   `json:"ops,omitempty"`
	Trace *Trace `json:"trace,omitempty"`
	Bench *Bench `json:"bench,omitempty"`
}

// Load says which model is to be run, and how.
type Load struct {
	Model         string          `json:"model"`                  // a hub id, a directory, or a file config.json
	Config        json.RawMessage `json:"config,omitempty"`       // the config.json itself, if the table of models has it
	RandomWeights bool            `json:"random_weights"`         // take the shapes alone; nothing is downloaded
	Weights       string          `json:"weights,omitempty"`      // a directory of safetensors
	DType         string          `json:"dtype"`                  // "bf16", "fp16" or "fp32"
	Quantization  string          `json:"quantization,omitempty"` // "", "int8", "int4", "fp8"
	Attention     string          `json:"attention,omitempty"`    // "", "sdpa", "eager", "flash_attention_2"
	Graph         bool            `json:"graph"`                  // decode through a CUDA graph with a static cache
	// A cache of its whole length from the start; Graph and Compile have one anyway.
	StaticCache     bool   `json:"static_cache,omitempty"`
	Compile         bool   `json:"compile"`           // torch.compile of the decode step
	Device          string `json:"device,omitempty"`  // "cuda" or "cpu"; "" for a GPU where there is one
	TP              int    `json:"tp"`                // ranks that a layer is split over; 0 is 1
	TrustRemoteCode bool   `json:"trust_remote_code"` // run Python that the repository brings

	operator.Workload // A prompt longer than PromptLen is cut; 0 takes given prompts as they are.

	Prompts       [][]int  `json:"prompts,omitempty"`        // token ids, a sequence each; random ones without; the passes take them in turn
	Texts         []string `json:"texts,omitempty"`          // prompts as text, for the model's tokenizer
	Seed          uint64   `json:"seed"`                     // seed of random weights and prompts
	AllLogits     bool     `json:"all_logits,omitempty"`     // LM head on every position of the prompt
	FrozenContext bool     `json:"frozen_context,omitempty"` // decode at one length for ever, as ELANA does
	SaveOutputs   bool     `json:"save_outputs,omitempty"`   // send the generated ids with the tokens
	Libraries     string   `json:"libraries,omitempty"`      // where to look for the CUDA libraries
}

// Run says how often, or for how long, to repeat a phase. A worker ends after
// the first pass with which both are reached, or after the pass in which it
// reads "stop". What a phase needs once, such as the prompt in the cache or a
// captured graph, is done before BeginNS, by "prepare" where the driver sent it.
type Run struct {
	Phase   Phase   `json:"phase"`
	Passes  int     `json:"passes"`
	Seconds float64 `json:"seconds"`
}

// Trace asks for passes of a phase under the engine's profiler.
type Trace struct {
	Phase  Phase  `json:"phase"`
	Passes int    `json:"passes"`
	File   string `json:"file"` // file to write, in Chrome's trace format
}

// An Event is what a worker says. Times of the host are nanoseconds of
// CLOCK_MONOTONIC, which all processes of a machine share.
type Event struct {
	Event  string   `json:"event"` // names the field that is set
	Hello  *Hello   `json:"hello,omitempty"`
	Ready  *Ready   `json:"ready,omitempty"`
	Step   *Step    `json:"step,omitempty"`
	Token  *Token   `json:"token,omitempty"`
	Pass   *PassEnd `json:"pass,omitempty"`
	Done   *Done    `json:"done,omitempty"`
	Size   *Sizes   `json:"size,omitempty"`
	Op     *Op      `json:"op,omitempty"`
	Traced *Traced  `json:"traced,omitempty"`
	Timed  *Timed   `json:"timed,omitempty"`
	Error  *Failure `json:"error,omitempty"`
}

// Hello is a worker's first event, before anything heavy is loaded.
type Hello struct {
	Protocol int               `json:"protocol"`
	Engine   string            `json:"engine"`
	Version  string            `json:"version"`
	PID      int               `json:"pid"`
	Versions map[string]string `json:"versions,omitempty"` // versions of the engine's libraries: python, torch, cuda
}

// Ready says that the model is loaded.
type Ready struct {
	Devices   []Device          `json:"devices"`
	LoadS     float64           `json:"load_s"`
	Timer     string            `json:"timer"`             // parts of a step that its times include
	Options   map[string]string `json:"options,omitempty"` // options in effect: dtype, attention, graph, cache, ...
	Notes     []string          `json:"notes,omitempty"`
	Params    int64             `json:"params"`     // parameters of all ranks together, tied ones once
	PromptLen int               `json:"prompt_len"` // tokens of each prompt
}

// A Device is what a worker computes on; the UUID is the driver's.
type Device struct {
	Name string `json:"name"`
	UUID string `json:"uuid,omitempty"`
	PID  int    `json:"pid,omitempty"` // process of the rank that uses the device
}

// A Step is one forward pass of the model.
type Step struct {
	Phase   Phase    `json:"phase"` // phase of the run that the pass belongs to
	Pass    int      `json:"pass"`
	Index   int      `json:"index"`   // 0 for a prefill, from 1 for decode steps
	Context int      `json:"context"` // tokens in the cache before it
	StartNS int64    `json:"start_ns"`
	EndNS   int64    `json:"end_ns"`   // time at which the host knows the token
	DeviceS *float64 `json:"device_s"` // time by the device's events, where it has them
}

// A Token says when a token of a pass was known to the host.
type Token struct {
	Pass  int   `json:"pass"`
	Index int   `json:"index"` // from 0
	NS    int64 `json:"ns"`
	IDs   []int `json:"ids,omitempty"` // one a sequence
}

// PassEnd says that a pass is whole: its steps and tokens came before.
type PassEnd struct {
	Pass    int   `json:"pass"`
	BeginNS int64 `json:"begin_ns"`
	EndNS   int64 `json:"end_ns"`
}

// Done ends a run, or a preparation with no pass at all.
type Done struct {
	Passes  int   `json:"passes"`
	BeginNS int64 `json:"begin_ns"` // start of the first pass
	EndNS   int64 `json:"end_ns"`   // end of the last pass
}

// Traced says where a trace was written, and how its time relates to the
// host's: the event named Anchor began at AnchorNS.
type Traced struct {
	File     string `json:"file"`
	Anchor   string `json:"anchor"`
	AnchorNS int64  `json:"anchor_ns"`
	BeginNS  int64  `json:"begin_ns"`
	EndNS    int64  `json:"end_ns"`
}

// Sizes is what a model takes in memory, counted after a real forward over the
// prompt; with several ranks, the sum of them.
type Sizes struct {
	ParamsBytes  int64   `json:"params_bytes"`
	BuffersBytes int64   `json:"buffers_bytes"`
	KVBytes      int64   `json:"kv_bytes"`
	KVTokens     int     `json:"kv_tokens"` // tokens of each sequence that KVBytes has room for
	StateBytes   int64   `json:"state_bytes"`
	PeakBytes    *int64  `json:"peak_bytes"`        // most that was allocated at once
	Activations  *int64  `json:"activations_bytes"` // peak less weights, buffers, cache and state
	Reserved     *int64  `json:"reserved_bytes"`    // held by the allocator beyond it
	Ranks        []Sizes `json:"ranks,omitempty"`   // each, where there are several
}

// Failure says why a command was not done.
type Failure struct {
	Kind    string `json:"kind"` // one of the Kind constants
	Message string `json:"message"`
	Fatal   bool   `json:"fatal"` // the worker exits
}

// The kinds of failure.
const (
	OutOfMemory = "out-of-memory" // A device or the host has no memory left.
	Unsupported = "unsupported"   // a combination that the engine does not have
	NotFound    = "not-found"     // a model, a file
	Denied      = "denied"        // a model behind a licence or a login
	Missing     = "missing"       // a program or a library that is not installed, a device that is not there
	Invalid     = "invalid"       // a command that makes no sense
	GPUFailed   = "gpu-failed"    // a GPU is lost, or a kernel's fault ended all that ran on it
	Internal    = "internal"      // anything else
)
