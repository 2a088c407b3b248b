// Package reports reads what other tools' benchmarks of a server report, as observations that predictions are held against: AIPerf,
// GuideLLM, the benchmarks of vLLM and SGLang, genai-bench, llm-d's Benchmark Report, LLMPerf, inference-perf, trtllm-bench and
// llama-bench. A tool is one file, and a file of it is known by its content.
package reports

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"llmprof/internal/input"
	"llmprof/internal/stats"
	"llmprof/unit"
	"llmprof/validate"
)

// A Run is what a tool reports of one load.
type Run struct {
	Tool    string // the file, in words
	Model   string // "" where the file does not say, as of all that follows
	GPU     string
	Engine  string
	Release string // release of the engine
	Weights string
	TP      int
	Clients int     // requests under way at a time; 0 where that is not known
	Rate    float64 // requests a second, of those that did not wait for answers
	Prompt  float64 // mean tokens of a prompt
	Gen     float64 // mean tokens of an answer
	Failed  int     // requests without an answer

	Params    int64  // parameters of the model
	Placement string // what of the model lies on the host, as engine.ParsePlacement reads it

	figures map[validate.Metric]figure
}

// A figure is a time in seconds: of each request, or what a tool made of those.
type figure struct {
	samples       []float64 // nil where the tool gives none
	n             int
	p50, p90, p99 float64 // 0 where the tool gives none
}

// A tool reads one kind of file.
type tool struct {
	what string
	is   func(first object) bool                // whether a file is of this kind, by its first record
	runs func(records []object) ([]*Run, error) // what it reports
}

// tools lists the tools. A file is of the first that knows it.
var tools = []tool{vllmBench, sglangBench, aiperfSummary, aiperfRequests, guideLLM, genAIBench, llmdReport, llmPerf, llmPerfResponses,
	inferencePerf, inferencePerfRequests, trtllmBench, llamaBench}

// ErrUnknown says that a file is of no tool that is known.
var ErrUnknown = errors.New("no report of a benchmark that is known: want one of AIPerf, GuideLLM, vLLM's or SGLang's benchmark, " +
	"genai-bench, llm-d, LLMPerf, inference-perf, trtllm-bench or llama-bench")

// Read reads the report of a tool from the text of a file, which gzip may have packed.
func Read(name string, text []byte) ([]*Run, error) {
	from, err := input.Unpack(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	if text, err = io.ReadAll(io.LimitReader(from, Most+1)); err != nil {
		return nil, err
	}
	records, err := recordsOf(name, text)
	if err != nil {
		return nil, err
	}
	if len(records) == 0 {
		return nil, ErrUnknown
	}
	i := slices.IndexFunc(tools, func(t tool) bool { return t.is(records[0]) })
	if i < 0 {
		return nil, ErrUnknown
	}
	runs, err := tools[i].runs(records)
	if err == nil && len(runs) == 0 {
		err = errors.New("it has no run with an answer")
	}
	if err != nil {
		return nil, fmt.Errorf("this is %s: %w", tools[i].what, err)
	}
	for _, r := range runs {
		r.Tool = tools[i].what
	}
	return runs, nil
}

// Overrides is what a user says of a report. It precedes what the file says.
type Overrides struct {
	Model, GPU, Engine, Weights, KV string
	Host                            string // host of the GPU; the usual one if empty
	TP                              int
	Processor                       string // the GPU that stands for the processor of results without a GPU
}

// Observations are the times of a run as observations of a file, which over tells what its report does not.
func (r *Run) Observations(file string, over *Overrides) (all []validate.Observation, err error) {
	base := validate.Observation{Source: file, Config: validate.Config{
		Model: cmp.Or(over.Model, r.Model), GPU: cmp.Or(over.GPU, r.GPU), Engine: cmp.Or(over.Engine, r.Engine), Release: r.Release,
		TP: cmp.Or(over.TP, r.TP, 1), Weights: cmp.Or(over.Weights, r.Weights, "bf16"), KV: over.KV,
		Host: over.Host, Placement: r.Placement, Params: r.Params,
		Batch: r.Clients, Prompt: int(math.Round(r.Prompt)), Gen: int(math.Round(r.Gen)), Load: validate.Static,
	}}
	if r.Clients > 1 {
		base.Load = validate.Closed
	}
	if err := r.lacks(&base.Config); err != nil {
		return nil, err
	}
	for _, m := range []validate.Metric{validate.TTFT, validate.TPOT, validate.TTLT} {
		f, ok := r.figures[m]
		if !ok || m == validate.TPOT && base.Gen < 2 {
			continue
		}
		o := base
		o.Metric, o.Value, o.Samples, o.Note = m, f.p50, f.n, r.Tool+f.tail()
		if sum, err := stats.Summarize(f.samples); err == nil && sum.MedianLow != nil && sum.MedianHigh != nil {
			o.Low, o.High = sum.MedianLow, sum.MedianHigh
		}
		if err := o.Check(); err != nil {
			return nil, fmt.Errorf("%s: %w", m, err)
		}
		all = append(all, o)
	}
	return all, nil
}

// lacks says what of a run is not known without which no prediction can be made, or why there is none of it.
func (r *Run) lacks(c *validate.Config) error {
	switch {
	case r.Rate > 0:
		return fmt.Errorf("requests came at %.4g a second: their times include waiting for each other, and an estimate is of a batch that "+
			"starts together; one request at a time, or clients that each wait for their answer, are compared", r.Rate)
	case c.Model == "":
		return unit.Errorf("which model was served is not known: give {model}")
	case c.GPU == "":
		return unit.Errorf("on which GPU it ran is not known: give {gpu}")
	case c.Engine == "":
		return unit.Errorf("which engine served it is not known: give {engine}")
	case r.Clients == 0:
		return errors.New("how many requests were under way at a time is not known")
	case c.Prompt < 1 || c.Gen < 1:
		return fmt.Errorf("prompts of %d tokens and answers of %d: it lacks how many tokens they have", c.Prompt, c.Gen)
	case len(r.figures) == 0:
		return errors.New("it lacks TTFT, TPOT and the time of a request")
	}
	return nil
}

// String says what a run is, and which times it has.
func (r *Run) String() string {
	text := r.Tool
	for _, m := range []validate.Metric{validate.TTFT, validate.TPOT, validate.TTLT} {
		name := strings.ToUpper(strings.TrimSuffix(string(m), "_s"))
		if f, ok := r.figures[m]; ok {
			text += fmt.Sprintf(", %s %v%s", name, unit.Seconds(f.p50), f.tail())
		} else {
			text += ", no " + name
		}
	}
	if r.Failed > 0 {
		text += fmt.Sprintf(", %d requests failed", r.Failed)
	}
	return text
}

// tail is the percentiles of a figure in words.
func (f *figure) tail() (text string) {
	var parts []string
	for _, p := range []struct {
		name  string
		value float64
	}{{"p90", f.p90}, {"p99", f.p99}} {
		if p.value > 0 {
			parts = append(parts, fmt.Sprintf("%s %v", p.name, unit.Seconds(p.value)))
		}
	}
	if len(parts) > 0 {
		text = " (" + strings.Join(parts, ", ") + ")"
	}
	return text
}

// sampled sets a figure to the times of requests; those that are none are left out.
func (r *Run) sampled(m validate.Metric, seconds []float64) {
	seconds = slices.DeleteFunc(slices.Clone(seconds), func(s float64) bool { return !(s > 0) || math.IsInf(s, 0) })
	if len(seconds) == 0 {
		return
	}
	sorted := slices.Sorted(slices.Values(seconds))
	r.set(m, figure{samples: seconds, n: len(seconds), p50: stats.Percentile(sorted, 50), p90: stats.Percentile(sorted, 90),
		p99: stats.Percentile(sorted, 99)})
}

// set sets a figure that a tool gives, unless it has no median.
func (r *Run) set(m validate.Metric, f figure) {
	if !(f.p50 > 0) || math.IsInf(f.p50, 0) {
		return
	}
	if r.figures == nil {
		r.figures = map[validate.Metric]figure{}
	}
	r.figures[m] = f
}

// mean is the mean of those of some that are numbers, 0 of none.
func mean(all []float64) float64 {
	all = slices.DeleteFunc(slices.Clone(all), math.IsNaN)
	sum := 0.0
	for _, x := range all {
		sum += x / float64(len(all))
	}
	return sum
}

// mostConcurrent is how many of some requests were under way at a time at most, which have a begin and an end each.
func mostConcurrent(begins, ends []float64) (most int) {
	slices.Sort(begins)
	slices.Sort(ends)
	done := 0
	for i, begin := range begins {
		for done < len(ends) && ends[done] <= begin {
			done++
		}
		most = max(most, i+1-done)
	}
	return most
}
