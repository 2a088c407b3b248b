//go:build !js

package view

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"llmprof/internal/stats"
	"llmprof/measure/result"
	"llmprof/plots/render"
	"llmprof/unit"
	"llmprof/validate"
)

// A ResultRow is the result of one process, in a line.
type ResultRow struct {
	ID        string         `json:"id"`
	Process   int            `json:"process"`
	Processes int            `json:"processes"`
	Cycle     int            `json:"cycle"`
	Model     string         `json:"model"`
	Engine    string         `json:"engine"`
	GPU       *string        `json:"gpu"`
	GPUs      int            `json:"gpus"`
	Batch     *int           `json:"batch"` // null of a server
	PromptLen int            `json:"prompt_len"`
	GenLen    int            `json:"gen_len"`
	TTFT      *unit.Seconds  `json:"ttft_s"` // medians
	TPOT      *unit.Seconds  `json:"tpot_s"`
	TTLT      *unit.Seconds  `json:"ttlt_s"`
	PerToken  *unit.Joules   `json:"energy_per_token_j"`
	Marks     []string       `json:"marks"`
	Server    *ServerFigures `json:"server"` // null of an engine that is not asked over HTTP
}

// ResultRows puts each result in a line.
func ResultRows(all []*result.Result) []ResultRow {
	rows := make([]ResultRow, len(all))
	for i, r := range all {
		rows[i] = ResultRow{
			ID: r.ID, Process: r.Process, Processes: r.Processes, Cycle: r.Cycle, Model: r.Model.Name, Engine: r.Engine.Name,
			GPUs: len(r.Machine.GPUs), Batch: unit.OrNull(r.Workload.Batch), PromptLen: r.Workload.PromptLen, GenLen: r.Workload.GenLen,
			TTFT: of(r.TTFT, medianOf), TPOT: of(r.TPOT, medianOf), TTLT: of(r.TTLT, medianOf), Marks: append([]string{}, r.Marks...),
			Server: Server(r),
		}
		if len(r.Machine.GPUs) > 0 {
			g := r.Machine.GPUs[0]
			rows[i].GPU = unit.OrNull(g.Key)
			if g.Key == "" {
				rows[i].GPU = unit.OrNull(g.Name)
			}
		}
		if r.Energy != nil && r.Energy.PerToken != nil {
			rows[i].PerToken = new(unit.Joules(*r.Energy.PerToken))
		}
	}
	return rows
}

func median(s *stats.Summary) unit.Seconds  { return unit.Seconds(s.Median) }
func medianOf(t *result.Times) unit.Seconds { return median(&t.Summary) }
func tailOf(t *result.Times) unit.Seconds   { return unit.Seconds(t.P99) }
func meanOf(s *stats.Summary) float64       { return s.Mean }

// ResultPage lists results for people, those of servers apart, and the runs that failed.
func ResultPage(rows []ResultRow, failures []result.Failure) *render.Document {
	var notes []string
	for _, f := range failures {
		note := f.ID
		if f.Attempts > 1 {
			note += fmt.Sprintf(" (tried %d times)", f.Attempts)
		}
		notes = append(notes, note+": "+strings.Join(f.Errors[:min(1, len(f.Errors))], ""))
	}
	return &render.Document{Blocks: []render.Block{engineTable(rows), ServerTable(rows, true), render.Notes{Title: "Failed", Items: notes}}}
}

// ResultDocument lists results and the runs that failed, for programs.
func ResultDocument(rows []ResultRow, failures []result.Failure) any {
	return struct {
		Results  []ResultRow      `json:"results"`
		Failures []result.Failure `json:"failures"`
	}{rows, append([]result.Failure{}, failures...)}
}

// ResultTable lists results for programs.
func ResultTable(rows []ResultRow) *render.Table {
	return flat(rows, "id", "process", "processes", "cycle", "model", "engine", "gpu", "gpus", "batch", "prompt_len", "gen_len", "ttft_s",
		"tpot_s", "ttlt_s", "energy_per_token_j", "marks",
		"server.concurrency", "server.request_rate_hz", "server.requests", "server.failed", "server.completed_hz", "server.goodput_hz",
		"server.generated_tok_s", "server.prompt_tokens", "server.generated_tokens", "server.ttft_p99_s", "server.tpot_p99_s", "server.seed")
}

// engineTable lists the results that are not of servers.
func engineTable(rows []ResultRow) render.Table {
	t := render.Table{Columns: []render.Column{
		{Title: "id", Left: true}, {Title: "model", Left: true, Max: 24}, {Title: "engine", Left: true, Drop: 3},
		{Title: "GPU", Left: true, Drop: 4},
		{Title: "batch"}, {Title: "prompt", Drop: 1}, {Title: "gen", Drop: 1}, {Title: "TTFT"}, {Title: "TPOT"}, {Title: "J/token"},
		{Title: "marks", Left: true, Drop: 2, Max: 24},
	}}
	for _, r := range rows {
		if r.Server != nil {
			continue
		}
		id, gpu := r.name(), Cell(r.GPU)
		if r.GPUs > 1 {
			gpu = fmt.Sprintf("%d × %v", r.GPUs, gpu)
		}
		t.Add(id, r.Model, r.Engine, gpu, Cell(r.Batch), r.PromptLen, r.GenLen, Cell(r.TTFT), Cell(r.TPOT), Cell(r.PerToken), joined(r.Marks))
	}
	return t
}

// name is the ID, with the number of the process where there are several.
func (r *ResultRow) name() string {
	if r.Processes > 1 {
		return fmt.Sprintf("%s, %d of %d", r.ID, r.Process, r.Processes)
	}
	return r.ID
}

// ProcessPage shows each process of an experiment by itself.
func ProcessPage(all []*result.Result, s *validate.Scorer) *render.Document {
	d := &render.Document{Title: all[0].ID}
	for i, r := range all {
		d.Blocks = append(append(d.Blocks, ProcessBlocks(r)...), OperatorBlocks(s, all[i:i+1])...)
	}
	return d
}

// A durations is the samples of one duration, with its name.
type durations struct {
	key, title string
	times      *result.Times
}

func durationsOf(r *result.Result) []durations {
	list := []durations{
		{"ttft_s", "TTFT", r.TTFT}, {"tpot_s", "TPOT", r.TPOT}, {"ttlt_s", "TTLT", r.TTLT}, {"step_s", "step", r.StepTime},
	}
	if s := r.Serving; s != nil {
		list = append(list, durations{"first_chunk_s", "first chunk", s.FirstChunk}, durations{"ttfo_s", "TTFO", s.TTFO},
			durations{"chunk_gap_s", "chunk gap", s.ChunkGap})
	}
	return list
}

// mostSamples is how many rows stand for the samples of a histogram: of more, every second, third... in
// the order of their values.
const mostSamples = 10_000

// SampleTable has a row for every sample of every process.
func SampleTable(all []*result.Result) *render.Table {
	t := render.Keyed("id", "process", "metric", "sample", "value")
	for _, r := range all {
		for _, d := range durationsOf(r) {
			if d.times == nil {
				continue
			}
			step, i := 1, 0
			if d.times.Histogram != nil {
				step = (d.times.N + mostSamples - 1) / mostSamples
			}
			for v := range d.times.Values() {
				if i%step == 0 {
					t.Add(r.ID, r.Process, d.key, i/step, v)
				}
				i++
			}
		}
		operatorSamples(t, r)
	}
	return t
}

// operatorSamples adds every sample of each operator, under "operators", the
// phase and its name, and of the whole step under "step_s".
func operatorSamples(t *render.Table, r *result.Result) {
	if r.Operators == nil {
		return
	}
	for _, p := range []named[*result.OperatorPhase]{{"prefill", r.Operators.Prefill}, {"decode", r.Operators.Decode}} {
		if p.of == nil {
			continue
		}
		add := func(name string, samples []float64) {
			for i, v := range samples {
				t.Add(r.ID, r.Process, "operators."+p.name+"."+name, i, v)
			}
		}
		for i := range p.of.Ops {
			add(p.of.Ops[i].Name, p.of.Ops[i].Time.Samples)
		}
		add("step_s", p.of.Step.Samples)
	}
}

// ServerFigures are the figures of a result that only a server has.
type ServerFigures struct {
	Concurrency *int          `json:"concurrency"` // null where requests came at a rate without a limit
	Rate        *float64      `json:"request_rate_hz"`
	Requests    int           `json:"requests"`
	Failed      int           `json:"failed"`
	Completed   float64       `json:"completed_hz"`
	Goodput     *float64      `json:"goodput_hz"`
	Generated   *float64      `json:"generated_tok_s"`
	Prompt      *float64      `json:"prompt_tokens"` // mean by the server's count
	Output      *float64      `json:"generated_tokens"`
	TTFTTail    *unit.Seconds `json:"ttft_p99_s"`
	TPOTTail    *unit.Seconds `json:"tpot_p99_s"`
	Seed        uint64        `json:"seed"`
}

// Server is nil for a result that is not of a server.
func Server(r *result.Result) *ServerFigures {
	s := r.Serving
	if s == nil {
		return nil
	}
	l := &ServerFigures{
		Concurrency: unit.OrNull(s.Concurrency), Rate: s.RateHz, Requests: s.Requests, Failed: s.Requests - s.Completed, Completed: s.RequestRate,
		Prompt: of(s.PromptTokens, meanOf), Output: of(s.GeneratedTokens, meanOf), TTFTTail: of(r.TTFT, tailOf), TPOTTail: of(r.TPOT, tailOf),
		Seed: r.Provenance.Seed,
	}
	if r.Throughput != nil {
		l.Generated = r.Throughput.Generated
	}
	if s.Goodput != nil {
		l.Goodput = &s.Goodput.PerSecond
	}
	return l
}

// load says how requests arrived.
func (l *ServerFigures) load() string {
	switch {
	case l.Rate == nil && l.Concurrency == nil:
		return "–"
	case l.Rate == nil:
		return fmt.Sprintf("%d at a time", *l.Concurrency)
	case l.Concurrency == nil:
		return fmt.Sprintf("%g/s", *l.Rate)
	}
	return fmt.Sprintf("%g/s, at most %d", *l.Rate, *l.Concurrency)
}

// ServerTable lists the results of servers for people, with a column of their IDs if
// ids is set.
func ServerTable(rows []ResultRow, ids bool) render.Table {
	t := render.Table{Title: "Servers", Columns: []render.Column{
		{Title: "id", Left: true}, {Title: "model", Left: true, Max: 24, Drop: 1}, {Title: "tokens", Drop: 6},
		{Title: "load"}, {Title: "req/s"}, {Title: "good/s", Drop: 4}, {Title: "tok/s", Drop: 5}, {Title: "TTFT"}, {Title: "p99", Drop: 3},
		{Title: "TPOT"},
		{Title: "failed"}, {Title: "marks", Left: true, Drop: 2, Max: 24},
	}}
	for _, r := range rows {
		s := r.Server
		if s == nil {
			continue
		}
		failed := any(s.Failed)
		if s.Failed > 0 {
			failed = render.Painted{Value: fmt.Sprintf("%d of %d", s.Failed, s.Requests), Color: render.Bad}
		}
		t.Add(r.name(), r.Model, lengthOf(s.Prompt, r.PromptLen)+"+"+lengthOf(s.Output, r.GenLen), s.load(), Rate(s.Completed),
			rateOrNone(s.Goodput),
			rateOrNone(s.Generated), Cell(r.TTFT), Cell(s.TTFTTail), Cell(r.TPOT), failed, joined(r.Marks))
	}
	if !slices.ContainsFunc(rows, func(r ResultRow) bool { return r.Server != nil && r.Server.Goodput != nil }) {
		t.LeaveOut(5) // good/s
	}
	if !ids {
		t.LeaveOut(0) // id
	}
	return t
}

// lengthOf is the mean number of tokens that the server counted, else the number asked for.
func lengthOf(counted *float64, asked int) string {
	if counted == nil {
		return strconv.Itoa(asked)
	}
	return fmt.Sprintf("%.4g", *counted)
}

func rateOrNone(v *float64) any { return Cell(of(v, func(v *float64) string { return Rate(*v) })) }
