package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/deployment"
	"llmprof/measure/openai"
	"llmprof/serving"
	"llmprof/unit"
)

// A simulation is what llmprof simulate was asked for.
type simulation struct {
	estimateFlags
	given         func(flag string) bool
	prompt, gen   serving.Lengths
	rates         []float64
	span          [2]float64 // where the knee is searched
	concurrencies []int
	arrival       string
	burstiness    float64
	from          float64
	requests      int
	longest       int // tokens of a request that the server takes; 0 for what the model takes
	warmup        int
	seed          uint64
	trace         string
	speed         float64
	unit          string // of the trace's times
	block         int    // tokens that a hash of the trace is of
	slo           string
	records       string
	chart         string
	machines      submission
}

// simulate is the command that runs requests over time.
func (a *app) simulate() *cobra.Command {
	s := &simulation{prompt: serving.Fixed(1024), gen: serving.Fixed(128)}
	cmd := &cobra.Command{
		Use:   "simulate MODEL GPU",
		Short: "Predict what users of a server see under load",
		Long: "Run requests over time through the scheduler of a server, step by step, each step as long as the\n" +
			"estimate says: TTFT, TPOT, ITL and E2E with percentiles, throughput, goodput, queue, KV cache,\n" +
			"energy. Several rates or concurrencies make a curve with its knee.\n\n" +
			"A trace is known by its content: Azure's, BurstGPT's, Mooncake's, Bailian's, ServeGen's, Vidur's,\n" +
			"SplitwiseSim's, CSV or JSON of time, prompt and generated tokens, results of llmprof measure --engine\n" +
			"openai, vllm bench serve --save-result --save-detailed, AIPerf, GuideLLM and inference-perf.",
		Example: "  llmprof simulate --model llama3.1-8b --gpu h200 --rate 10\n" +
			"  llmprof simulate -m llama3.1-8b -g h200 --rate 1,4 --slo ttft=500ms -o c.svg\n" +
			"  llmprof simulate -m qwen3-8b -g h100 --concurrency 32 --prompt-len 512..4096",
		Args: cli.Positional("model", "gpu"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.given = cmd.Flags().Changed
			return a.runSimulate(cmd.Context(), s)
		},
	}
	cli.Define(cmd, "Load", s.loadFlags)
	bind(cmd, "Load", &s.estimateFlags, settings.Media)
	bind(cmd, cli.Model, &s.estimateFlags, settings.Model)
	bind(cmd, cli.Hardware, &s.estimateFlags, settings.Hardware, settings.Experts)
	bind(cmd, "Server", &s.estimateFlags, settings.Server)
	bind(cmd, cli.Engine, &s.estimateFlags, settings.Engine)
	cli.Define(cmd, cli.Output, func(*pflag.FlagSet) { s.outputFlags(cmd) })
	s.machines.flags(cmd, "loads")
	rare(cmd, "arrival", "seed", "records", "burstiness", "ramp-from", "speed", "trace-unit", "trace-block", "warmup", "color", "shard",
		"fit", "price", "pp")
	return cmd
}

func (s *simulation) outputFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	s.output.chart, s.output.report = true, true
	s.output.flags(cmd)
	settings.Choice(f, &s.chart, "chart", "latency", "`chart` that -o draws: latency over rate, timeline or cdf", "latency", "timeline", "cdf")
	f.StringVar(&s.records, "records", "", "write a line of JSON for every request to `FILE`")
}

func (s *simulation) loadFlags(f *pflag.FlagSet) {
	f.Var(settings.RatesFlag(&s.rates, &s.span), "rate", "`requests` a second, or several, as 1,2,4; 1..32 finds the knee")
	f.IntSliceVar(&s.concurrencies, "concurrency", nil, "`clients` that each have one request at a time, or several, as 1,8,32")
	f.StringVar(&s.trace, "trace", "", "replay the requests of `FILE`")
	f.Float64Var(&s.speed, "speed", 1, "`times` as fast as the trace was recorded")
	settings.Choice(f, &s.unit, "trace-unit", "", "`unit` of the trace's times: %s (default: what the trace says)", "s", "ms", "us", "ns")
	f.IntVar(&s.block, "trace-block", 0, "`tokens` that a hash of the trace is of (default: what the trace says)")
	f.Var(settings.LengthsFlag(&s.prompt, false, traceLengths), "prompt-len",
		"`tokens` of prompts: 1024, 512..2048, lognormal:1024,0.8 or trace:FILE")
	f.Var(settings.LengthsFlag(&s.gen, true, traceLengths), "gen-len", "`tokens` generated, the first included: as --prompt-len")
	settings.Choice(f, &s.arrival, "arrival", "poisson", "`arrivals` at a rate: %s", "poisson", "gamma", "constant", "ramp")
	f.Float64Var(&s.burstiness, "burstiness", 1, "`shape` of gamma arrivals: 1 is Poisson, less comes in bursts")
	f.Float64Var(&s.from, "ramp-from", 0, "`requests` a second at which a ramp to --rate begins")
	f.IntVar(&s.requests, "requests", 1000, "how many `requests`; of a trace at most so many if given")
	f.IntVar(&s.warmup, "warmup", 0, "`requests` at the beginning that no figure counts (default: until a rate is steady)")
	f.Uint64Var(&s.seed, "seed", 0, "`seed` of what is drawn")
	f.StringVar(&s.slo, "slo", "", "`limits` that goodput counts within, as ttft=500ms,tpot=50ms,e2e=10s")
	f.IntVar(&s.longest, "max-model-len", 0, "most `tokens` of a request that the server takes (default: the model's context)")
	f.Var(settings.Value(&s.Budget), "max-num-batched-tokens", "most tokens `n` of a step, all sequences (default: the scheduler's)")
}

// sampledLoads are the loads whose requests are drawn; of a range of rates, its lowest.
func (s *simulation) sampledLoads() []serving.Load {
	base := serving.Load{Prompt: s.prompt, Gen: s.gen, Requests: s.requests, Seed: s.seed}
	rates := s.rates
	if s.span[1] > 0 {
		rates = s.span[:1]
	}
	var all []serving.Load
	for _, hz := range rates {
		l := base
		l.Arrival = serving.Arrival{Kind: s.arrival, Rate: hz, Burstiness: s.burstiness, From: s.from}
		all = append(all, l)
	}
	for _, n := range s.concurrencies {
		l := base
		l.Arrival = serving.Arrival{Kind: "closed", Concurrency: n}
		all = append(all, l)
	}
	return all
}

func (s *simulation) points() ([]serving.Load, error) {
	all := s.sampledLoads()
	kinds := 0
	for _, given := range []bool{len(s.rates) > 0 || s.span[1] > 0, len(s.concurrencies) > 0, s.trace != ""} {
		if given {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return nil, usage("which load? Give one of --rate, --concurrency and --trace, as in --rate 10")
	case s.trace != "" && (s.given("prompt-len") || s.given("gen-len") || s.given("arrival") || s.given("burstiness") || s.given("ramp-from")):
		return nil, usage("--trace has its own lengths and arrivals: leave out --prompt-len, --gen-len, --arrival, --burstiness and --ramp-from")
	case s.trace == "" && s.Offload != nil:
		return nil, usage("--kv-offload is of prompts that share prefixes: give a --trace with hashes, as Mooncake's, or --prefix-hit-rate")
	case s.Routing != "" && s.Split().DP < 2:
		return nil, usage("--routing: one replica needs none; give --dp")
	case s.trace == "" && (s.given("speed") || s.given("trace-unit") || s.given("trace-block")):
		return nil, usage("--speed, --trace-unit and --trace-block are of a --trace")
	case s.given("trace-block") && s.block < 1:
		return nil, usage("--trace-block %d: want at least 1", s.block)
	case s.given("speed") && !(s.speed > 0 && s.speed <= 1e9):
		return nil, usage("--speed %g: want above 0 and at most 1e9", s.speed)
	case s.given("burstiness") && s.arrival != "gamma":
		return nil, usage("--burstiness is of --arrival gamma")
	case s.given("ramp-from") != (s.arrival == "ramp"):
		return nil, usage("--arrival ramp and --ramp-from go together, as in --arrival ramp --ramp-from 1 --rate 20")
	case len(s.rates) == 0 && s.span[1] == 0 && s.given("arrival"):
		return nil, usage("--arrival is of a --rate")
	case s.requests < 1 && s.given("requests"):
		return nil, usage("--requests %d: want at least 1", s.requests)
	case s.given("max-model-len") && s.longest < 1:
		return nil, usage("--max-model-len %d: want at least 1; without it the model's context holds", s.longest)
	case s.warmup < 0 || s.trace == "" && s.warmup >= s.requests:
		return nil, usage("--warmup %d of %d requests: some have to count", s.warmup, s.requests)
	}
	for i := range all {
		if _, err := all[i].Source(); err != nil {
			return nil, wrong(err)
		}
	}
	return all, nil
}

func (s *simulation) objectives() (o serving.SLO, err error) {
	given, err := openai.ParseSLO(s.slo)
	if err != nil {
		return o, usage("--slo: %w", err)
	}
	for _, x := range []struct {
		from *time.Duration
		to   *unit.Seconds
	}{{given.TTFT, &o.TTFT}, {given.TPOT, &o.TPOT}, {given.TTLT, &o.E2E}} {
		if x.from != nil {
			*x.to = unit.Seconds(x.from.Seconds())
		}
	}
	return o, nil
}

func (a *app) runSimulate(ctx context.Context, s *simulation) error {
	if err := errors.Join(s.check(), s.checkShards()); err != nil {
		return err
	}
	loads, err := s.points()
	if err != nil {
		return err
	}
	o := serving.Options{Warmup: s.warmup, Seed: s.seed, Intervals: true}
	if o.SLO, err = s.objectives(); err != nil {
		return err
	}
	if s.given("chart") && s.output.picture() == "" {
		return usage("--chart %s: give -o with a name that ends in .svg, .png or .pdf", s.chart)
	}
	if s.Media != (deployment.Media{}) {
		if s.trace != "" {
			return usage("--trace has its own lengths: leave out --images and --audio, whose tokens are among them")
		}
		s.Prompts = &s.prompt
	}
	d, err := a.library().Serve(ctx, &s.Request)
	if err != nil {
		return err
	}
	d.Workload.Longest = s.longest // The server refuses longer requests one by one.
	for i := range loads {
		loads[i].Prompt = loads[i].Prompt.Plus(d.MediaTokens)
	}
	if s.trace == "" {
		if err := d.CountsPrefixes(); err != nil {
			return wrong(err)
		}
	}
	server, err := d.Server(ctx)
	if err != nil {
		return err
	}
	notes, err := d.Notes()
	if err != nil {
		return err
	}
	r := simulator{simulation: s, app: a, server: server, loads: loads, options: o,
		results: &view.Simulation{Deployment: d, Server: server, Seed: s.seed, Warnings: notes}}
	switch {
	case s.machines.to != "":
		return r.submit(ctx)
	case s.machines.shard != "":
		return r.shard(ctx)
	}
	err = r.all(ctx)
	if len(r.results.Points) == 0 {
		return err
	}
	return errors.Join(err, r.write())
}
