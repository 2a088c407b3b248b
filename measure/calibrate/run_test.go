package calibrate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"llmprof/internal/stats"
	"llmprof/internal/testkit"
	"llmprof/measure/power"
	"llmprof/measure/result"
	"llmprof/measure/worker"
	"llmprof/unit"
)

// The test binary is a worker too, started as Python would be: it says of every
// operator that it took 1 ms, but for what LLMPROF_TEST_BENCH asks to go wrong.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") { // started as a worker's interpreter
		os.Exit(pretend(os.Getenv("LLMPROF_TEST_BENCH")))
	}
	resamples = testkit.Cases(briefResamples, wholeResamples)
	os.Exit(m.Run())
}

// Fits of tests take briefResamples for an interval, those of goldens wholeResamples.
const briefResamples, wholeResamples = 20, 200

func pretend(mode string) int {
	fmt.Printf(`{"event":"hello","hello":{"protocol":%d,"engine":"transformers","version":"5","pid":%d,"versions":{"torch":"2.0"}}}`+"\n",
		worker.Protocol, os.Getpid())
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var c worker.Command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil || c.Do == "quit" {
			return 0
		}
		switch b := c.Bench; {
		case c.Do == "load":
			fmt.Println(`{"event":"error","error":{"kind":"unsupported","message":"no model runs here","fatal":false}}`)
		case mode == "memory" && b.Kind == "gemm" && b.Shape["m"] == 8:
			fmt.Println(`{"event":"error","error":{"kind":"out-of-memory","message":"3 GiB are free","fatal":false}}`)
		case mode == "crash" && b.Kind == "gemm" && b.Shape["m"] == 8 && b.Shape["n"] < 1024, mode == "crashes" && b.Kind == "gemm":
			fmt.Fprintln(os.Stderr, "about to crash")
			return 9
		case mode == "missing":
			fmt.Println(`{"event":"error","error":{"kind":"missing","message":"torch sees no GPU","fatal":false}}`)
		case mode == "nonsense":
			fmt.Println(`{"event":"timed","timed":{"seconds":[-1],"graph":false,"cold":true,"device":{"name":"cpu"}}}`)
		default:
			fmt.Println(`{"event":"timed","timed":{"seconds":[0.001,0.002,0.001],"graph":false,"cold":true,"device":{"name":"cpu"}}}`)
		}
	}
	return 0
}

// pretended runs a quick plan with such a worker.
func pretended(t *testing.T, mode, file string, limit time.Duration) (*Rows, []string, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("LLMPROF_TEST_BENCH", mode)
	var said []string
	rows, err := Run(t.Context(), Options{
		GPU: board(t, "h200"), Engine: Transformers, Device: "cpu", DType: unit.BF16, TP: 1, Quick: true, Limit: limit, File: file, Version: "v0",
		Python: self, Root: fstest.MapFS{"proc/cpuinfo": {Data: []byte("processor : 0\nmodel name\t: A Processor\n")}},
		Say: func(line string) { said = append(said, line) },
	})
	return rows, said, err
}

// One point that cannot be measured costs no other.
func TestRunGoesOn(t *testing.T) {
	whole, said, err := pretended(t, "", "", 0)
	if err != nil {
		t.Fatal(err, said)
	}
	plan := plan(board(t, "h200"), unit.BF16, Transformers, 1, true)
	steps := 0
	for _, p := range plan {
		if p.Kind == HostStep || p.Kind == EagerStep || p.Kind.power() { // there is no sensor either
			steps++
		}
	}
	if len(whole.Rows) != len(plan)-steps || whole.Head.Device != "A Processor" || whole.Head.Kernels != "torch 2.0" {
		t.Errorf("%d rows of %d points, of which %d need a model or a sensor: %+v", len(whole.Rows), len(plan), steps, whole.Head)
	}
	for mode, says := range map[string]string{"memory": "out-of-memory: gemm of map[k:256 m:8 n:256]: 3 GiB are free",
		"crash": "about to crash"} {
		rows, said, err := pretended(t, mode, "", 0)
		text := strings.Join(said, "\n")
		if lost := len(whole.Rows) - len(rows.Rows); err != nil || lost < 1 || lost > 4 || !strings.Contains(text, says) {
			t.Errorf("%s: %d rows of %d, %v: %s", mode, len(rows.Rows), len(whole.Rows), err, text)
		}
	}
}

// Where a sensor is, runs for power are planned, and rows have what it read. What it
// could not read costs no row.
func TestRunForPower(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("LLMPROF_TEST_BENCH", "")
	monitor, err := power.Open(t.Context(), power.Options{Root: fstest.MapFS{}, Run: func(_ context.Context, _ string, args ...string) (
		[]byte, error) {
		switch {
		case strings.HasPrefix(args[0], "--query-gpu=uuid"):
			return []byte("GPU-1, A Board, 143771, 700.00, Enabled, Disabled, Enabled, 580.1\n"), nil
		case strings.HasPrefix(args[0], "--query-gpu=power"):
			return []byte("350.50, 1980, 3201, 41, 97, [N/A], 17000, 0x0000000000000004, 1980, 3201, 700.00, 700.00\n"), nil
		case strings.HasPrefix(args[0], "--query-compute-apps="):
			return nil, nil
		}
		return nil, errors.New("not asked for")
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer monitor.Close()
	if g := monitor.GPUs(); len(g) == 0 || g[0].Name != "A Board" {
		t.Skipf("a sensor of its own is here: %+v", g)
	}
	var said []string
	rows, err := Run(t.Context(), Options{
		GPU: board(t, "h200"), Engine: Transformers, Device: "cpu", DType: unit.BF16, TP: 1, Quick: true, Version: "v0", Python: self,
		Monitor: monitor,
		Root:    fstest.MapFS{}, Say: func(line string) { said = append(said, line) },
	})
	if err != nil {
		t.Fatal(err, said)
	}
	seen := map[Kind]int{}
	t.Log(strings.Join(said, "\n"))
	for i := range rows.Rows {
		r := &rows.Rows[i]
		if !r.Kind.power() {
			continue
		}
		seen[r.Kind]++
		if r.Kind == Idle && (r.Power == nil || *r.Power != 350.5 || r.Clock == nil || len(r.Limited) != 1 || r.Median < 0.4) {
			t.Errorf("%+v", r)
		}
	}
	if seen[Idle] != 1 || seen[GEMMPower] != 2 || seen[AttentionPower] != 1 || seen[ReadPower] != 1 {
		t.Errorf("%v: %s", seen, strings.Join(said, "\n"))
	}
}

// What ends all of it is told, with the point, and what was measured is kept.
func TestRunEnds(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rows.jsonl")
	_, said, err := pretended(t, "crashes", file, 0)
	var crash *worker.Crash
	if !errors.As(err, &crash) || !strings.Contains(err.Error(), "gemm m=64 n=256 k=256: ") {
		t.Errorf("%v: %v", err, said)
	}
	_, _, err = pretended(t, "missing", file, 0)
	var f *worker.Failure
	if !errors.As(err, &f) || f.Kind != worker.Missing {
		t.Error(err)
	}
	_, _, err = pretended(t, "nonsense", file, 0)
	var broken *worker.Violation
	if !errors.As(err, &broken) {
		t.Error(err)
	}
	rows, said, err := pretended(t, "", file, time.Nanosecond)
	if err != nil || len(rows.Rows) != 0 || !strings.Contains(strings.Join(said, "\n"), "1ns have passed") {
		t.Errorf("%+v, %v, %v", rows, said, err)
	}
	if rows, _, err = pretended(t, "memory", file, 0); err != nil {
		t.Fatal(err)
	}
	again, said, err := pretended(t, "", file, 0)
	if err != nil || len(again.Rows) <= len(rows.Rows) || strings.Contains(strings.Join(said, "\n"), "gemm m=1 n=256 k=256:") {
		t.Errorf("%d rows, then %d: %v, %v", len(rows.Rows), len(again.Rows), err, said)
	}
}

// Power and clock are those of the GPU that works, at the end of the time.
func TestRowSaw(t *testing.T) {
	begin := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	w := &power.Window{Begin: begin, End: begin.Add(8 * time.Second), Conditions: []result.Condition{{
		SMClockHz: &stats.Summary{Median: 1.6e9}, ThrottledS: map[string]float64{"sw_power_cap": 5, "idle": 0.1},
	}}}
	for i := range 80 {
		watts := 100.0
		if i > 30 {
			watts = 690
		}
		at := begin.Add(time.Duration(i) * 100 * time.Millisecond)
		w.Samples = append(w.Samples, power.Sample{Time: at, Domain: "GPU 0", Watts: watts}, power.Sample{Time: at, Domain: "GPU 1", Watts: 70})
	}
	r := Row{}
	r.saw(w)
	if r.Power == nil || *r.Power != 690 || r.Clock == nil || *r.Clock != 1.6e9 || len(r.Limited) != 1 || r.Limited[0] != "sw_power_cap" {
		t.Errorf("%+v", r)
	}
	none := Row{}
	none.saw(nil)
	none.saw(&power.Window{Begin: begin, End: begin.Add(time.Second)})
	if none.Power != nil || none.Clock != nil {
		t.Errorf("%+v", none)
	}
}

// The power of a run is that of its last half, also where the host noticed its end late.
func TestPowerOfARunThatEnded(t *testing.T) {
	begin := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	w := power.Window{Begin: begin, End: begin.Add(3 * time.Second)}
	for i := range 30 {
		s := power.Sample{Domain: "GPU 0", Time: begin.Add(time.Duration(i) * 100 * time.Millisecond), Watts: 650 + float64(i%3)}
		if i < 3 || i > 20 { // it began, and it had ended
			s.Watts = 120
		}
		w.Samples = append(w.Samples, s)
	}
	var r Row
	if r.saw(&w); r.Power == nil || *r.Power < 650 || *r.Power > 652 {
		t.Errorf("%v W", r.Power)
	}
}
