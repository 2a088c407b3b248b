package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"llmprof/analytic/engine"
	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/deployment"
	"llmprof/measure"
	"llmprof/measure/detect"
	"llmprof/measure/experiment"
	"llmprof/measure/openai"
	"llmprof/models"
	"llmprof/unit"
	"llmprof/validate/live"
)

// A servedLive is a running server that --live measures.
type servedLive struct {
	url         string
	name        string // its name of the model
	concurrency int
	rate        float64
	seconds     unit.Seconds
}

func (s *servedLive) add(f *pflag.FlagSet) {
	f.IntVar(&s.concurrency, "concurrency", 8, "of a server's URL: `clients` that each wait for their answer")
	f.Float64Var(&s.rate, "rate", 0, "of a server's URL: `requests` a second instead")
	f.Var(settings.Value(&s.seconds), "time", "of a server's URL: `time` of all requests together")
	f.StringVar(&s.name, "served-model", "", "of a server's URL: its `name` of the model")
}

// ofURL are the flags of a running server alone.
var ofURL = []string{"concurrency", "rate", "time", "served-model"}

// server takes the URL of a running server from the arguments of --live.
func (v *comparison) takeServer() error {
	if v.live.wanted && len(v.Files) == 1 && (strings.HasPrefix(v.Files[0], "http://") || strings.HasPrefix(v.Files[0], "https://")) {
		v.live.server.url, v.Files = v.Files[0], nil
	}
	s := &v.live.server
	if s.url == "" {
		return settings.Refuse(v.given, ofURL, "--%s is about a running server: give its URL, as --live http://localhost:8000")
	}
	if err := settings.Refuse(v.given, []string{"grid", "batch", "results", "python", "cuda-libs", "by", "worst", "pool", "ablate", "chart",
		"trace", "fail-over"}, "--%s has no meaning for a running server"); err != nil {
		return err
	}
	switch {
	case len(v.Models) > 1 || len(v.Engines) > 1 || v.given("prompt-len") && len(v.live.prompts) != 1:
		return usage("--live %s: give one --model, one --engine and one --prompt-len", s.url)
	case s.concurrency < 1 || s.rate < 0 || v.given("rate") && v.given("concurrency"):
		return usage("--concurrency %d --rate %g: want one of the two, above 0", s.concurrency, s.rate)
	}
	return nil
}

// runLiveServer measures a running server for two minutes, and sets its simulation beside it.
func (a *app) runLiveServer(ctx context.Context, v *comparison) error {
	l, s := &v.live, &v.live.server
	point := experiment.Default()
	point.Engine, point.BaseURL, point.Energy, point.Size = experiment.OpenAI, s.url, false, false
	about, err := openai.Inquire(ctx, openai.Options{BaseURL: s.url, API: point.API, Key: a.env(measure.KeyVariable)})
	if err != nil {
		return err
	}
	page := &view.ServerLive{URL: s.url, Says: says(about)}
	q, err := a.serverRequest(ctx, v, about, page)
	if err != nil {
		return err
	}
	point.Model, point.ServedModel, point.PromptLen, point.GenLen = q.Model, s.name, 1024, 128
	if v.given("prompt-len") {
		point.PromptLen = l.prompts[0]
	}
	if v.given("gen-len") {
		point.GenLen = l.gen
	}
	if point.RequestRate = s.rate; s.rate == 0 {
		point.Concurrency = s.concurrency
	}
	d, err := a.library().Serve(ctx, q)
	if err != nil {
		return settings.InFlags(err)
	}
	server, err := d.Server(ctx)
	if err != nil {
		return settings.InFlags(err)
	}
	lab, err := a.lab(l.offline)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lab.Close()) }()
	a.logf("%s", strings.Join(page.Said(), "; "))
	page.Served, err = live.MeasureServer(ctx, live.ServerOptions{
		Server: server, Point: point, Measure: lab.Measure, Time: time.Duration(float64(cmp.Or(s.seconds, 120)) * float64(time.Second)),
	}, &notifier{app: a})
	if len(page.Served.Loads) == 0 {
		return err
	}
	return errors.Join(err, v.output.write(a, forms{page: page.Page, table: page.Table, data: func() any { return page.Document() }}))
}

// serverRequest is what a server is predicted as: what it says, then what flags say. What neither says and has no default is asked for at
// once.
func (a *app) serverRequest(ctx context.Context, v *comparison, about *openai.About, page *view.ServerLive,
) (*deployment.Request, error) {
	s := &v.live.server
	q := &deployment.Request{Hardware: v.live.hardware, Calibration: v.constant, Offline: v.live.offline, TP: new(max(about.TP, 1))}
	var missing []string
	if s.name == "" && len(about.Models) > 0 {
		s.name = about.Models[0]
	}
	if q.Model = s.name; len(v.Models) == 1 {
		q.Model = v.Models[0]
	}
	if _, err := a.library().Model(ctx, q.Model, v.live.offline, false); err != nil {
		if len(v.Models) == 1 {
			return nil, wrong(err)
		}
		missing = append(missing, fmt.Sprintf("--model, since the server's name of it is %.80q", q.Model))
	}
	if q.Engine = a.serverEngine(v, about, page); q.Engine == "" {
		missing = append(missing, "--engine")
	}
	if q.GPU = v.GPU; q.GPU == "" && loopback(s.url) && v.live.device != "cpu" {
		if table, err := a.library().GPUs(v.live.hardware); err == nil {
			if g, _, err := detect.Target(ctx, table, "", "", v.live.gpus); err == nil {
				q.GPU = g.Key
				page.Taken = append(page.Taken, "the GPU of this machine")
			}
		}
	}
	if q.GPU == "" {
		missing = append(missing, "--gpu")
	}
	if len(missing) > 0 {
		return nil, usage("%s does not say all that a prediction needs: give %s", s.url, strings.Join(missing, ", "))
	}
	switch {
	case v.given("tp"):
		q.TP = &v.trace.tp
	case about.TP == 0:
		page.Taken = append(page.Taken, "one GPU for a matrix, which the server does not say (--tp)")
	}
	if q.Weights = cmp.Or(v.trace.weights, about.Weights); v.trace.weights == "" && q.Weights != "" && models.CheckWeights(q.Weights) != nil {
		q.Weights = ""
	}
	if f, err := unit.ParseFormat(cmp.Or(v.trace.kv, about.KV)); err == nil {
		q.KV = f
	}
	page.Request = q
	limits(q, about)
	return q, nil
}

// serverEngine is the engine with its release, without it where that release cannot be predicted.
func (a *app) serverEngine(v *comparison, about *openai.About, page *view.ServerLive) string {
	if len(v.Engines) == 1 {
		return v.Engines[0]
	}
	if _, err := engine.Parse(about.Kind); err != nil {
		return ""
	}
	release, _, _ := strings.Cut(about.Version, "+") // as 0.32.0+cpu
	if _, err := engine.Parse(about.Kind + "@" + release); release != "" && err == nil {
		return about.Kind + "@" + release
	}
	page.Taken = append(page.Taken, "the release that the constants of "+about.Kind+" are of")
	return about.Kind
}

// limits are those that the server says of its cache and its batches.
func limits(q *deployment.Request, about *openai.About) {
	number := func(keys ...string) *int {
		for _, key := range keys {
			if n, err := strconv.Atoi(about.Options[key]); err == nil && n > 0 {
				return &n
			}
		}
		return nil
	}
	if about.MaxLen > 0 {
		q.Longest = &about.MaxLen
	}
	q.MaxSeqs, q.Budget = number("max_running_requests", "slots"), number("chunked_prefill_size")
	q.BlockSize, q.CacheTokens = number("block_size"), number("kv_cache_size_tokens", "max_total_num_tokens")
	if blocks := number("num_gpu_blocks"); q.CacheTokens == nil && blocks != nil && q.BlockSize != nil {
		q.CacheTokens = new(*blocks * *q.BlockSize)
	}
}

// says is what a server says of itself, by name.
func says(about *openai.About) map[string]string {
	all := maps.Clone(about.Options)
	for key, text := range map[string]string{"engine": about.Kind, "release": about.Version, "models": strings.Join(about.Models, ", "),
		"weights": about.Weights, "kv": about.KV} {
		if text != "" {
			all[key] = text
		}
	}
	for key, n := range map[string]int{"tp": about.TP, "dp": about.DP, "max_model_len": about.MaxLen} {
		if n > 0 {
			all[key] = strconv.Itoa(n)
		}
	}
	return all
}

// loopback reports whether a URL is of this machine.
func loopback(text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
}
