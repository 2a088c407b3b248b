// Package page answers the page in a browser: requests in the words of the command line,
// answers in its JSON documents, from the same code. It runs as WebAssembly in the page,
// and in tests beside the command line.
package page

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/deployment"
	"llmprof/models"
)

// A Page keeps what it has read of models, GPUs and calibrations.
type Page struct {
	Progress func(done, of int) // is told how far a search is; may be nil

	known  *deployment.Library
	setups map[string]setup   // setups of sweeps
	served map[string]*served // servers by the flags of their deployments
}

// New is a page that has read nothing yet.
func New() *Page {
	p := &Page{}
	p.Forget()
	return p
}

// Forget drops what was read, as files may have changed.
func (p *Page) Forget() {
	p.known, p.setups, p.served = deployment.Within(other), map[string]setup{}, map[string]*served{}
}

// other is a model of a file that was handed to the page, or of the hub.
func other(table *models.Table, name string, lenient bool) (*models.Model, error) {
	switch {
	case strings.HasPrefix(name, "./"):
		return models.ReadFile(name, lenient)
	case strings.Contains(name, "/") && !table.Has(name):
		return fetched(name, lenient)
	}
	return table.Model(name)
}

// fetched is a model of the hub, of which "llmprof serve" has handed the config.json on.
func fetched(name string, lenient bool) (*models.Model, error) {
	id, err := models.ParseHubID(name)
	if err != nil {
		return nil, err
	}
	config, err := os.ReadFile("hub/" + strings.ReplaceAll(id.String(), "/", "--") + ".json")
	if err != nil {
		return nil, fmt.Errorf("%s: a page reads no hub: drop its config.json here, or open the page by \"llmprof serve\"", name)
	}
	m, err := models.Checkpoint{Config: config, Lenient: lenient}.Read(id.String())
	if err == nil {
		m.Source = models.DefaultEndpoint + "/" + id.Repo()
	}
	return m, err
}

// A Request is what the page asks.
type Request struct {
	Do       string               `json:"do"`
	Flags    map[string]string    `json:"flags"`    // flags of the command line by their names
	Expected bool                 `json:"expected"` // the points of a sweep have expected times alone, without intervals
	Part     deployment.ChartPart `json:"part"`     // part of the chart over the rate that is asked for
	Try      map[string][]string  `json:"try"`      // values of flags that are to be tried in place of those given
	File     string               `json:"file"`     // the text of a result file
	Name     string               `json:"name"`     // name of the file
}

// An Answer is the reply to a Request. Either Error or one of the others is set.
type Answer struct {
	Error string `json:"error,omitempty"`
	Text  string `json:"text,omitempty"` // the answer as the command line prints it
	Data  any    `json:"data,omitempty"`
}

// Handle answers a request. What goes wrong is an answer too.
func (p *Page) Handle(ctx context.Context, request []byte) []byte {
	a, err := p.answer(ctx, request)
	if err != nil {
		a = &Answer{Error: deployment.Text(err, settings.Flag)}
	}
	text, err := json.Marshal(a)
	if err != nil {
		text, _ = json.Marshal(&Answer{Error: err.Error()})
	}
	return text
}

func (p *Page) answer(ctx context.Context, request []byte) (a *Answer, err error) {
	defer func() {
		if r := recover(); r != nil { // the page goes on after a mistake of the program
			err = fmt.Errorf("this is a mistake of llmprof: %v", r)
		}
	}()
	var r Request
	if err := json.Unmarshal(request, &r); err != nil {
		return nil, fmt.Errorf("reading a request: %w", err)
	}
	switch r.Do {
	case "estimate":
		return p.estimate(ctx, &r)
	case "under":
		return p.under(ctx, &r)
	case "json":
		return p.json(ctx, &r)
	case "csv":
		return p.csv(ctx, &r)
	case "sweep":
		return p.sweep(ctx, &r)
	case "load":
		return p.load(ctx, &r)
	case "plan":
		return p.plan(ctx, &r)
	case "options":
		return p.options(ctx, &r), nil
	case "result":
		return p.result(&r)
	case "forget":
		p.Forget()
		return &Answer{}, nil
	}
	return nil, errors.New("what is asked? Want estimate, under, json, csv, sweep, load, plan, options or result")
}
