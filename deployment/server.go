package deployment

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/analytic/engine"
	"llmprof/analytic/operator"
	"llmprof/models"
	"llmprof/serving"
	"llmprof/unit"
)

// Serve is Resolve for a server whose load the request does not say, as one that is simulated.
func (l *Library) Serve(ctx context.Context, q *Request) (*Deployment, error) {
	d, err := l.Resolve(ctx, q)
	if err != nil {
		return nil, err
	}
	d.leaveBatch()
	return d, d.unused()
}

// Spread is the deployment of another request that differs from its own in the split, the workload and settings of the server alone, of
// which nothing is read again.
func (d *Deployment) Spread(q *Request) (*Deployment, error) {
	own := *d.bare
	own.Request = q
	own.size()
	own.Workload.PromptLen += d.MediaTokens
	if err := engine.Splits(own.runs, own.Model, &own.Scheme, &own.Parallel); err != nil {
		return &own, unit.Wrong(err)
	}
	if q.atHome() && !d.Request.atHome() { // it says what lies in host memory
		if err := own.inHost(); err != nil {
			return &own, err
		}
		var err error
		if own.Machine, err = own.machine(own.GPU); err != nil {
			return &own, err
		}
	}
	return &own, own.place()
}

// Predictor prices the steps of the deployment.
func (d *Deployment) Predictor() (_ *analytic.Predictor, err error) {
	if d.prepared == nil {
		d.prepared, err = analytic.NewPredictor(&d.Case)
	}
	return d.prepared, unit.Wrong(err)
}

// Predict answers for the workload of another request about the deployment, without operators and warnings.
func (d *Deployment) Predict(q *Request) (*Answer, error) {
	p, err := d.Predictor()
	if err != nil {
		return nil, err
	}
	own := *d
	own.Request, own.Workload = q, q.Workload()
	own.Workload.PromptLen += d.MediaTokens
	own.Workload.Batch = max(own.Workload.Batch, d.Parallel.MicroBatches)
	ans := &Answer{Deployment: &own}
	if ans.Estimate, err = p.Predict(&own.Workload); err == nil {
		ans.besides()
	}
	return ans, unit.Wrong(err)
}

// Server is the server of the deployment.
func (d *Deployment) Server(ctx context.Context) (*serving.Server, error) {
	p, err := d.Predictor()
	if err != nil {
		return nil, err
	}
	q := d.Request
	rules, err := d.rules()
	if err != nil {
		return nil, unit.Wrong(err)
	}
	rules.Async = rules.Async && !d.runs.Profile().Blocking
	rules.Within(p)
	if err := q.checkNeeds(); err != nil {
		return nil, err
	}
	v := &serving.Server{
		Predictor: p, Scheduler: rules, Routing: q.Routing, Context: cmp.Or(d.Workload.Longest, d.Model.MaxContext),
		Layout: serving.Layout{Replicas: max(d.Parallel.DP, 1), Prefillers: or(q.Prefillers, 0), Link: d.handover()},
		Caching: serving.Caching{CacheTokens: or(q.CacheTokens, 0), HitRate: or(q.HitRate, 0), NoCache: q.NoCache,
			Offload: unit.Bytes(or(q.Offload, 0) * 1e9), ToHost: cmp.Or(d.GPU.PCIe, d.GPU.Bandwidth)}, // else the host's memory is the GPU's
		Speculation: serving.Speculation{Drafts: or(q.Drafts, 0), Acceptance: or(q.Acceptance, 0)},
	}
	switch {
	case q.DraftModel == "ngram" || v.Drafts == 0:
	case q.DraftModel != "":
		v.Drafter, err = d.draft(ctx)
	case d.Model.Drafts > 0:
		v.Modules = d.Model.Drafts
		v.Drafter, err = Drafter(&d.Case) // A draft module runs within the model's steps, so the host does nothing for it.
	}
	if err != nil {
		return nil, err
	}
	return v, unit.Wrong(v.Check())
}

// AllGPUs are those of all replicas, with those that only prefill.
func (d *Deployment) AllGPUs() int {
	each := d.Parallel.GPUs() / max(d.Parallel.DP, 1)
	return d.Parallel.GPUs() + each*or(d.Request.Prefillers, 0)
}

// rules are the scheduler's, as far as the request does not change them.
func (d *Deployment) rules() (engine.Scheduler, error) {
	q, runs := d.Request, d.runs.Profile().Engine()
	r, err := engine.SchedulerOf(cmp.Or(q.Scheduler, runs), d.runs, d.GPU)
	if err != nil {
		if q.Scheduler == "" {
			names := engine.SchedulerNames()
			err = unit.Errorf("the scheduler of engine %s is not known: give {engine} %s, or one of %s with {scheduler}", runs, names[0],
				strings.Join(names, ", "))
		}
		return r, err
	}
	if d.Placement != nil && d.Placement.Step > 0 { // A pass computes as many tokens at once.
		r.Pass = d.Placement.Step
		r.Budget = max(r.Budget, r.Pass)
	}
	r.Budget, r.MaxSeqs, r.Block = or(q.Budget, r.Budget), or(q.MaxSeqs, r.MaxSeqs), or(q.BlockSize, r.Block)
	r.Watermark = or(q.Watermark, r.Watermark)
	switch q.Preemption {
	case "", "recompute":
	case "swap":
		r.Swap = true
	default:
		return r, unit.Errorf("{preemption} %.40q: want recompute or swap", q.Preemption)
	}
	r.Async = r.Async && !q.NoAsync
	for _, x := range []struct {
		key string
		n   *int
		to  *int
	}{{"scheduler_recv_interval", q.Receives, &r.Receives}, {"stream_interval", q.Streams, &r.Streams}} {
		switch {
		case x.n == nil:
		case *x.n < 1:
			return r, unit.Errorf("{"+x.key+"} %d: want at least 1", *x.n)
		case *x.to == 0:
			return r, unit.Errorf("{"+x.key+"}: the scheduler %s has no such setting", r.Name)
		default:
			*x.to = *x.n
		}
	}
	return r, nil
}

// checkNeeds refuses settings of a server that have no meaning without another one.
func (q *Request) checkNeeds() error {
	drafts, prefillers := or(q.Drafts, 0) > 0, or(q.Prefillers, 0) > 0
	for _, x := range []struct {
		key  string
		ok   bool
		need string
	}{
		{"acceptance", drafts, "{speculative_tokens}"}, {"draft_model", drafts, "{speculative_tokens}"},
		{"kv_link", prefillers, "{prefill_replicas}"}, {"kv_offload", !q.NoCache, "a prefix cache"},
		{"prefix_hit_rate", !q.NoCache, "a prefix cache"},
	} {
		if !x.ok && q.given(x.key) != "" {
			return unit.Errorf("{" + x.key + "} changes nothing without " + x.need)
		}
	}
	for _, x := range []struct {
		key     string
		n       *int
		without string
	}{
		{"block_size", q.BlockSize, "the scheduler's default holds"},
		{"kv_cache_tokens", q.CacheTokens, "it is worked out"},
	} {
		if or(x.n, 1) < 1 {
			return unit.Errorf("{"+x.key+"} %d: want at least 1; without it %s", *x.n, x.without)
		}
	}
	switch rate := or(q.HandoverRate, 1); {
	case !(rate > 0 && rate <= math.MaxFloat64):
		return unit.Errorf("{kv_link} %g: want GB/s above 0", rate)
	case drafts && q.Acceptance == nil:
		return unit.Errorf("{speculative_tokens} %d: give {acceptance} too, the probability that a drafted token is right", *q.Drafts)
	}
	return nil
}

// handover is the rate at which one GPU hands its cache to another replica.
func (d *Deployment) handover() unit.BytesPerSec {
	if rate := d.Request.HandoverRate; rate != nil {
		return unit.BytesPerSec(*rate * 1e9)
	}
	p := &d.Parallel
	return Handover(d.GPU, max(p.TP, 1)*max(p.PP, 1)*(max(p.DP, 1)+or(d.Request.Prefillers, 0)))
}

// draft is the model that drafts, on the GPUs of the other.
func (d *Deployment) draft(ctx context.Context) (*analytic.Predictor, error) {
	m, err := d.from.Model(ctx, d.Request.DraftModel, d.Request.Offline, false)
	if err != nil {
		return nil, err
	}
	c := d.Case
	c.Model, c.Scheme = m, models.StoredScheme(m).For(d.GPU)
	c.Parallel.EP, c.Parallel.MoETP, c.Settings = 1, 0, operator.Settings{}
	p, err := analytic.NewPredictor(&c)
	if err != nil {
		return nil, unit.Errorf("{draft_model}: %w", err)
	}
	return p, nil
}

// Notes are what a reader has to know of a server, before anything is simulated.
func (d *Deployment) Notes() ([]unit.Warning, error) {
	all, err := breakdown.Warnings(&d.Case)
	if err != nil {
		return nil, unit.Wrong(err)
	}
	links, err := d.linked(false)
	ans := Answer{Report: breakdown.Report{Warnings: slices.Concat(d.known, all)}}
	ans.warn(d.node)
	ans.warn(links)
	return ans.Warnings, err
}
