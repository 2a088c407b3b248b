package openai

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"llmprof/internal/concurrent"
	"llmprof/internal/stats"
	"llmprof/measure/result"
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
	"prefix_hits": {"vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total", "sglang:cached_tokens_total",
		"llamacpp:prompt_tokens_cached_total"},
}

// A metricsPage is what a page in Prometheus's text form says: the sum of each name
// over its labels, and the labels of its last line.
type metricsPage struct {
	values map[string]float64
	lines  map[string]int // lines of each name: one for each engine
	labels map[string]map[string]string
	odd    map[string]string // value of a name that is no finite number
}

// parseMetrics reads a page; lines that are of another form are passed over.
func parseMetrics(body []byte) metricsPage {
	m := metricsPage{map[string]float64{}, map[string]int{}, map[string]map[string]string{}, map[string]string{}}
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
			m.odd[name] = fields[0]
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
	names := slices.AppendSeq(slices.Collect(maps.Keys(m.values)), maps.Keys(m.odd))
	for _, name := range names {
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

// of is the first of the names that the page has, "" if it has none of them.
func (m metricsPage) of(names []string) string {
	for _, name := range names {
		if m.lines[name] > 0 || m.odd[name] != "" {
			return name
		}
	}
	return ""
}

// mostCount is the largest figure that is believed: floating point counts up to it one by one.
const mostCount = 1 << 53

// dust is how far below zero a figure may be that is a sum of floating point numbers.
const dust = 1e-6

// figure is the first of the names that the page has: the sum over its engines or, of a share, the mean. It is nil
// where the page has none, or says what cannot be; why is that value.
func (m metricsPage) figure(names []string, isShare bool) (v *float64, name, why string) {
	if name = m.of(names); name == "" {
		return nil, "", ""
	}
	if why = m.odd[name]; why != "" {
		return nil, name, why
	}
	x, most := m.values[name], float64(mostCount)
	if isShare {
		x, most = x/float64(m.lines[name]), 1
	}
	if !(x >= -dust && x <= most+dust) {
		return nil, name, strconv.FormatFloat(x, 'g', -1, 64)
	}
	return new(min(max(x, 0), most)), name, ""
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
	dropped     map[string]*drop // by the name of the metric
}

// A drop is samples of a metric that cannot be.
type drop struct {
	samples int
	first   string
}

// heed counts a sample that cannot be.
func (s *sampler) heed(name, why string) {
	if why == "" {
		return
	}
	if s.dropped[name] == nil {
		s.dropped[name] = &drop{first: why}
	}
	s.dropped[name].samples++
}

// gauge is a figure of the last page.
func (s *sampler) gauge(key string) *float64 {
	v, name, why := s.last.figure(gauges[key], key == "kv_use")
	s.heed(name, why)
	return v
}

// notes says which samples were dropped.
func (s *sampler) notes() (all []string) {
	if s == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(s.dropped)) {
		d := s.dropped[name]
		all = append(all, fmt.Sprintf("the server's metrics gave %.40s for %s, which cannot be: such samples were dropped, %d in all", d.first,
			name, d.samples))
	}
	return all
}

// samplePeriod is long beside the 10 ms or so of its process that a page of vLLM takes: 0.2 % of the time.
const samplePeriod = 5 * time.Second

// lastRead is how long the counters after the run may take.
const lastRead = 10 * time.Second

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
	return &sampler{runner: own, period: samplePeriod, first: page, dropped: map[string]*drop{}}
}

// begin reads the metrics from now on.
func (s *sampler) begin(ctx context.Context, start time.Time) {
	if s == nil {
		return
	}
	s.start = start
	s.stop = concurrent.Every(ctx, s.period, func(ctx context.Context) {
		if at := time.Since(s.start); s.read(ctx) {
			s.samples = append(s.samples, result.ServerSample{
				AtS: at.Seconds(), Running: s.gauge("running"), Waiting: s.gauge("waiting"), KVUse: s.gauge("kv_use"),
			})
		}
	})
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
	last, cancel := context.WithTimeout(ctx, lastRead)
	if ctx.Err() != nil { // An interrupted run has counters too, but whoever interrupted it does not wait for them.
		last, cancel = context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	}
	defer cancel()
	counted := s.read(last)
	m := &result.ServerMetrics{
		Source: s.first.kind(), PeriodS: s.period.Seconds(), Samples: s.samples, Failed: s.failed, Counters: map[string]float64{},
	}
	if len(s.reads) > 0 {
		m.ReadSeconds = stats.Median(s.reads)
	}
	if counted {
		s.rises(m.Counters)
	}
	m.Running = stats.Of(s.samples, func(x *result.ServerSample) *float64 { return x.Running })
	m.Waiting = stats.Of(s.samples, func(x *result.ServerSample) *float64 { return x.Waiting })
	m.KVUse = stats.Of(s.samples, func(x *result.ServerSample) *float64 { return x.KVUse })
	return m
}

// rises are the increases of the counters during the run.
func (s *sampler) rises(to map[string]float64) {
	for key, names := range counters {
		after, name, why := s.last.figure(names, false)
		s.heed(name, why)
		if after == nil {
			continue
		}
		before, name, why := s.first.figure(names, false)
		s.heed(name, why)
		if before == nil && why != "" {
			continue
		}
		if before == nil { // one that counted nothing before may not have been there
			before = new(float64)
		}
		if rise := *after - *before; rise >= 0 { // A fall says that the server was started anew.
			to[key] = rise
		}
	}
}
