package live

import (
	"context"
	"fmt"
	"math"
	"time"

	"llmprof/measure/experiment"
	"llmprof/measure/result"
	"llmprof/serving"
	"llmprof/validate"
)

// ServerOptions say which server is measured, and as what it is predicted.
type ServerOptions struct {
	Server  *serving.Server  // server that is predicted
	Point   experiment.Point // how the server is asked; its load is a concurrency or a rate
	Time    time.Duration    // time of all requests together
	Measure experiment.Measure
}

// A Served is a server measured alone and under a load, beside its simulation.
type Served struct {
	Loads []ServedLoad `json:"loads"` // one request at a time, with short prompts and with those asked for, and the load
	// parts of the time of a request under the load; the sums over them are the medians of TTFT and of the tokens after it
	Parts []Part `json:"parts"`
}

// A ServedLoad is one way in which the server was asked.
type ServedLoad struct {
	Name     string         `json:"name"`
	Clients  int            `json:"concurrency"`     // 0 at a rate
	Rate     float64        `json:"request_rate_hz"` // 0 of clients that wait
	Prompt   int            `json:"prompt_len"`
	Gen      int            `json:"gen_len"`
	Requests int            `json:"requests"`
	Failed   int            `json:"failed"`
	Figures  []ServedFigure `json:"figures"` // medians
}

// A ServedFigure is the median of a time.
type ServedFigure struct {
	Metric        validate.Metric `json:"metric"`
	Observed      float64         `json:"observed_s"`
	ObservedLow   *float64        `json:"observed_low_s"` // ends of the 95 % interval of the median
	ObservedHigh  *float64        `json:"observed_high_s"`
	Predicted     float64         `json:"predicted_s"`
	PredictedLow  float64         `json:"predicted_low_s"` // ends of the 90 % interval
	PredictedHigh float64         `json:"predicted_high_s"`
	Error         float64         `json:"error"` // predicted over observed, less 1
}

// A Part is a part of the time of a request.
type Part struct {
	Name      string  `json:"name"`
	Observed  float64 `json:"observed_s"`
	Predicted float64 `json:"predicted_s"`
}

// Of the time, the shares of the three ways of asking. Idle requests are few and alike, requests under a load many and scattered.
const (
	shortShare  = 0.15
	idleShare   = 0.3
	loadShare   = 0.5
	shortPrompt = 8 // prompts of the first are shorter by this factor, so that what a prompt's tokens take can be told from the rest
	fewest      = 8 // requests of a median
)

// MeasureServer asks a server one request at a time, with short prompts and with those asked for, and then under the load asked for. What
// was measured before an error comes with it.
func MeasureServer(ctx context.Context, o ServerOptions, report Reporter) (*Served, error) {
	short, idle, load := o.Point, o.Point, o.Point
	for _, p := range []*experiment.Point{&short, &idle} {
		p.Concurrency, p.RequestRate = 1, 0
	}
	short.PromptLen = max(o.Point.PromptLen/shortPrompt, 1)
	s := &Served{Loads: []ServedLoad{}, Parts: []Part{}}
	for _, x := range []struct {
		name  string
		point experiment.Point
		share float64
	}{{"idle, short prompts", short, shortShare}, {"idle", idle, idleShare}, {nameOf(&load), load, loadShare}} {
		one, err := o.measureLoad(ctx, x.name, x.point, time.Duration(x.share*float64(o.Time)), report)
		if err != nil {
			return s, fmt.Errorf("%s: %w", x.name, err)
		}
		if err := one.predict(ctx, o.Server); err != nil {
			return s, fmt.Errorf("%s: %w", x.name, err)
		}
		s.Loads = append(s.Loads, *one)
	}
	s.Parts = s.parts()
	return s, nil
}

func nameOf(p *experiment.Point) string {
	if p.RequestRate > 0 {
		return fmt.Sprintf("%g requests a second", p.RequestRate)
	}
	return fmt.Sprintf("%d clients", p.Concurrency)
}

// measureLoad measures a load for so long: a few requests tell how many that are.
func (o *ServerOptions) measureLoad(ctx context.Context, name string, p experiment.Point, span time.Duration, report Reporter,
) (*ServedLoad, error) {
	clients := max(p.Concurrency, 1)
	p.Requests = max(2*clients, 6)
	if p.RequestRate > 0 {
		p.Requests = max(int(p.RequestRate*span.Seconds()), fewest)
	} else {
		r, err := o.one(ctx, p)
		if err != nil {
			return nil, err
		}
		p.Requests = max(int(span.Seconds()/r.TTLT.Median*float64(clients)), fewest, 2*clients)
	}
	report.Logf("%s: %d requests of %d + %d tokens", name, p.Requests, p.PromptLen, p.GenLen)
	r, err := o.one(ctx, p)
	if err != nil {
		return nil, err
	}
	l := &ServedLoad{Name: name, Clients: p.Concurrency, Rate: p.RequestRate, Prompt: r.Workload.PromptLen, Gen: p.GenLen,
		Requests: r.Serving.Requests, Failed: r.Serving.Requests - r.Serving.Completed}
	if n := r.Serving.GeneratedTokens; n != nil {
		l.Gen = int(math.Round(n.Mean))
	}
	for _, x := range []struct {
		metric validate.Metric
		of     *result.Times
	}{{validate.TTFT, r.TTFT}, {validate.TPOT, r.TPOT}, {validate.TTLT, r.TTLT}} {
		if t := x.of; t != nil {
			l.Figures = append(l.Figures, ServedFigure{Metric: x.metric, Observed: t.Median, ObservedLow: t.MedianLow, ObservedHigh: t.MedianHigh})
		}
	}
	return l, nil
}

func (o *ServerOptions) one(ctx context.Context, p experiment.Point) (*result.Result, error) {
	all, err := o.Measure(ctx, p)
	if err != nil {
		return nil, err
	}
	if len(all) != 1 || all[0].Serving == nil || all[0].TTLT == nil || all[0].TTFT == nil {
		return nil, fmt.Errorf("%d results, without the times of requests", len(all))
	}
	return all[0], nil
}

// predict simulates the load.
func (l *ServedLoad) predict(ctx context.Context, server *serving.Server) error {
	load := serving.Load{Arrival: serving.Arrival{Kind: "closed", Concurrency: l.Clients}, Prompt: serving.Fixed(l.Prompt),
		Gen: serving.Fixed(max(l.Gen, 1)), Requests: max(l.Requests, 100), Seed: 1}
	if l.Rate > 0 {
		load.Arrival = serving.Arrival{Kind: "poisson", Rate: l.Rate}
	}
	source, err := load.Source()
	if err != nil {
		return err
	}
	r, err := serving.Simulate(ctx, server, source, serving.Options{Intervals: true, Seed: 1})
	if err != nil {
		return err
	}
	for i := range l.Figures {
		f := &l.Figures[i]
		name, sketch := "e2e", &r.E2E
		switch f.Metric {
		case validate.TTFT:
			name, sketch = "ttft", &r.TTFT
		case validate.TPOT:
			name, sketch = "tpot", &r.TPOT
		}
		if sketch.N == 0 {
			return fmt.Errorf("the simulation has no %s", f.Metric)
		}
		f.Predicted = sketch.Quantile(0.5)
		f.Error = f.Predicted/f.Observed - 1
		f.PredictedLow, f.PredictedHigh = f.Predicted, f.Predicted
		if x := r.Interval(name, 0.5); x != nil {
			whole := x.Whole()
			f.PredictedLow, f.PredictedHigh = f.Predicted*whole.Low, f.Predicted*whole.High
		}
	}
	return nil
}

// Figure is the one of a metric; nil where there is none.
func (l *ServedLoad) Figure(m validate.Metric) *ServedFigure {
	for i := range l.Figures {
		if l.Figures[i].Metric == m {
			return &l.Figures[i]
		}
	}
	return nil
}

// parts takes the time of a request under the load apart, observed and predicted alike: two lengths of prompts tell what their tokens take,
// and the load tells what other requests add.
func (s *Served) parts() []Part {
	short, idle, load := &s.Loads[0], &s.Loads[1], &s.Loads[2]
	of := func(side func(*ServedFigure) float64) []float64 {
		first := [3]float64{side(short.Figure(validate.TTFT)), side(idle.Figure(validate.TTFT)), side(load.Figure(validate.TTFT))}
		slope := (first[1] - first[0]) / float64(max(idle.Prompt-short.Prompt, 1))
		parts := []float64{first[0] - slope*float64(short.Prompt), slope * float64(idle.Prompt), first[2] - first[1]}
		if a, b := idle.Figure(validate.TPOT), load.Figure(validate.TPOT); a != nil && b != nil {
			n := float64(load.Gen - 1)
			parts = append(parts, side(a)*n, (side(b)-side(a))*n)
		}
		return parts
	}
	observed := of(func(f *ServedFigure) float64 { return f.Observed })
	predicted := of(func(f *ServedFigure) float64 { return f.Predicted })
	names := []string{"before the first token, whatever the prompt", "prefill of the prompt's tokens", "waiting, and prefill beside others",
		"decoding alone", "decoding beside others"}
	all := make([]Part, len(observed))
	for i := range all {
		all[i] = Part{names[i], observed[i], predicted[i]}
	}
	return all
}

// Most is the part that differs most; nil where all agree.
func (s *Served) Most() (most *Part) {
	for i := range s.Parts {
		if p := &s.Parts[i]; most == nil || math.Abs(p.Observed-p.Predicted) > math.Abs(most.Observed-most.Predicted) {
			most = p
		}
	}
	return most
}
