package view

import (
	"strings"

	"llmprof/plots/render"
	"llmprof/serving"
	"llmprof/unit"
)

// SimulationSchema is the version of the document.
const SimulationSchema = "llmprof.simulate/v1"

// A SimulationDocument is a simulation as JSON; its figures are of the first load where there
// are several, and all loads are in points.
type SimulationDocument struct {
	Schema      string             `json:"schema"`
	Model       string             `json:"model" jsonschema:"minLength=1"`
	GPU         string             `json:"gpu" jsonschema:"minLength=1"`
	GPUs        int                `json:"gpus" jsonschema:"minimum=1"`
	Engine      string             `json:"engine" jsonschema:"minLength=1"`
	Scheduler   schedulerJSON      `json:"scheduler"`
	Speculation *speculationJSON   `json:"speculation"` // null where nothing is drafted
	Replicas    int                `json:"replicas" jsonschema:"minimum=1"`
	Prefill     int                `json:"prefill_replicas"`
	KVTokens    int                `json:"kv_cache_tokens" jsonschema:"minimum=1"` // that the KV cache of a replica holds
	Seed        uint64             `json:"seed"`
	Trace       *TraceRead         `json:"trace"` // null where loads are drawn
	simulated                      // figures of the first load
	Points      []simulatedOne     `json:"points" jsonschema:"minItems=1"`
	Warnings    []string           `json:"warnings"`
	Coded       []*WarningDocument `json:"warnings_coded"` // the warnings as data, in the same order
}

// A schedulerJSON is the scheduler of a server and its limits.
type schedulerJSON struct {
	Name   string `json:"name"`
	Budget int    `json:"max_num_batched_tokens" jsonschema:"minimum=1"`
	Seqs   int    `json:"max_num_seqs" jsonschema:"minimum=1"`
	Block  int    `json:"block_size" jsonschema:"minimum=1"`
	Async  bool   `json:"async_scheduling"`
	// decode steps after which new requests are received; null where the scheduler has no such setting
	Recv *int `json:"scheduler_recv_interval" jsonschema:"minimum=1"`
	// tokens that are sent to a client at once; null where the scheduler has no such setting
	Stream *int `json:"stream_interval" jsonschema:"minimum=1"`
}

// A speculationJSON says what is drafted in a step: by "mtp", the model's own layer, by "ngram", or by another model.
type speculationJSON struct {
	Tokens     int     `json:"speculative_tokens" jsonschema:"minimum=1"`   // tokens that are drafted
	Acceptance float64 `json:"acceptance" jsonschema:"minimum=0,maximum=1"` // probability that a drafted token is right if those before it are
	DraftModel string  `json:"draft_model" jsonschema:"minLength=1"`        // mtp for the model's own layer, ngram, or the model that drafts
}

func speculationOf(s *serving.Server) *speculationJSON {
	if s.Drafts == 0 {
		return nil
	}
	j := &speculationJSON{s.Drafts, s.Acceptance, "ngram"}
	switch {
	case s.Modules > 0:
		j.DraftModel = "mtp"
	case s.Drafter != nil:
		j.DraftModel = s.Drafter.Model.Name
	}
	return j
}

// A simulatedOne is what a simulation of one load gave.
type simulatedOne struct {
	Load string   `json:"load"`
	Rate *float64 `json:"request_rate_hz"`
	N    *int     `json:"concurrency"`
	simulated
}

type simulated struct {
	TTFT      *sketchJSON `json:"ttft_s"`
	TPOT      *sketchJSON `json:"tpot_s"`
	ITL       *sketchJSON `json:"itl_s"`
	E2E       *sketchJSON `json:"e2e_s"`
	Generated float64     `json:"generated_tok_s" jsonschema:"minimum=0"` // generated tokens a second
	Requests  float64     `json:"requests_s" jsonschema:"minimum=0"`      // requests answered a second
	// requests a second that met --slo; null without one, for then no request can be told from a good one
	Goodput     *float64      `json:"goodput_s" jsonschema:"minimum=0"`
	Completed   int           `json:"completed"`    // requests answered
	Counted     int           `json:"counted"`      // requests that the times, throughput and goodput are of
	Steady      *steadyJSON   `json:"steady_state"` // null where none was looked for
	Refused     int           `json:"refused"`      // requests longer than the model or the KV cache
	Preempted   int           `json:"preempted"`
	Duration    float64       `json:"duration_s" jsonschema:"minimum=0"`       // time simulated
	Steps       int           `json:"steps"`                                   // of all replicas
	Running     float64       `json:"running" jsonschema:"minimum=0"`          // sequences that run, mean over time
	Utilization float64       `json:"utilization" jsonschema:"minimum=0"`      // share of the time in which a replica ran a step
	KV          float64       `json:"kv_cache_share" jsonschema:"minimum=0"`   // share of the KV blocks in use, mean over time
	HitRate     float64       `json:"prefix_hit_rate" jsonschema:"minimum=0"`  // share of the prompts' tokens found in a prefix cache
	Energy      float64       `json:"energy_j" jsonschema:"minimum=0"`         // of all GPUs
	PerRequest  float64       `json:"energy_j_request" jsonschema:"minimum=0"` // of a request
	Cost        *float64      `json:"cost_usd_request"`                        // null where no price is known
	Interrupted bool          `json:"interrupted"`
	Timeline    []serving.Bin `json:"timeline" jsonschema:"nullable"`
}

// A steadyJSON says which requests count, from begin to before end in the order of their arrival.
type steadyJSON struct {
	Method  string `json:"method"`  // how the transient was found
	Reached bool   `json:"reached"` // false if the load overloads the server or is too short: then all requests count
	Begin   int    `json:"begin"`   // the first request that counts, in the order of arrival from 0
	End     int    `json:"end"`     // the first one after those that count
}

// A sketchJSON is the distribution of a time, in seconds.
type sketchJSON struct {
	Mean float64 `json:"mean" jsonschema:"minimum=0"`
	P50  float64 `json:"p50" jsonschema:"minimum=0"`
	P90  float64 `json:"p90" jsonschema:"minimum=0"`
	P95  float64 `json:"p95" jsonschema:"minimum=0"`
	P99  float64 `json:"p99" jsonschema:"minimum=0"`

	Intervals *percentilesJSON `json:"intervals"` // null where there are none, as of what was interrupted
}

// A percentilesJSON is the 90 % intervals of percentiles, in seconds.
type percentilesJSON struct {
	P50 uncertainJSON `json:"p50"`
	P90 uncertainJSON `json:"p90"`
	P95 uncertainJSON `json:"p95"`
	P99 uncertainJSON `json:"p99"`
}

// An uncertainJSON is the ends of an interval, and those that each of the causes leaves alone.
type uncertainJSON struct {
	endsJSON
	Constants endsJSON `json:"constants"` // the kernels' constants and laws
	Host      endsJSON `json:"host"`      // the host's speed, and how it scatters
	Seed      endsJSON `json:"seed"`      // the luck of arrivals and lengths
}

// An endsJSON is the ends of an interval.
type endsJSON struct {
	Low  float64 `json:"low" jsonschema:"minimum=0"`
	High float64 `json:"high" jsonschema:"minimum=0"`
}

// A RecordJSON is what became of one request.
type RecordJSON struct {
	Load      string   `json:"load"`
	Index     int      `json:"index"`
	Arrival   float64  `json:"arrival_s"`
	Prompt    int      `json:"prompt_tokens"`
	Generated int      `json:"generated_tokens"`
	Cached    int      `json:"cached_tokens"`
	TTFT      float64  `json:"ttft_s"`
	TPOT      *float64 `json:"tpot_s"`
	E2E       float64  `json:"e2e_s"`
	Preempted int      `json:"preempted"`
	Replica   int      `json:"replica"`
}

// RecordOf is the record of a request.
func RecordOf(load string, r *serving.Record) RecordJSON {
	j := RecordJSON{
		Load: load, Index: r.Index, Arrival: float64(r.Request.At), Prompt: r.Request.Prompt, Generated: r.Request.Gen, Cached: r.Cached,
		TTFT: float64(r.TTFT()), E2E: float64(r.E2E()), Preempted: r.Preempted, Replica: r.Replica,
	}
	if tpot, ok := r.TPOT(); ok {
		j.TPOT = new(float64(tpot))
	}
	return j
}

// Document is the simulation for programs.
func (s *Simulation) Document() *SimulationDocument {
	r := &s.Server.Scheduler
	d := &SimulationDocument{
		Schema: SimulationSchema, Model: s.Deployment.Model.Name, GPU: s.Deployment.Machine.GPU.Name, GPUs: gpusOf(s.Server),
		Engine:      s.Deployment.Machine.Engine.Profile().Name,
		Scheduler:   schedulerJSON{r.Name, r.Budget, r.MaxSeqs, r.Block, r.Async, unit.OrNull(r.Receives), unit.OrNull(r.Streams)},
		Speculation: speculationOf(s.Server),
		Replicas:    s.Server.Replicas, Prefill: s.Server.Prefillers, KVTokens: s.Server.Tokens(), Seed: s.Seed, Trace: s.Trace,
		Warnings: Texts(s.Warnings), Coded: coded(s.Warnings),
	}
	for _, p := range s.Points {
		one := simulatedOne{Load: p.Name, simulated: s.simulated(p.Result)}
		if l := p.Load; l != nil {
			one.Rate, one.N = unit.OrNull(l.Arrival.Rate), unit.OrNull(l.Arrival.Concurrency)
		}
		d.Points = append(d.Points, one)
	}
	d.simulated = d.Points[0].simulated
	d.Timeline = nil
	return d
}

func (s *Simulation) simulated(r *serving.Result) simulated {
	j := simulated{
		TTFT: sketchOf(r, 0), TPOT: sketchOf(r, 1), ITL: sketchOf(r, 2), E2E: sketchOf(r, 3),
		Generated: r.Throughput(), Requests: r.Rate(), Completed: r.Completed, Counted: r.Counted(), Refused: r.Refused, Preempted: r.Preempted,
		Duration: float64(r.Duration), Steps: r.Steps, Running: r.MeanRunning, Utilization: r.Busy, KV: r.MeanCache,
		HitRate: float64(r.Cached) / float64(max(r.Prompt, 1)), Energy: float64(r.Energy),
		PerRequest: float64(r.Energy) / float64(max(r.Completed, 1)), Interrupted: r.Interrupted, Timeline: r.Timeline,
	}
	if x := r.Transient; x != nil {
		j.Steady = &steadyJSON{serving.Method, x.Steady, x.Begin, x.End}
	}
	if r.Limited {
		j.Goodput = new(r.Goodput())
	}
	if _, price := s.Server.Predictor.Replica(); price > 0 {
		j.Cost = new(float64(price) * float64(gpusOf(s.Server)) / 3600 / r.Rate())
	}
	return j
}

// sketchOf is one of the distributions of a result.
func sketchOf(r *serving.Result, i int) *sketchJSON {
	k := r.Sketches()[i]
	if k.N == 0 {
		return nil
	}
	var at [len(serving.Percentiles)]float64
	for j, share := range serving.Percentiles {
		at[j] = k.Quantile(share)
	}
	s := &sketchJSON{k.Mean(), at[0], at[1], at[2], at[3], nil}
	if r.Intervals != nil {
		s.Intervals = &percentilesJSON{}
		for j, to := range [...]*uncertainJSON{&s.Intervals.P50, &s.Intervals.P90, &s.Intervals.P95, &s.Intervals.P99} {
			*to = intervalOf(&r.Intervals[i][j], at[j])
		}
	}
	return s
}

func intervalOf(x *serving.Interval, at float64) uncertainJSON {
	ends := func(e serving.Ends) endsJSON { return endsJSON{e.Low * at, e.High * at} }
	return uncertainJSON{ends(x.Whole()), ends(x.Constants), ends(x.Host), ends(x.Seed)}
}

// Table is the simulation for spreadsheets, a row a load.
func (s *Simulation) Table() *render.Table {
	columns := []string{"load", "request_rate_hz", "concurrency"}
	for _, k := range serving.Times {
		for _, q := range []string{"mean", "p50", "p90", "p95", "p99"} {
			columns = append(columns, k+"_"+q+"_s="+k+"_s."+q)
		}
	}
	for _, k := range serving.Times {
		for _, q := range []string{"p50", "p90", "p95", "p99"} {
			for _, part := range []string{"", "constants.", "host.", "seed."} {
				for _, end := range []string{"low", "high"} {
					columns = append(columns, k+"_"+q+"_"+strings.ReplaceAll(part, ".", "_")+end+"_s="+k+"_s.intervals."+q+"."+part+end)
				}
			}
		}
	}
	return flat(s.Document().Points, append(columns, "generated_tok_s", "requests_s", "goodput_s", "completed", "counted", "refused",
		"preempted", "running", "utilization", "kv_cache_share", "energy_j_request")...)
}
