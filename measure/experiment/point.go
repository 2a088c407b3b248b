package experiment

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"

	"llmprof/analytic/operator"
	"llmprof/internal/redact"
	"llmprof/unit"
)

// A Point is all that one run is made of, in the words of the experiment files.
// Its zero fields are what was not asked for.
type Point struct {
	Subject
	Runtime
	Placement
	Workload
	Protocol
	Client

	// Contents are hashes of the files that settings name, by the settings; nil until they are read.
	Contents map[string]string `json:"-"`
}

// Subject is what is run.
type Subject struct {
	Model           string `json:"model"`             // built-in name, hub id, directory or config.json
	RandomWeights   bool   `json:"random_weights"`    // take the shapes alone; nothing is downloaded
	WeightsDir      string `json:"weights_dir"`       // a directory of safetensors
	DType           string `json:"dtype"`             // format of weights and activations: bf16, fp16 or fp32
	Quantization    string `json:"quantization"`      // format of quantized weights: "", int8, int4 or fp8
	TrustRemoteCode bool   `json:"trust_remote_code"` // run Python that the repository brings
}

// Runtime is what runs it.
type Runtime struct {
	Engine    string `json:"engine"`     // native, transformers or openai
	Python    string `json:"python"`     // the interpreter of the transformers engine
	Attention string `json:"attention"`  // "" for the engine's choice, sdpa, eager or flash_attention_2
	Graph     bool   `json:"graph"`      // decode through a CUDA graph
	Compile   bool   `json:"compile"`    // torch.compile
	Device    string `json:"device"`     // "" for a GPU where there is one, cuda or cpu
	Libraries string `json:"libraries"`  // where to look for the CUDA libraries
	EngineCmd string `json:"engine_cmd"` // a server that is started and stopped around the run
}

// Placement is where it runs.
type Placement struct {
	GPUs     []string `json:"gpus"`     // UUIDs or numbers of those to use; none for all that are visible
	TP       int      `json:"tp"`       // ranks that a layer is split over
	Replicas int      `json:"replicas"` // processes with a whole model each, side by side
	Nodes    int      `json:"nodes"`    // nodes that the ranks are spread over
	Rdzv     string   `json:"rdzv"`     // host:port where the nodes meet
}

// Workload is what it is given.
type Workload struct {
	operator.Workload
	Prompts     string  `json:"prompts"`      // "random", or a file of prompts
	Seed        uint64  `json:"seed"`         // seed of random weights and prompts; 0 for a server draws one each time, which the result has
	Temperature float64 `json:"temperature"`  // sampling temperature of a server; 0 for greedy decoding
	SaveOutputs bool    `json:"save_outputs"` // keep the generated tokens
}

// Protocol is what is measured, and how.
type Protocol struct {
	TTFT    bool `json:"ttft"`    // measure the time to the first token
	TPOT    bool `json:"tpot"`    // the time per token
	TTLT    bool `json:"ttlt"`    // the time to the last
	Size    bool `json:"size"`    // count memory
	Energy  bool `json:"energy"`  // read the sensors
	Ops     bool `json:"ops"`     // time the operators of a step one by one
	Elana   bool `json:"elana"`   // ELANA's protocol: frozen context, logits of all positions
	Repeats int  `json:"repeats"` // least samples of each time; 0 for the measurer's choice
	Warmup  int  `json:"warmup"`  // passes before the first sample; 0 for as many as it takes to be steady

	Window          unit.Seconds `json:"window_s"`               // shortest window of an energy measurement; 0 for the default
	Idle            unit.Seconds `json:"idle_s"`                 // how long idling is measured; 0 for the measurer's choice
	CarbonIntensity float64      `json:"carbon_intensity_g_kwh"` // intensity of the grid; 0 if not known
	CarbonRegion    string       `json:"carbon_region"`          // region whose intensity is looked up; "" for none
	Trace           string       `json:"trace"`                  // a folder for traces; "" for none
}

// Client is how a server is asked.
type Client struct {
	BaseURL     string  `json:"base_url"`        // base URL of the OpenAI-compatible endpoint
	API         string  `json:"api"`             // chat or completions
	Concurrency int     `json:"concurrency"`     // requests at a time in a closed loop
	RequestRate float64 `json:"request_rate_hz"` // rate of Poisson arrivals; 0 for a closed loop
	Requests    int     `json:"requests"`        // in all; 0 for the measurer's choice, or all of load
	Load        string  `json:"load"`            // a file of requests that are replayed: times, tokens, prefixes; "" for none
	Speed       float64 `json:"load_speed"`      // how many times as fast as the load was recorded; 0 for 1
	LoadUnit    string  `json:"load_unit"`       // unit of the load's times: s, ms, us or ns; "" for what the file says
	LoadBlock   int     `json:"load_block"`      // tokens that a hash of the load is of; 0 for what the file says
	PromptLens  string  `json:"prompt_lengths"`  // lengths of prompts, as "512..2048" or "lognormal:1024,0.8"; "" for prompt_len
	GenLens     string  `json:"gen_lengths"`     // lengths of answers, likewise; "" for gen_len
	// Longest silence of the server, until the first byte and between two events; 0 for 2 minutes.
	Timeout     unit.Seconds `json:"timeout_s"`
	MaxFailures *float64     `json:"max_failures"` // share of requests that may fail; nil for 0.01
	Connections string       `json:"connections"`  // "" or pooled: kept for any request; new: one a request; worker: one a client
	SLO         string       `json:"slo"`          // limits that goodput counts within, as "ttft=500ms,tpot=50ms,ttlt=10s"; "" for none

	// These say what the server runs, where it does not say so itself.
	ServedModel   string `json:"served_model"`   // the server's name of the model; "" for the model's
	ServedWeights string `json:"served_weights"` // format of its weights, as estimates take it; "" for what the server says
	ServedKV      string `json:"served_kv"`      // format of its KV cache; "" for what the server says
	ServedTP      int    `json:"served_tp"`      // tensor parallelism of the server; 0 for what the server says
}

// defaultMaxFailures is the share of requests that may fail where a point gives none:
// percentiles up to the 99th are then those of requests that were completed.
const defaultMaxFailures = 0.01

// FailuresAllowed is the share of requests that may fail.
func (c *Client) FailuresAllowed() float64 {
	if c.MaxFailures == nil {
		return defaultMaxFailures
	}
	return *c.MaxFailures
}

// The engines that a point may name.
const (
	Native       = "native"
	Transformers = "transformers"
	OpenAI       = "openai"
)

func engines() []string { return []string{Native, Transformers, OpenAI} }

// Default is the point that a file's settings are laid over: the workload that
// "llmprof estimate" takes too, and everything measured.
func Default() Point {
	return Point{
		Subject:   Subject{DType: "bf16"},
		Runtime:   Runtime{Engine: Transformers, Graph: true},
		Placement: Placement{TP: 1, Replicas: 1, Nodes: 1},
		Workload:  Workload{Workload: operator.Workload{Batch: 1, PromptLen: 1024, GenLen: 128}, Prompts: "random"},
		Protocol:  Protocol{TTFT: true, TPOT: true, TTLT: true, Size: true, Energy: true},
		Client:    Client{API: "completions"},
	}
}

// WeightFormat names the format of the weights as estimates do
// (models.ParseScheme). The native engine's products run in 16 bits whatever its
// weights are kept in.
func (p *Point) WeightFormat() string {
	switch {
	case p.Quantization == "":
		return p.DType
	case p.Engine == Native && p.Quantization == "fp8":
		return "w8a16-fp8"
	case p.Engine == Native && p.Quantization == "int4":
		return "w4a16-g128"
	}
	return p.Quantization
}

// Canonical is the point as JSON with its keys sorted and the settings that are
// zero left out, so that neither the form of a file nor a setting that is added
// to this program later changes it.
//
// Secrets are left out: a renewed key does not make another point. What files that
// settings name have in them is in it, under "contents".
func (p *Point) Canonical() ([]byte, error) {
	set := map[string]any{}
	shown := p.Shown()
	for _, key := range settingKeys {
		v := shown.field(key)
		if v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0 {
			continue
		}
		set[key] = v.Interface()
	}
	if len(p.Contents) > 0 {
		set["contents"] = p.Contents
	}
	text, err := json.Marshal(set) // sorts the keys
	if err != nil {
		return nil, fmt.Errorf("settings of %s: %w", p.Model, err)
	}
	return text, nil
}

// Shown is the point without the secrets of its URL and command.
func (p *Point) Shown() Point {
	shown := *p
	shown.BaseURL, shown.EngineCmd = redact.Text(p.BaseURL), redact.Text(p.EngineCmd)
	return shown
}

// secrets knows those of the point's URL and command.
func (p *Point) secrets() redact.Redactor { return redact.Of(p.BaseURL, p.EngineCmd) }

// Hash is the SHA-256 of the canonical settings, in hexadecimal.
func (p *Point) Hash() (string, error) {
	text, err := p.Canonical()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}
