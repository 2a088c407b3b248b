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
	"sync"

	"llmprof"
	"llmprof/cmd/llmprof/internal/ask"
	"llmprof/hardware"
	"llmprof/models"
)

// A Page keeps what it has read of models, GPUs and calibrations.
type Page struct {
	Progress func(done, of int) // is told how far a search is; may be nil

	table     func() (*models.Table, error) // is read where a name is not that of one of its entries
	gpus      map[[2]string]*hardware.GPU
	models    map[string]*models.Model
	constants map[string]*ask.Calibrations
	known     *ask.Deployments
	setups    map[string]setup   // setups of sweeps
	served    map[string]*served // servers by the flags of their deployments
}

// New is a page that has read nothing yet.
func New() *Page {
	p := &Page{table: sync.OnceValues(func() (*models.Table, error) { return models.Load(llmprof.ModelsJSON) })}
	p.Forget()
	return p
}

// Forget drops what was read, as files may have changed.
func (p *Page) Forget() {
	p.gpus, p.models, p.constants = map[[2]string]*hardware.GPU{}, map[string]*models.Model{}, map[string]*ask.Calibrations{}
	p.known, p.setups, p.served = ask.NewDeployments(p), map[string]setup{}, map[string]*served{}
}

// Model is a built-in model, or one of a file that was handed to the page.
func (p *Page) Model(_ context.Context, name string, _, lenient bool) (*models.Model, error) {
	return ask.Once(p.models, fmt.Sprintf("%s %v", name, lenient), func() (*models.Model, error) {
		if strings.HasPrefix(name, "./") {
			return models.ReadFile(name, lenient)
		}
		if m, err := models.Find(llmprof.ModelsJSON, name); m != nil || err != nil {
			return m, err
		}
		table, err := p.table()
		if err != nil {
			return nil, err
		}
		if strings.Contains(name, "/") && !table.Has(name) {
			return p.fetched(name, lenient)
		}
		return table.Model(name)
	})
}

// fetched is a model of the hub, of which "llmprof serve" has handed the config.json on.
func (p *Page) fetched(name string, lenient bool) (*models.Model, error) {
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

// GPU is one of the built-in table, overlaid with that of a file if one is named.
func (p *Page) GPU(name, file string) (*hardware.GPU, error) {
	return ask.Once(p.gpus, [2]string{name, file}, func() (*hardware.GPU, error) {
		if file == "" {
			g, err := hardware.Find(llmprof.HardwareTOML, name)
			return &g, err
		}
		t, err := p.GPUs(file)
		if err != nil {
			return nil, err
		}
		g, err := t.GPU(name)
		return &g, err
	})
}

// Constants are what GPUs reach in practice.
func (p *Page) Constants(file string) (*ask.Calibrations, error) {
	return ask.Once(p.constants, file, func() (*ask.Calibrations, error) { return ask.NewCalibrations(file) })
}

// A Request is what the page asks.
type Request struct {
	Do       string              `json:"do"`
	Flags    map[string]string   `json:"flags"`    // flags of the command line by their names
	Expected bool                `json:"expected"` // the points of a sweep have expected times alone, without intervals
	Part     ask.ChartPart       `json:"part"`     // part of the chart over the rate that is asked for
	Try      map[string][]string `json:"try"`      // values of flags that are to be tried in place of those given
	File     string              `json:"file"`     // the text of a result file
	Name     string              `json:"name"`     // name of the file
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
		a = &Answer{Error: err.Error()}
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
