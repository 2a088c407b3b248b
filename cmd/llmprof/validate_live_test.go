package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/internal/testkit"
	"llmprof/measure/detect"
	"llmprof/measure/experiment"
	"llmprof/measure/result"
	"llmprof/unit"
	"llmprof/validate"
)

// A machine is a made-up one: the GPUs that it says it has, and a measurement
// that takes the fixture for what was seen.
type machine struct {
	devices []detect.Device
	measure experiment.Measure
	calls   int
	before  func() // each measurement
}

func one(name string) []detect.Device {
	uuid := "GPU-1"
	return []detect.Device{{Name: name, UUID: &uuid, Memory: new(unit.Bytes(146800640 * 1024))}}
}

// tryLive runs "validate --live" on a made-up machine.
func (m *machine) tryLive(t *testing.T, args ...string) ran {
	t.Helper()
	var out, errs bytes.Buffer
	a := &app{stdout: &out, styled: &out, stderr: &errs, env: func(string) string { return "" }}
	v := &comparison{live: liveFlags{gpus: func(context.Context) []detect.Device { return m.devices }}}
	v.live.measure = func(ctx context.Context, p experiment.Point) ([]*result.Result, error) {
		m.calls++
		if m.before != nil {
			m.before()
		}
		return m.measure(ctx, p)
	}
	cmd := a.validateCommand(v)
	cmd.SetArgs(append([]string{"--live"}, args...))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	code := 0
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		code = 1
		errs.WriteString(settings.InFlags(err).Error())
	}
	return ran{code, out.String(), errs.String()}
}

// seen gives the fixture as a result of the point that is asked for, and an error
// for a batch of 2.
func seen(t *testing.T) experiment.Measure {
	t.Helper()
	fixture, err := result.Read(fixturePath)
	testkit.Must(t, err)
	return func(_ context.Context, p experiment.Point) ([]*result.Result, error) {
		if p.Batch == 2 {
			return nil, errors.New("CUDA out of memory")
		}
		r := *fixture
		r.Started = r.Started.AddDate(10, 0, 0) // after the predictions
		r.Ended = r.Ended.AddDate(10, 0, 0)
		r.Workload.Batch, r.Workload.PromptLen, r.Workload.GenLen, r.Engine.Name = p.Batch, p.PromptLen, p.GenLen, p.Engine
		r.Engine.Options = map[string]string{"graph": map[bool]string{true: "true", false: "false"}[p.Graph]}
		return []*result.Result{&r}, nil
	}
}

const h200Name = "NVIDIA H200"

// liveArgs is a grid of one model by some batches, of which 2 fails.
func liveArgs(dir, batches string, more ...string) []string {
	return append([]string{"--results", dir, "--model", "llama3.1-8b", "--engine", "transformers", "--batch", batches, "--prompt-len", "128"},
		more...)
}

// A comparedLive is the JSON of a comparison with what was measured for it.
type comparedLive struct {
	Live *view.LiveDocument
	Rows []compared
}

func liveOf(t *testing.T, got ran) (j comparedLive) {
	t.Helper()
	checkSchema(t, schema(t, "validate"), got.stdout)
	testkit.Must(t, json.Unmarshal([]byte(got.stdout), &j))
	return j
}

// TestLive runs a grid twice, one point of which fails: predictions are written
// before anything is measured, failures are named, and what was measured is kept.
func TestLive(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "results")
	m := &machine{devices: one(h200Name), measure: seen(t)}
	m.before = func() {
		files, _ := filepath.Glob(filepath.Join(dir, "predictions-*.json"))
		if len(files) != 1 {
			t.Fatalf("%d files of predictions when a point is measured, want 1", len(files))
		}
		text, err := os.ReadFile(files[0])
		testkit.Must(t, err)
		checkSchema(t, schema(t, "predictions"), string(text))
		if p, err := validate.ReadPredictions(files[0]); err != nil || len(p.Points) != 3 {
			t.Errorf("%+v, %v", p, err)
		}
	}
	got := m.tryLive(t, liveArgs(dir, "1,2,8", "--format", "json")...)
	if got.code != 0 || m.calls != 3 {
		t.Fatalf("exit %d, %d points measured: %s", got.code, m.calls, got.stderr)
	}
	first := liveOf(t, got)
	if l := first.Live; l.Points != 3 || l.Measured != 2 || l.Failed != 1 || l.Earlier || l.Older != 0 || l.GPU != "h200-sxm-141gb" ||
		len(l.Missing) != 1 || !strings.Contains(l.Missing[0].Name, "batch 2") || l.Missing[0].Reason != "CUDA out of memory" {
		t.Errorf("%+v", l)
	}
	for _, want := range []string{"predictions of 3 points written before the first measurement: ", "SHA-256 " + first.Live.SHA256,
		"failed: CUDA out of memory"} {
		if !strings.Contains(got.stderr, want) {
			t.Errorf("no %q in %s", want, got.stderr)
		}
	}
	if len(first.Rows) == 0 {
		t.Fatal("no rows")
	}
	for _, r := range first.Rows {
		if r.Metric != "ttft_s" {
			continue
		}
		want := expected(t, "ttft_s", "estimate", "--format", "json", "--model", "llama3.1-8b", "--gpu", "h200", "--engine", "transformers-graph",
			"--weights", "bf16", "--batch", itoa(r.Batch), "--prompt-len", "128", "--gen-len", "32")
		if want != r.Predicted {
			t.Errorf("%+v: estimate says %v", r, want)
		}
	}
	again := m.tryLive(t, liveArgs(dir, "1,2,8")...)
	for _, want := range []string{"Not measured: 1 of 3 points", "batch 2, 128+32 (live-", "of memory", "Compared with", first.Live.SHA256,
		"0 measured, 2 kept from before, 1 failed"} {
		if !strings.Contains(again.stdout, want) {
			t.Errorf("no %q in %s", want, again.stdout)
		}
	}
	if again.code != 0 || m.calls != 4 || !strings.Contains(again.stderr, "unchanged: "+first.Live.File) {
		t.Errorf("exit %d, %d calls: %s", again.code, m.calls, again.stderr)
	}
	stored := try(t, "validate", "--format", "json", dir) // the predictions beside the results are none
	if stored.code != 0 {
		t.Error(stored.stderr)
	}
}

// TestLiveAfterRun checks that what "llmprof run" measured of a grid file is kept.
func TestLiveAfterRun(t *testing.T) {
	dir := t.TempDir()
	grid := filepath.Join(dir, "grid.toml")
	testkit.Must(t, os.WriteFile(grid, []byte("model = \"llama3.1-8b\"\ngen_len = 32\ngrid = {batch = [1, 8]}\n"), 0o644))
	e, err := experiment.Load(grid)
	testkit.Must(t, err)
	trials, err := e.Trials()
	testkit.Must(t, err)
	m := &machine{devices: one(h200Name), measure: seen(t)}
	if _, err := experiment.Run(t.Context(), trials[:1], m.measure, experiment.Options{Store: experiment.Store{Dir: dir}}); err != nil {
		t.Fatal(err)
	}
	got := m.tryLive(t, "--grid", grid, "--results", dir, "--format", "json")
	if l := liveOf(t, got).Live; got.code != 0 || l.Done != 1 || l.Measured != 1 || m.calls != 1 {
		t.Errorf("%+v, %d calls: %s", l, m.calls, got.stderr)
	}
}

// TestLiveOtherPredictions checks that a wider grid gets a file of its own, and
// that results older than it are said to be so.
func TestLiveOtherPredictions(t *testing.T) {
	dir := t.TempDir()
	m := &machine{devices: one(h200Name), measure: seen(t)}
	fixture := m.measure
	m.measure = func(ctx context.Context, p experiment.Point) ([]*result.Result, error) {
		all, err := fixture(ctx, p)
		for _, r := range all {
			r.Started, r.Ended = r.Started.AddDate(-10, 0, 0), r.Ended.AddDate(-10, 0, 0)
		}
		return all, err
	}
	if got := m.tryLive(t, liveArgs(dir, "1,2,8")...); got.code != 0 {
		t.Fatal(got.stderr)
	}
	got := m.tryLive(t, liveArgs(dir, "1,8,16", "--format", "json")...)
	if got.code != 0 || !strings.Contains(got.stderr, "differ from those of 1 files beside it") {
		t.Errorf("exit %d: %s", got.code, got.stderr)
	}
	if l := liveOf(t, got).Live; l.Others != 1 || l.Earlier || l.Done != 2 || l.Measured != 1 || l.Older != 3 {
		t.Errorf("%+v", l)
	}
}

// TestLiveAltered checks that nothing is measured against predictions that were
// altered after they were written.
func TestLiveAltered(t *testing.T) {
	dir := t.TempDir()
	m := &machine{devices: one(h200Name), measure: seen(t)}
	if got := m.tryLive(t, liveArgs(dir, "1,2,8")...); got.code != 0 {
		t.Fatal(got.stderr)
	}
	files, err := filepath.Glob(filepath.Join(dir, "predictions-*.json"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	data, err := os.ReadFile(files[0])
	testkit.Must(t, err)
	testkit.Must(t, os.WriteFile(files[0], bytes.Replace(data, []byte("ttft_s"), []byte("ttlt_s"), 1), 0o644))
	calls := m.calls
	got := m.tryLive(t, liveArgs(dir, "1,16")...)
	if got.code != 1 || m.calls != calls || !strings.Contains(got.stderr, "altered after it was written") || got.stdout != "" {
		t.Errorf("%+v", got)
	}
}

// TestLiveTarget holds which GPU the predictions are for.
func TestLiveTarget(t *testing.T) {
	two := append(one(h200Name), one("NVIDIA A100-SXM4-40GB")...)
	two[1].Memory = new(unit.Bytes(41943040 * 1024))
	other := "GPU-2"
	two[1].UUID = &other
	for _, c := range []struct {
		name    string
		devices []detect.Device
		args    []string
		code    int
		want    string // on standard error, or of the result
	}{
		{"known", one(h200Name), nil, 0, ""},
		{"known and named", one(h200Name), []string{"--gpu", "h200"}, 0, ""},
		{"none", nil, nil, 1, "neither /proc/driver/nvidia/gpus nor /proc/device-tree/model nor nvidia-smi names one"},
		{"none and named", nil, []string{"--gpu", "h200"}, 1, "no GPU found"},
		{"unknown", one("NVIDIA Q9000"), nil, 1, "name it with --gpu, or describe it"},
		{"unknown and named", one("NVIDIA Q9000"), []string{"--gpu", "h200"}, 0, ""},
		{"another than named", one(h200Name), []string{"--gpu", "a100"}, 1, "this machine has h200-sxm-141gb"},
		{"named after nothing", one(h200Name), []string{"--gpu", "h2000"}, 1, "did you mean h200"},
		{"unlike", two, nil, 1, "unlike GPUs, h200-sxm-141gb and a100"},
		{"unlike and named", two, []string{"--gpu", "h200"}, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &machine{devices: c.devices, measure: seen(t)}
			fixture := m.measure
			m.measure = func(ctx context.Context, p experiment.Point) ([]*result.Result, error) {
				if p.Device != "cuda" || (len(p.GPUs) == 1) != (c.name == "unlike and named") {
					t.Errorf("device %q, GPUs %v", p.Device, p.GPUs)
				}
				all, err := fixture(ctx, p)
				if c.name == "unknown and named" {
					r := *all[0]
					r.Machine.GPUs = []result.GPU{{Name: "NVIDIA Q9000", UUID: "GPU-1"}}
					all = []*result.Result{&r}
				}
				return all, err
			}
			got := m.tryLive(t, liveArgs(t.TempDir(), "1", c.args...)...)
			if got.code != c.code || !strings.Contains(got.stderr, c.want) {
				t.Errorf("exit %d: %s", got.code, got.stderr)
			}
			if c.code == 0 && !strings.Contains(got.stdout, "h200-sxm-141gb") {
				t.Errorf("the comparison is of another GPU: %s", got.stdout)
			}
		})
	}
}

// TestLiveOtherwise checks that a point that ran otherwise than it was predicted is
// not compared.
func TestLiveOtherwise(t *testing.T) {
	m := &machine{devices: one(h200Name), measure: seen(t)}
	fixture := m.measure
	m.measure = func(ctx context.Context, p experiment.Point) ([]*result.Result, error) {
		p.Graph = p.Batch != 8
		return fixture(ctx, p)
	}
	got := m.tryLive(t, liveArgs(t.TempDir(), "1,8")...)
	if got.code != 0 || !strings.Contains(got.stdout, "it ran as llama3.1-8b on") {
		t.Errorf("exit %d: %s%s", got.code, got.stdout, got.stderr)
	}
}

// TestLiveDefault holds which models are measured where none is named: the largest
// that a GPU holds at every point, and the smallest.
func TestLiveDefault(t *testing.T) {
	for gpu, want := range map[string]string{
		"NVIDIA H200": "llama3.1-8b llama3.2-1b", "NVIDIA GeForce RTX 5090": "llama3.2-3b llama3.2-1b", "Tesla T4": "llama3.2-1b",
	} {
		devices := one(gpu)
		devices[0].Memory = nil
		dir := t.TempDir()
		m := &machine{devices: devices, measure: func(context.Context, experiment.Point) ([]*result.Result, error) {
			return nil, errors.New("no engine")
		}}
		got := m.tryLive(t, "--results", dir, "--engine", "transformers")
		if got.code != 1 || !strings.Contains(got.stderr, "points could be measured") {
			t.Errorf("%s: exit %d: %s", gpu, got.code, got.stderr)
		}
		files, _ := filepath.Glob(filepath.Join(dir, "predictions-*.json"))
		if len(files) != 1 {
			t.Fatalf("%s: %v", gpu, files)
		}
		p, err := validate.ReadPredictions(files[0])
		testkit.Must(t, err)
		var names []string
		for _, point := range p.Points {
			if len(names) == 0 || names[len(names)-1] != point.Model {
				names = append(names, point.Model)
			}
			if point.Mode != "graph" || gpu == "Tesla T4" && point.Weights != "fp16" {
				t.Errorf("%s: %+v", gpu, point)
			}
		}
		if got := strings.Join(names, " "); got != want || len(p.Points) != 9*len(names) {
			t.Errorf("%s: %d points of %s, want %s", gpu, len(p.Points), got, want)
		}
	}
}

// TestLiveLibraries gives the folder of the CUDA libraries to the engine that opens
// them, and to no other.
func TestLiveLibraries(t *testing.T) {
	take := seen(t)
	for engine, want := range map[string]string{"native": "/cuda", "transformers": ""} {
		m := &machine{devices: one(h200Name), measure: func(ctx context.Context, p experiment.Point) ([]*result.Result, error) {
			if p.Libraries != want {
				t.Errorf("%s: libraries %q, want %q", engine, p.Libraries, want)
			}
			return take(ctx, p)
		}}
		got := m.tryLive(t, "--results", filepath.Join(t.TempDir(), "r"), "--model", "llama3.1-8b", "--engine", engine, "--batch", "1",
			"--prompt-len", "128", "--cuda-libs", "/cuda")
		if m.calls != 1 {
			t.Errorf("%s: %d calls: %s", engine, m.calls, got.stderr)
		}
	}
}

// TestLiveKeepsWhatIsFitted keeps results that come with the program: what a constant
// was fitted on is scored separately here too.
func TestLiveKeepsWhatIsFitted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "results")
	testkit.Must(t, os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "experiments", "h200"))))
	m := &machine{devices: one(h200Name), measure: func(context.Context, experiment.Point) ([]*result.Result, error) {
		return nil, errors.New("not measured here")
	}}
	got := m.tryLive(t, "--grid", filepath.Join("..", "..", "experiments", "h200.toml"), "--results", dir, "--format", "json")
	var c struct {
		Live *view.LiveDocument
		Rows []view.RowDocument
	}
	if err := json.Unmarshal([]byte(got.stdout), &c); err != nil {
		t.Fatalf("exit %d: %s: %v", got.code, got.stderr, err)
	}
	if c.Live.Done == 0 {
		t.Fatalf("nothing was kept: %+v", c.Live)
	}
	for _, r := range c.Rows {
		want := r.Metric == validate.TPOT && r.Engine == "transformers" && r.Model == "llama3.1-8b"
		if r.Metric == validate.TPOT && r.Fitted != want {
			t.Errorf("%s of %s by %s: fitted %t, want %t", r.Metric, r.Model, r.Engine, r.Fitted, want)
		}
	}
}

// TestLiveServer measures a server that streams tokens, alone and under a load, beside its simulation: what the server says of itself is
// there, what is neither said nor given is asked for at once, and the parts of the time add up to the medians.
func TestLiveServer(t *testing.T) {
	url := serve(t, slow(2*time.Millisecond))
	got := try(t, "validate", "--live", url)
	if got.code != 2 || !strings.Contains(got.stderr, "give --engine, --gpu") {
		t.Errorf("exit %d: %s", got.code, got.stderr)
	}
	args := []string{"validate", "--live", url, "--gpu", "h100", "--engine", "vllm", "--time", "2", "--prompt-len", "64", "--gen-len", "8",
		"--format", "json"}
	for _, load := range [][]string{{"--concurrency", "2"}, {"--rate", "20"}} {
		got = try(t, append(args, load...)...)
		if got.code != 0 {
			t.Fatalf("exit %d: %s", got.code, got.stderr)
		}
		checkSchema(t, schema(t, "validate-server"), got.stdout)
		var d view.ServerLiveDocument
		testkit.Must(t, json.Unmarshal([]byte(got.stdout), &d))
		if d.Says["models"] != "llama3.2-1b" || d.GPU != "h100" || len(d.Loads) != 3 || len(d.Parts) != 5 ||
			d.Loads[0].Prompt >= d.Loads[1].Prompt {
			t.Fatalf("%+v", d)
		}
		loaded := d.Loads[2]
		ttft, tpot := loaded.Figures[0], loaded.Figures[1]
		observed, predicted := 0.0, 0.0
		for _, p := range d.Parts {
			observed, predicted = observed+p.Observed, predicted+p.Predicted
		}
		if !near(observed, ttft.Observed+7*tpot.Observed) || !near(predicted, ttft.Predicted+7*tpot.Predicted) {
			t.Errorf("the parts are %v and %v of %+v", observed, predicted, loaded)
		}
		if tpot.Observed < 2e-3 || loaded.Requests < 8 || loaded.Failed > 0 {
			t.Errorf("%+v: tokens come every 2 ms", loaded)
		}
	}
	for want, more := range map[string][]string{"one of the two": {"--rate", "1", "--concurrency", "2"},
		"has no meaning": {"--grid", "x.toml"},
		"one --model":    {"--prompt-len", "1,2"}} {
		if got := try(t, append(slices.Clone(args), more...)...); got.code != 2 || !strings.Contains(got.stderr, want) {
			t.Errorf("%q: exit %d: %s", more, got.code, got.stderr)
		}
	}
	if got := try(t, "validate", "--rate", "3"); got.code != 2 || !strings.Contains(got.stderr, "give its URL") {
		t.Errorf("exit %d: %s", got.code, got.stderr)
	}
}
