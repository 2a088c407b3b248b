package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"llmprof"
	"llmprof/hardware"
	"llmprof/input"
	"llmprof/measure/result"
	"llmprof/models"
)

// local adds what a page alone cannot do. All of it asks for the token, which a page of
// another origin cannot read.
func (s *pageServer) local() {
	s.mux.HandleFunc("GET /here.json", s.here)
	s.mux.Handle("GET /hub", s.guarded(s.hub))
	s.mux.Handle("GET /results/{name}", s.guarded(s.result))
	s.mux.Handle("POST /measure", s.guarded(s.measure))
}

// guarded answers requests that have the token.
func (s *pageServer) guarded(do http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Llmprof-Token") != s.token {
			http.Error(w, "this needs the token of the page", http.StatusForbidden)
			return
		}
		do(w, r)
	})
}

// A hereDocument is what the machine has.
type hereDocument struct {
	Token   string    `json:"token"`
	GPUs    []hereGPU `json:"gpus"`
	Results []string  `json:"results"` // files of results and of calibrations
}

type hereGPU struct {
	Name string  `json:"name"`
	Key  *string `json:"key"` // null where the table has no such GPU
	UUID *string `json:"uuid"`
}

func (s *pageServer) here(w http.ResponseWriter, r *http.Request) {
	d := hereDocument{Token: s.token, GPUs: []hereGPU{}, Results: s.results()}
	if table, err := hardware.Load(llmprof.HardwareTOML); err == nil {
		found := thisMachine(r.Context())
		match(table, found)
		for _, g := range found {
			d.GPUs = append(d.GPUs, hereGPU{g.Name, g.Key, g.UUID})
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(d)
}

func (s *pageServer) results() []string {
	all := []string{}
	for _, pattern := range []string{"*" + result.Extension, "*.toml"} {
		paths, _ := filepath.Glob(filepath.Join(s.order.results, pattern)) // the pattern is well-formed
		for _, p := range paths {
			if name := filepath.Base(p); !result.IsPredictions(name) && !strings.HasPrefix(name, ".") {
				all = append(all, name)
			}
		}
	}
	return all
}

// result hands a file of the folder of results over.
func (s *pageServer) result(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if !slices.Contains(s.results(), name) {
		http.NotFound(w, r)
		return
	}
	const most = 32 << 20
	text, err := input.Read(filepath.Join(s.order.results, name), most)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write(text)
}

// hub hands the config.json of a hub id over.
func (s *pageServer) hub(w http.ResponseWriter, r *http.Request) {
	hub := models.HubFromEnv(s.a.env)
	hub.Offline = hub.Offline || s.order.offline
	config, err := models.Resolver{Hub: hub}.HubConfig(r.Context(), r.URL.Query().Get("id"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write(config)
}

// A measureOrder is a measurement as the page asks for it.
type measureOrder struct {
	Model  string `json:"model"`
	Engine string `json:"engine"`
	TP     int    `json:"tp"`
	Batch  int    `json:"batch"`
	Prompt int    `json:"prompt"`
	Gen    int    `json:"gen"`
}

func (o *measureOrder) args(s *serveOrder, gpus int) ([]string, error) {
	switch {
	case o.Model == "" || strings.HasPrefix(o.Model, "-") || strings.HasPrefix(o.Model, "."):
		return nil, errors.New("measuring needs a built-in model or a hub id")
	case o.Engine != "native" && o.Engine != "transformers":
		return nil, errors.New("measuring needs the engine native or transformers: others are servers, which llmprof measure --engine openai asks")
	case o.TP < 1 || o.Batch < 1 || o.Prompt < 1 || o.Gen < 1:
		return nil, errors.New("measuring needs numbers above 0")
	}
	args := []string{
		"measure", o.Model, "--engine", o.Engine, "--random-weights", "--tp", strconv.Itoa(o.TP), "--batch", strconv.Itoa(o.Batch),
		"--prompt-len", strconv.Itoa(o.Prompt), "--gen-len", strconv.Itoa(o.Gen), "--results", s.results, "--format", "json",
	}
	if s.python != "" {
		args = append(args, "--python", s.python)
	}
	if gpus == 0 && o.Engine == "transformers" { // transformers has CUDA graphs on GPUs alone.
		args = append(args, "--device", "cpu", "--graph=false")
	}
	return args, nil
}

// measure runs a measurement in a process of this program, reports its progress, and ends it
// when the page goes away. One runs at a time, since two would disturb each other.
func (s *pageServer) measure(w http.ResponseWriter, r *http.Request) {
	var order measureOrder
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<16)).Decode(&order); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	args, err := order.args(s.order, len(thisMachine(r.Context())))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if !s.measuring.TryLock() {
		http.Error(w, "a measurement is running", http.StatusConflict)
		return
	}
	defer s.measuring.Unlock()
	out := &eventWriter{w: w, flush: http.NewResponseController(w).Flush}
	w.Header().Set("Content-Type", "application/x-ndjson")
	text, err := s.run(r.Context(), args, out)
	if err != nil {
		out.send(map[string]string{"error": err.Error()})
		return
	}
	out.send(map[string]string{"result": text})
}

// run runs the program, with each line of its standard error as progress.
func (s *pageServer) run(ctx context.Context, args []string, out *eventWriter) (string, error) {
	program, err := os.Executable()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // the measurement ends its engine
	cmd.WaitDelay = stopTime
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	progress, err := cmd.StderrPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	last := ""
	for lines := bufio.NewScanner(progress); lines.Scan(); {
		last = lines.Text()
		out.send(map[string]string{"progress": last})
	}
	if err := cmd.Wait(); err != nil {
		return "", errors.New(strings.TrimPrefix(last, "llmprof: ") + " (" + err.Error() + ")")
	}
	return stdout.String(), nil
}

// An eventWriter sends a JSON object a line, at once.
type eventWriter struct {
	mu    sync.Mutex
	w     io.Writer
	flush func() error
}

func (e *eventWriter) send(v any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	_ = json.NewEncoder(e.w).Encode(v)
	_ = e.flush()
}
