package deployment

import (
	"context"
	"slices"

	"llmprof/analytic/breakdown"
	"llmprof/analytic/energy"
	"llmprof/analytic/engine"
	"llmprof/analytic/sensitivity"
	"llmprof/unit"
)

// Metrics are the figures of the answer.
func (ans *Answer) Metrics() []unit.Metric {
	why := ""
	if v := ans.Verdict(); !v.Possible {
		why = v.Text
	}
	return ans.Estimate.Metrics(nil, why)
}

// Metric is the figure of a key.
func (ans *Answer) Metric(key string) *unit.Metric { return unit.Find(ans.Metrics(), key) }

// PerGPU is the tokens a second that each GPU generates, also of what cannot run.
func (ans *Answer) PerGPU() float64 { return ans.Throughput / float64(ans.GPUs) }

// besides counts replicas that only prefill, which a request alone keeps waiting: their price, and what they draw.
func (ans *Answer) besides() {
	more := ans.AllGPUs() - ans.GPUs
	if more == 0 {
		return
	}
	p, err := ans.Predictor()
	if err != nil {
		return // an estimate was made by it before
	}
	requests := float64(ans.Workload.Batch * max(ans.Parallel.DP, 1))
	waits := func(t unit.Seconds) unit.Joules { return p.Waiting().For(t).Times(float64(more) / requests) }
	add := func(j *unit.Joules, i *energy.Interval, more unit.Joules) {
		*j, i.Low, i.High = *j+more, i.Low+more, i.High+more
	}
	e := &ans.Energy
	add(&e.PerPrompt, &e.Prompt, waits(ans.TTFT.Expected))
	add(&e.PerRequest, &e.Request, waits(ans.TTLT.Expected))
	if ans.Tokens > 0 {
		add(&e.PerToken, &e.Token, waits(ans.TPOT.Expected))
	}
	m, times := &ans.Money, unit.Dollars(float64(ans.AllGPUs())/float64(ans.GPUs))
	m.PerHour, m.PerRequest, m.PerMillionGenerated, m.PerMillionTokens =
		m.PerHour*times, m.PerRequest*times, m.PerMillionGenerated*times, m.PerMillionTokens*times
	ans.GPUs = ans.AllGPUs()
}

// Changes are the answers where one thing is changed: a resource that is faster by sensitivity.Step, then each choice that a user has.
func (ans *Answer) Changes() []sensitivity.Change {
	return append(sensitivity.Resources(&ans.Estimate), sensitivity.Choices(&ans.Case)...)
}

// least is the change of a request's time that is worth a word.
const least = 0.005

// A Gain is a resource with the share by which a request takes less time where it is faster by sensitivity.Step.
type Gain struct {
	Name  string
	Share float64
}

// Depends are the resources that a request's time depends on most.
func (ans *Answer) Depends() (all []Gain) {
	for _, r := range sensitivity.Resources(&ans.Estimate) {
		if gain := 1 - float64(r.TTLT.Expected/ans.TTLT.Expected); gain >= least && len(all) < 3 {
			all = append(all, Gain{r.Name, gain})
		}
	}
	return all
}

// A Choice is a change that a user can make, with the tokens a second of each GPU and the TPOT over those of the answer.
type Choice struct {
	By     unit.Said
	PerGPU float64
	TPOT   float64 // 0 where one token is generated
}

// mostChoices is how many choices are named for their throughput.
const mostChoices = 2

// Try says which choices gain most: those that generate most tokens a second on each GPU, and the one with the least TPOT.
func (ans *Answer) Try() (best []Choice) {
	all := sensitivity.Choices(&ans.Case)
	base := ans.Throughput / float64(ans.Parallel.GPUs())
	fastest := -1
	for i := range all {
		if ans.Tokens > 0 && all[i].TPOT.Expected < ans.TPOT.Expected.Times(1-least) &&
			(fastest < 0 || all[i].TPOT.Expected < all[fastest].TPOT.Expected) {
			fastest = i
		}
	}
	named := map[string]bool{}
	for i := range all {
		c := Choice{By: all[i].By, PerGPU: all[i].PerGPU() / base}
		if i != fastest && (len(best) >= mostChoices || c.PerGPU < 1+least || named[c.By.Key()]) {
			continue
		}
		named[c.By.Key()] = true
		if ans.Tokens > 0 {
			c.TPOT = float64(all[i].TPOT.Expected / ans.TPOT.Expected)
		}
		best = append(best, c)
	}
	return best
}

// An Answer is the estimate of a deployment.
type Answer struct {
	*Deployment
	breakdown.Report
	Links *unit.Warning // how its GPUs are taken to be linked, nil where nothing would say otherwise
	Load  *Load         // nil unless the steady state under one was asked for
}

// Answer reads what a request names and answers it, with the steady state under its load if it has one.
func (l *Library) Answer(ctx context.Context, q *Request) (*Answer, error) {
	d, err := l.Resolve(ctx, q)
	if err != nil {
		return nil, err
	}
	ans, err := d.Explain()
	if err != nil {
		return nil, err
	}
	return ans, ans.loaded(ctx)
}

// Explain answers the case operator by operator, with what a reader has to know.
func (d *Deployment) Explain() (*Answer, error) {
	ans, err := &Answer{Deployment: d}, d.unused()
	if err != nil {
		return nil, err
	}
	if ans.Report, err = breakdown.Explain(&d.Case); err != nil {
		return nil, unit.Wrong(err)
	}
	if err := d.CountsPrefixes(); err != nil {
		return nil, err
	}
	ans.besides()
	first := 0
	if !ans.Memory.Fits() {
		first = 1 // after the warning that it does not
	}
	ans.Warnings = slices.Insert(ans.Warnings, first, d.known...)
	if ans.Links, err = d.linked(true); err != nil {
		return nil, unit.Wrong(err)
	}
	ans.idle()
	ans.warn(d.node)
	ans.Warnings = append(engine.Starts(&d.Case, &ans.Memory), ans.Warnings...) // A server that does not start comes before all else.
	ans.warn(ans.Links)
	if hint := ans.whatFits(); hint != nil {
		ans.Warnings = slices.Insert(ans.Warnings, 1, *hint) // after the warning that it does not
	}
	return ans, nil
}

func (ans *Answer) warn(w *unit.Warning) {
	if w != nil {
		ans.Warnings = append(ans.Warnings, *w)
	}
}
