//go:build !js

package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"llmprof/deployment"
	"llmprof/plots/render"
	"llmprof/unit"
	"llmprof/validate/live"
)

// ServerLiveSchema names the form of a running server beside its simulation.
const ServerLiveSchema = "llmprof.validate-server/v1"

// A ServerLive is a running server beside its simulation.
type ServerLive struct {
	URL     string
	Says    map[string]string // what the server says of itself, by name
	Request *deployment.Request
	Taken   []string // what was taken that the server does not say
	Served  *live.Served
}

// A ServerLiveDocument is a running server beside its simulation, for programs.
type ServerLiveDocument struct {
	Schema string            `json:"schema"`
	URL    string            `json:"url"`
	Engine string            `json:"engine"` // with its release
	Model  string            `json:"model"`  // as it is predicted
	GPU    string            `json:"gpu"`    // likewise
	TP     int               `json:"tp"`     // GPUs that share a matrix
	Says   map[string]string `json:"says"`   // what the server says of itself
	Taken  []string          `json:"taken"`  // what was taken that it does not say
	Loads  []LiveLoadJSON    `json:"loads"`  // one request at a time, with short prompts and with those asked for, and the load
	Parts  []LivePartJSON    `json:"parts"`  // parts of the time of a request under the load
}

// A LiveLoadJSON is one way in which the server was asked.
type LiveLoadJSON struct {
	Name     string           `json:"name"`
	Clients  int              `json:"concurrency"`     // 0 at a rate
	Rate     float64          `json:"request_rate_hz"` // 0 of clients that wait
	Prompt   int              `json:"prompt_len"`
	Gen      int              `json:"gen_len"`
	Requests int              `json:"requests"`
	Failed   int              `json:"failed"`
	Figures  []LiveFigureJSON `json:"figures"` // medians
}

// A LiveFigureJSON is the median of a time.
type LiveFigureJSON struct {
	Metric        string   `json:"metric"`
	Observed      float64  `json:"observed_s"`
	ObservedLow   *float64 `json:"observed_low_s"` // ends of the 95 % interval of the median
	ObservedHigh  *float64 `json:"observed_high_s"`
	Predicted     float64  `json:"predicted_s"`
	PredictedLow  float64  `json:"predicted_low_s"` // ends of the 90 % interval
	PredictedHigh float64  `json:"predicted_high_s"`
	Error         float64  `json:"error"` // predicted over observed, less 1
}

// A LivePartJSON is a part of the time of a request.
type LivePartJSON struct {
	Name      string  `json:"name"`
	Observed  float64 `json:"observed_s"`
	Predicted float64 `json:"predicted_s"`
}

// Said is what the server says of itself, a line for each.
func (s *ServerLive) Said() (lines []string) {
	for _, key := range slices.Sorted(maps.Keys(s.Says)) {
		lines = append(lines, key+" "+s.Says[key])
	}
	return lines
}

// figures are those of a load in the order of tables.
func figuresOf(l *live.ServedLoad) []live.ServedFigure {
	return slices.SortedFunc(slices.Values(l.Figures), func(a, b live.ServedFigure) int {
		return cmp.Compare(order(string(a.Metric)), order(string(b.Metric)))
	})
}

func order(metric string) int { return slices.Index([]string{"ttft_s", "tpot_s", "ttlt_s"}, metric) }

// Page is the comparison for people.
func (s *ServerLive) Page() *render.Document {
	q := s.Request
	d := &render.Document{Title: fmt.Sprintf("%s on %s by %s, at %s", q.Model, q.GPU, q.Engine, s.URL)}
	says := render.Fields{Title: "The server says"}
	says.Add("", strings.Join(s.Said(), "; "))
	d.Blocks = append(d.Blocks, says)
	t := render.Table{Title: "Medians", Columns: []render.Column{{Title: "load", Left: true}, {Title: "tokens"}, {Title: "requests"},
		{Title: "", Left: true}, {Title: "observed"}, {Title: "predicted"}, {Title: "low"}, {Title: "high"}, {Title: "error %"}}}
	for i := range s.Served.Loads {
		l := &s.Served.Loads[i]
		for _, f := range figuresOf(l) {
			t.Add(l.Name, fmt.Sprintf("%d+%d", l.Prompt, l.Gen), l.Requests, strings.ToUpper(strings.TrimSuffix(string(f.Metric), "_s")),
				unit.Seconds(f.Observed).String(), unit.Seconds(f.Predicted).String(), unit.Seconds(f.PredictedLow).String(),
				unit.Seconds(f.PredictedHigh).String(), fmt.Sprintf("%.1f", 100*f.Error()))
		}
	}
	d.Blocks = append(d.Blocks, t)
	p := render.Table{Title: "Parts of a request under the load", Columns: []render.Column{{Title: "part", Left: true}, {Title: "observed"},
		{Title: "predicted"}, {Title: "difference"}}}
	for _, x := range s.Served.Parts {
		p.Add(x.Name, signedTime(x.Observed), signedTime(x.Predicted), signedTime(x.Predicted-x.Observed))
	}
	if len(p.Rows) > 0 { // none of a load that failed
		d.Blocks = append(d.Blocks, p)
	}
	notes := append([]string{}, s.Taken...)
	for i := range notes {
		notes[i] = "Taken: " + notes[i] + "."
	}
	if most := s.Served.Most(); most != nil {
		notes = append(notes, fmt.Sprintf("What differs most is %s: %s observed and %s predicted.", most.Name, signedTime(most.Observed),
			signedTime(most.Predicted)))
	}
	d.Blocks = append(d.Blocks, render.Notes{Title: "Notes", Items: notes})
	return d
}

func signedTime(s float64) string {
	if s < 0 {
		return "-" + unit.Seconds(-s).String()
	}
	return unit.Seconds(s).String()
}

// Table is the medians for programs, one a row.
func (s *ServerLive) Table() *render.Table {
	t := render.Keyed("load", "prompt_len", "gen_len", "requests", "metric", "observed_s", "predicted_s", "predicted_low_s",
		"predicted_high_s", "error")
	for i := range s.Served.Loads {
		l := &s.Served.Loads[i]
		for _, f := range figuresOf(l) {
			t.Add(l.Name, l.Prompt, l.Gen, l.Requests, string(f.Metric), f.Observed, f.Predicted, f.PredictedLow, f.PredictedHigh, f.Error())
		}
	}
	return t
}

// Document is the comparison for programs.
func (s *ServerLive) Document() *ServerLiveDocument {
	q := s.Request
	d := &ServerLiveDocument{Schema: ServerLiveSchema, URL: s.URL, Engine: q.Engine, Model: q.Model, GPU: q.GPU, TP: *q.TP, Says: s.Says,
		Taken: append([]string{}, s.Taken...), Loads: []LiveLoadJSON{}, Parts: []LivePartJSON{}}
	for i := range s.Served.Loads {
		l := &s.Served.Loads[i]
		one := LiveLoadJSON{l.Name, l.Clients, l.Rate, l.Prompt, l.Gen, l.Requests, l.Failed, []LiveFigureJSON{}}
		for _, f := range figuresOf(l) {
			one.Figures = append(one.Figures, LiveFigureJSON{string(f.Metric), f.Observed, f.ObservedLow, f.ObservedHigh, f.Predicted,
				f.PredictedLow, f.PredictedHigh, f.Error()})
		}
		d.Loads = append(d.Loads, one)
	}
	for _, p := range s.Served.Parts {
		d.Parts = append(d.Parts, LivePartJSON{p.Name, p.Observed, p.Predicted})
	}
	return d
}
