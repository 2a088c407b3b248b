// Package traced sets the kernels of a profiler's trace of vLLM or SGLang beside the operators of
// an estimate: which of them a kernel is of, which steps there were, what was predicted for each,
// and what no operator explains.
package traced

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"llmprof/analytic/breakdown"
	"llmprof/unit"
	"llmprof/validate"
)

// A Phase is the steps of a kind, prefill or decode: each operator's time in a step beside
// the predicted one, and what is left.
type Phase struct {
	validate.OperatorPhase
	Steps   int
	Partial int     // steps of the trace that lack layers, left out
	Graph   bool    // CUDA graphs launched the layers
	Span    float64 // seconds of a step, from its first kernel to the next step's
	Busy    float64 // seconds in which a kernel ran
	Overlap float64 // seconds by which kernels ran side by side
	Others  []Other // kernels that no operator explains, the longest first
}

// Other is kernels that are of no operator of the estimate.
type Other struct {
	Name    string // purpose of the kernels, else the kernel's name
	Known   bool   // The purpose is known.
	Kernels int    // kernels in a step
	Seconds float64
}

// Idle is the time of a step in which no kernel ran.
func (p *Phase) Idle() float64 { return max(p.Span-p.Busy, 0) }

// names are the operators of the estimate.
type names struct {
	known       map[string]bool
	projections []string // ahead of attention
}

// pick is the first of some names that the estimate has, else the first.
func (n names) pick(all ...string) string {
	for _, name := range all {
		if n.known[name] {
			return name
		}
	}
	if len(all) == 0 {
		return ""
	}
	return all[0]
}

func namesOf(lines []breakdown.Operator) names {
	n := names{known: map[string]bool{}, projections: []string{"qkv_proj"}}
	for i := range lines {
		n.known[lines[i].Name] = true
	}
	if n.known["q_a_proj"] {
		n.projections = []string{"q_a_proj"}
	}
	return n
}

// fused are the operators of the estimate that rows of several kernels have beside their own.
var fused = map[string][]string{"q_a_proj": {"q_b_proj", "kv_a_proj", "kv_b_proj"}}

// A Subject says what was traced, as far as its user knows; the trace may say more.
type Subject struct {
	Config  validate.Config
	Context int // tokens in the cache of a sequence while it decodes; 0 for the prompt
	Layers  int // layers with attention
}

// Explain sets the steps of a trace beside the estimates of a scorer.
func Explain(l *Timeline, q *Subject, s *validate.Scorer) ([]Phase, error) {
	if len(l.Kernels) == 0 {
		return nil, errors.New("the trace has no kernel of a GPU: was the profiler told of CUDA activities?")
	}
	oneDevice(l)
	var phases []Phase
	steps := split(l, q.Layers)
	for _, decode := range []bool{false, true} {
		var own []step
		partial := 0
		for i := range steps {
			switch x := &steps[i]; {
			case x.decode != decode:
			case x.whole(q.Layers):
				own = append(own, *x)
			default:
				partial++
			}
		}
		own = alike(own)
		if len(own) == 0 {
			continue
		}
		p, err := phase(own, decode, q, s)
		if err != nil {
			return nil, err
		}
		p.Partial = partial
		phases = append(phases, *p)
	}
	if len(phases) == 0 {
		return nil, fmt.Errorf("no step of %d attentions was found in %d kernels: is it a trace of another model, or cut off?", q.Layers,
			len(l.Kernels))
	}
	return phases, nil
}

// oneDevice keeps the kernels of the first device: the ranks of a group do the same.
func oneDevice(l *Timeline) {
	least := l.Kernels[0].Device
	for i := range l.Kernels {
		least = min(least, l.Kernels[i].Device)
	}
	l.Kernels = slices.DeleteFunc(l.Kernels, func(k Launch) bool { return k.Device != least })
}

// alike are the steps of the load that most of them had.
func alike(steps []step) []step {
	count := map[load]int{}
	for i := range steps {
		count[steps[i].load]++
	}
	var most load
	for _, s := range steps {
		if count[s.load] > count[most] {
			most = s.load
		}
	}
	return slices.DeleteFunc(steps, func(s step) bool { return s.load != most })
}

func phase(steps []step, decode bool, q *Subject, s *validate.Scorer) (*Phase, error) {
	p := &Phase{Steps: len(steps), Graph: steps[0].graph}
	p.Decode, p.Config, p.Context = decode, q.Config, cmp.Or(q.Context, q.Config.Prompt)
	if own := steps[0].load; own.batch > 0 {
		p.Config.Batch = own.batch
		if !decode {
			p.Config.Prompt = own.tokens
		}
	}
	switch {
	case p.Config.Batch < 1:
		return nil, unit.Failf("the trace does not say how many sequences a step had: give {batch}")
	case !decode && p.Config.Prompt < 1:
		return nil, unit.Failf("the trace does not say how long the prompts were: give {prompt_len}")
	case decode && p.Context < 1:
		return nil, unit.Failf("the trace does not say how much context a sequence had: give {prompt_len}, or {context}")
	}
	p.Config.Gen = 2
	if decode {
		p.Config.Prompt = p.Context
	}
	lines, err := s.Lines(&p.OperatorPhase)
	if err != nil {
		return nil, err
	}
	n := namesOf(lines)
	t := &kernelTimes{times: map[string]float64{}, counts: map[string]int{}, other: map[string]*Other{}}
	for i := range steps {
		assign(&steps[i], n)
		t.add(&steps[i], n)
	}
	t.rows(p, lines)
	return p, p.Predict(s)
}

// A kernelTimes is the time of the kernels of steps by role.
type kernelTimes struct {
	steps  int
	times  map[string]float64 // seconds in all steps
	counts map[string]int
	other  map[string]*Other
	spans  []float64
	busy   float64
	sum    float64
}

const micro = 1e-6

func (t *kernelTimes) add(s *step, n names) {
	t.steps++
	for i := range s.kernels {
		k := &s.kernels[i]
		t.sum += micro * k.Dur
		if !n.known[k.role] {
			t.others(k)
			continue
		}
		t.times[k.role] += micro * k.Dur
		t.counts[k.role]++
	}
	span, busy := s.took()
	if s.next > 0 || t.steps == 1 {
		t.spans = append(t.spans, micro*span)
	}
	t.busy += micro * busy
}

// others takes a kernel of no operator.
func (t *kernelTimes) others(k *kernel) {
	name, known := k.role, k.role != ""
	if !known {
		name = short(k.Name)
	}
	o := t.other[name]
	if o == nil {
		o = &Other{Name: name, Known: known}
		t.other[name] = o
	}
	o.Kernels++
	o.Seconds += micro * k.Dur
}

// rows fills in a phase, its operators in the order of the estimate.
func (t *kernelTimes) rows(p *Phase, lines []breakdown.Operator) {
	n := float64(t.steps)
	layers := map[string]int{}
	var order []string
	for i := range lines {
		if name := lines[i].Name; layers[name] == 0 {
			order = append(order, name)
		}
		layers[lines[i].Name] += int(lines[i].Layers)
	}
	for _, name := range order {
		sum, ok := t.times[name]
		if !ok {
			continue
		}
		row := validate.OperatorRow{Name: name, Includes: fused[name], Layers: layers[name], Kernels: int(float64(t.counts[name])/n + 0.5),
			Observed: sum / n}
		p.Rows = append(p.Rows, row)
		p.Sum.Observed += row.Observed
		p.Sum.Kernels += row.Kernels
	}
	for _, span := range t.spans {
		p.Span += span / float64(len(t.spans))
	}
	p.Busy = t.busy / n
	p.Overlap = max(t.sum/n-p.Busy, 0)
	p.Whole(p.Sum.Observed, p.Span)
	for _, o := range t.other {
		o.Seconds /= n
		o.Kernels = int(float64(o.Kernels)/n + 0.5)
		p.Others = append(p.Others, *o)
	}
	slices.SortFunc(p.Others, func(a, b Other) int { return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(a.Name, b.Name)) })
}

// A Note is what llmprof's own traces say of themselves, under the key "llmprof".
type Note struct {
	Model   string `json:"model"`
	Weights string `json:"weights"`
	Batch   int    `json:"batch"`
	Context int    `json:"context"`
	Prompt  int    `json:"prompt"`
}

// NoteOf reads the note of a trace; what it lacks is empty.
func NoteOf(l *Timeline) (n Note) {
	if json.Unmarshal(l.Note, &n) != nil {
		return Note{}
	}
	return n
}
