package deployment

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"llmprof/analytic"
	"llmprof/analytic/energy"
	"llmprof/analytic/engine"
	"llmprof/hardware"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/serving"
	"llmprof/unit"
)

// A Request is what is asked: a model on GPUs under a workload or a load. What was not given is nil, empty or false, and has its default.
//
// The tags say how a setting is given elsewhere: its key, its help with the value in angle brackets, its default and its words. A group is
// that of the settings that follow, too.
type Request struct {
	Model   string      `json:"model" group:"Model" short:"m" help:"built-in <model>, hub id, directory, config.json, .gguf"`
	Weights string      `json:"weights" help:"<format>, as fp8 or q4_k_m (default: the checkpoint's)"`
	Act     unit.Format `json:"act" help:"<format> of the activations (default: the scheme's)"`
	KV      unit.Format `json:"kv" help:"<format> of the KV cache (default: 16 bits)"`
	Offline bool        `json:"offline" help:"never use the network"`
	Text    bool        `json:"language_model_only" help:"load no towers of vision and audio"`
	Lenient bool        `json:"lenient" help:"note what of a config.json is not understood, instead of refusing it"`

	GPU string `json:"gpu" group:"Hardware" short:"g" help:"<GPU>: a name from \"llmprof gpus list\", or its driver's"`

	TP                *int                 `json:"tp" default:"1" help:"tensor parallelism: <GPUs> that share every matrix"`
	PP                *int                 `json:"pp" default:"1" help:"pipeline parallelism: <stages> that share the layers"`
	EP                *int                 `json:"ep" default:"1" help:"expert parallelism: <GPUs> that share the experts"`
	MoETP             *int                 `json:"moe_tp" default:"0" help:"tensor parallelism in each expert: <GPUs> (default: tp / ep)"`
	DP                *int                 `json:"dp" default:"1" help:"data parallelism: <replicas> of the model"`
	SP                bool                 `json:"sp" help:"sequence parallelism: each TP rank has its share of the norms"`
	MicroBatches      *int                 `json:"micro_batches" default:"1"` // Help has its help, as that of others without a tag
	GPUsPerNode       *int                 `json:"gpus_per_node" default:"0" help:"<GPUs> of a node (default: the usual node of the GPU)"`
	P2P               bool                 `json:"p2p" help:"GeForce cards have peer access over PCIe, by a patched driver"`
	NoP2P             bool                 `json:"no_p2p" help:"other GPUs have no peer access over PCIe, as in many virtual machines"`
	NVLink            bool                 `json:"nvlink" help:"cards have their bridge, of NVLink or Infinity Fabric"`
	MemoryUtilization *Share               `json:"memory_utilization" help:"<share> of the GPU's memory that the engine takes"`
	PowerLimit        *unit.Watts          `json:"power_limit" help:"<watts> that each GPU may draw, as 400W (default: the board's limit)"`
	Clock             *unit.Hertz          `json:"clock" help:"highest <clock> of the multiprocessors, as 1200MHz (default: the board's)"`
	Price             *unit.DollarsPerHour `json:"price" help:"<dollars> an hour for one GPU (default: the GPU table's)"`
	Hardware          string               `json:"hardware" help:"TOML <FILE> of GPUs that overlays the built-in table"`

	Fit         bool              `json:"fit" help:"leave in host memory what the GPU has no room for, as is fastest"`
	Host        string            `json:"host" help:"<host> of the GPU, as ddr5-6000x2 or desktop-ddr5"`
	HostRate    *unit.BytesPerSec `json:"host_bandwidth" help:"<rate> of the host's memory, as 80GB/s"`
	PagedRate   *unit.BytesPerSec `json:"pageable_bandwidth" help:"<rate> of copies of host memory that is not pinned, as 7GB/s"`
	RAM         *unit.Bytes       `json:"ram" help:"<size> of the host's memory, as 64GB"`
	Threads     *int              `json:"threads" default:"0" help:"<threads> of llama.cpp on the host (default: its cores)"`
	GPULayers   *int              `json:"ngl" default:"0" help:"<layers> on the GPU, the output counting as one (default: all)"`
	HostExperts *int              `json:"n_cpu_moe" default:"0" help:"<layers>, from the first, whose experts stay in host memory"`
	AllExperts  bool              `json:"cpu_moe" help:"the experts of all layers stay in host memory"`
	Overrides   string            `json:"override_tensor" help:"<REGEX=CPU>: tensors that stay in host memory"`
	Pass        *int              `json:"ubatch" default:"0" help:"<tokens> of a pass of llama.cpp (default 512)"`
	LoadMode    string            `json:"load_mode" words:"mmap,none" help:"<way> of weights in host memory, pages of the file or pinned: %s"`
	NoOpOffload bool              `json:"no_op_offload" help:"prompts too are computed where the weights are"`
	NoKVOffload bool              `json:"no_kv_offload" help:"the KV cache stays in host memory"`
	WeightsAway *float64          `json:"cpu_offload_gb" default:"0" help:"<GiB> of each GPU's weights that vLLM or SGLang leave on the host"`

	Batch        *int `json:"batch" group:"Workload" short:"b" default:"1" help:"<sequences> together, in each replica (default 1)"`
	PromptLen    *int `json:"prompt_len" default:"1024" help:"<tokens> of each prompt"`
	GenLen       *int `json:"gen_len" default:"128" help:"<tokens> generated, the first included"`
	Budget       *int `json:"max_num_batched_tokens" default:"0" help:"most <tokens> of a prefill step, all sequences together"`
	Longest      *int `json:"max_model_len" default:"0"`
	Chunk        *int `json:"chunk" default:"0" help:"prefill in steps of at most this many <tokens>"`
	CachedPrefix *int `json:"cached_prefix" default:"0" help:"leading <tokens> of it that the KV cache has"`
	AllLogits    bool `json:"all_logits" help:"run the LM head on every position of the prompt, not only the last"`

	Media

	Engine       string `json:"engine" group:"Engine" help:"<engine> or vllm@0.19.0 (default: vllm if it can)"`
	Eager        bool   `json:"enforce_eager" help:"capture no CUDA graphs, so that the host launches every kernel"`
	Captures     *int   `json:"max_cudagraph_capture_size" default:"0" help:"most <tokens> of a step in a CUDA graph (default: the engine's)"`
	Calibration  string `json:"calibration" help:"<FILE> of \"llmprof calibrate\"; \"default\" takes no file"`
	ComputeEff   *Share `json:"compute_eff" help:"<share> of the peak FLOP/s that is reached (default: calibrated)"`
	MemoryEff    *Share `json:"memory_eff" help:"<share> of the memory bandwidth (default: calibrated)"`
	LinkEff      *Share `json:"link_eff" help:"<share> of the link between GPUs (default: calibrated)"`
	InterNodeEff *Share `json:"inter_node_eff" help:"<share> of the network between nodes (default: calibrated)"`

	Skew string `json:"expert_skew" group:"Experts"`

	Scheduler    string   `json:"scheduler" group:"Server"`
	MaxSeqs      *int     `json:"max_num_seqs" default:"0" help:"most <sequences> that run at once (default: the scheduler's)"`
	BlockSize    *int     `json:"block_size" default:"0" help:"<tokens> of a KV block (default: the scheduler's)"`
	CacheTokens  *int     `json:"kv_cache_tokens" default:"0"`
	Watermark    *float64 `json:"watermark" default:"0" help:"<share> of the KV blocks that admission leaves free (default: the scheduler's)"`
	Preemption   string   `json:"preemption" words:"recompute,swap"`
	NoAsync      bool     `json:"no_async_scheduling" help:"form each step when the one before it has ended"`
	Receives     *int     `json:"scheduler_recv_interval" default:"0" help:"decode <steps> after which new requests are received (default 1)"`
	Streams      *int     `json:"stream_interval" default:"0" help:"<tokens> that are sent to a client at once (default 1)"`
	HitRate      *float64 `json:"prefix_hit_rate" default:"0" help:"<share> of the prompts' tokens that the prefix cache has"`
	NoCache      bool     `json:"no_prefix_cache" help:"ignore prefixes that prompts share"`
	Cache        bool     `json:"prefix_cache" help:"cache prefixes where the engine does not by default: hybrids of vllm before 0.28"`
	Offload      *float64 `json:"kv_offload" default:"0" help:"<GB> of host memory for each GPU's evicted prefixes"`
	Drafts       *int     `json:"speculative_tokens" default:"0" help:"<tokens> that are drafted and verified in a decode step"`
	Acceptance   *float64 `json:"acceptance" default:"0" help:"<probability> that a drafted token is right if those before it are"`
	DraftModel   string   `json:"draft_model"`
	Routing      string   `json:"routing" words:"round-robin,least-loaded,prefix-aware" help:"<way> to choose among {dp} replicas: %s"`
	Prefillers   *int     `json:"prefill_replicas" default:"0"`
	HandoverRate *float64 `json:"kv_link" default:"0"`

	Rate        *Rate `json:"rate" group:"Load" help:"steady state with so many <requests> a second, Poisson arrivals"`
	Concurrency *int  `json:"concurrency" default:"0" help:"steady state with so many <clients> that each have one request at a time"`

	// Lengths of requests where they differ, in place of PromptLen and GenLen.
	Prompts *serving.Lengths `json:"prompt_lengths"`
	Answers *serving.Lengths `json:"gen_lengths"`
}

// A Share is a part of a whole, above 0 and at most 1.
type Share float64

// UnmarshalText reads a share.
func (s *Share) UnmarshalText(text []byte) error {
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(v > 0 && v <= 1) {
		return fmt.Errorf("want a share above 0 and at most 1, as 0.8")
	}
	if v <= roofline.LeastShare {
		return fmt.Errorf("want a share above %g", roofline.LeastShare)
	}
	*s = Share(v)
	return nil
}

// A Rate is requests a second.
type Rate float64

// UnmarshalText reads a rate.
func (r *Rate) UnmarshalText(text []byte) error {
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil || serving.CheckRate(v) != nil {
		return fmt.Errorf("want requests a second, from 1e-9 to 1e6")
	}
	*r = Rate(v)
	return nil
}

// Words are those that a setting takes, by its key; nil where it takes others.
func Words(key string) []string {
	switch key {
	case "weights":
		return append(models.SchemeNames(), models.FileTypes()...)
	case "act", "kv":
		var names []string
		for _, f := range unit.Formats() {
			names = append(names, f.String())
		}
		return names
	case "engine":
		return engine.Names()
	case "scheduler":
		return engine.SchedulerNames()
	}
	return nil
}

// Help is what a setting does, with its value in angle brackets, where that is too long for a tag.
func Help(key string) string {
	return map[string]string{
		"micro_batches":   "<parts> in which the batch goes through the pipeline (default: 1; under a load {pp} where the engine has as many)",
		"max_model_len":   "most <tokens> of a request that the server takes (default: prompt and answer)",
		"kv_cache_tokens": "<tokens> that the KV cache of a replica holds, as the engine logs it (default: worked out)",
		"draft_model":     "<model> that drafts, on the same GPUs or ngram, which takes no time (default: the model's MTP layer, else ngram)",
		"expert_skew": "<exponent> of a Zipf law by which experts are chosen, \"text\" for the loads of a text, or a file of loads " +
			"(default: evenly)",
		"scheduler":        "<policy>: " + strings.Join(engine.SchedulerNames(), ", ") + " (default: the engine's)",
		"preemption":       "<way> in which a preempted sequence comes back: %s (default: recompute)",
		"kv_link":          "<GB/s> by which one GPU hands its KV cache over (default: the link or the network)",
		"prefill_replicas": "<replicas> besides those of {dp} that prefill and hand the KV cache over",
	}[key]
}

// or is what was given, or else a default.
func or[T any](given *T, otherwise T) T {
	if given != nil {
		return *given
	}
	return otherwise
}

// Workload is what the model is asked to do.
func (q *Request) Workload() analytic.Workload {
	return analytic.Workload{
		Batch: or(q.Batch, 1), PromptLen: or(q.PromptLen, 1024), GenLen: or(q.GenLen, 128), Chunk: or(q.Chunk, 0), Budget: or(q.Budget, 0),
		CachedPrefix: or(q.CachedPrefix, 0), AllLogits: q.AllLogits, Longest: or(q.Longest, 0),
	}
}

// Split is how the model is spread over GPUs.
func (q *Request) Split() analytic.Parallelism {
	return analytic.Parallelism{
		TP: or(q.TP, 1), PP: or(q.PP, 1), EP: or(q.EP, 1), MoETP: or(q.MoETP, 0), DP: or(q.DP, 1), SP: q.SP, MicroBatches: or(q.MicroBatches, 1),
		GPUsPerNode: or(q.GPUsPerNode, 0),
	}
}

// graphs are the CUDA graphs that the server is told to capture.
func (q *Request) graphs() engine.Graphs {
	return engine.Graphs{Eager: q.Eager, Most: or(q.Captures, 0)}
}

// links say how the GPUs of a host are linked.
func (q *Request) links() hardware.Links {
	return hardware.Links{P2P: q.P2P, NoP2P: q.NoP2P, NVLink: q.NVLink}
}

// cap is what holds a GPU besides the board's own limit.
func (q *Request) cap() energy.Cap {
	return energy.Cap{Limit: or(q.PowerLimit, 0), Clock: or(q.Clock, 0)}
}

// Loaded reports whether a load is asked for.
func (q *Request) Loaded() bool { return q.Rate != nil || q.Concurrency != nil }

// Check refuses settings that contradict each other before anything is read.
func (q *Request) Check() error {
	switch {
	case q.Model == "":
		return unit.Errorf("which model? Give {model}, or an argument as in \"estimate llama3.1-8b h100\"; \"llmprof models list\" has the names")
	case q.GPU == "":
		return unit.Errorf("which GPU? Give {gpu}, or a second argument as in \"estimate llama3.1-8b h100\"; \"llmprof gpus list\" has the names")
	}
	for _, d := range []struct {
		key string
		n   *int
	}{
		{"tp", q.TP}, {"pp", q.PP}, {"ep", q.EP}, {"moe_tp", q.MoETP}, {"dp", q.DP}, {"micro_batches", q.MicroBatches},
		{"gpus_per_node", q.GPUsPerNode},
	} {
		if or(d.n, 1) < 1 {
			return unit.Errorf("{"+d.key+"} %d: it must be at least 1", *d.n)
		}
	}
	if err := q.checkHome(); err != nil {
		return err
	}
	w := q.Workload()
	switch {
	case or(q.Chunk, 1) == 0:
		return unit.Errorf("{chunk} 0: it must be at least 1; without it the prefill takes one step")
	case or(q.Budget, 1) == 0:
		return unit.Errorf("{max_num_batched_tokens} 0: it must be at least 1; without it the engine's default holds")
	case or(q.MaxSeqs, 1) < 1:
		return unit.Errorf("{max_num_seqs} %d: want at least 1; without it the scheduler's default holds", *q.MaxSeqs)
	case q.MaxSeqs != nil && w.Batch > *q.MaxSeqs:
		return unit.Errorf("{batch} %d: {max_num_seqs} lets %d sequences run at once", w.Batch, *q.MaxSeqs)
	case q.MaxSeqs != nil && or(q.MicroBatches, 1) > *q.MaxSeqs:
		return unit.Errorf("{micro_batches} %d: {max_num_seqs} lets %d sequences run at once", *q.MicroBatches, *q.MaxSeqs)
	case or(q.Captures, 1) < 1:
		return unit.Errorf("{max_cudagraph_capture_size} %d: it must be at least 1; {enforce_eager} captures none", *q.Captures)
	case q.Eager && q.Captures != nil:
		return unit.Errorf("{max_cudagraph_capture_size} changes nothing beside {enforce_eager}, which captures no CUDA graphs")
	case q.Longest != nil && w.Longest < w.Context():
		return unit.Errorf("{max_model_len} %d: prompt and answer are %d tokens", w.Longest, w.Context())
	}
	return nil
}

// given is the key of the first of some settings that a request has, "" where it has none.
func (q *Request) given(keys ...string) string {
	v := reflect.ValueOf(q).Elem()
	for _, key := range keys {
		if i, ok := fieldsByKey()[key]; ok && !v.Field(i).IsZero() {
			return key
		}
	}
	return ""
}

// fieldsByKey are the numbers of the fields of a request. Searches ask for them once for each deployment.
var fieldsByKey = sync.OnceValue(func() map[string]int {
	t, all := reflect.TypeFor[Request](), map[string]int{}
	for i := range t.NumField() {
		all[t.Field(i).Tag.Get("json")] = i
	}
	return all
})

// server are the keys of the settings of a server under load. Memory alone depends on some without one too.
func server() (keys []string) {
	t, group := reflect.TypeFor[Request](), ""
	for i := range t.NumField() {
		if name, ok := t.Field(i).Tag.Lookup("group"); ok {
			group = name
		}
		key := t.Field(i).Tag.Get("json")
		if group == "Server" && key != "max_num_seqs" && key != "no_prefix_cache" && key != "prefix_cache" {
			keys = append(keys, key)
		}
	}
	return keys
}

// CheckLoad refuses settings that contradict those of the load, and loads that have no steady state.
func (q *Request) CheckLoad() error {
	switch {
	case !q.Loaded():
		if key := q.given(server()...); key != "" {
			return unit.Errorf("{" + key + "} is of a server under load: give {rate} or {concurrency} too")
		}
	case q.Rate != nil && q.Concurrency != nil:
		return unit.Errorf("which load? Give one of {rate} and {concurrency}")
	case q.Batch != nil:
		return unit.Errorf("{batch}: under a load the batch is what comes of it; leave out {batch}")
	case q.Chunk != nil:
		return unit.Errorf("{chunk}: under a load steps have {max_num_batched_tokens}")
	}
	switch drawn := q.Prompts != nil || q.Answers != nil; {
	case !q.Loaded() && drawn:
		return unit.Errorf("{prompt_len} and {gen_len}: without a load all sequences of a batch have one length; give {rate} or {concurrency} " +
			"for a distribution")
	case drawn && or(q.CachedPrefix, 0) > 0:
		return unit.Errorf("{cached_prefix} is of prompts of one length: give {prefix_hit_rate} for a distribution")
	}
	return q.closedForm()
}

// closedForm refuses settings whose effect on a steady state has none.
func (q *Request) closedForm() error {
	if key := q.given("routing", "kv_offload", "preemption", "watermark"); key != "" && q.Loaded() {
		return unit.Errorf("{" + key + "} has no closed form: llmprof simulate takes it")
	}
	return nil
}

// maxPrice is more than any GPU costs an hour.
const maxPrice = 1e6

// ParsePrice reads dollars an hour, as 2.49 or $2.49/h.
func ParsePrice(s string) (d unit.DollarsPerHour, err error) {
	if err := d.UnmarshalText([]byte(s)); err != nil {
		return 0, err
	}
	if d <= 0 || d > maxPrice {
		return 0, fmt.Errorf("want dollars an hour, above 0 and at most %.0f", maxPrice)
	}
	return d, nil
}
