package experiment

import (
	"fmt"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"llmprof/internal/spelling"
	"llmprof/measure/openai"
	"llmprof/measure/power"
	"llmprof/serving"
	"llmprof/unit"
)

// A Problem is what is wrong with a setting of a point, or only probably not meant.
type Problem struct {
	Key, Text string
	Warning   bool
}

// counts are settings of which there is one at least.
var counts = map[string]bool{"batch": true, "prompt_len": true, "gen_len": true, "tp": true, "replicas": true, "nodes": true}

// Check says everything that is wrong with the point.
func (p *Point) Check() error {
	if found := p.problems(); len(found) > 0 {
		return Problems(found)
	}
	return nil
}

// Problems are all that is wrong with a point, as an error.
type Problems []Problem

func (all Problems) Error() string {
	lines := make([]string, len(all))
	for i, p := range all {
		lines[i] = p.Key + ": " + p.Text
	}
	return strings.Join(lines, "\n")
}

func (p *Point) problems() []Problem {
	var found []Problem
	hold := func(ok bool, key, format string, args ...any) {
		if !ok {
			found = append(found, Problem{Key: key, Text: fmt.Sprintf(format, args...)})
		}
	}
	base := Default()
	for i, f := range settingFields {
		words, key := strings.Split(f.Tag.Get("words"), ","), settingKeys[i]
		if v, _ := p.Value(key).(string); words[0] != "" {
			hold(slices.Contains(words, v) || v == "" && base.Value(key) == "", key, "%q; %s", v, spelling.Hint(v, words))
		}
	}
	for key := range counts {
		n, _ := p.Value(key).(int)
		hold(n >= 1, key, "%d: want at least 1", n)
	}
	p.negatives(hold)
	hold(p.Model != "", "model", "which model? Give a name from \"llmprof models list\", a hub id, a directory or a config.json")
	hold(p.TTFT || p.TPOT || p.TTLT || p.Size || p.Energy || p.Ops, "ttft",
		"nothing is to be measured: ttft, tpot, ttlt, size, energy and ops are all false")
	if p.CarbonRegion != "" {
		_, _, err := power.Region(p.CarbonRegion)
		hold(err == nil, "carbon_region", "%v", err)
	}
	p.placementProblems(hold)
	p.engineProblems(hold)
	slices.SortStableFunc(found, func(a, b Problem) int { return slices.Index(settingKeys, a.Key) - slices.Index(settingKeys, b.Key) })
	return found
}

// negatives refuses numbers below 0, which files cannot have and flags can.
func (p *Point) negatives(hold func(bool, string, string, ...any)) {
	for _, key := range settingKeys {
		switch v := p.field(key); v.Kind() {
		case reflect.Int:
			hold(v.Int() >= 0 || counts[key], key, "%d: want a whole number from 0 up", v.Int())
		case reflect.Float64:
			hold(v.Float() >= 0 && v.Float() <= math.MaxFloat64, key, "%g: want a number from 0 up", v.Float())
		}
	}
}

func (p *Point) placementProblems(hold func(bool, string, string, ...any)) {
	seen := map[string]bool{}
	for _, g := range p.GPUs {
		hold(g != "" && !seen[g], "gpus", "%q stands twice or is empty: want each GPU once", g)
		seen[g] = true
	}
	hold(len(p.GPUs) == 0 || p.Nodes > 1 || p.TP == 1 || p.TP*p.Replicas <= len(p.GPUs), "gpus",
		"%d GPUs for tp %d × replicas %d: want at least %d, since each rank needs one of its own",
		len(p.GPUs), p.TP, p.Replicas, p.TP*p.Replicas)
	hold(p.Nodes <= 1 || p.Rdzv != "", "rdzv", "%d nodes have to meet somewhere: give rdzv = \"HOST:PORT\"", p.Nodes)
	hold(p.Nodes > 1 || p.Rdzv == "", "rdzv", "one node meets nobody: give nodes, or leave rdzv out")
	hold(p.Nodes < 1 || p.TP%max(p.Nodes, 1) == 0, "nodes", "tp %d does not spread evenly over %d nodes", p.TP, p.Nodes)
}

// leastWindow holds 20 ticks of an energy counter, so that an edge that were a tick
// off would cost 5 %.
const leastWindow = unit.Seconds(2)

// engineProblems refuses settings that the engine would not heed.
func (p *Point) engineProblems(hold func(bool, string, string, ...any)) {
	if !slices.Contains(engines(), p.Engine) {
		return
	}
	only := func(engine string, keys ...string) {
		base := Default()
		for _, key := range keys {
			if p.Engine != engine {
				same := reflect.DeepEqual(p.Value(key), base.Value(key))
				hold(same, key, "the engine %s does not take it: it is for engine = %q", p.Engine, engine)
			}
		}
	}
	only(OpenAI, "base_url", "api", "concurrency", "request_rate_hz", "requests", "load", "load_speed", "load_unit", "load_block",
		"prompt_lengths", "gen_lengths", "timeout_s", "engine_cmd",
		"max_failures", "connections", "slo", "temperature", "served_model", "served_weights", "served_kv", "served_tp")
	only(Transformers, "python", "compile", "trust_remote_code", "attention", "rdzv")
	only(Native, "libraries")
	hold(p.Window == 0 || p.Window >= leastWindow, "window_s", "%v: want %v or more, for counters of energy move each 100 ms", p.Window,
		leastWindow)
	hold(p.Window == 0 || p.Engine != OpenAI, "window_s", "the energy of a server is measured over all of its requests; leave it out")
	hold(!p.Ops || p.Engine == Native, "ops",
		"the engine %s runs a step as a whole, and its operators cannot be replayed one by one: those of engine = %q can", p.Engine, Native)
	if p.Engine == Native {
		p.nativeProblems(hold)
	}
	if p.Engine != OpenAI {
		return
	}
	hold(p.BaseURL != "", "base_url", "where is the server? As http://localhost:8000/v1")
	hold(p.BaseURL == "" || isServer(p.BaseURL), "base_url",
		"it does not begin with http:// or https:// and a host: want \"http://HOST:PORT/v1\"")
	hold(p.Concurrency == 0 || p.RequestRate == 0, "request_rate_hz",
		"a closed loop of %d requests has no rate: give concurrency or request_rate_hz", p.Concurrency)
	p.loadProblems(hold)
	hold(p.FailuresAllowed() <= 1, "max_failures", "%v: want a share of the requests, from 0 to 1, as 0.01", p.FailuresAllowed())
	hold(p.Batch == 1, "batch", "%d: a server makes its own batches; give concurrency", p.Batch)
	base := Default()
	for _, key := range []string{"random_weights", "weights_dir", "quantization", "device", "elana"} {
		hold(reflect.DeepEqual(p.Value(key), base.Value(key)), key, "a server that is asked over HTTP chose it already; leave it out")
	}
	hold(p.DType == base.DType, "dtype", "%q: a server that is asked over HTTP chose it already; give served_weights where it does not say it",
		p.DType)
	hold(p.TP == base.TP || p.EngineCmd != "", "tp",
		"%d: a server that is asked over HTTP chose it already; give served_tp where it does not say it", p.TP)
	p.clientProblems(hold)
}

// loadProblems refuses loads that contradict one another.
func (p *Point) loadProblems(hold func(bool, string, string, ...any)) {
	for key, text := range map[string]string{"prompt_lengths": p.PromptLens, "gen_lengths": p.GenLens} {
		_, err := serving.ParseLengths(text)
		hold(text == "" || err == nil, key, "%q: %v", text, err)
		hold(text == "" || p.Load == "", key, "the load has its own lengths: leave it out")
		hold(text == "" || p.Prompts == "random", key, "the prompts of a file have their own lengths: leave it out")
	}
	hold(p.Load == "" || p.RequestRate == 0 && p.Concurrency == 0, "load",
		"it has its own arrivals: leave out concurrency and request_rate_hz")
	hold(p.Load == "" || p.Prompts == "random", "load", "it has its own prompts: leave out prompts")
	hold(p.Speed == 0 || p.Load != "", "load_speed", "it is of a load")
	hold(p.LoadUnit == "" || p.Load != "", "load_unit", "it is of a load")
	hold(p.LoadBlock == 0 || p.Load != "", "load_block", "it is of a load")
	hold(p.LoadBlock >= 0, "load_block", "%d: want at least 1", p.LoadBlock)
	hold(p.Speed >= 0 && p.Speed <= 1e9, "load_speed", "%v: want above 0 and at most 1e9", p.Speed)
	hold(p.Load == "" || p.Connections != openai.Worker, "connections", "%q: requests of a load have no worker of their own", p.Connections)
}

// isServer reports whether a text is the URL of a server. It may hold a password, so
// that nothing of it is repeated.
func isServer(text string) bool {
	u, err := url.Parse(strings.TrimSpace(text))
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Opaque == "" && u.Hostname() != ""
}

// Bounds of a client.
const (
	mostClients    = 1 << 16
	longestTimeout = unit.Seconds(1e6)
)

// clientProblems refuses ways to ask a server that there are not.
func (p *Point) clientProblems(hold func(bool, string, string, ...any)) {
	hold(p.Connections != openai.Worker || p.RequestRate == 0, "connections",
		"%q: requests that come at a rate have no worker of their own; want %q or %q",
		p.Connections, openai.Pooled, openai.New)
	hold(p.Concurrency <= mostClients, "concurrency", "%d: want at most %d, for each client has a connection", p.Concurrency, mostClients)
	hold(p.Timeout >= 0 && p.Timeout <= longestTimeout, "timeout_s", "%v: want at most %v, or 0 for the default", p.Timeout, longestTimeout)
	hold(p.Temperature >= 0 && p.Temperature <= openai.MaxTemperature, "temperature", "%v: want 0, for the likeliest token, to %d",
		p.Temperature, openai.MaxTemperature)
	_, err := openai.ParseSLO(p.SLO)
	hold(err == nil, "slo", "%v", err)
}

// nativeProblems refuses what the native engine does not have, whatever the model.
func (p *Point) nativeProblems(hold func(bool, string, string, ...any)) {
	hold(p.DType != "fp32", "dtype", "%q: the native engine computes in bf16 or fp16; engine = %q has others", p.DType, Transformers)
	hold(p.Quantization != "int8", "quantization", "%q: the native engine has weights in 16 bits, fp8 and int4; engine = %q has others",
		p.Quantization, Transformers)
	hold(p.Device != "cpu", "device", "\"cpu\": the native engine needs a GPU; engine = %q runs on the CPU", Transformers)
	hold(p.TP <= 8, "tp", "%d: the native engine splits layers over up to 8 GPUs of one host; engine = %q over more", p.TP, Transformers)
	hold(p.Nodes <= 1, "nodes", "%d: the native engine runs on the GPUs of one host", p.Nodes)
	hold(!p.Elana, "elana", "the native engine decodes with a growing context and has no logits of whole prompts; engine = %q has both",
		Transformers)
	hold(!p.RandomWeights || p.WeightsDir == "", "weights_dir", "%q and random weights: want one of them", p.WeightsDir)
}
