package ask

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/pflag"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/hardware"
	"llmprof/models"
	"llmprof/plan"
	"llmprof/serving"
	"llmprof/unit"
)

// A Service is a server as it is described on the command line.
type Service struct {
	scheduler  string
	sequences  int
	block      int
	watermark  float64
	preemption string
	noAsync    bool
	offload    float64 // GB
	drafter    string
	link       float64 // GB/s

	asked serving.Server // what of the server the flags say as it is
}

// Flags adds the flags of a server.
func (s *Service) Flags(f *pflag.FlagSet) {
	f.StringVar(&s.scheduler, "scheduler", "", "`policy`: "+strings.Join(engine.SchedulerNames(), ", ")+" (default: the engine's)")
	Words(f, "scheduler", engine.SchedulerNames()...)
	f.IntVar(&s.sequences, "max-num-seqs", 0, "most `sequences` that run at once (default: the scheduler's)")
	f.IntVar(&s.block, "block-size", 0, "`tokens` of a KV block (default: the scheduler's)")
	f.IntVar(&s.asked.CacheTokens, "kv-cache-tokens", 0,
		"`tokens` that the KV cache of a replica holds, as the engine logs it (default: worked out)")
	f.Float64Var(&s.watermark, "watermark", 0, "`share` of the KV blocks that admission leaves free (default: the scheduler's)")
	Choice(f, &s.preemption, "preemption", "", "`way` in which a preempted sequence comes back: %s (default: recompute)", "recompute", "swap")
	f.BoolVar(&s.noAsync, "no-async-scheduling", false, "form each step when the one before it has ended")
	f.Float64Var(&s.asked.HitRate, "prefix-hit-rate", 0, "`share` of the prompts' tokens that the prefix cache has")
	f.BoolVar(&s.asked.NoCache, "no-prefix-cache", false, "ignore prefixes that prompts share")
	f.Float64Var(&s.offload, "kv-offload", 0, "`GB` of host memory for each GPU's evicted prefixes")
	f.IntVar(&s.asked.Drafts, "speculative-tokens", 0, "`tokens` that are drafted and verified in a decode step")
	f.Float64Var(&s.asked.Acceptance, "acceptance", 0, "`probability` that a drafted token is right if those before it are")
	f.StringVar(&s.drafter, "draft-model", "",
		"`model` that drafts, on the same GPUs or ngram, which takes no time (default: the model's MTP layer, else ngram)")
	Choice(f, &s.asked.Routing, "routing", "", "`way` to choose among --dp replicas: %s", "round-robin", "least-loaded", "prefix-aware")
	f.IntVar(&s.asked.Prefillers, "prefill-replicas", 0, "`replicas` besides those of --dp that prefill and hand the KV cache over")
	f.Float64Var(&s.link, "kv-link", 0, "`GB/s` by which one GPU hands its KV cache over (default: the link or the network)")
}

// Server is the server of an answer's model on its GPUs.
func (s *Service) Server(ctx context.Context, from Sources, ans *Answer) (*serving.Server, error) {
	p, err := ans.predictor()
	if err != nil {
		return nil, UsageError{err}
	}
	e := ans.Machine.Engine.Profile()
	rules, err := s.rules(e.Engine(), ans.GPU, ans.Q.Workload.Budget, ans.Q.Given)
	if err != nil {
		return nil, UsageError{err}
	}
	rules.Async = rules.Async && !e.Blocking
	rules.Within(p)
	if err := s.together(ans.Q.Given); err != nil {
		return nil, err
	}
	own := s.asked
	v := &own
	v.Predictor, v.Scheduler, v.Replicas, v.Context = p, rules, max(ans.Parallel.DP, 1), ans.Model.MaxContext
	v.Offload, v.ToHost, v.Link = unit.Bytes(s.offload*1e9), ans.GPU.PCIe, s.handover(ans)
	if v.ToHost == 0 {
		v.ToHost = ans.GPU.Bandwidth // the host's memory is the GPU's
	}
	switch {
	case s.drafter == "ngram" || s.asked.Drafts == 0:
	case s.drafter != "":
		v.Drafter, err = draft(ctx, from, s.drafter, ans)
	case ans.Model.Drafts > 0:
		v.Modules = ans.Model.Drafts
		v.Drafter, err = plan.Drafter(&ans.Case) // A draft module runs within the model's steps, so the host does nothing for it.
	}
	if err != nil {
		return nil, err
	}
	if err := v.Check(); err != nil {
		return nil, UsageError{err}
	}
	return v, nil
}

// predictor prices the steps of a server.
func (ans *Answer) predictor() (*analytic.Predictor, error) {
	if ans.serving != nil {
		return ans.serving, nil
	}
	return analytic.NewPredictor(&ans.Case)
}

// rules are the scheduler's, as far as flags do not change them.
func (s *Service) rules(runs string, g *hardware.GPU, budget int, given func(string) bool) (engine.Scheduler, error) {
	r, err := engine.SchedulerOf(cmp.Or(s.scheduler, runs), g)
	if err != nil {
		if s.scheduler == "" {
			names := engine.SchedulerNames()
			err = fmt.Errorf("the scheduler of engine %s is not known: give --engine %s, or one of %s with --scheduler", runs, names[0],
				strings.Join(names, ", "))
		}
		return r, err
	}
	for _, x := range []struct {
		given int
		to    *int
	}{{budget, &r.Budget}, {s.sequences, &r.MaxSeqs}, {s.block, &r.Block}} {
		if x.given != 0 {
			*x.to = x.given
		}
	}
	if given("watermark") {
		r.Watermark = s.watermark
	}
	switch s.preemption {
	case "", "recompute":
	case "swap":
		r.Swap = true
	default:
		return r, fmt.Errorf("--preemption %.40q: want recompute or swap", s.preemption)
	}
	r.Async = r.Async && !s.noAsync
	return r, nil
}

// together refuses flags that have no meaning without another one.
func (s *Service) together(given func(string) bool) error {
	for _, x := range []struct {
		flag string
		ok   bool
		need string
	}{
		{"acceptance", s.asked.Drafts > 0, "--speculative-tokens"}, {"draft-model", s.asked.Drafts > 0, "--speculative-tokens"},
		{"kv-link", s.asked.Prefillers > 0, "--prefill-replicas"}, {"kv-offload", !s.asked.NoCache, "a prefix cache"},
		{"prefix-hit-rate", !s.asked.NoCache, "a prefix cache"},
	} {
		if given(x.flag) && !x.ok {
			return Usage("--%s changes nothing without %s", x.flag, x.need)
		}
	}
	for _, x := range []struct {
		flag    string
		n       int
		without string
	}{
		{"max-num-seqs", s.sequences, "the scheduler's default holds"}, {"block-size", s.block, "the scheduler's default holds"},
		{"kv-cache-tokens", s.asked.CacheTokens, "it is worked out"},
	} {
		if given(x.flag) && x.n < 1 {
			return Usage("--%s %d: want at least 1; without it %s", x.flag, x.n, x.without)
		}
	}
	switch {
	case given("kv-link") && !(s.link > 0 && s.link <= math.MaxFloat64):
		return Usage("--kv-link %g: want GB/s above 0", s.link)
	case s.asked.Drafts > 0 && !given("acceptance"):
		return Usage("--speculative-tokens %d: give --acceptance too, the probability that a drafted token is right", s.asked.Drafts)
	}
	return nil
}

// handover is the rate at which one GPU hands its cache to another replica.
func (s *Service) handover(ans *Answer) unit.BytesPerSec {
	if s.link > 0 {
		return unit.BytesPerSec(s.link * 1e9)
	}
	p := &ans.Parallel
	return plan.Handover(ans.GPU, max(p.TP, 1)*max(p.PP, 1)*(max(p.DP, 1)+s.asked.Prefillers))
}

// draft is the model that drafts, on the GPUs of the other.
func draft(ctx context.Context, from Sources, name string, ans *Answer) (*analytic.Predictor, error) {
	m, err := from.Model(ctx, name, ans.Q.Offline, false)
	if err != nil {
		return nil, err
	}
	c := ans.Case
	c.Model, c.Scheme = m, models.StoredScheme(m).For(ans.GPU)
	c.Parallel.EP, c.Parallel.MoETP = 1, 0
	p, err := analytic.NewPredictor(&c)
	if err != nil {
		return nil, Usage("--draft-model: %w", err)
	}
	return p, nil
}
