package plan

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"llmprof/analytic/engine"
	"llmprof/deployment"
	"llmprof/hardware"
	"llmprof/models"
	"llmprof/serving"
	"llmprof/unit"
)

// Options is what a user asks of a search, as flags, the page and programs fill it alike. What was not given is nil, and Request
// gives it its default. The tags of a field have its key, and what a command line needs of it: a group, a help text, and what it
// takes.
//
//nolint:lll // A tag cannot be wrapped.
type Options struct {
	Models      []string             `json:"model" group:"Plan" short:"m" help:"<models> to try, each as \"llmprof estimate\" takes it"`
	Prompt      *serving.Lengths     `json:"in" default:"1024" help:"<tokens> of prompts: 1024, 512..2048, mean=2000,p95=6000 or trace:FILE"`
	Output      *serving.Lengths     `json:"out" default:"128" help:"<tokens> of answers: as {in}"`
	Images      *deployment.Images   `json:"images" help:"="`
	Audio       *deployment.Seconds  `json:"audio" help:"="`
	TTFT        string               `json:"ttft" help:"longest mean <time> to the first token, as 500ms; p95=1s at a percentile"`
	TPOT        string               `json:"tpot" help:"longest mean <time> per output token, as 30ms, 40tok/s or p99=50ms"`
	ITL         string               `json:"itl" help:"longest <time> between tokens, as p95=60ms"`
	E2E         string               `json:"e2e" help:"longest mean <time> of a request, as 10s or p90=20s"`
	P99         bool                 `json:"p99" help:"hold all targets to 99th percentiles"`
	Rate        *float64             `json:"rate" default:"0" help:"load: <requests> a second"`
	Concurrency *int                 `json:"concurrency" default:"0" help:"load: <requests> at a time"`
	Throughput  *float64             `json:"tps" default:"0" help:"load: generated <tokens> a second"`
	Headroom    *float64             `json:"headroom" default:"1" help:"plan for so many <times> the load, as 1.5"`
	HitRate     *float64             `json:"prefix_hit_rate" default:"0" help:"="`
	Budget      *unit.DollarsPerHour `json:"budget" help:"most <dollars> an hour"`
	MaxGPUs     *int                 `json:"max_gpus" default:"0" help:"most <GPUs> (default 64; of {class} consumer 2 without a load)"`
	GPUs        []string             `json:"gpus" help:"<GPUs> to try (default: all)"`
	Prices      []string             `json:"price" help:"<dollars> an hour of a GPU, as h100=1.99,t4=0.35 (default: the GPU table's)"`
	PriceFile   string               `json:"prices" help:"CSV <FILE> of prices: gpu,usd_per_hour; SkyPilot's and gpuhunt's too"`
	Term        string               `json:"term" help:"<term> of the prices of {prices}, as spot (default: any but spot)"`
	Class       string               `json:"class" words:"datacenter,workstation,consumer,edge" help:"<class> of the GPUs to try: %s"`
	Host        string               `json:"host" help:"="`
	RAM         *unit.Bytes          `json:"ram" help:"="`
	Engines     []string             `json:"engines" default:"vllm" help:"<engines> to try; of {class} consumer llama.cpp too"`
	Weights     []string             `json:"weights" help:"<schemes> of weights to try beside the checkpoint's (default: published ones)"`
	Floor       string               `json:"quality_floor" default:"fp8" help:"least <format> of weights and cache, as bf16, fp8 or int4"`
	Budgets     []int                `json:"max_num_batched_tokens" default:"512,1024,2048,4096,8192,16384" help:"most <tokens> of a step to try beside the scheduler's"`
	Limits      []int                `json:"max_num_seqs" default:"16,32,64,128,256,512,1024" help:"most <sequences> at once to try beside the scheduler's; of {concurrency} if given"`
	Acceptance  *float64             `json:"acceptance" default:"0" help:"try speculation: <probability> that a drafted token is right"`
	Drafts      []int                `json:"speculative_tokens" default:"1,2,3" help:"<tokens> to draft, where {acceptance} is given"`
	Aggregated  bool                 `json:"aggregated" help:"try no replicas that only prefill"`
	By          string               `json:"by" words:"cost,energy,latency,throughput,model" help:"<objective>: %s (the order of {model}; default: cost, energy where no price is known)"`
	Expected    bool                 `json:"expected" help:"hold targets to expected times, not to the intervals' slow end"`
	Trust       string               `json:"trust" default:"measured" words:"measured,any" help:"<evidence> of rows that go first: %s"`
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

// On a desk are one or two cards of the class consumer, in a host whose memory has room for what they have none for.
const (
	consumer = "consumer"
	deskGPUs = 2
)

// Request resolves what is asked, by what the library knows.
func (o *Options) Request(ctx context.Context, from *deployment.Library) (q *Request, err error) {
	if len(o.Models) == 0 || slices.Contains(o.Models, "") {
		return nil, unit.Errorf("which model? As in llmprof plan llama3.1-8b; \"llmprof models list\" has the names")
	}
	q = &Request{
		From: from, Named: o.GPUs != nil, Headroom: or(o.Headroom, 0), HitRate: or(o.HitRate, 0), Trusting: o.Trust == "any",
		Prompt: or(o.Prompt, serving.Fixed(1024)), Gen: or(o.Output, serving.Fixed(128)),
		Load:   Load{Rate: or(o.Rate, 0), Concurrency: or(o.Concurrency, 0), Throughput: or(o.Throughput, 0)},
		Budget: or(o.Budget, 0), MaxGPUs: or(o.MaxGPUs, 0), Expected: o.Expected, Top: or(o.Top, 10), PerGPU: or(o.PerGPU, 1),
		Limits: o.Limits, Budgets: o.Budgets, Acceptance: or(o.Acceptance, 0), Together: o.Aggregated,
	}
	if q.Budgets == nil {
		q.Budgets = DefaultBudgets()
	}
	if err := o.numbers(); err != nil {
		return nil, err
	}
	if err := o.checkNeeds(); err != nil {
		return nil, err
	}
	if o.Acceptance != nil {
		if q.Drafts = o.Drafts; q.Drafts == nil {
			q.Drafts = []int{1, 2, 3}
		}
	}
	if o.MaxGPUs == nil && o.Class == consumer && !q.Load.IsSet() {
		q.MaxGPUs = deskGPUs
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
	if o.By == "" && o.Budget == nil && !q.priced() { // boards for the edge are bought, so that no list has what they cost an hour
		q.By = Energy
	}
	return q, o.encode(q, all)
}

// encode adds the images and the audio of a request, of which all models have to make as many tokens.
func (o *Options) encode(q *Request, all []*models.Model) error {
	media := deployment.Media{Images: o.Images, Audio: o.Audio}
	for i, m := range all {
		_, tokens, err := media.Of(m)
		switch {
		case err != nil:
			return err
		case i > 0 && tokens != q.MediaTokens:
			return unit.Errorf("%s makes %d tokens of images and audio, %s makes %d: plan them one by one", o.Models[0], q.MediaTokens,
				o.Models[i], tokens)
		case i == 0:
			q.MediaTokens, q.Prompt = tokens, q.Prompt.Plus(tokens)
		}
	}
	return nil
}

// targets reads the longest times: a mean, or percentiles, as "p50=300ms,p99=2s".
func (o *Options) targets(q *Request) error {
	for of, text := range [figures]string{o.TTFT, o.TPOT, o.ITL, o.E2E} {
		for part := range strings.SplitSeq(text, ",") {
			if strings.TrimSpace(part) == "" {
				continue
			}
			t, err := target(Figure(of), strings.ToLower(Figure(of).String()), strings.TrimSpace(part))
			if err != nil {
				return err
			}
			if o.P99 && t.At == 0 {
				t.At = 0.99
			}
			q.Targets = append(q.Targets, t)
		}
	}
	switch {
	case q.tailed() && !q.Load.IsSet():
		return unit.Errorf("percentiles are of a load: give one, as {rate} 10")
	case o.P99 && len(q.Targets) == 0:
		return unit.Errorf("{p99} holds targets to 99th percentiles: give one, as {ttft} 2s")
	}
	return nil
}

// target reads one of the longest times of a figure.
func target(of Figure, key, part string) (t Target, err error) {
	t.Of = of
	name, text, at := strings.Cut(part, "=")
	if !at {
		text = part
	} else if name != "mean" {
		share, err := strconv.ParseFloat(strings.TrimPrefix(name, "p"), 64)
		if t.At = share / 100; err != nil || !slices.Contains(serving.Percentiles[:], t.At) {
			return t, unit.Errorf("{"+key+"} %.40s: want p50, p90, p95 or p99, as p95=1s", part)
		}
	}
	if speed, ok := strings.CutSuffix(text, "tok/s"); ok && (of == TPOT || of == ITL) { // tokens a second that a user sees
		v, err := strconv.ParseFloat(strings.TrimSpace(speed), 64)
		if err != nil || !(v > 0 && v <= 1e9) {
			return t, unit.Errorf("{"+key+"} %.40s: want tokens a second, as 40tok/s", part)
		}
		t.Most = unit.Seconds(1 / v)
		return t, nil
	}
	if v, err := strconv.ParseFloat(text, 64); err == nil && v > 0 && v <= math.MaxFloat64 { // 500 is rarely meant to be 500 s
		return t, unit.Errorf("{"+key+"} %s: want a unit, as %sms or %ss", text, text, text)
	}
	if t.Most, err = unit.ParseTime(text); err != nil {
		return t, unit.Errorf("{"+key+"}: %w", err)
	}
	if t.Most <= 0 {
		return t, unit.Errorf("{"+key+"} %s: want a time above 0", text)
	}
	return t, nil
}

// numbers checks those that were given.
func (o *Options) numbers() error {
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
		{"headroom", o.Headroom, 1}, {"prefix_hit_rate", o.HitRate, 0},
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
	if h := or(o.HitRate, 0); h >= 1 {
		return unit.Errorf("{prefix_hit_rate} %g: want a share from 0 and below 1", h)
	}
	return nil
}

// checkNeeds refuses what changes nothing without something else.
func (o *Options) checkNeeds() error {
	rate := o.Rate != nil || o.Throughput != nil
	load := rate || o.Concurrency != nil
	home, want := slices.ContainsFunc(o.tried(), leavesWeights), "{engines} "+engine.AtHome().Profile().Name
	for _, x := range []struct {
		key       string
		given, ok bool
		need      string
	}{
		{"acceptance", o.Acceptance != nil, rate, "{rate} or {tps}"},
		{"aggregated", o.Aggregated, rate, "{rate} or {tps}, under which alone replicas that only prefill are tried"},
		{"max_num_batched_tokens", o.Budgets != nil, rate, "{rate} or {tps}"},
		{"max_num_seqs", o.Limits != nil, load, "a load, as {rate} 10"},
		{"speculative_tokens", o.Drafts != nil, o.Acceptance != nil, "{acceptance}"}, {"p99", o.P99, load, "a load, as {rate} 10"},
		{"headroom", o.Headroom != nil, load, "a load, as {rate} 10"}, {"term", o.Term != "", o.PriceFile != "", "{prices}"},
		{"host", o.Host != "", home, want}, {"ram", o.RAM != nil, home, want},
	} {
		if x.given && !x.ok {
			return unit.Errorf("{" + x.key + "} changes nothing without " + x.need)
		}
	}
	return nil
}

// cards are the GPUs and engines to try, with their prices, constants and formats.
func (o *Options) cards(from *deployment.Library, of []*models.Model) (all []Card, err error) {
	engines := o.tried()
	floor, err := unit.ParseFormat(cmp.Or(o.Floor, "fp8"))
	if err != nil {
		return nil, unit.Errorf("{quality_floor}: %w", err)
	}
	for _, name := range o.Weights {
		if _, err := models.ParseScheme(name); err != nil && !models.IsFileType(name) {
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
		if _, err := engine.Parse(name); err != nil {
			return nil, unit.Errorf("{engines}: %w", err)
		}
		weights := o.Weights
		if weights == nil {
			weights = DefaultWeights(name)
		}
		for i := range gpus {
			one, err := o.card(from, &gpus[i], name, constants.Serves(gpus[i].Key))
			if err != nil && len(gpus) == 1 {
				return nil, unit.Wrong(err)
			}
			one.Offers = prices[one.GPU.Key]
			for place, m := range of {
				card := one
				card.Model, card.Request.Model, card.Place = m, o.Models[place], place
				card.Formats = DefaultFormats(m, one.GPU, weights, floor.Bits())
				all = append(all, card)
			}
		}
	}
	return all, nil
}

// tried are the engines that were named, else the default, and of cards for a desk that which leaves weights in the memory of the host.
func (o *Options) tried() []string {
	if o.Engines != nil {
		return o.Engines
	}
	all := engine.Names()[:1]
	if o.Class == consumer {
		all = append(all, engine.AtHome().Profile().Name)
	}
	return all
}

// leavesWeights reports whether the engine of a name leaves weights in the memory of the host.
func leavesWeights(name string) bool {
	e, err := engine.Parse(name)
	return err == nil && engine.LeavesWeights(e)
}

// card is a GPU with an engine, under the limits that were asked for as far as they are below the board's own. One that cannot be held to
// them, or misses a figure, has the reason.
func (o *Options) card(from *deployment.Library, g *hardware.GPU, by string, constants bool) (Card, error) {
	c := Card{GPU: g, Request: deployment.Request{
		GPU: g.Key, Engine: by, P2P: o.P2P, NoP2P: o.NoP2P, NVLink: o.NVLink, Offline: o.Offline, Hardware: o.Hardware,
		Media: deployment.Media{Images: o.Images, Audio: o.Audio},
	}}
	if leavesWeights(by) { // no other has a use for a host's memory
		c.Host, c.RAM = o.Host, o.RAM
	}
	if constants { // else the file is of another GPU
		c.Calibration = o.Calibration
	}
	if p := or(o.PowerLimit, 0); p > 0 && p < g.TDP {
		c.PowerLimit = &p
	}
	if f := or(o.Clock, 0); f > 0 && f < g.Clock {
		c.Clock = &f
	}
	if c.Machine, c.Wrong = from.Machine(&c.Request); c.Wrong == nil {
		c.GPU = c.Machine.GPU
	}
	c.links()
	return c, c.Wrong
}

// links drops the links that change nothing between two GPUs of the kind.
func (c *Card) links() {
	if c.Machine == nil {
		return
	}
	usual := c.GPU.Links
	for _, choice := range hardware.LinkChoices() {
		without := usual
		if *choice.Of(&without) = false; c.GPU.SameRoutes(c.GPU.Linked(without), []int{2}) {
			usual = without
		}
	}
	c.P2P, c.NoP2P, c.NVLink = usual.P2P, usual.NoP2P, usual.NVLink
}

// table lists the GPUs to try.
func (o *Options) table(from *deployment.Library) ([]hardware.GPU, error) {
	table, err := from.GPUs(o.Hardware)
	if err != nil {
		return nil, err
	}
	if o.Class != "" && !slices.Contains(hardware.Classes(), o.Class) {
		return nil, unit.Errorf("{class} %.40q: want one of %s", o.Class, strings.Join(hardware.Classes(), ", "))
	}
	if o.GPUs == nil {
		return o.linked(slices.DeleteFunc(table.All(), func(g hardware.GPU) bool { return o.Class != "" && g.Class() != o.Class }))
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
func (o *Options) linked(all []hardware.GPU) ([]hardware.GPU, error) {
	asked := hardware.Links{P2P: o.P2P, NoP2P: o.NoP2P, NVLink: o.NVLink}
	for _, c := range hardware.LinkChoices() {
		var l hardware.Links
		*c.Of(&l) = true
		uses := func(g hardware.GPU) bool { return !g.SameRoutes(g.Linked(l), []int{2}) }
		if *c.Of(&asked) && !slices.ContainsFunc(all, uses) {
			return nil, deployment.IdleLink(c.Name)
		}
	}
	return all, nil
}

// priced are the offers of GPUs: those of prices that were given, else of the list that was named, else of the table.
func (o *Options) priced(from *deployment.Library, gpus []hardware.GPU) (map[string][]Offer, error) {
	all := map[string][]Offer{}
	for i := range gpus {
		if p, ok := gpus[i].Price(); ok && o.PriceFile == "" {
			all[gpus[i].Key] = []Offer{{GPU: gpus[i].Key, Hour: p, Source: gpus[i].PriceSource}}
		}
	}
	if o.PriceFile != "" {
		table, err := from.GPUs(o.Hardware)
		if err != nil {
			return nil, err
		}
		all, err = readPrices(o.PriceFile, table)
		if err != nil {
			return nil, unit.Errorf("{prices}: %w", err)
		}
		for key, offers := range all {
			all[key] = slices.DeleteFunc(offers, func(f Offer) bool {
				return o.Term == "" && f.Term == "spot" || o.Term != "" && !strings.EqualFold(f.Term, o.Term)
			})
		}
	}
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
		p, err := deployment.ParsePrice(strings.TrimSpace(text))
		if err != nil {
			return nil, unit.Errorf("{price} %s: %w", name, err)
		}
		all[g.Key] = []Offer{{GPU: g.Key, Hour: p, Source: "--price"}}
	}
	return all, nil
}
