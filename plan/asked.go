package plan

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"llmprof/analytic"
	"llmprof/analytic/energy"
	"llmprof/analytic/engine"
	"llmprof/deployment"
	"llmprof/hardware"
	"llmprof/models"
	"llmprof/serving"
	"llmprof/unit"
)

// Asked is what a user asks of a search, as flags, the page and programs fill it alike. What was not given is nil, and Request gives it its
// default. The tags of a field have its key, and what a command line needs of it: a group, a help text, and what it takes.
//
//nolint:lll // A tag cannot be wrapped.
type Asked struct {
	Models      []string             `json:"model" group:"Plan" short:"m" help:"<models> to try, each as \"llmprof estimate\" takes it"`
	Prompt      *serving.Lengths     `json:"in" default:"1024" help:"<tokens> of prompts: 1024, 512..2048, lognormal:1024,0.8 or trace:FILE"`
	Answer      *serving.Lengths     `json:"out" default:"256" help:"<tokens> of answers: as {in}"`
	Images      *deployment.Images   `json:"images" help:"="`
	Audio       *deployment.Seconds  `json:"audio" help:"="`
	TTFT        string               `json:"ttft" help:"longest mean <time> to the first token, as 500ms; p99=2s at p99"`
	TPOT        string               `json:"tpot" help:"longest mean <time> per output token, as 30ms or p99=50ms"`
	E2E         string               `json:"e2e" help:"longest mean <time> of a request, as 10s or p99=20s"`
	P99         bool                 `json:"p99" help:"hold all targets to 99th percentiles"`
	Rate        *float64             `json:"rate" default:"0" help:"load: <requests> a second"`
	Concurrency *int                 `json:"concurrency" default:"0" help:"load: <requests> at a time"`
	Throughput  *float64             `json:"tps" default:"0" help:"load: generated <tokens> a second"`
	Budget      *unit.DollarsPerHour `json:"budget" help:"most <dollars> an hour"`
	MaxGPUs     *int                 `json:"max_gpus" default:"0" help:"most <GPUs> (default 64)"`
	GPUs        []string             `json:"gpus" help:"<GPUs> to try (default: all)"`
	Prices      []string             `json:"price" help:"<dollars> an hour of a GPU, as h100=1.99,t4=0.35 (default: the GPU table's)"`
	Engines     []string             `json:"engines" default:"vllm" help:"<engines> to try"`
	Weights     []string             `json:"weights" default:"fp8,w4a16-g128" help:"<schemes> of weights to try beside the checkpoint's"`
	Floor       string               `json:"quality_floor" default:"fp8" help:"least <format> of weights and cache, as bf16, fp8 or int4"`
	Budgets     []int                `json:"max_num_batched_tokens" default:"512,1024,2048,4096,8192,16384" help:"most <tokens> of a step to try beside the scheduler's"`
	Limits      []int                `json:"max_num_seqs" default:"16,32,64,128,256,512,1024" help:"most <sequences> at once to try beside the scheduler's; of {concurrency} if given"`
	Acceptance  *float64             `json:"acceptance" default:"0" help:"try speculation: <probability> that a drafted token is right"`
	Drafts      []int                `json:"speculative_tokens" default:"1,2,3" help:"<tokens> to draft, where {acceptance} is given"`
	Together    bool                 `json:"aggregated" help:"try no replicas that only prefill"`
	By          string               `json:"by" default:"cost" words:"cost,energy,latency,throughput,model" help:"<objective>: %s (the order of {model})"`
	Expected    bool                 `json:"expected" help:"hold targets to expected times, not to the intervals' slow end"`
	Top         *int                 `json:"top" default:"10" help:"show the best <N> rows; 0 for all"`
	PerGPU      *int                 `json:"per_gpu" default:"1" help:"show at most <N> rows of a model on a GPU; 0 for any number"`
	PowerLimit  *unit.Watts          `json:"power_limit" help:"="` // "=" is the help of the setting of an estimate.
	Clock       *unit.Hertz          `json:"clock" help:"="`
	P2P         bool                 `json:"p2p" help:"="`
	NoP2P       bool                 `json:"no_p2p" help:"="`
	NVLink      bool                 `json:"nvlink" help:"="`
	Hardware    string               `json:"hardware" help:"="`
	Calibration string               `json:"calibration" help:"="`
	Offline     bool                 `json:"offline" help:"="`
}

func or[T any](given *T, otherwise T) T {
	if given != nil {
		return *given
	}
	return otherwise
}

// Request resolves what is asked, by what the library knows.
func (o *Asked) Request(ctx context.Context, from *deployment.Library) (q *Request, err error) {
	if len(o.Models) == 0 || slices.Contains(o.Models, "") {
		return nil, unit.Errorf("which model? As in llmprof plan llama3.1-8b; \"llmprof models list\" has the names")
	}
	q = &Request{
		Prompt: or(o.Prompt, serving.Fixed(1024)), Gen: or(o.Answer, serving.Fixed(256)),
		Load:   Load{Rate: or(o.Rate, 0), Concurrency: or(o.Concurrency, 0), Throughput: or(o.Throughput, 0)},
		Budget: or(o.Budget, 0), MaxGPUs: or(o.MaxGPUs, 0), Expected: o.Expected, Top: or(o.Top, 10), PerGPU: or(o.PerGPU, 1),
		Limits: o.Limits, Budgets: o.Budgets, Acceptance: or(o.Acceptance, 0), Together: o.Together,
	}
	if q.Budgets == nil {
		q.Budgets = DefaultBudgets()
	}
	if err := o.numbers(); err != nil {
		return nil, err
	}
	if err := o.together(); err != nil {
		return nil, err
	}
	if o.Acceptance != nil {
		if q.Drafts = o.Drafts; q.Drafts == nil {
			q.Drafts = []int{1, 2, 3}
		}
	}
	q.By = Cost
	if o.By != "" {
		if q.By, err = ParseObjective(o.By); err != nil {
			return nil, unit.Errorf("{by}: %w", err)
		}
	}
	if err := o.targets(q); err != nil {
		return nil, err
	}
	all := make([]*models.Model, len(o.Models))
	for i, name := range o.Models {
		if all[i], err = from.Model(ctx, name, o.Offline, false); err != nil {
			return nil, err
		}
	}
	if q.Cards, err = o.cards(from, all); err != nil {
		return nil, err
	}
	return q, o.encode(q, all)
}

// encode adds the images and the audio of a request, of which all models have to make as many tokens.
func (o *Asked) encode(q *Request, all []*models.Model) error {
	q.Media = deployment.Media{Images: o.Images, Audio: o.Audio}
	for i, m := range all {
		encoders, tokens, err := q.Media.Of(m)
		switch {
		case err != nil:
			return err
		case i > 0 && tokens != q.MediaTokens:
			return unit.Errorf("%s makes %d tokens of images and audio, %s makes %d: plan them one by one", o.Models[0], q.MediaTokens,
				o.Models[i], tokens)
		case i == 0:
			q.MediaTokens, q.Prompt = tokens, q.Prompt.Plus(tokens)
		}
		deployment.Spread(encoders, q.Prompt.MeanLength())
		for j := range q.Cards {
			if c := &q.Cards[j]; c.Place == i {
				c.Encoders = encoders
			}
		}
	}
	return nil
}

// targets reads the limits of times, each of the mean or of a percentile.
func (o *Asked) targets(q *Request) error {
	for _, t := range []struct {
		key, text  string
		mean, tail *unit.Seconds
	}{
		{"ttft", o.TTFT, &q.Targets.TTFT, &q.Tails.TTFT}, {"tpot", o.TPOT, &q.Targets.TPOT, &q.Tails.TPOT},
		{"e2e", o.E2E, &q.Targets.E2E, &q.Tails.E2E},
	} {
		text, tail := strings.CutPrefix(strings.TrimSpace(t.text), "p99=")
		if text == "" && !tail {
			continue
		}
		if v, err := strconv.ParseFloat(text, 64); err == nil && v > 0 && v <= math.MaxFloat64 { // 500 is rarely meant to be 500 s
			return unit.Errorf("{"+t.key+"} %s: want a unit, as %sms or %ss", text, text, text)
		}
		var err error
		if *t.mean, err = unit.ParseTime(text); err != nil {
			return unit.Errorf("{"+t.key+"}: %w", err)
		}
		if *t.mean <= 0 {
			return unit.Errorf("{"+t.key+"} %s: want a time above 0", text)
		}
		if tail || o.P99 {
			*t.tail = *t.mean
		}
	}
	switch {
	case q.Tails != Targets{} && !q.Load.Given():
		return unit.Errorf("percentiles are of a load: give one, as {rate} 10")
	case o.P99 && q.Tails == Targets{}:
		return unit.Errorf("{p99} holds targets to 99th percentiles: give one, as {ttft} 2s")
	}
	return nil
}

// numbers checks those that were given.
func (o *Asked) numbers() error {
	whole := func(n *int) *float64 {
		if n == nil {
			return nil
		}
		return new(float64(*n))
	}
	for _, n := range []struct {
		key   string
		value *float64
		least float64
	}{
		{"rate", o.Rate, math.SmallestNonzeroFloat64}, {"tps", o.Throughput, math.SmallestNonzeroFloat64},
		{"concurrency", whole(o.Concurrency), 1}, {"max_gpus", whole(o.MaxGPUs), 1}, {"top", whole(o.Top), 0}, {"per_gpu", whole(o.PerGPU), 0},
	} {
		switch v := or(n.value, n.least); {
		case v >= n.least && v <= math.MaxFloat64:
		case n.least >= 1:
			return unit.Errorf("{"+n.key+"} %g: want at least 1", v)
		case n.least > 0:
			return unit.Errorf("{"+n.key+"} %g: want a number above 0", v)
		default:
			return unit.Errorf("{"+n.key+"} %g: want a number of rows, or 0 for all", v)
		}
	}
	return nil
}

// together refuses what changes nothing without something else.
func (o *Asked) together() error {
	rate := o.Rate != nil || o.Throughput != nil
	load := rate || o.Concurrency != nil
	for _, x := range []struct {
		key       string
		given, ok bool
		need      string
	}{
		{"acceptance", o.Acceptance != nil, rate, "{rate} or {tps}"},
		{"aggregated", o.Together, rate, "{rate} or {tps}, under which alone replicas that only prefill are tried"},
		{"max_num_batched_tokens", o.Budgets != nil, rate, "{rate} or {tps}"},
		{"max_num_seqs", o.Limits != nil, load, "a load, as {rate} 10"},
		{"speculative_tokens", o.Drafts != nil, o.Acceptance != nil, "{acceptance}"}, {"p99", o.P99, load, "a load, as {rate} 10"},
	} {
		if x.given && !x.ok {
			return unit.Errorf("{" + x.key + "} changes nothing without " + x.need)
		}
	}
	return nil
}

// cards are the GPUs and engines to try, with their prices, constants and formats.
func (o *Asked) cards(from *deployment.Library, of []*models.Model) (all []Card, err error) {
	weights, engines := o.Weights, o.Engines
	if weights == nil {
		weights = []string{"fp8", "w4a16-g128"}
	}
	if engines == nil {
		engines = engine.Names()[:1]
	}
	floor, err := unit.ParseFormat(cmp.Or(o.Floor, "fp8"))
	if err != nil {
		return nil, unit.Errorf("{quality_floor}: %w", err)
	}
	for _, name := range weights {
		if _, err := models.ParseScheme(name); err != nil && !models.IsMix(name) {
			return nil, unit.Errorf("{weights}: %w", err)
		}
	}
	if len(engines) == 0 {
		return nil, unit.Errorf("{engines}: want one or more of %s", strings.Join(engine.Names(), ", "))
	}
	gpus, err := o.table(from)
	if err != nil {
		return nil, err
	}
	prices, err := o.priced(from, gpus)
	if err != nil {
		return nil, err
	}
	constants, err := from.Constants(o.Calibration)
	if err != nil {
		return nil, err
	}
	for _, name := range engines {
		e, err := engine.Parse(name)
		if err != nil {
			return nil, unit.Errorf("{engines}: %w", err)
		}
		for i := range gpus {
			g := &gpus[i]
			machine, err := o.machine(constants, g, e)
			if err != nil {
				return nil, err
			}
			if machine == nil {
				continue
			}
			price, ok := prices[g.Key]
			if !ok {
				price, _ = g.Price()
			}
			for place, m := range of {
				all = append(all, Card{
					Model: m, Name: o.Models[place], Place: place, GPU: g, Price: price, Machine: machine,
					Formats: DefaultFormats(m, g, weights, floor.Bits()),
				})
			}
		}
	}
	return all, nil
}

// machine is a GPU with its constants, under the limits that were asked for as far as they are below the board's own. It is nil where a
// GPU that nobody named cannot be held to them.
func (o *Asked) machine(constants *deployment.Calibrations, g *hardware.GPU, e analytic.Engine) (*analytic.Machine, error) {
	file, err := constants.Among(g, e.Profile().Engine())
	if err != nil {
		return nil, err
	}
	m, err := analytic.Calibrated(g, e, file)
	if err != nil {
		return nil, err
	}
	asked := energy.Cap{Limit: or(o.PowerLimit, 0), Clock: or(o.Clock, 0)}
	c := deployment.Over(asked, m.Cap())
	if asked.Limit >= g.TDP {
		c.Limit = m.Cap().Limit
	}
	if asked.Clock >= g.Clock {
		c.Clock = m.Cap().Clock
	}
	if c == m.Cap() {
		return m, nil
	}
	if m, err = m.Capped(c); err != nil && o.GPUs == nil {
		return nil, nil //nolint:nilnil // such a GPU is left out
	}
	return m, unit.Wrong(err)
}

// table lists the GPUs to try.
func (o *Asked) table(from *deployment.Library) ([]hardware.GPU, error) {
	table, err := from.GPUs(o.Hardware)
	if err != nil {
		return nil, err
	}
	if o.GPUs == nil {
		return o.linked(table.All())
	}
	if len(o.GPUs) == 0 {
		return nil, unit.Errorf("{gpus}: want one or more, as h100,l40s; without it all are tried")
	}
	var all []hardware.GPU
	for _, name := range o.GPUs {
		g, err := table.GPU(name)
		if err != nil {
			return nil, unit.Errorf("{gpus}: %w", err)
		}
		if !slices.ContainsFunc(all, func(other hardware.GPU) bool { return other.Key == g.Key }) {
			all = append(all, g)
		}
	}
	return o.linked(all)
}

// linked are the GPUs with the links that were asked for. What no GPU among them uses is refused.
func (o *Asked) linked(all []hardware.GPU) ([]hardware.GPU, error) {
	asked := hardware.Links{P2P: o.P2P, NoP2P: o.NoP2P, NVLink: o.NVLink}
	for _, c := range hardware.LinkChoices() {
		var l hardware.Links
		*c.Of(&l) = true
		uses := func(g hardware.GPU) bool { return !g.SameRoutes(g.Linked(l), []int{2}) }
		if *c.Of(&asked) && !slices.ContainsFunc(all, uses) {
			return nil, deployment.IdleLink(c.Name)
		}
	}
	for i := range all {
		all[i] = *all[i].Linked(asked)
	}
	return all, nil
}

// priced are the prices that were given, by the keys of GPUs.
func (o *Asked) priced(from *deployment.Library, gpus []hardware.GPU) (map[string]unit.DollarsPerHour, error) {
	all := map[string]unit.DollarsPerHour{}
	for _, item := range o.Prices {
		name, text, ok := strings.Cut(item, "=")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, unit.Errorf("{price} %.60q: want a GPU and dollars, as h100=1.99", item)
		}
		g, err := from.GPU(strings.TrimSpace(name), o.Hardware)
		if err != nil {
			return nil, unit.Errorf("{price}: %w", err)
		}
		if !slices.ContainsFunc(gpus, func(tried hardware.GPU) bool { return tried.Key == g.Key }) {
			return nil, unit.Errorf("{price} %.60s: {gpus} leaves %s out", item, g.Key)
		}
		if all[g.Key], err = deployment.ParsePrice(strings.TrimSpace(text)); err != nil {
			return nil, unit.Errorf("{price} %s: %w", name, err)
		}
	}
	return all, nil
}
