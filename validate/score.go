package validate

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"llmprof/analytic"
	"llmprof/input"
	"llmprof/operator"
	"llmprof/unit"
)

// A Row is an observation beside its prediction.
type Row struct {
	Observation
	Predicted       float64  // expected; seconds or joules
	Floor           *float64 // nil for energies
	PredictedLow    *float64 // 90 % interval of the prediction; nil for energies
	PredictedHigh   *float64
	Error           float64 // predicted over observed, less 1
	Fitted          string  // the constant that was fitted on it; empty if none was
	FasterThanFloor bool
}

// Inside reports whether the observation is in the predicted interval; ok is
// false where there is none.
func (r *Row) Inside() (inside, ok bool) {
	if r.PredictedLow == nil || r.PredictedHigh == nil {
		return false, false
	}
	return *r.PredictedLow <= r.Value && r.Value <= *r.PredictedHigh, true
}

// A Skip is an observation that is not scored, or a file none could be read of.
type Skip struct {
	Reason      Reason
	Observation *Observation // nil for a file
	Source      string
	Detail      string
}

// A Finding is something about the observations that a reader has to know.
type Finding struct {
	Kind   string `json:"kind"` // "faster than the floor" or "contradictory"
	Detail string `json:"detail"`
}

// The kinds of findings.
const (
	BelowFloor    = "faster than the floor"
	Contradictory = "contradictory"
)

// A Score is every observation with its prediction, or with why it has none.
type Score struct {
	Rows     []Row
	Skipped  []Skip
	Findings []Finding
}

// Score matches observations with estimates. None is left out without a word:
// each is in a row or among those skipped.
func (s *Scorer) Score(all []Observation) *Score {
	s.predictAhead(all)
	out := &Score{}
	seen := map[string]bool{}
	for i := range all {
		o := &all[i]
		key := fmt.Sprintf("%s\x00%s\x00%s\x00%v\x00%v", o.Source, o.ID, o.Metric, o.Config, o.Value)
		if seen[key] {
			out.skip(o, &mismatch{Repeated, errors.New("the same figure of the same measurement came before")})
			continue
		}
		seen[key] = true
		row, err := s.row(o)
		if err != nil {
			out.skip(o, err)
			continue
		}
		if row.FasterThanFloor {
			out.Findings = append(out.Findings, Finding{BelowFloor, fmt.Sprintf(
				"%s: %.4g s observed, %.4g s at least by the data sheet: the measurement or the floor is wrong", row.name(), row.Value, *row.Floor)})
		}
		out.Rows = append(out.Rows, row)
	}
	slices.SortStableFunc(out.Rows, func(a, b Row) int {
		return cmp.Or(slices.Index(Metrics(), a.Metric)-slices.Index(Metrics(), b.Metric), byConfig(&a.Config, &b.Config))
	})
	out.contradictions()
	return out
}

func (out *Score) skip(o *Observation, err error) {
	sk := Skip{Reason: Unreadable, Observation: o, Source: o.Source, Detail: err.Error()}
	var m *mismatch
	if errors.As(err, &m) {
		sk.Reason, sk.Detail = m.reason, m.err.Error()
	}
	out.Skipped = append(out.Skipped, sk)
}

// Refuse notes a file that no observation could be made of.
func (out *Score) Refuse(source string, err error) {
	out.Skipped = append(out.Skipped, Skip{Reason: Unreadable, Source: source, Detail: err.Error()})
}

func (s *Scorer) row(o *Observation) (r Row, err error) {
	if err := o.Check(); err != nil {
		return r, &mismatch{Unreadable, err}
	}
	p, err := s.predict(o.Config)
	if err != nil {
		return r, err
	}
	span, err := p.of(&o.Config, o.Metric)
	if err != nil {
		return r, err
	}
	if !(span.expected > 0) {
		return r, &mismatch{Impossible, fmt.Errorf("the estimate has no %s", o.Metric)}
	}
	named := *o
	named.Config = s.Canonical(o.Config)
	return Row{
		Observation: named, Predicted: span.expected, Floor: span.floor, PredictedLow: span.low, PredictedHigh: span.high,
		Error: span.expected/o.Value - 1, Fitted: fitted(&named), FasterThanFloor: span.floor != nil && o.Value < *span.floor,
	}, nil
}

// apart is how far two observations of one configuration may differ, as a ratio
// less 1, before they are said to contradict each other: well beyond the 15 % by
// which two collections of one operator on one kind of GPU were seen to differ.
const apart = 0.2

// contradictions finds observations of one configuration that are far apart.
// They are all scored: which of them is right cannot be known here.
func (out *Score) contradictions() {
	type key struct {
		Config
		Metric
	}
	lowest, highest := map[key]*Row{}, map[key]*Row{}
	var order []key
	for i := range out.Rows {
		r := &out.Rows[i]
		k := key{r.Config, r.Metric}
		k.Params = 0
		if lowest[k] == nil {
			lowest[k], highest[k] = r, r
			order = append(order, k)
		}
		if r.Value < lowest[k].Value {
			lowest[k] = r
		}
		if r.Value > highest[k].Value {
			highest[k] = r
		}
	}
	for _, k := range order {
		if a, b := lowest[k], highest[k]; b.Value > a.Value*(1+apart) {
			out.Findings = append(out.Findings, Finding{Contradictory, fmt.Sprintf(
				"%s of %s: %.4g (%s) and %.4g (%s)", k.Metric, k.String(), a.Value, a.place(), b.Value, b.place())})
		}
	}
}

// Worst are the n rows that are farthest off, the farthest first.
func (out *Score) Worst(n int) []*Row {
	rows := make([]*Row, len(out.Rows))
	for i := range out.Rows {
		rows[i] = &out.Rows[i]
	}
	slices.SortStableFunc(rows, func(a, b *Row) int { return cmp.Compare(distance(b), distance(a)) })
	return rows[:min(n, len(rows))]
}

// distance is how far off a prediction is, the same for half as for twice.
func distance(r *Row) float64 {
	ratio := r.Predicted / r.Value
	return max(ratio, 1/ratio)
}

// predictAhead answers for the configurations of observations on all processors, so that
// the rows are then made from what is kept. What all answers read (models, GPUs and
// calibrations) is found first, one after the other.
func (s *Scorer) predictAhead(all []Observation) {
	var todo []Config
	known := map[Config]bool{}
	for i := range all {
		c := all[i].Config
		if _, kept := s.answers[c]; kept || known[c] || all[i].Check() != nil {
			continue
		}
		known[c] = true
		s.findInputs(&c)
		todo = append(todo, c)
	}
	answers := make([]found[prediction], len(todo))
	input.Each(len(todo), func(i int) { answers[i].value, answers[i].err = s.estimate(todo[i]) })
	if s.answers == nil {
		s.answers = make(map[Config]found[prediction], len(todo))
	}
	for i, c := range todo {
		s.answers[c] = answers[i]
	}
}

// findInputs looks up what the answer for a configuration reads.
func (s *Scorer) findInputs(c *Config) {
	if m, err := once(&s.models, c.Model, s.Model); err == nil { // the answer says what was wrong
		_, _ = s.store(c, m)
	}
	_, _ = once(&s.gpus, c.GPU, s.GPU)
	if s.change != nil {
		_, _ = once(&s.altered, c.runner(), s.changed)
		return
	}
	_, _ = once(&s.machines, c.runner(), s.prepare)
}

// together is how many prompts of clients in a closed loop come with one step. Those of answers of
// one length end together, and so do their prompts: as many share a step as its budget of tokens
// holds, where prompts are not cut into chunks as many whole ones. Others ask one after the other, where not several do during one step.
func (l Load) together(w *analytic.Workload, p *analytic.Predictor, whole bool) float64 {
	n := float64(w.Batch)
	if l == Varied {
		return max(n/float64(w.GenLen), 1)
	}
	holds := (stepBudget(w, p) - n) / float64(w.PromptLen)
	if whole {
		holds = math.Floor(holds)
	}
	return min(max(holds, 1), n)
}

// cuts reports whether an engine cuts prompts into chunks. TensorRT-LLM does not by default, nor by the launch files of aiconfigurator
// (enable_chunked_prefill in generator/templates/trtllm).
func cuts(engine string) bool { return engine != "tensorrt-llm" }

// stepBudget is the most tokens of a step; infinite where there is no limit.
func stepBudget(w *analytic.Workload, p *analytic.Predictor) float64 {
	budget := p.Budget()
	if w.Budget > 0 {
		budget = float64(w.Budget)
	}
	if budget == 0 {
		return math.Inf(1)
	}
	return budget
}

// joins is by how much longer a decode step of all sequences of a workload takes for one of the
// prompts of other clients that join it together. Prompts longer than a step's budget of tokens
// take several steps.
func joins(p *analytic.Predictor, w *analytic.Workload, prompts float64) unit.Seconds {
	decode := operator.Group{Batch: float64(w.Batch), New: 1, Past: float64(w.PromptLen) + float64(w.GenLen)/2, Logits: 1}
	step, _ := p.MixedStep([]operator.Group{decode})
	budget := max(min(stepBudget(w, p), prompts*float64(w.PromptLen)+decode.Batch)-decode.Batch, 1)
	sum, left := unit.Seconds(0), prompts*float64(w.PromptLen)
	for past := 0.0; left > 0 && past < 1e6; past += budget / prompts {
		chunk := min(left, budget)
		prompt := operator.Group{Batch: prompts, New: chunk / prompts, Past: past}
		if left -= chunk; left <= 0 {
			prompt.Logits = 1
		}
		mixed, _ := p.MixedStep([]operator.Group{decode, prompt})
		sum += max(mixed-step, 0)
	}
	return sum.Times(1 / prompts)
}

// goes is what a step of so many prompts, of an engine whose prompts have steps of their own, takes for
// one of them.
func goes(p *analytic.Predictor, w *analytic.Workload, prompts float64) (sum unit.Seconds) {
	each := min(float64(w.PromptLen), stepBudget(w, p)/prompts)
	for past := 0.0; past < float64(w.PromptLen); past += each {
		step, _ := p.MixedStep([]operator.Group{{Batch: prompts, New: min(each, float64(w.PromptLen)-past), Past: past, Logits: 1}})
		sum += step
	}
	return sum.Times(1 / prompts)
}

// interrupted is the time per token in a closed loop of C clients: while one of
// them generates, each of the others asks once more, and its prompt joins a step of all, but for
// those that share a step with its own.
//
//	TPOT = decode step of C sequences + (C - prompts of a step) × what a prompt adds to a step / generated
//
// Where prompts have steps of their own, those whose answers have one length begin and end a wave together:
// on the mean half of the others' prompts come after one's own.
//
// The floor leaves the prompts out, since an engine may hide them. A prompt among
// decode steps is a burst: the power limit is kept over some 100 ms, and decoding
// draws less than it.
func (p *prediction) interrupted(c *Config) span {
	s := times(p.TPOT)
	stops := (float64(c.Batch) - min(p.together, float64(c.Batch))) / float64(c.Gen) * float64(p.joins)
	if p.apart && c.Load == Closed {
		stops /= 2
	}
	first := &p.first.TTFT
	s.expected += stops
	*s.low += stops * float64(first.Low/first.Expected)
	*s.high += stops * float64(first.High/first.Expected)
	return s
}
