package measure

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"llmprof/internal/testkit"
	"llmprof/internal/testkit/casetest"
	"llmprof/measure/experiment"
	"llmprof/measure/result"
	"llmprof/models"
)

// serverAddress makes this test's program a server, for what starts one.
const serverAddress = "LLMPROF_TEST_SERVER"

func TestMain(m *testing.M) {
	if addr := os.Getenv(serverAddress); addr != "" {
		_ = http.ListenAndServe(addr, http.HandlerFunc(stream)) // until it is killed
		os.Exit(1)
	}
	if os.Getenv(nativeStandIn) != "" {
		if err := serveStandIn(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// stream answers as an OpenAI-compatible server does, a token an event.
func stream(w http.ResponseWriter, r *http.Request) { streamed(w, r, "") }

// streamUncached is stream of a server that reports how many tokens of a prompt its cache had, so that no TTFT tells.
func streamUncached(w http.ResponseWriter, r *http.Request) {
	streamed(w, r, `, "prompt_tokens_details": {"cached_tokens": 0}`)
}

// streamed is stream with more about the usage of a request.
func streamed(w http.ResponseWriter, r *http.Request, usage string) {
	if r.Method == http.MethodGet {
		fmt.Fprint(w, `{"data": [{"id": "m"}]}`)
		return
	}
	var ask struct {
		Prompt    any
		MaxTokens int `json:"max_tokens"`
	}
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	tokens := 7
	if ids, ok := ask.Prompt.([]any); ok {
		tokens = len(ids)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for range ask.MaxTokens {
		fmt.Fprint(w, "data: {\"choices\": [{\"index\": 0, \"text\": \" a\"}]}\n\n")
		w.(http.Flusher).Flush()
		time.Sleep(time.Millisecond)
	}
	fmt.Fprintf(w, "data: {\"choices\": [{\"index\": 0, \"text\": \"\", \"finish_reason\": \"length\"}]}\n\n")
	fmt.Fprintf(w, "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": %d, \"completion_tokens\": %d, \"total_tokens\": %d%s}}\n\ndata: "+
		"[DONE]\n\n",
		tokens, ask.MaxTokens, tokens+ask.MaxTokens, usage)
}

// newLab is a lab on a machine without sensors.
func newLab(t *testing.T) *Lab {
	t.Helper()
	table, gpus := casetest.Tables(t)
	t.Setenv("PATH", t.TempDir()) // no nvidia-smi
	l := &Lab{
		Models: models.Resolver{Table: table}, GPUs: gpus, Root: fstest.MapFS{}, Version: "a test",
		Env: func(string) string { return "" }, Say: func(line string) { t.Log(line) },
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func servingPoint(url string) experiment.Point {
	p := experiment.Default()
	p.Model, p.Engine, p.BaseURL, p.GenLen, p.PromptLen, p.Concurrency, p.Requests = "llama3.1-8b", experiment.OpenAI, url, 5, 33, 2, 6
	return p
}

// checked writes a result and reads it again, which refuses one that cannot be.
func checked(t *testing.T, r *result.Result) {
	t.Helper()
	keepsSchema(t, r)
	r.ID = "a-test"
	path, err := result.Write(t.TempDir(), r)
	testkit.Must(t, err)
	if _, err := result.Read(path); err != nil {
		t.Error(err)
	}
}

func TestServe(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(stream))
	defer server.Close()
	results, err := newLab(t).Measure(t.Context(), servingPoint(server.URL))
	testkit.Must(t, err)
	r := results[0]
	s := r.Serving
	if s.Completed != 6 || r.TTFT.N != 6 || r.TPOT.N != 6 || r.TPOT.Median < 1e-3 || r.TTLT.Median < 4e-3 || s.Warmups != 4 {
		t.Errorf("%d completed, TTFT %+v, TPOT %+v, TTLT %+v", s.Completed, r.TTFT, r.TPOT, r.TTLT)
	}
	if n := s.Records[0].Prompt; n == nil || *n != 33 {
		t.Errorf("the server counted %v tokens of the prompt, want the 33 that were asked for", n)
	}
	if got := 30 / s.Duration; *r.Throughput.Generated != got {
		t.Errorf("%v tok/s, want %v", r.Throughput.Generated, got)
	}
	if r.Energy != nil || r.Reasons["energy"] == "" {
		t.Errorf("energy %+v, because %q", r.Energy, r.Reasons["energy"])
	}
	checked(t, r)
}

// A server that is started around the run, with the processor's counters as a
// meter.
func TestServeAround(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	addr := free.Addr().String()
	_ = free.Close()
	self, err := os.Executable()
	testkit.Must(t, err)
	l := newLab(t)
	l.Root = rapl{time.Now()}
	l.Idle = 100 * time.Millisecond
	p := servingPoint("http://" + addr)
	p.EngineCmd = fmt.Sprintf("%s=%s '%s'", serverAddress, addr, self)
	p.CarbonRegion, p.Requests = "world", 300
	results, err := l.Measure(t.Context(), p)
	testkit.Must(t, err)
	r := results[0]
	if e := r.Energy; e == nil || e.PerRequest == nil || *e.PerRequest <= 0 || e.CO2.PerRequest <= 0 || e.Request.Passes != 300 ||
		e.PerToken != nil {
		t.Errorf("energy %+v, because %q", r.Energy, r.Reasons["energy"])
	}
	if r.Engine.LoadS == nil {
		t.Error("how long the server took to start is not known")
	}
	if _, err := http.Get("http://" + addr); err == nil {
		t.Error("the server still runs")
	}
	checked(t, r)
}

// A rapl is the counter of one package at 100 W, at the moment that it is read.
type rapl struct{ born time.Time }

// Open opens a file or a folder of it.
func (r rapl) Open(name string) (fs.File, error) {
	const zone = "sys/class/powercap/intel-rapl:0/"
	counter := fmt.Sprintf("%d\n", 1000+time.Since(r.born).Microseconds()*100)
	return fstest.MapFS{
		zone + "name": {Data: []byte("package-0\n")}, zone + "max_energy_range_uj": {Data: []byte("262143328850\n")},
		zone + "energy_uj": {Data: []byte(counter)},
	}.Open(name)
}

// A breaking counter says nonsense from a moment on.
type breaking struct {
	rapl
	from time.Time
}

// Open opens a file or a folder of it.
func (b breaking) Open(name string) (fs.File, error) {
	if strings.HasSuffix(name, "/energy_uj") && time.Now().After(b.from) {
		return fstest.MapFS{name: {Data: []byte("-1e999\n")}}.Open(name)
	}
	return b.rapl.Open(name)
}

// A sensor that breaks while requests run costs the energy, and not the requests.
func TestServeBesideABreakingSensor(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(streamUncached))
	defer server.Close()
	l := newLab(t)
	l.Root = breaking{rapl{time.Now()}, time.Now().Add(500 * time.Millisecond)}
	p := servingPoint(server.URL)
	p.Requests = 200
	results, err := l.Measure(t.Context(), p)
	testkit.Must(t, err)
	r := results[0]
	if r.Energy != nil || !strings.Contains(r.Reasons["energy"], "energy_uj") || r.Serving.Completed != 200 || len(r.Marks) > 0 {
		t.Errorf("energy %+v, because %q; %d completed, marks %v", r.Energy, r.Reasons["energy"], r.Serving.Completed, r.Marks)
	}
	checked(t, r)
}

func TestServeFails(t *testing.T) {
	l := newLab(t)
	for want, change := range map[string]func(*experiment.Point){
		"connection refused": func(*experiment.Point) {},
		"no such file":       func(p *experiment.Point) { p.Prompts = "nothing.txt" },
		"germany":            func(p *experiment.Point) { p.CarbonRegion = "germny" },
		"false":              func(p *experiment.Point) { p.EngineCmd = "/bin/false" },
	} {
		p := servingPoint("http://127.0.0.1:1")
		change(&p)
		if r, err := l.Measure(t.Context(), p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, %v; want an error with %q", r, err, want)
		}
	}
	l.NeedEnergy = true
	p := servingPoint("http://192.0.2.1:1")
	if _, err := l.Measure(t.Context(), p); err == nil || !strings.Contains(err.Error(), "192.0.2.1") ||
		!strings.Contains(err.Error(), "engine_cmd") {
		t.Errorf("energy of a server on another host: %v", err)
	}
}

// The sensors of this machine are those of a server that runs on it already.
func TestServeBeside(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(stream))
	defer server.Close()
	l := newLab(t)
	l.Root = rapl{time.Now()}
	p := servingPoint(server.URL)
	p.Requests = 200
	results, err := l.Measure(t.Context(), p)
	testkit.Must(t, err)
	r := results[0]
	if e := r.Energy; e == nil || e.PerRequest == nil || *e.PerRequest <= 0 || e.Request.Passes != 200 || e.Net != nil {
		t.Errorf("energy %+v, because %q", e, r.Reasons["energy"])
	}
	checked(t, r)
}
