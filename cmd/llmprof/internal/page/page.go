// Package page answers the page in a browser: requests in the words of the command line,
// answers in its JSON documents, from the same code. It runs in "llmprof serve", and as
// WebAssembly in a page without a server.
package page

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/deployment"
	"llmprof/models"
	"llmprof/plots/render"
	"llmprof/unit"
)

// A Page keeps what it has read of models, GPUs and calibrations.
type Page struct {
	Progress func(done, of int) // is told how far a search is; may be nil

	root   string // where files lie that were handed to the page: what stands for "./"
	known  *deployment.Library
	served map[string]*served // servers by the flags of their deployments
}

// New is a page that has read nothing yet.
func New() *Page { return In(own) }

// own is the folder of a browser's page.
const own = "./"

// In is a page whose files lie in a folder, which ends with a slash. It reads no others, and no answer names the folder.
func In(root string) *Page {
	p := &Page{root: root}
	p.Forget()
	return p
}

// Forget drops what was read, as files may have changed.
func (p *Page) Forget() {
	p.known, p.served = deployment.Within(p.other), map[string]*served{}
}

// other is a model of a file that was handed to the page, or of the hub.
func (p *Page) other(table *models.Table, name string, lenient bool) (*models.Model, error) {
	switch {
	case strings.HasPrefix(name, p.root):
		m, err := models.ReadFile(name, lenient)
		if err == nil && name == p.root+"config.json" { // Elsewhere a config.json is called after its folder.
			m.Name = "config"
		}
		return m, err
	case strings.Contains(name, "/") && !table.Has(name):
		return p.fetched(name, lenient)
	}
	return table.Model(name)
}

// fetched is a model of the hub, of which "llmprof serve" has handed the config.json on.
func (p *Page) fetched(name string, lenient bool) (*models.Model, error) {
	id, err := models.ParseHubID(name)
	if err != nil {
		return nil, err
	}
	config, err := os.ReadFile(p.root + "hub/" + strings.ReplaceAll(id.String(), "/", "--") + ".json")
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
		a = &Answer{Error: unit.Text(err, settings.Flag)}
	}
	text, err := json.Marshal(a)
	if err != nil {
		text, _ = json.Marshal(&Answer{Error: err.Error()})
	}
	return bytes.ReplaceAll(text, []byte(p.root), []byte(own))
}

// place says where the file lies that a flag names, if it names one. A page reads no file but those that were handed to it.
func (p *Page) place(flag, value string) (string, error) {
	name, ok := strings.CutPrefix(value, own)
	switch {
	case ok && filepath.IsLocal(name) && name != "." && !strings.ContainsAny(name, `/\`):
		return p.root + name, nil
	case ok || readsFile(flag, value):
		return "", settings.Usage("--%s %.60q: a page reads no file but those that are dropped on it", flag, value)
	}
	return value, nil
}

// readsFile reports whether the value of a flag is the name of a file.
func readsFile(flag, value string) bool {
	switch flag {
	case "calibration":
		return value != "" && value != "default"
	case "expert-skew":
		_, err := strconv.ParseFloat(value, 64)
		return err != nil && value != "" && value != "text"
	}
	return flag == "hardware" && value != ""
}

// placed has the flags of a request name files where they lie.
func (p *Page) placed(r *Request) (err error) {
	for flag, value := range r.Flags {
		if r.Flags[flag], err = p.place(flag, value); err != nil {
			return err
		}
	}
	for flag, values := range r.Try {
		for i, value := range values {
			if values[i], err = p.place(flag, value); err != nil {
				return err
			}
		}
	}
	return nil
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
	if err := p.placed(&r); err != nil {
		return nil, err
	}
	switch r.Do {
	case "estimate":
		return p.estimate(ctx, &r)
	case "under":
		return p.under(ctx, &r)
	case "json":
		return p.text(ctx, &r, func(w io.Writer, e *view.Estimate) error { return render.JSON(w, e.Document()) })
	case "csv":
		return p.text(ctx, &r, func(w io.Writer, e *view.Estimate) error { return render.CSV(w, e.Table()) })
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
