package aggregate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"llmprof/measure/result"
)

// Options allow aggregates that usually are a mistake.
type Options struct {
	AllowMixed   bool  // processes of other configurations under one id
	AllowMissing bool  // fewer processes than there were
	FLOPs        FLOPs // counts a process's work; nil for none
}

// build makes the aggregate of one experiment's processes.
func build(results []*result.Result, o Options) (*Aggregate, error) {
	if len(results) == 0 {
		return nil, fmt.Errorf("no result to aggregate")
	}
	b := &builder{results: slices.Clone(results), options: o, out: &Aggregate{Reasons: map[string]string{}}}
	slices.SortFunc(b.results, func(x, y *result.Result) int { return cmp.Compare(x.Process, y.Process) })
	if err := b.identity(); err != nil {
		return nil, err
	}
	for _, r := range b.results {
		b.out.Processes = append(b.out.Processes, b.process(r))
	}
	b.method()
	b.totals()
	b.latency()
	b.breakdown()
	b.efficiency()
	b.aiperf()
	b.extend()
	b.throttle()
	b.remarks()
	return b.out, nil
}

// A builder puts an Aggregate together.
type builder struct {
	results []*result.Result
	options Options
	out     *Aggregate
}

func (b *builder) first() *result.Result { return b.results[0] }

// why notes a reason where something is missing.
func (b *builder) why(key string, missing bool, text string) {
	if missing {
		b.out.Reasons[key] = text
	}
}

// reason is what a result says of a figure that is missing in it.
func (b *builder) reason(key, otherwise string) string {
	for _, r := range b.results {
		if why := r.Reasons[key]; why != "" {
			return why
		}
	}
	return otherwise
}

// identity takes what all processes have in common, and refuses processes that differ where they must not.
func (b *builder) identity() error {
	r, o := b.first(), b.out
	o.ID, o.Cycle, o.ConfigName, o.Hash = r.ID, r.Cycle, r.Provenance.Config, r.Provenance.Hash
	o.ModelName, o.Engine, o.EngineVersion = r.Model.Name, r.Engine.Name, r.Engine.Version
	o.Workload, o.Parallelism, o.Start, o.End = r.Workload, r.Parallelism, r.Started, r.Ended
	o.GPUs, o.Method.Missing, o.Method.Warnings = []string{}, []int{}, []string{}
	seen := map[int]bool{}
	for _, p := range b.results {
		switch {
		case p.ID != r.ID:
			return fmt.Errorf("results of %s and %s: want those of one experiment", r.ID, p.ID)
		case seen[p.Process]:
			return fmt.Errorf("%s: process %d is there twice", r.ID, p.Process)
		}
		seen[p.Process] = true
		if p.Started.Before(o.Start) {
			o.Start = p.Started
		}
		if p.Ended.After(o.End) {
			o.End = p.Ended
		}
		for i := range p.Machine.GPUs {
			o.GPUs = append(o.GPUs, p.Machine.GPUs[i].Name)
		}
		if what := differs(r, p); what != "" {
			if !b.options.AllowMixed {
				return fmt.Errorf("%s: process %d has another %s than process %d: sums of them mean nothing; give --allow-mixed to sum all the same",
					r.ID, p.Process, what, r.Process)
			}
			o.Method.Mixed = true
			o.Method.Warnings = append(o.Method.Warnings, fmt.Sprintf("process %d has another %s than process %d", p.Process, what, r.Process))
		}
	}
	return b.missing(seen)
}

// differs names what two processes of one experiment may not differ in.
func differs(a, b *result.Result) string {
	switch {
	case a.Provenance.Hash != b.Provenance.Hash:
		return "configuration (config_hash)"
	case a.Cycle != b.Cycle:
		return "cycle"
	case a.Processes != b.Processes:
		return "number of processes"
	case a.Model.Name != b.Model.Name:
		return "model (" + b.Model.Name + ")"
	case a.Engine.Name != b.Engine.Name || a.Engine.Version != b.Engine.Version:
		return "engine (" + b.Engine.Name + " " + b.Engine.Version + ")"
	case a.Workload != b.Workload:
		return "workload"
	case a.Parallelism != b.Parallelism:
		return "parallelism"
	}
	return ""
}

// mostMissing is more processes than any experiment lacks, mostNamed how many of them an error names.
const mostMissing, mostNamed = 100_000, 20

// missing notes the processes that have no result.
func (b *builder) missing(seen map[int]bool) error {
	r := b.first()
	lacks := r.Processes
	for p := range seen {
		if p < r.Processes { // mixed processes may count others
			lacks--
		}
	}
	if lacks == 0 {
		return nil
	}
	var names []string
	for p := 0; p < r.Processes && len(names) < min(lacks, mostNamed); p++ {
		if !seen[p] {
			names = append(names, result.FileName(r.ID, p))
		}
	}
	text := fmt.Sprintf("%d of %d processes have no result: %s", lacks, r.Processes, strings.Join(names, ", "))
	if lacks > len(names) {
		text += fmt.Sprintf(" and %d more", lacks-len(names))
	}
	switch {
	case lacks > mostMissing:
		return fmt.Errorf("%s: %s; want at most %d that lack", r.ID, text, mostMissing)
	case !b.options.AllowMissing:
		return fmt.Errorf("%s: %s; give --allow-missing to sum the others all the same", r.ID, text)
	}
	for p := range r.Processes {
		if !seen[p] {
			b.out.Method.Missing = append(b.out.Method.Missing, p)
		}
	}
	b.out.Method.Warnings = append(b.out.Method.Warnings, text+": the sums are of the others")
	return nil
}

func (b *builder) process(r *result.Result) Process {
	p := Process{
		Index: r.Process, GPUIDs: gpusOf(r),
		Timestamps: Timestamps{r.Started, r.Ended, r.Ended.Sub(r.Started).Seconds()},
		Inference:  inference(r),
	}
	p.Energy = energy(r, p.Inference.Total)
	p.Compute = b.compute(r, &p.Inference)
	return p
}

// leastOverlap is the share of the shortest process's time that all have to run
// together, as in LLM Energy Measure.
const leastOverlap = 0.5

// method checks whether the processes' figures may be added.
func (b *builder) method() {
	m := &b.out.Method
	m.Method, m.NumProcesses = "sum energy, tokens and FLOPs; sum the rates of processes that ran together; percentiles over all samples",
		len(b.results)
	begin, end := b.first().Started, b.first().Ended
	m.ShortestS = end.Sub(begin).Seconds()
	owners := map[string]int{}
	shared, known := "", true
	for i, r := range b.results {
		if r.Started.After(begin) {
			begin = r.Started
		}
		if r.Ended.Before(end) {
			end = r.Ended
		}
		m.ShortestS = min(m.ShortestS, r.Ended.Sub(r.Started).Seconds())
		ids := b.out.Processes[i].GPUIDs
		known = known && len(ids) > 0
		for _, id := range ids {
			if owners[id]++; owners[id] > 1 {
				shared = id
			}
		}
	}
	m.OverlapS = max(end.Sub(begin).Seconds(), 0)
	m.Overlap = len(b.results) == 1 || m.OverlapS > 0 && m.OverlapS >= leastOverlap*m.ShortestS
	if !m.Overlap {
		m.Warnings = append(m.Warnings,
			fmt.Sprintf("all processes ran together for %.1f s only, the shortest for %.1f s: their rates are not added", m.OverlapS, m.ShortestS))
	}
	if known || shared != "" {
		m.Attribution = new(shared == "")
	}
	switch {
	case shared != "":
		m.Warnings = append(m.Warnings, "GPU "+shared+" is in more than one process: its energy would be counted twice, and is not added")
	case !known:
		b.why("aggregation.gpu_attribution_verified", true, "a process does not say which GPUs it used")
		if len(b.results) > 1 {
			m.Warnings = append(m.Warnings, "a process does not say which GPUs it used: it is unknown whether an energy is counted twice")
		}
	}
}

// attributed reports whether the energies of the processes may be added.
func (b *builder) attributed() bool {
	return len(b.results) == 1 || b.out.Method.Attribution != nil && *b.out.Method.Attribution
}

// energyReason is why a sum of energies is missing.
func (b *builder) energyReason(otherwise string) string {
	if !b.attributed() {
		return "the processes' energies cannot be separated: see aggregation.warnings"
	}
	return b.reason("energy", otherwise)
}

// remarks gathers the warnings of the results.
func (b *builder) remarks() {
	b.out.Marks, b.out.Warnings = []string{}, []string{}
	for _, r := range b.results {
		for _, m := range r.Marks {
			if !slices.Contains(b.out.Marks, m) {
				b.out.Marks = append(b.out.Marks, m)
			}
		}
		for _, w := range r.Warnings {
			if !slices.Contains(b.out.Warnings, w) {
				b.out.Warnings = append(b.out.Warnings, w)
			}
		}
	}
}
