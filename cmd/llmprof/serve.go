package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/cmd/llmprof/internal/page"
	"llmprof/deployment"
	"llmprof/internal/child"
	"llmprof/internal/fileerror"
	"llmprof/internal/input"
	"llmprof/measure/detect"
	"llmprof/measure/experiment"
	"llmprof/measure/result"
	"llmprof/models"
	"llmprof/validate"
	"llmprof/web"
)

// A serveOrder is the page as it is asked for on the command line.
type serveOrder struct {
	port    int
	noOpen  bool
	offline bool
	results string
	folder  string
	python  string
}

func (a *app) serve() *cobra.Command {
	o := &serveOrder{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Show the estimator as a page in the browser",
		Long: "Serve a page on the loopback: model, GPU, engine and load to choose, and verdict, memory,\n" +
			"roofline, operators, graph, latency and cost that follow. It asks nothing of any other host.\n" +
			"--static writes the same page to a folder for any static host, with the estimator in it.",
		Example: "  llmprof serve\n" +
			"  llmprof serve --port 8765 --no-open --results results\n" +
			"  llmprof serve --static page",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runServe(cmd.Context(), o) },
	}
	cli.Define(cmd, cli.Output, func(f *pflag.FlagSet) {
		f.IntVar(&o.port, "port", 0, "`port` on 127.0.0.1 (default: one that is free)")
		f.BoolVar(&o.noOpen, "no-open", false, "print the address, and open no browser")
		f.BoolVar(&o.offline, "offline", false, "never use the network: hub ids are looked up in the local cache only")
		f.StringVar(&o.results, "results", "results", "`folder` of results that the page offers")
		f.StringVar(&o.python, "python", "", "Python `interpreter` of the transformers engine, for measuring (default: python3)")
		f.StringVar(&o.folder, "static", "", "write the page to `FOLDER`, and serve nothing")
	})
	return cmd
}

// staticFiles are the files of a page that computes by itself: what stands in the program, and what follows from
// its tables.
func (a *app) staticFiles() (map[string][]byte, error) {
	files, err := web.Static()
	if err != nil {
		return nil, err
	}
	if files[web.Program] == nil {
		return nil, errors.New("this llmprof was built without the page's program, which computes where no server does: run \"make web\" in " +
			"its source")
	}
	return files, a.derive(files)
}

// servedFiles are the files of a page that this program answers.
func (a *app) servedFiles() (map[string][]byte, error) {
	files, err := web.Served()
	if err != nil {
		return nil, err
	}
	return files, a.derive(files)
}

// derive adds the files that follow from the program's tables.
func (a *app) derive(files map[string][]byte) error {
	files["colors.css"] = []byte(page.Colors())
	catalog, err := page.NewCatalog(versionText())
	if err != nil {
		return err
	}
	scorer, err := a.scorer("", "")
	if err != nil {
		return err
	}
	observed, err := validate.Embedded()
	if err != nil {
		return err
	}
	score := scorer.Score(observed)
	if files["catalog.json"], err = json.Marshal(catalog); err != nil {
		return err
	}
	files["accuracy.json"], err = json.Marshal(page.Columns(page.NewAccuracy(score)))
	return err
}

// runServe shows the page until it is interrupted.
func (a *app) runServe(ctx context.Context, o *serveOrder) error {
	if o.port < 0 || o.port > 65535 {
		return usage("--port %d: want a port from 1 to 65535, or 0 for one that is free", o.port)
	}
	if o.folder != "" {
		files, err := a.staticFiles()
		if err != nil {
			return err
		}
		return writePage(o.folder, files)
	}
	files, err := interruptible(ctx, a.servedFiles)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", o.port))
	if err != nil {
		return fmt.Errorf("--port %d: %w", o.port, err)
	}
	s := newPageServer(a, o, files, listener.Addr().String())
	if _, err := fmt.Fprintln(a.stdout, s.address()); err != nil {
		return err
	}
	if !o.noOpen {
		defer openBrowser(ctx, s.address())()
	}
	return s.answer(ctx, s.server(ctx), listener)
}

func writePage(folder string, files map[string][]byte) error {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return fmt.Errorf("--static %s: %w", folder, input.Cause(err))
	}
	for name, text := range files {
		if err := writeFile(filepath.Join(folder, name), text); err != nil {
			return err
		}
	}
	return nil
}

// policy is what the page may do: run its own scripts, and ask this server.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// A pageServer serves the page, and what it cannot know by itself.
type pageServer struct {
	a     *app
	order *serveOrder
	files map[string][]byte
	tags  map[string]string // the entity tag of each file, so that a browser fetches no file again that it has
	host  string
	token string // what every request has that is answered from this machine
	mux   *http.ServeMux
	gpus  func() []hereGPU

	estimators estimators

	program   string // what measures; "" for this program
	measuring sync.Mutex
}

// tokenHeader has the token. No other site's page can send it, as it could a cookie.
const tokenHeader = "X-Llmprof-Token"

// stopTime is how long a measurement may take to stop.
const stopTime = 10 * time.Second

func newPageServer(a *app, o *serveOrder, files map[string][]byte, host string) *pageServer {
	s := &pageServer{a: a, order: o, files: files, tags: map[string]string{}, host: host, token: rand.Text(), mux: http.NewServeMux()}
	s.gpus = sync.OnceValue(gpusHere)
	for name, text := range files {
		s.tags[name] = fmt.Sprintf(`"%x"`, sha256.Sum256(text))
	}
	s.mux.HandleFunc("GET /", s.file)
	s.local()
	return s
}

// address opens the page with all that it can do here. It alone has the token: no answer does.
func (s *pageServer) address() string { return "http://" + s.host + "/?token=" + s.token }

// ServeHTTP refuses requests that other pages make by a name of their own for the loopback.
func (s *pageServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if own := strings.Replace(s.host, "127.0.0.1", "localhost", 1); r.Host != s.host && r.Host != own {
		http.Error(w, "this page is at http://"+s.host+"/", http.StatusMisdirectedRequest)
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")
	s.mux.ServeHTTP(w, r)
}

func (s *pageServer) file(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" {
		name = "index.html"
	}
	text, ok := s.files[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", contentType(name))
	w.Header().Set("ETag", s.tags[name])
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(text))
}

// contentType is that of a file of the page, whatever the system's table says.
func contentType(name string) string {
	switch ext := path.Ext(name); ext {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".html", ".css", ".json":
		return mime.TypeByExtension(ext)
	}
	return "text/plain; charset=utf-8"
}

// openBrowser asks the desktop to open the page; where there is none, the address that was printed serves. Every user of a
// machine sees the command lines of all processes, so that the address is in a file that only this user reads, which forget removes.
func openBrowser(ctx context.Context, address string) (forget func()) {
	folder, err := os.MkdirTemp("", "llmprof-")
	if err != nil {
		return func() {}
	}
	file := filepath.Join(folder, "open.html")
	if os.WriteFile(file, []byte(`<!doctype html><meta http-equiv="refresh" content="0; url=`+address+`"><title>llmprof</title>`),
		0o600) == nil {
		name, args := "xdg-open", []string{file}
		switch runtime.GOOS {
		case "darwin":
			name = "open"
		case "windows":
			name, args = "rundll32", []string{"url.dll,FileProtocolHandler", file}
		}
		_ = exec.CommandContext(ctx, name, args...).Start()
	}
	return func() { _ = os.RemoveAll(folder) }
}

// local adds what a page alone cannot do.
func (s *pageServer) local() {
	s.guarded("POST /ask", s.ask)
	s.guarded("POST /file", s.take)
	s.guarded("GET /here.json", s.here)
	s.guarded("GET /hub", s.hub)
	s.guarded("GET /results/{name}", s.result)
	s.guarded("POST /measure", s.measure)
}

// guarded answers requests that have the token, before anything else is read of them.
func (s *pageServer) guarded(pattern string, do http.HandlerFunc) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get(tokenHeader)), []byte(s.token)) != 1 {
			http.Error(w, "this needs the token: open the address that llmprof serve printed", http.StatusForbidden)
			return
		}
		known(r)
		do(w, r)
	})
}

// fail answers with an error. What it says of files is for this program's terminal alone.
func (s *pageServer) fail(w http.ResponseWriter, status int, err error) {
	http.Error(w, s.said(err.Error()), status)
}

// filePath is a path of this machine in a sentence, with what follows in the clause, since a path may have spaces.
var filePath = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("(^|[\\s\"'`(=\\[])(?:~|[A-Za-z]:)?[/\\\\][^\\s:;\"'][^:;\"'\\n]*")
})

// withoutPaths is a text that tells no path of this machine.
func withoutPaths(text string) string { return filePath().ReplaceAllString(text, "$1(file)") }

// said is a text without paths of this machine; the terminal has it whole where it has any.
func (s *pageServer) said(text string) string {
	without := withoutPaths(text)
	if without != text {
		s.a.logf("%s", strings.TrimPrefix(text, "llmprof: "))
	}
	return without
}

// A hereDocument is what the machine has.
type hereDocument struct {
	GPUs    []hereGPU `json:"gpus"`
	Results []string  `json:"results"` // files of results and of calibrations
}

type hereGPU struct {
	Name string  `json:"name"`
	Key  *string `json:"key"` // null where the table has no such GPU
	UUID *string `json:"uuid"`
}

// gpusHere asks the machine for its GPUs, which starts a process.
func gpusHere() []hereGPU {
	all := []hereGPU{}
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	found := detect.Here(ctx)
	detect.Match(deployment.BuiltInGPUs(), found)
	for _, g := range found {
		all = append(all, hereGPU{g.Name, g.Key, g.UUID})
	}
	return all
}

func (s *pageServer) here(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(hereDocument{s.gpus(), s.results()})
}

// results are the files of the folder of results that may be handed over: a link that leads out of it is none.
func (s *pageServer) results() []string {
	all := []string{}
	folder, err := os.OpenRoot(s.order.results)
	if err != nil {
		return all
	}
	defer folder.Close()
	measured, _ := result.Files(s.order.results)       // without the folder there are none
	grids, _ := input.Files(s.order.results, "*.toml") // the pattern is well-formed
	for _, p := range slices.Concat(measured, grids) {
		name := filepath.Base(p)
		if info, err := folder.Stat(name); err == nil && info.Mode().IsRegular() && !strings.HasPrefix(name, ".") {
			all = append(all, name)
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
	text, err := input.Read(filepath.Join(s.order.results, name), result.MaxBytes)
	if err != nil {
		s.fail(w, http.StatusInternalServerError, err)
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
		s.fail(w, http.StatusNotFound, err)
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

// An orderSize bounds the JSON of a measurement, in bytes, and orderTime how long it may take to come.
const (
	orderSize = 1 << 16
	orderTime = 10 * time.Second
)

func readOrder(r io.Reader) (*measureOrder, error) {
	var order measureOrder
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	err := d.Decode(&order)
	if err == nil && d.More() {
		err = errors.New("more than one value")
	}
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case ok && wrong.Field != "":
		want := "a whole number"
		if wrong.Type.Kind() == reflect.String {
			want = "a string"
		}
		return nil, fmt.Errorf("%s is a %s: want %s", wrong.Field, fileerror.Short(wrong.Value), want)
	case err != nil:
		return nil, errors.New(`this is no measurement: want a JSON object, as {"model": "llama3.2-1b", "engine": "native", "tp": 1, "batch": ` +
			`1, "prompt": 1024, "gen": 128}`)
	}
	return &order, nil
}

// listed reports whether the page lists a model: a built-in one, or one of the hub.
func listed(model string) bool {
	_, err := models.ParseHubID(model)
	return err == nil || deployment.BuiltInModels().Has(model)
}

func (o *measureOrder) args(s *serveOrder, gpus int) ([]string, error) {
	switch {
	case !listed(o.Model):
		return nil, errors.New("measuring needs a built-in model or a hub id")
	case o.Engine != experiment.Native && o.Engine != experiment.Transformers:
		return nil, errors.New(
			"measuring needs the engine native or transformers: others are servers, which llmprof measure --engine openai asks")
	case o.TP < 1 || o.Batch < 1 || o.Prompt < 1 || o.Gen < 1:
		return nil, errors.New("measuring needs numbers above 0")
	}
	args := []string{
		"measure", o.Model, "--" + namedModel, "--engine", o.Engine, "--random-weights", "--tp", strconv.Itoa(o.TP), "--batch",
		strconv.Itoa(o.Batch),
		"--prompt-len", strconv.Itoa(o.Prompt), "--gen-len", strconv.Itoa(o.Gen), "--results", s.results, "--format", "json",
	}
	if s.offline {
		args = append(args, "--offline")
	}
	if s.python != "" {
		args = append(args, "--python", s.python)
	}
	if gpus == 0 && o.Engine == experiment.Transformers { // transformers has CUDA graphs on GPUs alone.
		args = append(args, "--device", "cpu", "--graph=false")
	}
	return args, nil
}

// measure runs a measurement in a process of this program, reports its progress, and ends it
// when the page goes away. One runs at a time, since two would disturb each other.
func (s *pageServer) measure(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(orderTime)) // a writer of tests has no deadlines
	order, err := readOrder(http.MaxBytesReader(w, r.Body, orderSize))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_ = control.SetReadDeadline(time.Time{}) // what is read from here on is that the page goes away
	args, err := order.args(s.order, len(s.gpus()))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if !s.measuring.TryLock() {
		http.Error(w, "a measurement is running", http.StatusConflict)
		return
	}
	defer s.measuring.Unlock()
	send := func(kind, text string) { // a JSON object a line, at once
		_ = control.SetWriteDeadline(time.Now().Add(orderTime))
		_ = json.NewEncoder(w).Encode(map[string]string{kind: text})
		_ = control.Flush()
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	text, err := s.run(r.Context(), args, func(line string) { send("progress", s.said(line)) })
	if err != nil {
		send("error", err.Error())
		return
	}
	send("result", text)
}

// run runs the program, with each line of its standard error as progress.
func (s *pageServer) run(ctx context.Context, args []string, progressed func(line string)) (string, error) {
	program := s.program
	if program == "" {
		var err error
		if program, err = os.Executable(); err != nil {
			return "", err
		}
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	var stdout bytes.Buffer
	c, err := child.Start(child.Spec{
		Command: append([]string{program}, args...), Grace: stopTime, Line: progressed,
		Output: func(r io.Reader) { _, _ = io.Copy(&stdout, r) },
	})
	if err != nil {
		return "", errors.New(s.said(err.Error()))
	}
	select {
	case <-c.Ended():
	case <-ctx.Done():
		c.End(context.Background())
	}
	if how := c.How(); how != child.Well {
		last := ""
		if log := c.Log(); len(log) > 0 {
			last = withoutPaths(strings.TrimPrefix(log[len(log)-1], "llmprof: ")) // it was progress, too
		}
		return "", errors.New(last + " (" + how + ")")
	}
	return stdout.String(), nil
}
