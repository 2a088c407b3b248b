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
// Its zero fields are what was not asked for. Tags say how a setting is given: its key in a file, its flag where that is another
// word ("-" for none), the group of the flag and of those that follow, the words that it takes, and what it does.
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
	Model           string `json:"model" group:"Subject" short:"m" help:"built-in <model>, hub id, directory or config.json"`
	RandomWeights   bool   `json:"random_weights" help:"download nothing; times are the same"`
	WeightsDir      string `json:"weights_dir" flag:"weights" help:"<folder> of safetensors"`
	DType           string `json:"dtype" words:"bf16,fp16,fp32" help:"<format> of the model: %s"`
	Quantization    string `json:"quantization" flag:"quantize" words:"int8,int4,fp8" help:"quantize the weights to <FORMAT>: %s"`
	TrustRemoteCode bool   `json:"trust_remote_code" help:"run Python code that the model's repository brings"`
}

// Runtime is what runs it.
type Runtime struct {
	Engine    string `json:"engine" group:"Runtime" words:"native,transformers,openai" help:"<engine>: %s"`
	Python    string `json:"python" help:"Python <interpreter> of the transformers engine (default: python3)"`
	Attention string `json:"attention" words:"sdpa,eager,flash_attention_2" help:"<kernel>: %s (default: the engine's)"`
	Graph     bool   `json:"graph" help:"decode through a CUDA graph with a static cache"`
	Compile   bool   `json:"compile" help:"torch.compile the model"`
	Device    string `json:"device" words:"cuda,cpu" help:"<device>: %s (default: a GPU where there is one)"`
	Libraries string `json:"libraries" flag:"cuda-libs" help:"<folder> of the CUDA libraries that the native engine opens"`
	EngineCmd string `json:"engine_cmd" group:"Client" help:"<command> that starts it, for the run alone"`
}

// Placement is where it runs.
type Placement struct {
	GPUs     []string `json:"gpus" group:"Placement" help:"<UUIDs> or numbers of GPUs (default: the visible)"`
	TP       int      `json:"tp" help:"tensor parallelism: <GPUs> that share every matrix"`
	Replicas int      `json:"replicas" help:"<processes> with a whole model each, side by side"`
	Nodes    int      `json:"nodes" help:"<hosts> that the ranks are spread over"`
	Rdzv     string   `json:"rdzv" help:"<HOST:PORT> where the hosts meet"`
}

// Workload is what it is given.
type Workload struct {
	operator.Workload
	Prompts     string  `json:"prompts" group:"Workload" help:"\"random\", or a <FILE> of text lines or JSONL"`
	Seed        uint64  `json:"seed" help:"<seed> of weights and prompts (default for a server: a new one)"`
	Temperature float64 `json:"temperature" group:"Client" help:"<temperature> of choosing tokens, up to 2; {seed} repeats it"`
	SaveOutputs bool    `json:"save_outputs" group:"Protocol" help:"keep the generated tokens in the result"`
}

// Protocol is what is measured, and how.
type Protocol struct {
	TTFT    bool `json:"ttft" group:"Protocol" help:"measure the time to the first token"`
	TPOT    bool `json:"tpot" help:"measure the time per token after it"`
	TTLT    bool `json:"ttlt" help:"measure the time to the last token"`
	Size    bool `json:"size" help:"count parameters, caches and activations"`
	Energy  bool `json:"energy" help:"measure energy; without a sensor this is an error"`
	Ops     bool `json:"ops" help:"time operators one by one, beside the estimate's"`
	Elana   bool `json:"elana" help:"ELANA's protocol: frozen context, logits of all positions"`
	Repeats int  `json:"repeats" help:"least <samples> of each time (default 10)"`
	Warmup  int  `json:"warmup" help:"<passes> before the first sample (default: until times are steady)"`

	// shortest window of an energy measurement; 0 for the default
	Window unit.Seconds `json:"window_s" flag:"-"`
	// how long idling is measured; 0 for the measurer's choice
	Idle unit.Seconds `json:"idle_s" flag:"-"`

	CarbonIntensity float64 `json:"carbon_intensity_g_kwh" flag:"carbon-intensity" help:"carbon intensity of the power grid in <g/kWh> of CO2"`

	CarbonRegion string `json:"carbon_region" help:"<region> of the power grid, such as germany or us, for its carbon intensity"`
	Trace        string `json:"trace" help:"write traces to <FOLDER>; of a server, a load to replay"`
}

// Client is how a server is asked.
type Client struct {
	BaseURL string `json:"base_url" group:"Client" help:"its <URL>, as http://localhost:8000/v1"`
	API     string `json:"api" words:"chat,completions" help:"<endpoint> of the server: %s"`
	// requests at a time in a closed loop
	Concurrency int `json:"concurrency"`
	// rate of Poisson arrivals; 0 for a closed loop
	RequestRate float64 `json:"request_rate_hz" flag:"rate"`
	Requests    int     `json:"requests" help:"<requests> in all"`
	// a file of requests that are replayed: times, tokens, prefixes; "" for none
	Load  string  `json:"load" flag:"trace"`
	Speed float64 `json:"load_speed" flag:"speed" group:"Protocol" help:"<times> as fast as the requests of {trace} were recorded"`

	LoadUnit string `json:"load_unit" flag:"trace-unit" words:"s,ms,us,ns" help:"<unit> of the load's times: %s (default: what the file says)"`

	LoadBlock int `json:"load_block" flag:"trace-block" help:"<tokens> that a hash of the load is of (default: what the file says)"`
	// lengths of prompts, as "512..2048" or "lognormal:1024,0.8"; "" for prompt_len
	PromptLens string `json:"prompt_lengths" flag:"prompt-len" group:"Client"`
	// lengths of answers, likewise; "" for gen_len
	GenLens string `json:"gen_lengths" flag:"gen-len"`

	// Longest silence of the server, until the first byte and between two events; 0 for 2 minutes.
	Timeout unit.Seconds `json:"timeout_s" help:"<time> of silence after which a request has failed, as 30 or 5m (default 120 seconds)"`

	// share of requests that may fail; nil for 0.01
	MaxFailures *float64 `json:"max_failures"`
	Connections string   `json:"connections" words:"pooled,new,worker" help:"<use> of connections: %s (default: pooled)"`
	SLO         string   `json:"slo" help:"<limits> of goodput, as ttft=500ms,tpot=50ms"`

	// These say what the server runs, where it does not say so itself.
	ServedModel   string `json:"served_model" group:"Served" help:"the server's <name> of the model (default: that of {model})"`
	ServedWeights string `json:"served_weights" help:"<format> of the server's weights (default: what it says)"`
	ServedKV      string `json:"served_kv" help:"<format> of the server's KV cache (default: what it says)"`
	ServedTP      int    `json:"served_tp" help:"<GPUs> that the server splits a matrix over (default: what it says)"`
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
