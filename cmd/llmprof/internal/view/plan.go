package view

import (
	"fmt"
	"slices"
	"strings"

	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/internal/printable"
	"llmprof/plan"
	"llmprof/plots/render"
	"llmprof/unit"
)

// A Plan is a search with what was asked for.
type Plan struct {
	Request  *plan.Request
	Result   *plan.Result
	Shown    []plan.Row
	Accuracy []Accuracy    // accuracy of each row shown
	Launch   []plan.Launch // launch commands of the first row; nil where not asked for
	Checks   []string      // the command line that measures the first row
	Took     unit.Seconds
}

// An Accuracy is what stands behind a row: how far the predictions of its engine on its
// GPU are from observations.
type Accuracy struct {
	Measured  bool     `json:"measured"`                          // The constants were measured on a GPU of the kind.
	N         int      `json:"n"`                                 // observations
	MedianAPE *float64 `json:"median_ape" jsonschema:"minimum=0"` // median absolute error, as a share; nil of none
	EngineN   int      `json:"engine_n"`                          // observations of the engine on any GPU
	EngineAPE *float64 `json:"engine_median_ape" jsonschema:"minimum=0"`
}

// String says it in a few words.
func (a Accuracy) String() string {
	constants := "constants of its generation"
	if a.Measured {
		constants = "constants measured on it"
	}
	switch {
	case a.N > 0:
		return fmt.Sprintf("%d observations of this engine on this GPU, median error %.1f %%; %s", a.N, 100**a.MedianAPE, constants)
	case a.EngineN > 0:
		return fmt.Sprintf("no observation of this engine on this GPU (%d on others, median error %.1f %%); %s", a.EngineN, 100**a.EngineAPE,
			constants)
	}
	return "no observation of this engine; " + constants
}

func (a Accuracy) short() string {
	if a.N == 0 {
		return "not observed"
	}
	return fmt.Sprintf("±%.0f %% of %d", 100**a.MedianAPE, a.N)
}

// Page is the plan for people.
func (p *Plan) Page() *render.Document {
	d := &render.Document{Title: p.title()}
	t := p.rows()
	d.Blocks = append(d.Blocks, t, render.Notes{Title: "Warnings", Items: Texts(p.Request.Warnings(len(p.Shown)))})
	if len(p.Shown) > 0 {
		d.Blocks = append(d.Blocks, p.best())
	}
	if len(p.Result.Rejected) > 0 {
		d.Blocks = append(d.Blocks, p.rejected())
	}
	for _, l := range p.Launch {
		d.Blocks = append(d.Blocks, render.Verbatim{Title: "Launch with " + l.Engine, Lines: strings.Split(
			strings.TrimRight(l.Text, "\n"), "\n")})
		if len(l.Notes) > 0 {
			d.Blocks = append(d.Blocks, render.Notes{Items: l.Notes})
		}
	}
	return d
}

// asAsked is a time without the zeros of a computed one: 500 ms.
func asAsked(t unit.Seconds) string {
	number, symbol, _ := strings.Cut(t.String(), " ")
	if strings.Contains(number, ".") {
		number = strings.TrimRight(strings.TrimRight(number, "0"), ".")
	}
	return number + " " + symbol
}

// title says what was asked for.
func (p *Plan) title() string {
	q := p.Request
	parts := []string{fmt.Sprintf("%s, %v + %v tokens", strings.Join(p.models(), ", "), &q.Prompt, &q.Gen)}
	for _, x := range []struct {
		name    string
		t, tail unit.Seconds
	}{{"TTFT", q.Targets.TTFT, q.Tails.TTFT}, {"TPOT", q.Targets.TPOT, q.Tails.TPOT}, {"E2E", q.Targets.E2E, q.Tails.E2E}} {
		if x.tail > 0 {
			x.name += " p99"
		}
		if x.t > 0 {
			parts = append(parts, fmt.Sprintf("%s %v", x.name, asAsked(x.t)))
		}
	}
	switch l := &q.Load; {
	case l.Rate > 0:
		parts = append(parts, fmt.Sprintf("%g requests/s", l.Rate))
	case l.Throughput > 0:
		parts = append(parts, fmt.Sprintf("%g tok/s", l.Throughput))
	case l.Concurrency > 0:
		parts = append(parts, fmt.Sprintf("%d at a time", l.Concurrency))
	}
	if q.Budget > 0 {
		parts = append(parts, q.Budget.String())
	}
	end := "slow end of the 90 % interval"
	if q.Expected {
		end = "expected times"
	}
	return strings.Join(append(parts, "by "+string(q.By), end), " · ")
}

func (p *Plan) models() (all []string) {
	for i := range p.Request.Cards {
		if name := p.Request.Cards[i].Model.Name; !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// tails are the 99th percentiles that were asked for: their keys, and what they are of a row.
func (p *Plan) tails() (all []planTail) {
	q := p.Request
	for _, x := range []struct {
		limit unit.Seconds
		tail  planTail
	}{
		{q.Tails.TTFT, planTail{"TTFT p99", "ttft_p99_s", func(t *plan.Tail) unit.Seconds { return t.TTFT }}},
		{q.Tails.TPOT, planTail{"TPOT p99", "tpot_p99_s", func(t *plan.Tail) unit.Seconds { return t.TPOT }}},
		{q.Tails.E2E, planTail{"E2E p99", "e2e_p99_s", func(t *plan.Tail) unit.Seconds { return t.E2E }}},
	} {
		if x.limit > 0 {
			all = append(all, x.tail)
		}
	}
	return all
}

type planTail struct {
	title, key string
	of         func(*plan.Tail) unit.Seconds
}

func (p *Plan) rows() render.Table {
	several, tails := len(p.models()) > 1, p.tails()
	t := render.Table{Columns: []render.Column{
		{Title: "#", Key: "rank"}, {Title: "", Key: "pareto", Left: true}, {Title: "GPUs", Key: "gpu", Left: true},
		{Title: "split", Key: "split", Left: true},
		{Title: "weights", Key: "weights", Left: true}, {Title: "KV", Key: "kv", Left: true, Drop: 1}, {Title: "batch", Key: "batch", Drop: 2},
		{Title: "TTFT", Key: "ttft_s", Unit: "ms", Fixed: true, By: 1e-3}, {Title: "TPOT", Key: "tpot_s", Unit: "ms", Fixed: true, By: 1e-3},
		{Title: "tok/s", Key: "tok_s", Drop: 3},
		{Title: "$/h", Key: "usd_h", Drop: 1}, {Title: "$/Mtok", Key: "usd_mtok"},
		{Title: "J/tok", Key: "j_token", Drop: 4}, {Title: "error", Key: "accuracy", Left: true, Drop: 5},
	}}
	const firstTime = 9 // the column after TPOT
	for i, x := range tails {
		t.Columns = slices.Insert(t.Columns, firstTime+i, render.Column{Title: x.title, Key: x.key, Unit: "ms", Fixed: true, By: 1e-3})
	}
	if several {
		t.Columns = slices.Insert(t.Columns, 2, render.Column{Title: "model", Key: "model", Left: true})
	}
	for i := range p.Shown {
		r := &p.Shown[i]
		mark := ""
		if r.Pareto {
			mark = "*"
		}
		cells := []any{
			i + 1, mark, fmt.Sprintf("%d × %s", r.GPUs, r.Card.GPU.Key), Split(r), r.Scheme, r.Formats.KV.String(), r.Batch,
			r.TTFT, Known(r.TPOT, r.TPOT > 0), Rate(r.Throughput), cents(float64(r.PerHour)), cents(float64(r.PerMillion)),
			cents(float64(r.JToken)), p.Accuracy[i].short(),
		}
		for j, x := range tails {
			cells = slices.Insert(cells, firstTime+j, Known(x.of(&r.Tail), x.of(&r.Tail) > 0))
		}
		if several {
			cells = slices.Insert(cells, 2, any(r.Card.Model.Name))
		}
		t.Add(cells...)
	}
	return t
}

// A PlanWords is a row as a page says it, rounded as the command line rounds it.
type PlanWords struct {
	GPUs    string `json:"gpus"`
	Split   string `json:"split"`
	TTFT    string `json:"ttft"`
	TPOT    string `json:"tpot"`
	TokS    string `json:"tok_s"`
	PerHour string `json:"usd_h"`
	PerM    string `json:"usd_mtok"`
	JToken  string `json:"j_token"`
}

// Words is the rows that are shown.
func (p *Plan) Words() []PlanWords {
	all := make([]PlanWords, len(p.Shown))
	for i := range p.Shown {
		r := &p.Shown[i]
		all[i] = PlanWords{
			GPUs: fmt.Sprintf("%d × %s", r.GPUs, r.Card.GPU.Key), Split: Split(r), TTFT: r.TTFT.String(), TPOT: word(Known(r.TPOT, r.TPOT > 0)),
			TokS: fmt.Sprint(Rate(r.Throughput)), PerHour: word(cents(float64(r.PerHour))), PerM: word(cents(float64(r.PerMillion))),
			JToken: word(cents(float64(r.JToken))),
		}
	}
	return all
}

func word(cell any) string {
	if cell == nil {
		return "n/a"
	}
	return fmt.Sprint(cell)
}

// cents is a figure with two decimals; nil where there is none.
func cents(v float64) any {
	if v == 0 {
		return nil
	}
	return fmt.Sprintf("%.2f", v)
}

// Split is how a row is spread over GPUs, in a few words.
func Split(r *plan.Row) string {
	s := fmt.Sprintf("tp %d", r.Split.TP)
	for _, x := range []named[int]{{"pp", r.Split.PP}, {"ep", r.Split.EP}, {"moe-tp", r.Split.MoETP}, {"dp", r.DP}} {
		if x.of > 1 {
			s += fmt.Sprintf(" %s %d", x.name, x.of)
		}
	}
	return s + r.Extras()
}

// best says what stands behind the first row, and how to reproduce and to check it.
func (p *Plan) best() render.Fields {
	r := &p.Shown[0]
	rests := []string{p.Accuracy[0].String()}
	if text := r.Card.Machine.Engine.Profile().Unmeasured; text != "" {
		rests = append(rests, text)
	}
	f := render.Fields{Rows: []render.Field{
		{Name: "Best", Lines: []string{r.String() + ", " + r.Engine()}},
		{Name: "Rests on", Lines: rests},
		{Name: "Same by", Lines: []string{"llmprof " + same(r, p.Request)}},
	}}
	if r.Tail.TTFT > 0 {
		f.Add("At p99", fmt.Sprintf("TTFT %v, TPOT %v, E2E %v, simulated", r.Tail.TTFT, r.Tail.TPOT, r.Tail.E2E))
	}
	if len(p.Checks) > 0 {
		f.Add("Check by", p.Checks...)
	}
	if s := p.simpler(); s != nil {
		f.Add("Simpler", s.String()+": without replicas that only prefill (--aggregated)")
	}
	f.Add("Searched", fmt.Sprintf("%s of %s in %v; * is in the Pareto set of price, TTFT and TPOT",
		several(p.Result.Searched, "deployment"), several(p.searched(), "kind")+" of GPU", p.Took))
	return f
}

// simpler is the best deployment found whose replicas all prefill and decode, where the best
// one is another; nil where there is none.
func (p *Plan) simpler() *plan.Row {
	if p.Shown[0].Prefill == 0 {
		return nil
	}
	for i := range p.Result.Rows {
		if r := &p.Result.Rows[i]; r.Prefill == 0 {
			return r
		}
	}
	return nil
}

// searched counts the GPUs that were searched: those without a price are not, where it counts.
func (p *Plan) searched() int {
	of := map[string]bool{}
	for i := range p.Request.Cards {
		of[p.Request.Cards[i].GPU.Key] = true
	}
	for i := range p.Result.Rejected {
		if x := &p.Result.Rejected[i]; x.Unpriced {
			delete(of, x.Card.GPU.Key)
		}
	}
	return len(of)
}

// rejected says why cards fell out, one a line; those without a price are one line together.
func (p *Plan) rejected() render.Fields {
	f, several := render.Fields{Title: "Rejected"}, len(p.models()) > 1
	var unpriced []string
	for _, x := range p.Result.Rejected {
		if x.Unpriced {
			if !slices.Contains(unpriced, x.Card.GPU.Key) {
				unpriced = append(unpriced, x.Card.GPU.Key)
			}
			continue
		}
		name := x.Card.GPU.Key
		if several {
			name = x.Card.Model.Name + " on " + name
		}
		f.Add(name, x.Miss.Reason)
	}
	switch n := len(unpriced); {
	case n == 1:
		f.Add(unpriced[0], fmt.Sprintf("no price of it is known: give one, as --price %s=1.50", unpriced[0]))
	case n > 1:
		names := strings.Join(unpriced[:min(n, mostNamed)], ", ")
		if n > mostNamed {
			names += fmt.Sprintf(" and %d more", n-mostNamed)
		}
		f.Add(fmt.Sprintf("%d GPUs", n), fmt.Sprintf(
			"no price of them is known: give one, as --price %s=1.50, or rank --by energy; %s", unpriced[0], names))
	}
	return f
}

// mostNamed is how many GPUs without a price are named; the JSON has all.
const mostNamed = 8

// Table is the plan as a table for programs.
func (p *Plan) Table() *render.Table {
	t := flat(p.Document().Rows, "model", "gpu", "count", "tp", "pp", "dp", "ep", "moe_tp", "micro_batches", "engine", "weights", "kv",
		"batch", "prefill_replicas", "max_num_batched_tokens", "max_num_seqs",
		"speculative_tokens", "ttft_s", "tpot_s", "e2e_s", "ttft_p99_s=p99.ttft_s", "tpot_p99_s=p99.tpot_s", "e2e_p99_s=p99.e2e_s", "tok_s",
		"usd_h", "usd_mtok", "j_token", "pareto")
	t.Columns = append(t.Columns, render.Column{Key: "same_by"})
	for i := range t.Rows {
		t.Rows[i].Cells = append(t.Rows[i].Cells, same(&p.Shown[i], p.Request))
	}
	return t
}

// same is the command line that answers as a row does.
func same(r *plan.Row, q *plan.Request) string {
	words := []string{"estimate"}
	for _, w := range settings.Args(r.Same(q)) {
		words = append(words, printable.ShellWord(w))
	}
	return strings.Join(words, " ")
}
