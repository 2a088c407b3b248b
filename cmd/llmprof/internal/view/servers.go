//go:build !js

package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"llmprof/analytic/engine"
	"llmprof/deployment"
	"llmprof/plots"
	"llmprof/plots/render"
	"llmprof/unit"
	"llmprof/validate/live"
	"llmprof/validate/served"
)

// Servers are simulations of real servers beside what was measured.
type Servers struct{ All []*served.Scored }

// serverFigures are the figures of the page.
var serverFigures = []string{"ttft_p50", "ttft_p99", "tpot_p50", "tpot_p99", "e2e_p50", "e2e_p99", "requests_s"}

// Page is the comparison for people.
func (s *Servers) Page() *render.Document {
	t := render.Table{Title: "Error in %", Columns: []render.Column{
		{Title: "run", Left: true}, {Title: "server", Left: true, Drop: 2}, {Title: "load", Left: true, Drop: 1}}}
	for _, name := range serverFigures {
		t.Columns = append(t.Columns, render.Column{Title: strings.ReplaceAll(strings.Replace(name, "requests_s", "requests/s", 1), "_", " ")})
	}
	row := func(kind render.RowKind, name, server, load string, of func(string) *float64) {
		cells := []any{name, server, load}
		for _, f := range serverFigures {
			cells = append(cells, percent(kind, of(f)))
		}
		t.Rows = append(t.Rows, render.Row{Kind: kind, Cells: cells})
	}
	for _, x := range s.All {
		row(render.Plain, x.Run.Name, serverName(x.Run), x.Run.Load(), func(name string) *float64 {
			if f := x.Figure(name); f != nil {
				return new(f.Error())
			}
			return nil
		})
	}
	for _, g := range s.groups() {
		row(render.Total, "median, "+g.name, "", "", func(f string) *float64 { return finite(served.Median(g.all, f)) })
	}
	for _, g := range s.groups() {
		row(render.Total, "inside, "+g.name, "", "", func(f string) *float64 { return finite(served.Coverage(g.all, f)) })
	}
	return &render.Document{Title: "Servers under load, simulated and measured",
		Blocks: []render.Block{t, render.Notes{Title: "Notes", Items: []string{
			"The load is requests at a time, requests a second (/s), or the arrivals of a log. The last rows are medians of the " +
				"absolute error, and the share of the runs that lie in the 90 % interval of their simulation.",
			"vLLM 0.25.1 and SGLang 0.5.14 on an H200 and on H100s were measured for this project (experiments/h200-vllm, h100-vllm, vllm-load, " +
				"vllm-load-mixed, vllm-load-models, vllm-load-parallel, vllm-host, sglang); the logs of vLLM 0.19 on an RTX 4090 and RTX PRO 6000 " +
				"are those of LLMServingSim (MIT).",
		}}}}
}

// percent is a cell of an error, which has a sign unless it is a total.
func percent(kind render.RowKind, v *float64) any {
	switch {
	case v == nil:
		return nil
	case kind == render.Total:
		return fmt.Sprintf("%.1f", 100**v)
	}
	return fmt.Sprintf("%+.1f", 100**v)
}

func serverName(r *served.Run) string {
	name := r.Model
	if r.Weights != "" {
		name += " in " + r.Weights
	}
	return name + " on " + split(r)
}

func split(r *served.Run) string {
	stages := max(r.PP, 1)
	name := times(r.TP*r.DP*stages, r.GPU)
	if stages > 1 {
		name += fmt.Sprintf(", pp %d", stages)
	}
	if r.DP > 1 {
		name += fmt.Sprintf(", dp %d", r.DP)
	}
	if r.EP > 1 {
		name += fmt.Sprintf(" ep %d", r.EP)
	}
	return name
}

// A serverGroup is runs that are summed up together.
type serverGroup struct {
	name string
	all  []*served.Scored
}

func (s *Servers) groups() []serverGroup {
	names := engine.Names()
	groups := make([]serverGroup, len(names), len(names)+2)
	for i, name := range names {
		groups[i].name = "this project's " + engine.Title(name)
	}
	groups = append(groups, serverGroup{name: "this project's others"}, serverGroup{name: "logs of others"})
	for _, x := range s.All {
		name, _, _ := strings.Cut(x.Run.Engine, "@")
		i := slices.Index(names, name)
		switch l := x.Run.Licence; {
		case l != "" && l != served.Own:
			i = len(names) + 1
		case i < 0:
			i = len(names)
		}
		groups[i].all = append(groups[i].all, x)
	}
	return slices.DeleteFunc(groups, func(g serverGroup) bool { return len(g.all) == 0 })
}

// Table is the comparison for spreadsheets, a row a figure.
func (s *Servers) Table() *render.Table {
	t := render.Keyed("run", "model", "engine", "weights", "gpu", "tp", "pp", "dp", "ep", "load", "figure", "observed", "predicted", "error",
		"low", "high", "source", "licence")
	for _, x := range s.All {
		for _, f := range x.Figures {
			var low, high any
			if f.Within != nil {
				low, high = f.Within.Low, f.Within.High
			}
			t.Add(x.Run.Name, x.Run.Model, x.Run.Engine, x.Run.Weights, x.Run.GPU, x.Run.TP, max(x.Run.PP, 1), x.Run.DP, x.Run.EP, x.Run.Load(),
				f.Name, f.Observed, f.Predicted, f.Error(), low, high, x.Run.Source, x.Run.Licence)
		}
	}
	return t
}

// serversSchema names the form of the comparison's JSON.
const serversSchema = "llmprof.validate-servers/v1"

// A ServersDocument is the comparison as JSON.
type ServersDocument struct {
	Schema string         `json:"schema"`
	Runs   []serverRun    `json:"runs"`
	Median []serverMedian `json:"median_error"`
	Inside []serverInside `json:"coverage"`
}

// A serverRun is a run of a server, beside its prediction.
type serverRun struct {
	Run     string                `json:"run"` // name of its file
	Model   string                `json:"model"`
	Engine  string                `json:"engine"`
	Weights string                `json:"weights,omitempty"` // their format; left out where it is the model's own
	GPU     string                `json:"gpu"`
	TP      int                   `json:"tp" jsonschema:"minimum=1"`
	PP      int                   `json:"pp" jsonschema:"minimum=1"`
	DP      int                   `json:"dp" jsonschema:"minimum=1"`
	EP      int                   `json:"ep" jsonschema:"minimum=1"`
	Load    string                `json:"load"` // requests at a time, a second (/s), or log
	Source  string                `json:"source"`
	Licence string                `json:"licence"`
	Figures map[string]serverPair `json:"figures"`
}

// A serverPair is a figure as it was observed and predicted.
type serverPair struct {
	Observed  float64  `json:"observed"`
	Predicted float64  `json:"predicted"`
	Error     float64  `json:"error"` // predicted over observed, less 1
	Low       *float64 `json:"low"`   // null of means and rates
	High      *float64 `json:"high"`  // high end
}

// A serverMedian is the median error of each figure of a group.
type serverMedian struct {
	Group  string             `json:"group"`
	Errors map[string]float64 `json:"errors"` // medians of the absolute error
}

// A serverInside is the share of figures of a group that lie within their predicted intervals.
type serverInside struct {
	Group  string             `json:"group"`
	Shares map[string]float64 `json:"shares"` // shares of the runs whose observed percentile lies in the interval of the simulated one
}

// Document is the comparison for programs.
func (s *Servers) Document() *ServersDocument {
	d := &ServersDocument{Schema: serversSchema}
	for _, x := range s.All {
		r := serverRun{x.Run.Name, x.Run.Model, x.Run.Engine, x.Run.Weights, x.Run.GPU, x.Run.TP, max(x.Run.PP, 1), x.Run.DP, x.Run.EP,
			x.Run.Load(), x.Run.Source, x.Run.Licence, map[string]serverPair{}}
		for _, f := range x.Figures {
			pair := serverPair{Observed: f.Observed, Predicted: f.Predicted, Error: f.Error()}
			if f.Within != nil {
				pair.Low, pair.High = &f.Within.Low, &f.Within.High
			}
			r.Figures[f.Name] = pair
		}
		d.Runs = append(d.Runs, r)
	}
	for _, g := range s.groups() {
		m, inside := serverMedian{"median, " + g.name, map[string]float64{}}, serverInside{g.name, map[string]float64{}}
		for _, x := range g.all {
			for i := range x.Figures {
				name := x.Figures[i].Name
				m.Errors[name] = served.Median(g.all, name)
				if x.Figures[i].Within != nil {
					inside.Shares[name] = served.Coverage(g.all, name)
				}
			}
		}
		d.Median, d.Inside = append(d.Median, m), append(d.Inside, inside)
	}
	return d
}

// The runs that are drawn have prompts of so many tokens, and answers of no more than so many, since a curve
// shows one kind of request. Requests one at a time have the same TPOT at any length of their answers.
const (
	drawnPrompt = 1024
	drawnAnswer = 128
)

// Chart draws predicted and observed percentiles over throughput.
func (s *Servers) Chart() (*plots.Figure, error) {
	curves := map[string]*plots.LoadCurve{}
	var order []string
	add := func(name, load string, x *served.Scored, of func(*served.Figure) float64) {
		c := curves[name]
		if c == nil {
			c = &plots.LoadCurve{Name: name}
			curves[name], order = c, append(order, name)
		}
		spread := func(f string) plots.Spread {
			return plots.Spread{Median: of(x.Figure(f + "_p50")), P99: of(x.Figure(f + "_p99"))}
		}
		c.Loads = append(c.Loads, plots.Loaded{Load: load, Throughput: of(x.Figure("requests_s")), TTFT: spread("ttft"), TPOT: spread("tpot")})
	}
	first := s.All[0].Run
	alike := slices.DeleteFunc(slices.Clone(s.All), func(x *served.Scored) bool {
		r := x.Run
		return r.Model != first.Model || r.Engine != first.Engine || r.Weights != first.Weights || split(r) != split(first) ||
			r.Load() == "log" || x.Figure("tpot_p50") == nil ||
			slices.ContainsFunc(r.Requests, func(q served.Request) bool { return q.Prompt != drawnPrompt || q.Gen > drawnAnswer })
	})
	slices.SortStableFunc(alike, func(a, b *served.Scored) int {
		return cmp.Or(cmp.Compare(a.Run.Concurrency, b.Run.Concurrency), cmp.Compare(a.Run.Rate, b.Run.Rate))
	})
	for _, x := range alike {
		name := "closed loop"
		if x.Run.Rate > 0 {
			name = "Poisson arrivals"
		}
		add(name+", measured", x.Run.Load(), x, func(f *served.Figure) float64 { return f.Observed })
		add(name+", simulated", "", x, func(f *served.Figure) float64 { return f.Predicted })
	}
	var list []plots.LoadCurve
	for _, name := range order {
		c := curves[name]
		list = append(list, *c)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no run on %s has a rate or a number of clients with %d + %d tokens: there is nothing to draw over; want h200 "+
			"or h100", first.GPU, drawnPrompt, drawnAnswer)
	}
	version, _, _ := strings.Cut(first.Source, ":")
	caption := fmt.Sprintf("%s in %s on %s · %s · %d + %d tokens (some of one at a time: 64)", first.Model, cmp.Or(first.Weights, "bf16"),
		strings.ToUpper(first.GPU), version, drawnPrompt, drawnAnswer)
	return plots.UnderLoad(caption, plots.RequestsPerSecond, list)
}

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
	Model  string            `json:"model"`  // model that is predicted
	GPU    string            `json:"gpu"`    // likewise
	TP     int               `json:"tp"`     // GPUs that share a matrix
	Says   map[string]string `json:"says"`   // what the server says of itself
	Taken  []string          `json:"taken"`  // what was taken that it does not say
	live.Served
}

// Said is what the server says of itself, a line for each.
func (s *ServerLive) Said() (lines []string) {
	for _, key := range slices.Sorted(maps.Keys(s.Says)) {
		lines = append(lines, key+" "+s.Says[key])
	}
	return lines
}

// Page is the comparison for people.
func (s *ServerLive) Page() *render.Document {
	q := s.Request
	says := render.Fields{Title: "The server says"}
	says.Add("", strings.Join(s.Said(), "; "))
	t := render.Table{Title: "Medians", Columns: []render.Column{{Title: "load", Left: true}, {Title: "tokens"}, {Title: "requests"},
		{Title: "", Left: true}, {Title: "observed"}, {Title: "predicted"}, {Title: "low"}, {Title: "high"}, {Title: "error %"}}}
	for i := range s.Served.Loads {
		l := &s.Served.Loads[i]
		for _, f := range l.Figures {
			t.Add(l.Name, fmt.Sprintf("%d+%d", l.Prompt, l.Gen), l.Requests, strings.ToUpper(strings.TrimSuffix(string(f.Metric), "_s")),
				unit.Seconds(f.Observed).String(), unit.Seconds(f.Predicted).String(), unit.Seconds(f.PredictedLow).String(),
				unit.Seconds(f.PredictedHigh).String(), fmt.Sprintf("%.1f", 100*f.Error))
		}
	}
	p := render.Table{Title: "Parts of a request under the load", Columns: []render.Column{{Title: "part", Left: true}, {Title: "observed"},
		{Title: "predicted"}, {Title: "difference"}}}
	for _, x := range s.Served.Parts {
		p.Add(x.Name, signedTime(x.Observed), signedTime(x.Predicted), signedTime(x.Predicted-x.Observed))
	}
	var notes []string
	for _, taken := range s.Taken {
		notes = append(notes, "Taken: "+taken+".")
	}
	if most := s.Served.Most(); most != nil {
		notes = append(notes, fmt.Sprintf("What differs most is %s: %s observed and %s predicted.", most.Name, signedTime(most.Observed),
			signedTime(most.Predicted)))
	}
	return &render.Document{Title: fmt.Sprintf("%s on %s by %s, at %s", q.Model, q.GPU, q.Engine, s.URL),
		Blocks: []render.Block{says, t, p, render.Notes{Title: "Notes", Items: notes}}} // A load that failed has no parts.
}

func signedTime(s float64) string {
	if s < 0 {
		return "-" + unit.Seconds(-s).String()
	}
	return unit.Seconds(s).String()
}

// Table is the medians for programs, one a row.
func (s *ServerLive) Table() *render.Table {
	type row struct {
		live.ServedLoad
		live.ServedFigure
	}
	var rows []row
	for _, l := range s.Served.Loads {
		for _, f := range l.Figures {
			rows = append(rows, row{l, f})
		}
	}
	return flat(rows, "load=name", "prompt_len", "gen_len", "requests", "metric", "observed_s", "predicted_s", "predicted_low_s",
		"predicted_high_s", "error")
}

// Document is the comparison for programs.
func (s *ServerLive) Document() *ServerLiveDocument {
	q := s.Request
	return &ServerLiveDocument{Schema: ServerLiveSchema, URL: s.URL, Engine: q.Engine, Model: q.Model, GPU: q.GPU, TP: *q.TP, Says: s.Says,
		Taken: append([]string{}, s.Taken...), Served: *s.Served}
}
