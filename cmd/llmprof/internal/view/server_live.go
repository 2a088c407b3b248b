//go:build !js

package view

import (
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
	d := &render.Document{Title: fmt.Sprintf("%s on %s by %s, at %s", q.Model, q.GPU, q.Engine, s.URL)}
	says := render.Fields{Title: "The server says"}
	says.Add("", strings.Join(s.Said(), "; "))
	d.Blocks = append(d.Blocks, says)
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
