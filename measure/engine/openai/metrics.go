package openai

import (
	"bufio"
	"bytes"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"llmprof/measure/result"
	"llmprof/measure/stats"
	"llmprof/measure/wait"
)

// kinds are the prefixes of metrics and the servers that they are of.
var kinds = map[string]string{"vllm": "vllm", "sglang": "sglang", "llamacpp": "llama.cpp", "tgi": "tgi"}

// gauges are the names under which servers give the same figure.
var gauges = map[string][]string{
	"running": {"vllm:num_requests_running", "sglang:num_running_reqs", "llamacpp:requests_processing", "tgi_batch_current_size"},
	"waiting": {"vllm:num_requests_waiting", "sglang:num_queue_reqs", "llamacpp:requests_deferred", "tgi_queue_size"},
	"kv_use":  {"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage", "llamacpp:kv_cache_usage_ratio"},
}

// counters likewise.
var counters = map[string][]string{
	"prompt_tokens":    {"vllm:prompt_tokens_total", "sglang:prompt_tokens_total", "llamacpp:prompt_tokens_total"},
	"generated_tokens": {"vllm:generation_tokens_total", "sglang:generation_tokens_total", "llamacpp:tokens_predicted_total"},
	"preemptions":      {"vllm:num_preemptions_total", "sglang:num_retracted_requests_total"},
	"prefix_queries":   {"vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total", "sglang:prompt_tokens_total"},
	"prefix_hits":      {"vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total", "sglang:cached_tokens_total", "llamacpp:prompt_tokens_cached_total"},
}

// A metricsPage is what a page in Prometheus's text form says: the sum of each name
// over its labels, and the labels of its last line.
type metricsPage struct {
	values map[string]float64
	lines  map[string]int // lines of each name: one for each engine
	labels map[string]map[string]string
}

// parseMetrics reads a page; lines that are of another form are passed over.
func parseMetrics(body []byte) metricsPage {
	m := metricsPage{map[string]float64{}, map[string]int{}, map[string]map[string]string{}}
	lines := bufio.NewScanner(bytes.NewReader(body))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		name, rest := line, ""
		if i := strings.IndexAny(line, "{ \t"); i > 0 {
			name, rest = line[:i], line[i:]
		}
		labels := map[string]string{}
		if strings.HasPrefix(rest, "{") {
			labels, rest = parseLabels(rest[1:])
		}
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			continue
		}
		v, err := strconv.ParseFloat(fields[0], 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		m.values[name] += v
		m.lines[name]++
		m.labels[name] = labels
	}
	return m
}

// parseLabels reads labels up to the brace that ends them, and gives what follows.
func parseLabels(text string) (labels map[string]string, rest string) {
	labels = map[string]string{}
	for {
		text = strings.TrimLeft(text, ", \t")
		if after, ended := strings.CutPrefix(text, "}"); ended {
			return labels, after
		}
		key, after, found := strings.Cut(text, "=")
		quoted, err := strconv.QuotedPrefix(after)
		if !found || err != nil {
			return labels, ""
		}
		value, _ := strconv.Unquote(quoted) // a prefix that is quoted can be unquoted
		labels[strings.TrimSpace(key)] = value
		text = after[len(quoted):]
	}
}

// kind is the prefix of the page's names, "" of a server that is not known.
func (m metricsPage) kind() string {
	for name := range m.values {
		prefix, _, _ := strings.Cut(name, ":")
		if prefix == name {
			prefix, _, _ = strings.Cut(name, "_")
		}
		if kinds[prefix] != "" {
			return prefix
		}
	}
	return ""
}

// of is the first of the names that the page has.
func (m metricsPage) of(names []string) *float64 {
	for _, name := range names {
		if v, ok := m.values[name]; ok {
			return &v
		}
	}
	return nil
}

// share is the mean of the first of the names that the page has, over its engines.
func (m metricsPage) share(names []string) *float64 {
	i := slices.IndexFunc(names, func(name string) bool { return m.lines[name] > 0 })
	if i < 0 {
		return nil
	}
	return new(m.values[names[i]] / float64(m.lines[names[i]]))
}

// A sampler reads a server's metrics again and again.
type sampler struct {
	runner *runner
	start  time.Time
	period time.Duration
	stop   func()

	first, last metricsPage // pages before and after the run
	samples     []result.ServerSample
	reads       []float64
	failed      int
}

// samplePeriod is long beside the 10 ms or so of its process that a page of vLLM takes: 0.2 % of the time.
const samplePeriod = 5 * time.Second

// sampler reads a server's metrics for the first time; nil where it has none that are
// known.
func (r *runner) sampler(ctx context.Context) *sampler {
	own := &runner{options: r.options, endpoint: r.endpoint, clients: r.options.visitor()}
	body, err := own.page(ctx, "metrics")
	page := parseMetrics(body)
	if err != nil || page.kind() == "" {
		own.clients.free()
		return nil
	}
	return &sampler{runner: own, period: samplePeriod, first: page}
}

// begin reads the metrics from now on.
func (s *sampler) begin(ctx context.Context, start time.Time) {
	if s == nil {
		return
	}
	s.start = start
	s.stop = wait.Every(ctx, s.period, func(ctx context.Context) { s.read(ctx) })
}

func (s *sampler) read(ctx context.Context) (ok bool) {
	begun := time.Now()
	body, err := s.runner.page(ctx, "metrics")
	if ctx.Err() != nil {
		return false
	}
	if err != nil {
		s.failed++
		return false
	}
	s.last = parseMetrics(body)
	s.reads = append(s.reads, time.Since(begun).Seconds())
	s.samples = append(s.samples, result.ServerSample{
		AtS: begun.Sub(s.start).Seconds(), Running: s.last.of(gauges["running"]), Waiting: s.last.of(gauges["waiting"]), KVUse: s.last.share(gauges["kv_use"]),
	})
	return true
}

// end stops the sampling and sums up. The counters are read once more: the gauges of
// that moment, when nothing runs, are no sample of the run.
func (s *sampler) end(ctx context.Context) *result.ServerMetrics {
	if s == nil {
		return nil
	}
	s.stop()
	defer s.runner.clients.free()
	during := s.samples
	counted := s.read(context.WithoutCancel(ctx))
	m := &result.ServerMetrics{
		Source: s.first.kind(), PeriodS: s.period.Seconds(), Samples: during, Failed: s.failed, Counters: map[string]float64{},
	}
	if len(s.reads) > 0 {
		m.ReadSeconds = stats.Median(s.reads)
	}
	if counted {
		for key, names := range counters {
			before, after := s.first.of(names), s.last.of(names)
			if after != nil { // one that counted nothing before may not have been there
				if before == nil {
					before = new(float64)
				}
				if rise := *after - *before; rise >= 0 { // A fall says that the server was started anew.
					m.Counters[key] = rise
				}
			}
		}
	}
	m.Running = stats.Of(during, func(x *result.ServerSample) *float64 { return x.Running })
	m.Waiting = stats.Of(during, func(x *result.ServerSample) *float64 { return x.Waiting })
	m.KVUse = stats.Of(during, func(x *result.ServerSample) *float64 { return x.KVUse })
	return m
}
