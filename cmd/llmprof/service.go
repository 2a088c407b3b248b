package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"llmprof/analytic"
	"llmprof/hardware"
	"llmprof/models"
	"llmprof/serving"
	"llmprof/unit"
)

// A service is a server as it is described on the command line.
type service struct {
	scheduler  string
	sequences  int
	block      int
	watermark  float64
	preemption string
	noAsync    bool
	cache      int // tokens

	hitRate  float64
	noPrefix bool
	offload  float64 // GB

	drafts     int
	acceptance float64
	drafter    string

	routing    string
	prefillers int
	link       float64 // GB/s
}

// serverFlags are those of a server that few need.
var serverFlags = []string{
	"max-num-seqs", "block-size", "kv-cache-tokens", "watermark", "preemption", "no-async-scheduling", "no-prefix-cache", "kv-offload", "draft-model",
	"routing", "prefill-replicas", "kv-link",
}

// flagsOfServer adds the flags of a server.
func (s *service) flagsOfServer(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.scheduler, "scheduler", "", "`policy`: "+strings.Join(serving.SchedulerNames(), ", ")+" (default: the engine's)")
	f.IntVar(&s.sequences, "max-num-seqs", 0, "most `sequences` that run at once (default: the scheduler's)")
	f.IntVar(&s.block, "block-size", 0, "`tokens` of a KV block (default: the scheduler's)")
	f.IntVar(&s.cache, "kv-cache-tokens", 0, "`tokens` that the KV cache of a replica holds, as the engine logs it (default: worked out)")
	f.Float64Var(&s.watermark, "watermark", 0, "`share` of the KV blocks that admission leaves free (default: the scheduler's)")
	f.StringVar(&s.preemption, "preemption", "", "`way` in which a preempted sequence comes back: recompute or swap (default: recompute)")
	f.BoolVar(&s.noAsync, "no-async-scheduling", false, "form each step when the one before it has ended")
	f.Float64Var(&s.hitRate, "prefix-hit-rate", 0, "`share` of the prompts' tokens that the prefix cache has")
	f.BoolVar(&s.noPrefix, "no-prefix-cache", false, "ignore prefixes that prompts share")
	f.Float64Var(&s.offload, "kv-offload", 0, "`GB` of host memory for each GPU's evicted prefixes")
	f.IntVar(&s.drafts, "speculative-tokens", 0, "`tokens` that are drafted and verified in a decode step")
	f.Float64Var(&s.acceptance, "acceptance", 0, "`probability` that a drafted token is right if those before it are")
	f.StringVar(&s.drafter, "draft-model", "", "`model` that drafts, on the same GPUs (default: drafting takes no time, as from n-grams)")
	f.StringVar(&s.routing, "routing", "", "`way` to choose among --dp replicas: round-robin, least-loaded or prefix-aware")
	f.IntVar(&s.prefillers, "prefill-replicas", 0, "`replicas` besides those of --dp that prefill and hand the KV cache over")
	f.Float64Var(&s.link, "kv-link", 0, "`GB/s` by which one GPU hands its KV cache over (default: the link or the network)")
	_ = cmd.RegisterFlagCompletionFunc("scheduler", words(serving.SchedulerNames()...))
	_ = cmd.RegisterFlagCompletionFunc("routing", words("round-robin", "least-loaded", "prefix-aware"))
	_ = cmd.RegisterFlagCompletionFunc("preemption", words("recompute", "swap"))
}

// server is the server of an answer's model on its GPUs.
func (a *app) server(ctx context.Context, s *service, ans *answer) (*serving.Server, error) {
	p, err := analytic.NewPredictor(&ans.Case)
	if err != nil {
		return nil, usageError{err}
	}
	rules, err := s.rules(ans.Machine.Engine.Profile().Name, ans.gpu, ans.q.workload.Budget)
	if err != nil {
		return nil, usageError{err}
	}
	if err := s.together(ans.q.given); err != nil {
		return nil, err
	}
	v := &serving.Server{
		Predictor: p, Scheduler: rules, Replicas: max(ans.Parallel.DP, 1), Routing: s.routing, CacheTokens: s.cache, Context: ans.Model.MaxContext,
		HitRate: s.hitRate, NoCache: s.noPrefix, Offload: unit.Bytes(s.offload * 1e9), ToHost: ans.gpu.PCIe,
		Drafts: s.drafts, Acceptance: s.acceptance, Prefillers: s.prefillers, Link: s.handover(ans),
	}
	if v.ToHost == 0 {
		v.ToHost = ans.gpu.Bandwidth // the host's memory is the GPU's
	}
	if s.drafter != "" {
		if v.Drafter, err = a.draft(ctx, s.drafter, ans); err != nil {
			return nil, err
		}
	}
	if err := v.Check(); err != nil {
		return nil, usageError{err}
	}
	return v, nil
}

// rules are the scheduler's, as far as flags do not change them.
func (s *service) rules(engine string, g *hardware.GPU, budget int) (serving.Scheduler, error) {
	name := s.scheduler
	if name == "" {
		name = engine
	}
	r, err := serving.Defaults(name, g.Capacity())
	if err != nil {
		if s.scheduler == "" {
			err = fmt.Errorf("the scheduler of engine %s is not known: give --engine vllm, or one of %s with --scheduler", engine, strings.Join(serving.SchedulerNames(), ", "))
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
	if s.watermark != 0 {
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

// together refuses flags that say nothing without another one.
func (s *service) together(given func(string) bool) error {
	for _, x := range []struct {
		flag string
		ok   bool
		need string
	}{
		{"acceptance", s.drafts > 0, "--speculative-tokens"}, {"draft-model", s.drafts > 0, "--speculative-tokens"},
		{"kv-link", s.prefillers > 0, "--prefill-replicas"}, {"kv-offload", !s.noPrefix, "a prefix cache"},
		{"prefix-hit-rate", !s.noPrefix, "a prefix cache"},
	} {
		if given(x.flag) && !x.ok {
			return usage("--%s changes nothing without %s", x.flag, x.need)
		}
	}
	if s.drafts > 0 && !given("acceptance") {
		return usage("--speculative-tokens %d: give --acceptance too, the probability that a drafted token is right", s.drafts)
	}
	return nil
}

// handover is the rate at which one GPU hands its cache to another replica.
func (s *service) handover(ans *answer) unit.BytesPerSec {
	if s.link > 0 {
		return unit.BytesPerSec(s.link * 1e9)
	}
	p := &ans.Parallel
	gpus := max(p.TP, 1) * max(p.PP, 1) * (max(p.DP, 1) + s.prefillers)
	if gpus <= ans.gpu.GPUsPerNode {
		return ans.gpu.LinkAmong(gpus)
	}
	return ans.gpu.NIC
}

// draft is the model that drafts, on the GPUs of the other.
func (a *app) draft(ctx context.Context, name string, ans *answer) (*analytic.Predictor, error) {
	m, err := a.model(ctx, name, ans.q.offline)
	if err != nil {
		return nil, err
	}
	c := ans.Case
	c.Model, c.Scheme = m, models.StoredScheme(m).For(ans.gpu)
	c.Parallel.EP = 1
	p, err := analytic.NewPredictor(&c)
	if err != nil {
		return nil, usage("--draft-model: %w", err)
	}
	return p, nil
}

// A lengthsFlag reads the tokens of prompts or answers.
type lengthsFlag struct{ lengths *serving.Lengths }

// String is the lengths as they are given.
func (f lengthsFlag) String() string {
	if f.lengths == nil {
		return ""
	}
	return f.lengths.String()
}

// Set reads "1024", "512..2048" or "lognormal:1024,0.8".
func (f lengthsFlag) Set(text string) error {
	l, err := parseLengths(strings.TrimSpace(text))
	if err == nil {
		*f.lengths = l
	}
	return err
}

func parseLengths(text string) (l serving.Lengths, err error) {
	wrong := fmt.Errorf("want tokens as 1024, a range as 512..2048, or a mean and its relative spread as lognormal:1024,0.8")
	number := func(s string) float64 {
		v, failed := strconv.ParseFloat(strings.TrimSpace(s), 64)
		if failed != nil || !(v > 0) {
			err = wrong
		}
		return v
	}
	low, high, isRange := strings.Cut(text, "..")
	rest, isLog := strings.CutPrefix(text, "lognormal:")
	switch {
	case isLog:
		mean, spread, ok := strings.Cut(rest, ",")
		if !ok {
			return l, wrong
		}
		l = serving.Lengths{Kind: "lognormal", Mean: number(mean), Spread: number(spread)}
	case isRange:
		l = serving.Lengths{Kind: "uniform", Low: number(low), High: number(high)}
	default:
		l = serving.Lengths{Kind: "fixed", Mean: number(text)}
	}
	if err != nil {
		return l, err
	}
	return l, l.Check()
}

// Type is the name that help shows.
func (f lengthsFlag) Type() string { return "tokens" }
