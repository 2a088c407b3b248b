package view

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/internal/printable"
	"llmprof/plan"
	"llmprof/plots/render"
	"llmprof/serving"
	"llmprof/unit"
)

// A Plan is a search with what was asked for.
type Plan struct {
	Request *plan.Request
	Result  *plan.Result
	Shown   []plan.Row
	Launch  []plan.Launch // launch commands of the first row; nil where not asked for
	Checks  []string      // the command line that measures the first row
	Full    bool          // all reasons why GPUs fell out are shown
	Formats render.Fields // what other formats take on the card of the first row, and why; empty where not asked for
	Unknown []string      // what the list of prices has and the table of GPUs does not
	Took    unit.Seconds
}

// Page is the plan for people: the rows, what stands behind the first, and the others in two lines.
func (p *Plan) Page() *render.Document {
	d, rows := &render.Document{}, p.rows(p.multiples())
	rows.Brief = true
	if rows.Title = p.title(); len(p.Shown) == 0 {
		d.Title = rows.Title
	}
	d.Blocks = append(d.Blocks, rows, p.summary())
	if p.Full {
		d.Blocks = append(d.Blocks, p.rejected())
	}
	d.Blocks = append(d.Blocks, p.Formats)
	for i := range p.Launch {
		d.Blocks = append(d.Blocks, launch(&p.Launch[i], "Launch with "+p.Launch[i].Engine)...)
	}
	return d
}

// launch is how a row is started, under a title.
func launch(l *plan.Launch, title string) []render.Block {
	return []render.Block{render.Verbatim{Title: title, Lines: strings.Split(strings.TrimRight(l.Text, "\n"), "\n")},
		render.Notes{Items: l.Notes}}
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
	parts := []string{fmt.Sprintf("%s, %s + %s tokens", strings.Join(p.models(), ", "), LengthWords(&q.Prompt), LengthWords(&q.Gen))}
	for i := range q.Targets {
		parts = append(parts, fmt.Sprintf("%v %v", &q.Targets[i], asAsked(q.Targets[i].Most)))
	}
	if q.HitRate > 0 {
		parts = append(parts, fmt.Sprintf("%g %% of prompts cached", 100*q.HitRate))
	}
	switch l := &q.Load; {
	case l.Rate > 0:
		parts = append(parts, fmt.Sprintf("%g requests/s", l.Rate))
	case l.Throughput > 0:
		parts = append(parts, fmt.Sprintf("%g tok/s", l.Throughput))
	case l.Concurrency > 0:
		parts = append(parts, fmt.Sprintf("%d at a time", l.Concurrency))
	}
	if q.Headroom > 1 {
		parts[len(parts)-1] += fmt.Sprintf(", headroom %g", q.Headroom)
	}
	if q.Budget > 0 {
		parts = append(parts, q.Budget.String())
	}
	if q.By != plan.Cost {
		parts = append(parts, "by "+string(q.By))
	}
	if q.Expected {
		parts = append(parts, "expected times")
	}
	return strings.Join(parts, " · ")
}

// LengthWords are lengths as they are asked for: of uneven ones the mean and the 95th percentile.
func LengthWords(l *serving.Lengths) string {
	if l.Kind == "lognormal" {
		return fmt.Sprintf("mean=%.0f,p95=%.0f", l.Mean, l.Quantile(0.95))
	}
	return l.String()
}

func (p *Plan) models() []string {
	return distinct(p.Request.Cards, func(c *plan.Card) string { return c.Model.Name })
}

// warnings are what has to be known before the rows are trusted.
func (p *Plan) warnings() []unit.Warning {
	return append(p.Request.Warnings(len(p.Shown)), plan.HostAssumed(p.Shown)...)
}

// tails are the percentiles that were asked for.
func (p *Plan) tails() (all []plan.Target) {
	for _, t := range p.Request.Targets {
		if t.At > 0 {
			all = append(all, t)
		}
	}
	return all
}

// at is a simulated figure of a row, in no more digits than a seed leaves; nil where nothing was simulated.
func at(r *plan.Row, t *plan.Target) any {
	if r.Simulated == nil {
		return nil
	}
	return unit.Seconds(r.Simulated.Rounded(t))
}

// tail is at in milliseconds.
func tail(r *plan.Row, t *plan.Target) any {
	if is, known := at(r, t).(unit.Seconds); known {
		return millis(is)
	}
	return nil
}

// uncertain marks a row of whose GPU nothing was observed.
func (p *Plan) uncertain(r *plan.Row) string {
	if a := p.accuracy(r); a.N == 0 && a.EngineN > 0 {
		return "?"
	}
	return ""
}

// rows are the rows that are shown, with what they do under some multiples of the load.
func (p *Plan) rows(loads []float64) render.Table {
	tails := p.tails()
	t := render.Table{Columns: []render.Column{
		{Title: "#", Key: "rank"}, {Title: "", Key: "pareto", Left: true}, {Title: "model", Key: "model", Left: true},
		{Title: "GPUs", Key: "gpu", Left: true}, {Title: "engine", Key: "engine", Left: true}, {Title: "split", Key: "split", Left: true},
		{Title: "weights", Key: "weights", Left: true}, {Title: "KV", Key: "kv", Left: true, Drop: 3}, {Title: "batch", Key: "batch", Drop: 4},
		inMillis("TTFT", "ttft_s"), inMillis("TPOT", "tpot_s"),
	}}
	for _, x := range tails {
		t.Columns = append(t.Columns, inMillis(x.String(), strings.ToLower(strings.ReplaceAll(x.String(), " ", "_"))+"_s"))
	}
	t.Columns = append(t.Columns, render.Column{Title: "tok/s", Key: "tok_s", Drop: 5}, render.Column{Title: "$/h", Key: "usd_h"},
		render.Column{Title: "$/Mtok", Key: "usd_mtok", Drop: 1}, render.Column{Title: "J/tok", Key: "j_token", Drop: 6})
	drop := 1 // after what has the same figures in all rows at a rate: tokens a second
	if p.Request.Load.Concurrency > 0 {
		drop = 7
	}
	for i, times := range loads {
		t.Columns = append(t.Columns, render.Column{Title: fmt.Sprintf("at %g ×, ms", times), Unit: "TTFT/TPOT", Drop: drop + i,
			Key: fmt.Sprintf("at_%g", times)})
	}
	for i := range p.Shown {
		r := &p.Shown[i]
		mark := ""
		if r.Pareto {
			mark = "*"
		}
		cells := []any{i + 1, mark + p.uncertain(r), r.Card.Model.Name, board(r), r.Engine(), Split(r), r.Scheme, r.Formats.KV.String(), r.Batch,
			r.TTFT, Known(r.TPOT, r.TPOT > 0)}
		for _, x := range tails {
			cells = append(cells, tail(r, &x))
		}
		cells = append(cells, Rate(r.Throughput), cents(float64(r.PerHour)), cents(float64(r.PerMillion)), cents(float64(r.JToken)))
		for _, times := range loads {
			cells = append(cells, under(r, times))
		}
		t.Add(cells...)
	}
	for _, same := range []struct {
		column int
		texts  []string
	}{{4, distinct(p.Shown, (*plan.Row).Engine)}, {2, p.models()}} {
		if len(same.texts) < 2 {
			t.LeaveOut(same.column)
		}
	}
	return t
}

// inMillis is a column of times in milliseconds.
func inMillis(title, key string) render.Column {
	return render.Column{Title: title, Key: key, Unit: "ms", Fixed: true, By: 1e-3}
}

// board names the GPUs of a row, as "8 × h100".
func board(r *plan.Row) string { return fmt.Sprintf("%d × %s", r.GPUs, r.Card.GPU.Key) }

// multiples are those of the load beyond itself that rows are shown under; none without a load.
func (p *Plan) multiples() []float64 {
	if len(p.Shown) == 0 || len(p.Shown[0].Loads) == 0 {
		return nil
	}
	return plan.Loads[1:]
}

// under is the mean TTFT and TPOT of a row under a multiple of the load, in milliseconds; nil where it does not answer that.
func under(r *plan.Row, times float64) any {
	for _, l := range r.Loads {
		if l.Times == times && l.Why == "" {
			return fmt.Sprintf("%.0f/%.0f", 1e3*float64(l.TTFT), 1e3*float64(l.TPOT))
		}
	}
	return nil
}

// A PlanWords is a row as a page says it, rounded as the command line rounds it.
type PlanWords struct {
	GPUs    string `json:"gpus"`
	Split   string `json:"split"`
	TTFT    string `json:"ttft"`
	TPOT    string `json:"tpot"`
	TokS    string `json:"tok_s"`
	PerHour string `json:"usd_h"`
	Month   string `json:"usd_month"`
	PerM    string `json:"usd_mtok"`
	JToken  string `json:"j_token"`
}

// Words is the rows that are shown.
func (p *Plan) Words() []PlanWords {
	all := make([]PlanWords, len(p.Shown))
	for i := range p.Shown {
		r := &p.Shown[i]
		all[i] = PlanWords{
			GPUs: board(r), Split: Split(r),
			TTFT: p.withTails(r, plan.TTFT, r.TTFT.String()), TPOT: p.withTails(r, plan.TPOT, word(Known(r.TPOT, r.TPOT > 0))),
			TokS: Rate(r.Throughput), PerHour: word(cents(float64(r.PerHour))),
			Month:  word(Known(fmt.Sprintf("%.0f", float64(r.PerMonth())), r.PerMonth() != 0)),
			PerM:   word(cents(float64(r.PerMillion))),
			JToken: word(cents(float64(r.JToken))),
		}
	}
	return all
}

// withTails is a mean with the percentiles that were asked for.
func (p *Plan) withTails(r *plan.Row, of plan.Figure, mean string) string {
	for _, t := range p.tails() {
		if is := at(r, &t); t.Of == of && is != nil {
			mean += fmt.Sprintf(", p%.0f %v", 100*t.At, is)
		}
	}
	return mean
}

func word(cell any) string {
	if cell == nil {
		return "n/a"
	}
	return fmt.Sprint(cell)
}

// cents is a figure with two decimals; nil where there is none.
func cents(v float64) any { return Known(fmt.Sprintf("%.2f", v), v != 0) }

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

// summary says which row to take and what stands behind it, how to reproduce and to check it, and what of the others.
func (p *Plan) summary() render.Fields {
	var f render.Fields
	if len(p.Shown) > 0 {
		p.choice(&f)
	}
	f.Add("Others", p.others()...)
	if warnings := Texts(p.warnings()); len(warnings) > 0 {
		f.Add("Warnings", warnings...)
	}
	return f
}

// choice is what stands behind the first row.
func (p *Plan) choice(f *render.Fields) {
	r := &p.Shown[0]
	f.Add("Choice", p.deployment(r))
	if len(p.Shown) > 1 {
		f.Add("Runner-up", p.deployment(&p.Shown[1]))
	}
	if s := r.Simulated; s != nil {
		f.Add("Latency", p.simulated(s))
	}
	if room := p.headroom(r); room != "" {
		f.Add("Headroom", room)
	}
	f.Add("Risk", p.risk(r)...)
	if s := p.simpler(); s != nil {
		f.Add("Simpler", fmt.Sprintf("%d × %s, $%.0f/month, without replicas that only prefill (--aggregated)", s.GPUs, s.Card.GPU.Key,
			float64(s.PerMonth())))
	}
	if p.Full || len(p.Launch) > 0 {
		f.Add("Same by", "llmprof "+p.Same(r))
	}
	if len(p.Checks) > 0 {
		f.Add("Check by", p.Checks...)
	}
}

// deployment names a row, with what it costs and by whose price.
func (p *Plan) deployment(r *plan.Row) string {
	text := board(r)
	if o := r.Card.Offer(r.GPUs); o != nil {
		source, _, _ := strings.Cut(strings.Replace(o.Source, ", on demand", "", 1), ", read by ")
		nodes := "each"
		if o.Node > 1 {
			nodes = fmt.Sprintf("a GPU, in nodes of %d", o.Node)
		}
		text += fmt.Sprintf(", $%.0f/month, $%.2f %s: %s", float64(r.PerMonth()), float64(o.Hour), nodes, source)
	}
	return text
}

// simulated is the percentiles of a row, with how far a seed moves them.
func (p *Plan) simulated(s *plan.Simulated) string {
	var parts []string
	for _, of := range []plan.Figure{plan.TTFT, plan.TPOT} {
		if s.Mean[of] == 0 {
			continue
		}
		var values []string
		for _, share := range []float64{0.5, 0.95, 0.99} {
			values = append(values, millis(unit.Seconds(s.Rounded(&plan.Target{Of: of, At: share}))))
		}
		parts = append(parts, fmt.Sprintf("%v %s ms", of, strings.Join(values, "/")))
	}
	_, spread := s.Of(&plan.Target{Of: plan.TTFT, At: 0.99})
	return fmt.Sprintf("%s (p50/p95/p99 of %d requests, ±%.0f %% by seed)", strings.Join(parts, ", "), s.Requests, 100*spread)
}

// headroom is what a row does under more load than comes.
func (p *Plan) headroom(r *plan.Row) string {
	var parts []string
	of := "TTFT/TPOT "
	for _, l := range r.Loads {
		switch {
		case l.Times == 1:
		case l.Why != "":
			parts = append(parts, fmt.Sprintf("none at %g ×", l.Times))
		default:
			parts = append(parts, fmt.Sprintf("%s%s/%s ms at %g ×", of, millis(l.TTFT), millis(l.TPOT), l.Times))
			of = ""
		}
	}
	if load := p.Request.Load; r.Capacity > 0 && load.Concurrency == 0 && len(parts) > 0 {
		came := load.Rate + load.Throughput/p.Request.Gen.MeanLength()
		parts = append([]string{fmt.Sprintf("up to %.3g requests/s, %.2g × the load", r.Capacity, r.Capacity/came)}, parts...)
	}
	return strings.Join(parts, "; ")
}

// millis are milliseconds in three digits.
func millis(t unit.Seconds) string {
	return strconv.FormatFloat(plan.Digits(1e3*float64(t), 3), 'f', -1, 64)
}

// short is a time in three digits.
func short(t unit.Seconds) string { return unit.Seconds(plan.Digits(float64(t), 3)).String() }

// risk is how sure the choice is: the interval, what would change the choice, and what it rests on.
func (p *Plan) risk(r *plan.Row) []string {
	e := &r.Estimate.E2E
	text := fmt.Sprintf("times may be %.0f %% over the expected", 100*(float64(e.High/e.Expected)-1))
	if !p.Request.Expected {
		text = fmt.Sprintf("targets hold with times %.0f %% over the expected", 100*(float64(e.High/e.Expected)-1))
	}
	switch {
	case r.Slack >= 1.995:
		text += ", and with twice these"
	case r.Slack > 1 && len(p.Shown) > 1:
		text += fmt.Sprintf("; %.0f %% more, and %d × %s wins", 100*(r.Slack-1), p.Shown[1].GPUs, p.Shown[1].Card.GPU.Key)
	case r.Slack > 1:
		text += fmt.Sprintf("; %.0f %% more, and it fails", 100*(r.Slack-1))
	}
	lines := []string{text, p.rests(r)}
	if why := r.Card.Machine.Engine.Profile().Unmeasured; why != "" {
		lines = append(lines, why)
	}
	return lines
}

// Same is the command of llmprof that gives the figures of a row. It begins with a word, for a spreadsheet takes a cell
// for a formula that begins with a flag.
func (p *Plan) Same(r *plan.Row) string {
	words := []string{"estimate"}
	for _, w := range p.args(r) {
		words = append(words, printable.ShellWord(w))
	}
	return strings.Join(words, " ")
}

func (p *Plan) args(r *plan.Row) []string { return settings.Args(r.Same(p.Request)) }

// also names the cheapest GPU that qualifies besides those shown; all of them where GPUs were named.
func (p *Plan) also() string {
	seen := map[string]bool{}
	for i := range p.Shown {
		seen[p.Shown[i].Card.GPU.Key] = true
	}
	var names []string
	for i := range p.Result.Rows {
		r := &p.Result.Rows[i]
		if key := r.Card.GPU.Key; !seen[key] {
			seen[key] = true
			names = append(names, fmt.Sprintf("%d × %s", r.GPUs, key))
		}
	}
	most := 1
	if p.Request.Named {
		most = len(names)
	}
	if len(names) == 0 {
		return ""
	}
	return "also qualify: " + listed(names, most) + " (--top)"
}

// others says which GPUs qualify besides, of how many nothing does, and why of those that were named; where nothing qualifies, what came
// nearest.
func (p *Plan) others() (lines []string) {
	var out []plan.Rejected
	for _, x := range p.Result.Rejected {
		if !x.Unpriced || p.Request.Named {
			out = append(out, x)
		}
	}
	searched := fmt.Sprintf("%s searched in %v", several(p.Result.Searched, "deployment"), p.Took)
	also := p.also()
	switch {
	case p.Full || len(out) == 0:
		return []string{strings.TrimPrefix(also+"; "+searched, "; ")}
	case also != "":
		lines = []string{fmt.Sprintf("%s; %d do not (--rejected)", also, len(out))}
	default:
		lines = []string{fmt.Sprintf("nothing qualifies on %s (--rejected); %s", several(len(out), "GPU"), searched)}
	}
	told := 0
	switch {
	case p.Request.Named:
		told = min(len(out), mostNamed)
	case len(p.Shown) == 0:
		told = min(len(out), 1)
	}
	for _, x := range out[:told] {
		lines = append(lines, x.Card.GPU.Key+": "+x.Miss.Reason)
	}
	return lines
}

// listed are the first of some names, with how many more there are.
func listed(names []string, most int) string {
	text := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// simpler is the best deployment found whose replicas all prefill and decode, where no row that is shown is one; nil where there is none.
func (p *Plan) simpler() *plan.Row {
	if slices.ContainsFunc(p.Shown, func(r plan.Row) bool { return r.Prefill == 0 }) {
		return nil
	}
	for i := range p.Result.Rows {
		if r := &p.Result.Rows[i]; r.Prefill == 0 {
			return r
		}
	}
	return nil
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
		f.Add(fmt.Sprintf("%d GPUs", n), fmt.Sprintf(
			"no price of them is known: give one, as --price %s=1.50, or rank --by energy; %s", unpriced[0], listed(unpriced, mostNamed)))
	}
	return f
}

// mostNamed is how many GPUs are named that do not qualify; the JSON has all.
const mostNamed = 8

// Table is the plan as a table for programs.
func (p *Plan) Table() *render.Table {
	t := flat(p.Document().Rows, "model", "gpu", "count", "tp", "pp", "dp", "ep", "moe_tp", "micro_batches", "engine", "weights", "kv",
		"batch", "prefill_replicas", "max_num_batched_tokens", "max_num_seqs",
		"speculative_tokens", "ttft_s", "tpot_s", "e2e_s", "ttft_p50_s=simulated.ttft_s.p50", "ttft_p90_s=simulated.ttft_s.p90",
		"ttft_p95_s=simulated.ttft_s.p95", "ttft_p99_s=p99.ttft_s", "tpot_p99_s=p99.tpot_s", "e2e_p99_s=p99.e2e_s", "tok_s",
		"usd_h", "usd_month", "usd_mtok", "price_source", "j_token", "pareto")
	t.Columns = append(t.Columns, render.Column{Key: "same_by"})
	for i := range t.Rows {
		t.Rows[i].Cells = append(t.Rows[i].Cells, p.Same(&p.Shown[i]))
	}
	return t
}
