package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"llmprof/analytic"
	"llmprof/hardware"
	"llmprof/internal/printable"
	"llmprof/models"
	"llmprof/unit"
)

// A Row is a deployment that qualifies.
type Row struct {
	Card         *Card
	Formats      Formats
	Scheme       string // scheme of the weights
	Split        Split
	DP           int // replicas that decode, and prefill unless others do
	Prefill      int // replicas that only prefill and hand the cache over; 0 for none
	Budget       int // most tokens of a step; 0 for the scheduler's
	Limit        int // most sequences at once; 0 for the scheduler's
	Drafts       int // tokens drafted with each one; 0 for no speculation
	MicroBatches int
	Batch        int // sequences of a replica at once
	GPUs         int

	TTFT, TPOT, E2E unit.Seconds // at the end of the interval that was asked for
	Throughput      float64      // generated tokens a second
	JToken          unit.Joules
	PerHour         unit.Dollars // 0 where no price is known
	PerMillion      unit.Dollars // generated tokens
	Running         float64      // sequences that decode at once, of all replicas; 0 without a load
	Utilization     float64      // share of the time in which steps run; 0 without a load
	Tail            Tail         // 0 where nothing was simulated
	Estimate        Spans        // where the figures above are from
	Pareto          bool         // no other deployment is better in cost, TTFT and TPOT
	order           int
	slower          float64 // by how much longer than expected everything takes
	alone           Spans   // times of a request with no other
}

// Spans are the times of a deployment with their intervals.
type Spans struct{ TTFT, TPOT, E2E analytic.Span }

// Engine is the name of the engine.
func (r *Row) Engine() string { return r.Card.Machine.Engine.Profile().Name }

// loaded reports whether the figures are of a steady state under a load, and not of a batch that starts together.
func (r *Row) loaded() bool { return r.Utilization > 0 }

// PerUser is the tokens a second that one request sees.
func (r *Row) PerUser() float64 {
	if r.TPOT == 0 {
		return 0
	}
	return 1 / float64(r.TPOT)
}

// String names the deployment in a few words.
func (r *Row) String() string {
	s := fmt.Sprintf("%d × %s, tp %d", r.GPUs, r.Card.GPU.Key, r.Split.TP)
	for _, d := range []struct {
		name string
		n    int
	}{{"pp", r.Split.PP}, {"ep", r.Split.EP}, {"moe-tp", r.Split.MoETP}, {"dp", r.DP}} {
		if d.n > 1 {
			s += fmt.Sprintf(" %s %d", d.name, d.n)
		}
	}
	s += r.Extras()
	return fmt.Sprintf("%s, weights %s, KV cache %v, batch %d", s, r.Scheme, r.Formats.KV, r.Batch)
}

// Extras names the settings that differ from those that a server starts with.
func (r *Row) Extras() (s string) {
	if r.Prefill > 0 {
		s += fmt.Sprintf(" + %d prefill", r.Prefill)
	}
	if r.Budget > 0 {
		s += fmt.Sprintf(" steps of %d", r.Budget)
	}
	if r.Limit > 0 {
		s += fmt.Sprintf(" at most %d", r.Limit)
	}
	if r.Drafts > 0 {
		s += fmt.Sprintf(" drafts %d", r.Drafts)
	}
	return s
}

// extras counts the settings that differ from those that a server starts with.
func (r *Row) extras() int {
	return min(r.Prefill, 1) + min(r.Budget, 1) + min(r.Limit, 1) + min(r.Drafts, 1)
}

// parallel is how the model is split over the row's GPUs.
func (r *Row) parallel() analytic.Parallelism {
	return analytic.Parallelism{
		TP: r.Split.TP, PP: r.Split.PP, EP: r.Split.EP, MoETP: r.Split.MoETP, DP: r.DP, MicroBatches: r.MicroBatches,
		GPUsPerNode: r.Card.GPU.GPUsPerNode,
	}
}

// Same is the command of llmprof that gives the figures of the row. It begins with a word, for a spreadsheet takes a cell
// for a formula that begins with a flag.
func (r *Row) Same(q *Request) string {
	words := []string{"estimate"}
	for _, w := range r.Args(q) {
		words = append(words, printable.ShellWord(w))
	}
	return strings.Join(words, " ")
}

// Args are the arguments of "llmprof estimate" that give the figures of the row.
func (r *Row) Args(q *Request) []string {
	args := []string{"--model", printable.Operand(r.Card.Name), "--gpu", r.Card.GPU.Key, "--engine", r.Engine()}
	if r.Card.Model.CacheBytes(1, r.Formats.KV) > 0 {
		args = append(args, "--kv", r.Formats.KV.String())
	}
	if r.Formats.Weights != "" {
		args = append(args, "--weights", r.Formats.Weights)
	}
	parts := 1 // the default
	if r.loaded() && r.Split.PP > 1 {
		parts = 0 // one that differs by engine
	}
	for _, n := range []struct {
		flag    string
		n, none int
	}{
		{"--tp", r.Split.TP, 1}, {"--pp", r.Split.PP, 1}, {"--ep", r.Split.EP, 1}, {"--moe-tp", r.Split.MoETP, 0}, {"--dp", r.DP, 1},
		{"--micro-batches", r.MicroBatches, parts},
	} {
		if n.n != n.none {
			args = append(args, n.flag, strconv.Itoa(n.n))
		}
	}
	args = append(args, "--prompt-len", q.Prompt.String(), "--gen-len", q.Gen.String())
	if known, _ := r.Card.GPU.Price(); r.Card.Price > 0 && r.Card.Price != known {
		args = append(args, "--price", strconv.FormatFloat(float64(r.Card.Price), 'g', -1, 64))
	}
	if c, g := r.Card.Machine.Cap(), r.Card.GPU; c.Limit > 0 && c.Limit != g.PowerLimit {
		args = append(args, "--power-limit", strconv.FormatFloat(float64(c.Limit), 'g', -1, 64))
	}
	if c, g := r.Card.Machine.Cap(), r.Card.GPU; c.Clock > 0 && c.Clock != g.ClockLimit {
		args = append(args, "--clock", strconv.FormatFloat(float64(c.Clock)/1e6, 'g', -1, 64))
	}
	args = append(append(args, r.linkArgs()...), r.serverArgs(q)...)
	switch {
	case !r.loaded():
		return append(args, "--batch", strconv.Itoa(r.Batch))
	case q.Load.Concurrency > 0:
		return append(args, "--concurrency", strconv.Itoa(q.Load.Concurrency))
	}
	return append(args, "--rate", strconv.FormatFloat(q.rate(), 'g', -1, 64))
}

// linkArgs are the arguments about links without which the row's GPUs would reach each other otherwise.
func (r *Row) linkArgs() (args []string) {
	g, parallel := r.Card.GPU, r.parallel()
	for _, c := range hardware.LinkChoices() {
		usual := g.Links
		if *c.Of(&usual) = false; !g.SameRoutes(g.Linked(usual), parallel.Groups()) {
			args = append(args, "--"+strings.ReplaceAll(c.Name, "_", "-"))
		}
	}
	return args
}

// serverArgs are the arguments of a server that has other settings than it starts with.
func (r *Row) serverArgs(q *Request) (args []string) {
	if r.Budget > 0 {
		args = append(args, "--max-num-batched-tokens", strconv.Itoa(r.Budget))
	}
	if r.Limit > 0 {
		args = append(args, "--max-num-seqs", strconv.Itoa(r.Limit))
	}
	if r.Prefill > 0 {
		args = append(args, "--prefill-replicas", strconv.Itoa(r.Prefill))
	}
	if r.Drafts > 0 {
		args = append(args, "--speculative-tokens", strconv.Itoa(r.Drafts), "--acceptance", strconv.FormatFloat(q.Acceptance, 'g', -1, 64))
	}
	return args
}

// score is what the row is ranked by, less being better.
func (q *Request) score(r *Row) float64 {
	switch q.By {
	case Energy:
		return float64(r.JToken)
	case Latency:
		return float64(r.E2E)
	case Throughput:
		if q.bounded() && !r.loaded() {
			return -r.Throughput
		}
		return -r.Throughput / float64(r.GPUs)
	}
	if q.Load.Given() {
		return float64(r.PerHour)
	}
	return float64(r.PerMillion)
}

// bounded reports whether the number of GPUs is, so that more of them can be too many.
func (q *Request) bounded() bool { return q.Budget > 0 || q.MaxGPUs > 0 }

// place is what deployments with a card are ranked by before all else.
func (q *Request) place(c *Card) int {
	if q.By == ByModel {
		return c.Place
	}
	return 0
}

// compare ranks two rows: by the objective, and where that is equal by price, GPUs,
// fewer settings that a server does not start with, time of a request, and the order of the search.
func (q *Request) compare(a, b *Row) int {
	return cmp.Or(
		cmp.Compare(q.place(a.Card), q.place(b.Card)), cmp.Compare(q.score(a), q.score(b)), cmp.Compare(a.PerHour, b.PerHour),
		cmp.Compare(a.GPUs, b.GPUs), cmp.Compare(a.extras(), b.extras()),
		cmp.Compare(a.E2E, b.E2E), cmp.Compare(a.order, b.order),
	)
}

// bestOnly reports whether no row of a card is shown but its best.
func (q *Request) bestOnly() bool { return q.Top > 0 && q.PerGPU == 1 }

// Shown are the best of ranked rows, at most top of them and perGPU of a model on a GPU; 0 is no limit.
func Shown(rows []Row, top, perGPU int) (all []Row) {
	type kind struct {
		gpu   *hardware.GPU
		model *models.Model
	}
	of := map[kind]int{}
	for i := range rows {
		r := &rows[i]
		k := kind{r.Card.GPU, r.Card.Model}
		if of[k]++; perGPU > 0 && of[k] > perGPU {
			continue
		}
		if all = append(all, *r); len(all) == top {
			break
		}
	}
	return all
}

// markPareto marks the rows that no other is better than in price, TTFT and TPOT. Where a
// load is given the price is that of an hour, else that of a token. A row whose price is not known is not compared.
func (q *Request) markPareto(rows []Row) {
	price := func(r *Row) float64 {
		if q.Load.Given() {
			return float64(r.PerHour)
		}
		return float64(r.PerMillion)
	}
	better := func(a, b *Row) bool { // a is no worse in anything, and better in something
		return price(a) <= price(b) && a.TTFT <= b.TTFT && a.TPOT <= b.TPOT && (price(a) < price(b) || a.TTFT < b.TTFT || a.TPOT < b.TPOT)
	}
	var order []*Row
	for i := range rows {
		if rows[i].Pareto = false; price(&rows[i]) > 0 {
			order = append(order, &rows[i])
		}
	}
	slices.SortFunc(order, func(a, b *Row) int {
		return cmp.Or(cmp.Compare(price(a), price(b)), cmp.Compare(a.TTFT, b.TTFT), cmp.Compare(a.TPOT, b.TPOT))
	})
	var front []*Row // no later row is better than an earlier one
	for _, r := range order {
		if !slices.ContainsFunc(front, func(f *Row) bool { return better(f, r) }) {
			r.Pareto = true
			front = append(front, r)
		}
	}
}
