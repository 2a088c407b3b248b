package ask

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"llmprof/analytic/energy"
	"llmprof/analytic/engine"
	"llmprof/analytic/operator"
	"llmprof/internal/input"
	"llmprof/models"
)

// Completed is the annotation of a flag with the words that complete it.
const Completed = "llmprof_words"

// Words are those that complete a flag.
func Words(f *pflag.FlagSet, name string, words ...string) {
	_ = f.SetAnnotation(name, Completed, words)
}

// Choice adds a flag that takes one of some words, which its help lists in place of %s.
func Choice(f *pflag.FlagSet, to *string, name, value, usage string, words ...string) {
	last := len(words) - 1
	f.StringVar(to, name, value, strings.Replace(usage, "%s", strings.Join(words[:last], ", ")+" or "+words[last], 1))
	Words(f, name, words...)
}

// Refuse is an error where one of some flags is given. The first %s of the format is its name.
func Refuse(given func(flag string) bool, flags []string, format string, more ...any) error {
	if i := slices.IndexFunc(flags, given); i >= 0 {
		return Usage(format, append([]any{flags[i]}, more...)...)
	}
	return nil
}

// ModelFlags are about the model and its formats.
func (q *Question) ModelFlags(f *pflag.FlagSet) {
	f.StringVarP(&q.Model, "model", "m", "", "built-in `model`, hub id, directory, config.json, .gguf")
	f.StringVar(&q.Weights, "weights", "", "`format`, as fp8, awq or q4_k_m (default: the checkpoint's)")
	f.Var(FormatFlag(&q.Act), "act", "`format` of the activations (default: the scheme's)")
	f.Var(FormatFlag(&q.KV), "kv", "`format` of the KV cache (default: 16 bits)")
	Words(f, "weights", append(models.SchemeNames(), models.Mixes()...)...)
	Words(f, "act", FormatNames()...)
	Words(f, "kv", FormatNames()...)
	f.BoolVar(&q.Offline, "offline", false, "never use the network")
	f.BoolVar(&q.Text, "language-model-only", false, "load no towers of vision and audio")
	f.BoolVar(&q.Lenient, "lenient", false, "note what of a config.json is not understood, instead of refusing it")
}

// HardwareFlags are about the GPUs, and how the model is spread over them.
func (q *Question) HardwareFlags(f *pflag.FlagSet) {
	p := &q.Parallel
	f.StringVarP(&q.GPU, "gpu", "g", "", "`GPU`: a name from \"llmprof gpus list\", or its driver's")
	f.IntVar(&p.TP, "tp", 1, "tensor parallelism: `GPUs` that share every matrix")
	f.IntVar(&p.PP, "pp", 1, "pipeline parallelism: `stages` that share the layers")
	f.IntVar(&p.EP, "ep", 1, "expert parallelism: `GPUs` that share the experts")
	f.IntVar(&p.MoETP, "moe-tp", 0, "tensor parallelism in each expert: `GPUs` (default: tp / ep)")
	f.IntVar(&p.DP, "dp", 1, "data parallelism: `replicas` of the model")
	f.BoolVar(&p.SP, "sp", false, "sequence parallelism: each TP rank has its share of the norms")
	f.IntVar(&p.MicroBatches, "micro-batches", 1,
		"`parts` in which the batch goes through the pipeline (default: 1; under a load --pp where the engine has as many)")
	f.IntVar(&p.GPUsPerNode, "gpus-per-node", 0, "`GPUs` of a node (default: the usual node of the GPU)")
	linkFlags(f, &q.Links)
	f.Var(shareFlag(&q.Utilization), "memory-utilization", "`share` of the GPU's memory that the engine takes")
	capFlags(f, &q.Cap)
	f.Var(priceFlag(&q.Price), "price", "`dollars` an hour for one GPU (default: the GPU table's)")
	f.StringVar(&q.Hardware, "hardware", "", "TOML `FILE` of GPUs that overlays the built-in table")
}

// capFlags are about what holds a GPU besides the board's own limit.
func capFlags(f *pflag.FlagSet, c *energy.Cap) {
	f.Var(numberFlag(&c.Limit, 1), "power-limit", "`watts` that each GPU may draw, as 400W (default: the board's limit)")
	f.Var(numberFlag(&c.Clock, 1e6), "clock", "highest `clock` of the multiprocessors, as 1200MHz (default: the board's)")
}

// Limit is the value of one of these flags as a number: of watts, or of megahertz.
func Limit(flag, text string) float64 {
	var c energy.Cap
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	capFlags(f, &c)
	_ = f.Set(flag, text) // 0 where it is no number
	if flag == "clock" {
		return float64(c.Clock) / 1e6
	}
	return float64(c.Limit)
}

// WorkloadFlags are about what the model is asked to do.
func (q *Question) WorkloadFlags(f *pflag.FlagSet) {
	w := &q.Workload
	f.IntVarP(&w.Batch, "batch", "b", 1, "`sequences` together, in each replica (default 1)")
	f.IntVar(&w.PromptLen, "prompt-len", 1024, "`tokens` of each prompt")
	f.IntVar(&w.GenLen, "gen-len", 128, "`tokens` generated, the first included")
	f.IntVar(&w.Budget, "max-num-batched-tokens", 0, "most `tokens` of a prefill step, all sequences together")
	f.IntVar(&w.Longest, "max-model-len", 0, "most `tokens` of a request that the server takes (default: prompt and answer)")
	f.IntVar(&w.Chunk, "chunk", 0, "prefill in steps of at most this many `tokens`")
	f.IntVar(&w.CachedPrefix, "cached-prefix", 0, "leading `tokens` of it that the KV cache has")
	f.BoolVar(&w.AllLogits, "all-logits", false, "run the LM head on every position of the prompt, not only the last")
}

// EngineFlags are about the engine, and what it and the GPUs reach.
func (q *Question) EngineFlags(f *pflag.FlagSet) {
	f.StringVar(&q.Engine, "engine", "", fmt.Sprintf("`engine` or %[1]s@0.19.0 (default: %[1]s if it can)", engine.Names()[0]))
	Words(f, "engine", engine.Names()...)
	CalibrationFlag(f, &q.Calibration)
	f.Var(shareFlag(&q.Eff.compute), "compute-eff", "`share` of the peak FLOP/s that is reached (default: calibrated)")
	f.Var(shareFlag(&q.Eff.memory), "memory-eff", "`share` of the memory bandwidth (default: calibrated)")
	f.Var(shareFlag(&q.Eff.link), "link-eff", "`share` of the link between GPUs (default: calibrated)")
	f.Var(shareFlag(&q.Eff.interNode), "inter-node-eff", "`share` of the network between nodes (default: calibrated)")
}

// CalibrationFlag names a file of constants that were measured.
func CalibrationFlag(f *pflag.FlagSet, file *string) {
	f.StringVar(file, "calibration", "", "`FILE` of \"llmprof calibrate\"; \"default\" takes no file")
}

// Flags are the settings of "llmprof estimate", which set q.
func Flags(q *Question) *pflag.FlagSet {
	f := pflag.NewFlagSet("estimate", pflag.ContinueOnError)
	f.SortFlags = false
	q.ModelFlags(f)
	q.HardwareFlags(f)
	q.WorkloadFlags(f)
	q.EngineFlags(f)
	q.SkewFlag(f)
	return f
}

// SkewFlag says how unevenly experts are chosen.
func (q *Question) SkewFlag(f *pflag.FlagSet) {
	f.StringVar(&q.Skew, "expert-skew", "",
		"`exponent` of a Zipf law by which experts are chosen, \"text\" for the loads of a text, or a file of loads (default: evenly)")
}

var skewLimits = input.Limits{Bytes: 1 << 20, Depth: 2, Values: 1 << 16}

// popularity is how unevenly experts are chosen: an exponent, "text", or a file with a JSON array, or with
// a number a line.
func popularity(text string) (*operator.Popularity, error) {
	switch text {
	case "":
		return nil, nil
	case "text":
		return &operator.Popularity{Text: true}, nil
	}
	if zipf, err := strconv.ParseFloat(text, 64); err == nil {
		return &operator.Popularity{Zipf: zipf}, nil
	}
	data, err := input.Read(text, int64(skewLimits.Bytes))
	if err != nil {
		return nil, fmt.Errorf("--expert-skew %.60q: want an exponent as 0.8, text, or a file of loads: %w", text, err)
	}
	p := &operator.Popularity{}
	if body := strings.TrimSpace(string(data)); strings.HasPrefix(body, "[") {
		if err = skewLimits.JSON(body); err == nil {
			err = json.Unmarshal([]byte(body), &p.Loads)
		}
	} else {
		for number, field := range strings.Fields(body) {
			v, failed := strconv.ParseFloat(field, 64)
			if failed != nil {
				err = fmt.Errorf("number %d is %.40q", number+1, field)
				break
			}
			p.Loads = append(p.Loads, v)
		}
	}
	if err == nil && len(p.Loads) == 0 {
		err = fmt.Errorf("it has no numbers")
	}
	if err != nil {
		return nil, fmt.Errorf("--expert-skew %s: want a JSON array of loads, or a number a line: %w", text, err)
	}
	return p, nil
}
