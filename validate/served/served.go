// Package served has runs of real servers under load, and scores simulations of them.
package served

import (
	"cmp"
	"context"
	"embed"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat"

	"llmprof/internal/stats"
	"llmprof/measure/result"
	"llmprof/serving"
	"llmprof/unit"
)

// A Run is a server under one load, request by request.
type Run struct {
	Name        string
	Model, GPU  string
	Engine      string // vllm or sglang, with its release where the server says it
	Weights     string // format of the weights; "" for the model's own
	TP, DP, EP  int
	MoETP, PP   int // 0 where experts are not cut, and without a pipeline
	Budget      int // most tokens of a step; 0 for the engine's default
	Sequences   int // most that run at once; 0 for the engine's default
	CacheTokens int // capacity of the KV cache, from the engine's log; 0 if it was not recorded
	Concurrency int // clients of a closed loop; 0 where requests came at times of their own
	Rate        float64
	NoP2P       bool    // GPUs reach each other through the host's memory alone.
	InEngine    bool    // the engine took the times of tokens, not a client
	HitRate     float64 // share of the prompts' tokens in the prefix cache, by the server's own count
	Source      string
	Licence     string
	Requests    []Request
}

// A Request is what was observed of one.
type Request struct {
	At          unit.Seconds
	Prompt, Gen int
	TTFT, E2E   unit.Seconds
	Hashes      []uint64 // hashes of the blocks of its prompt, where prompts share prefixes
}

// hashTokens is the tokens of a block that has a hash, as in Mooncake's traces.
const hashTokens = 512

// Own is the licence of this project's own runs.
const Own = "this project's"

//go:embed data/*.csv
var data embed.FS

// Runs are those that come with the program.
func Runs() ([]Run, error) {
	var runs []Run
	err := rows("servers.csv", func(f []string) error {
		r := Run{
			Name: strings.TrimSuffix(f[0], ".csv"), Model: f[1], Engine: f[2], Weights: f[3], GPU: f[4],
			NoP2P: f[15] == "no", InEngine: f[16] == "engine", Source: f[17], Licence: f[18],
		}
		for i, to := range []*int{&r.TP, &r.DP, &r.EP, &r.MoETP, &r.PP, &r.Budget, &r.Sequences, &r.CacheTokens, &r.Concurrency} {
			if f[5+i] == "" {
				continue
			}
			var err error
			if *to, err = strconv.Atoi(f[5+i]); err != nil {
				return err
			}
		}
		if f[14] != "" {
			var err error
			if r.Rate, err = strconv.ParseFloat(f[14], 64); err != nil {
				return err
			}
		}
		runs = append(runs, r)
		return nil
	})
	for i := range runs {
		if err == nil {
			err = runs[i].read()
		}
	}
	return runs, err
}

func (r *Run) read() error {
	return rows(r.Name+".csv", func(f []string) error {
		var v [5]float64
		for i := range v {
			var err error
			if v[i], err = strconv.ParseFloat(f[i], 64); err != nil {
				return err
			}
		}
		q := Request{At: unit.Seconds(v[0]), Prompt: int(v[1]), Gen: int(v[2]), TTFT: unit.Seconds(v[3]), E2E: unit.Seconds(v[4])}
		for _, list := range f[len(v):] {
			for hash := range strings.FieldsSeq(list) {
				h, err := strconv.ParseUint(hash, 10, 64)
				if err != nil {
					return err
				}
				q.Hashes = append(q.Hashes, h)
			}
		}
		r.Requests = append(r.Requests, q)
		return nil
	})
}

// rows reads the rows of a table below its header.
func rows(name string, each func([]string) error) error {
	f, err := data.Open("data/" + name)
	if err != nil {
		return err
	}
	defer f.Close()
	c := csv.NewReader(f)
	for line := 1; ; line++ {
		fields, err := c.Read()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		case line == 1:
			continue
		}
		if err := each(fields); err != nil {
			return fmt.Errorf("%s, line %d: %w", name, line, err)
		}
	}
}

// Load is a short name of the load.
func (r *Run) Load() string {
	switch {
	case r.Concurrency > 0:
		return fmt.Sprint(r.Concurrency)
	case r.Rate > 0:
		return fmt.Sprintf("%g/s", r.Rate)
	}
	return "log"
}

// Apply sets what is known of the server.
func (r *Run) Apply(s *serving.Server) {
	if r.Budget > 0 {
		s.Scheduler.Budget = r.Budget
	}
	if r.Sequences > 0 {
		s.Scheduler.MaxSeqs = r.Sequences
	}
	s.HitRate = r.HitRate
	if r.CacheTokens > 0 {
		s.CacheTokens = r.CacheTokens
	}
	s.Replicas = r.DP
	if r.DP > 1 {
		s.Routing = "least-loaded"
	}
}

// source is the load again, with the lengths of each request: the clients of a closed loop, or the requests
// at their times.
func (r *Run) source() serving.Source {
	requests := make([]serving.Request, len(r.Requests))
	for i, q := range r.Requests {
		requests[i] = serving.Request{At: q.At, Prompt: q.Prompt, Gen: q.Gen}
		if len(q.Hashes) > 0 {
			requests[i].Hashes, requests[i].HashTokens = q.Hashes, hashTokens
		}
	}
	if r.Concurrency > 0 {
		return serving.Again(requests, r.Concurrency)
	}
	return serving.Replay(requests)
}

// A Figure is one figure of a run, observed and predicted.
type Figure struct {
	Name                string // "ttft", "tpot", "e2e" with "mean", "p50", "p90" or "p99", or "requests_s"
	Observed, Predicted float64
	Within              *serving.Ends // 90 % interval of the prediction; nil of means and rates, which have none
}

// Error is predicted over observed, less 1.
func (f *Figure) Error() float64 { return f.Predicted/f.Observed - 1 }

// Inside reports whether what was observed lies in the interval.
func (f *Figure) Inside() bool { return f.Within.Low <= f.Observed && f.Observed <= f.Within.High }

// A Scored is a run with its figures.
type Scored struct {
	Run     *Run
	Figures []Figure
}

// Figure is the one of a name; nil where the run has none, as TPOT of answers of one token.
func (s *Scored) Figure(name string) *Figure {
	i := slices.IndexFunc(s.Figures, func(f Figure) bool { return f.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Figures[i]
}

// scoredTimes are the mean and the percentiles of a time that are scored; a negative percentile is the mean.
var scoredTimes = []struct {
	name       string
	percentile float64
}{{"mean", -1}, {"p50", 50}, {"p90", 90}, {"p99", 99}}

// Score simulates a run on a server, to which Apply was given.
func (r *Run) Score(ctx context.Context, s *serving.Server) (*Scored, error) {
	var predicted [3][]float64
	var end unit.Seconds
	result, err := serving.Simulate(ctx, s, r.source(), serving.Options{InEngine: r.InEngine, Intervals: true, Each: func(q *serving.Record) {
		add(&predicted, q.TTFT(), q.E2E(), q.Request.Gen)
		end = max(end, q.Last)
	}})
	if err == nil && len(predicted[0]) != len(r.Requests) {
		err = fmt.Errorf("%d of %d requests were answered", len(predicted[0]), len(r.Requests))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Name, err)
	}
	var observed [3][]float64
	var last unit.Seconds
	for _, q := range r.Requests {
		add(&observed, q.TTFT, q.E2E, q.Gen)
		last = max(last, q.At+q.E2E)
	}
	scored := &Scored{Run: r}
	for i, name := range []string{"ttft", "tpot", "e2e"} {
		if len(observed[i]) == 0 {
			continue
		}
		slices.Sort(predicted[i])
		slices.Sort(observed[i])
		for _, q := range scoredTimes {
			f := Figure{Name: name + "_" + q.name, Observed: at(observed[i], q.percentile), Predicted: at(predicted[i], q.percentile)}
			if x := result.Interval(name, q.percentile/100); x != nil {
				whole := x.Whole()
				f.Within = &serving.Ends{Low: whole.Low * f.Predicted, High: whole.High * f.Predicted}
			}
			scored.Figures = append(scored.Figures, f)
		}
	}
	n := float64(len(r.Requests))
	scored.Figures = append(scored.Figures, Figure{Name: "requests_s", Observed: n / float64(last), Predicted: n / float64(end)})
	return scored, nil
}

func add(to *[3][]float64, ttft, e2e unit.Seconds, gen int) {
	to[0] = append(to[0], float64(ttft))
	if gen > 1 {
		to[1] = append(to[1], float64(e2e-ttft)/float64(gen-1))
	}
	to[2] = append(to[2], float64(e2e))
}

// at is a percentile of sorted values, or their mean for a negative one.
func at(sorted []float64, percentile float64) float64 {
	if percentile < 0 {
		return stat.Mean(sorted, nil)
	}
	return stats.Percentile(sorted, percentile)
}

// Median is the median of the absolute errors of a figure over the runs that have it; NaN where none has.
func Median(all []*Scored, name string) float64 {
	var off []float64
	for _, s := range all {
		if f := s.Figure(name); f != nil {
			off = append(off, math.Abs(f.Error()))
		}
	}
	if len(off) == 0 {
		return math.NaN()
	}
	return stats.Median(off)
}

// Coverage is the share of the runs whose figure lies in the interval of its prediction; NaN where no run has one.
func Coverage(all []*Scored, name string) float64 {
	inside, n := 0.0, 0.0
	for _, s := range all {
		if f := s.Figure(name); f != nil && f.Within != nil {
			if n++; f.Inside() {
				inside++
			}
		}
	}
	return inside / n
}

// engineOf is the engine that a server is simulated as, with the release that it says it is of: what does not say its kind schedules as
// vLLM does.
func engineOf(d *result.Result) string {
	switch kind := d.Engine.Options["server"]; kind {
	case "vllm", "sglang":
		if d.Engine.Version != "" {
			return kind + "@" + d.Engine.Version
		}
		return kind
	case "llama.cpp":
		return "llamacpp"
	}
	return "vllm"
}

// FromResult is the run of a result of llmprof measure --engine openai, on GPUs of a kind that the client
// need not have seen. Requests that failed are an error: what they took from the server is not known.
func FromResult(name string, d *result.Result, gpu string) (*Run, error) {
	s := d.Serving
	switch {
	case s == nil:
		return nil, fmt.Errorf("%s: no server was asked: want a result of llmprof measure --engine openai", name)
	case len(s.Records) == 0 && s.Completed > 0:
		return nil, fmt.Errorf("%s: the result has no records of its %d requests, which are too many for a file: want a run of up to 100,000",
			name, s.Requests)
	case s.Completed < len(s.Records) || s.Completed == 0:
		return nil, fmt.Errorf("%s: %d of %d requests were completed: a run is compared whole", name, s.Completed, len(s.Records))
	}
	r := &Run{
		Name: name, Model: d.Model.Name, Engine: engineOf(d), Weights: cmp.Or(d.Workload.Weights, d.Engine.Options["quantization"]), GPU: gpu,
		Concurrency: s.Concurrency,
		Source:      fmt.Sprintf("%s %s: %s", d.Engine.Options["server"], d.Engine.Version, name),
	}
	p := &d.Parallelism
	r.TP, r.DP, r.EP = max(p.TP, 1), max(p.DP, 1), max(p.EP, 1)
	if s.RateHz != nil {
		r.Rate, r.Concurrency = *s.RateHz, 0
	}
	r.CacheTokens, _ = strconv.Atoi(d.Engine.Options["kv_cache_size_tokens"])
	if c := s.PrefixCache; c != nil && c.Share != nil {
		r.HitRate = *c.Share
	}
	for i := range s.Records {
		q := &s.Records[i]
		if q.Prompt == nil || q.Generated == nil || *q.Prompt < 1 || *q.Generated < 1 || q.FirstTokenS == nil || q.LastTokenS == nil {
			return nil, fmt.Errorf("%s: request %d has no count of its tokens, or none", name, q.Index)
		}
		r.Requests = append(r.Requests, Request{
			At: unit.Seconds(q.SentS), Prompt: *q.Prompt, Gen: *q.Generated, TTFT: unit.Seconds(*q.FirstTokenS), E2E: unit.Seconds(*q.LastTokenS),
		})
	}
	slices.SortStableFunc(r.Requests, func(a, b Request) int { return cmp.Compare(a.At, b.At) })
	return r, nil
}
