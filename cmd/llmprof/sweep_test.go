package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/spf13/pflag"

	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/deployment"
	"llmprof/internal/input"
	"llmprof/internal/testkit"
	"llmprof/plan/sweep"
)

// TestSweepTakesEveryFlag holds that each setting of estimate is a list of sweep, with the same help.
func TestSweepTakesEveryFlag(t *testing.T) {
	estimate, grid := (&app{}).estimate().Flags(), (&app{}).sweepCommand().Flags()
	lists := settings.Flags(&deployment.Request{})
	estimate.VisitAll(func(f *pflag.Flag) {
		if presentation(f.Name) {
			return
		}
		got := grid.Lookup(f.Name)
		if got == nil || lists.Lookup(f.Name) == nil {
			t.Errorf("sweep has no --%s", f.Name)
			return
		}
		usage := strings.TrimPrefix(strings.TrimPrefix(got.Usage, "``"), "`list`: ")
		if strings.Count(usage, "(default") > 1 || !strings.HasPrefix(usage, f.Usage) {
			t.Errorf("--%s of sweep is %q, that of estimate %q", f.Name, usage, f.Usage)
		}
	})
}

// TestSweepOfMixes checks that --weights of a grid takes quantizations of llama.cpp, and that a row has the figures of estimate.
func TestSweepOfMixes(t *testing.T) {
	rows := try(t, strings.Fields("sweep llama3.1-8b rtx-4090 --weights q4_k_m,awq,IQ4_XS --format jsonl")...)
	lines := strings.Split(strings.TrimSpace(rows.stdout), "\n")
	if rows.code != 0 || len(lines) != 3 {
		t.Fatalf("exit %d, %d rows: %s", rows.code, len(lines), rows.stderr)
	}
	for i, name := range []string{"q4_k_m", "awq", "iq4_xs"} {
		var row map[string]any
		var document struct {
			Memory map[string]any
			TPOT   map[string]any `json:"tpot_s"`
		}
		one := try(t, append(strings.Fields("estimate llama3.1-8b rtx-4090 --format json --weights"), name)...)
		testkit.Must(t, errors.Join(json.Unmarshal([]byte(lines[i]), &row), json.Unmarshal([]byte(one.stdout), &document)))
		if row["tpot_s"] != document.TPOT["expected"] || row["memory_bytes"] != document.Memory["total_bytes"] {
			t.Errorf("%s: a row of %v and %v, an estimate of %v and %v", name, row["tpot_s"], row["memory_bytes"], document.TPOT["expected"],
				document.Memory["total_bytes"])
		}
	}
}

// TestLoadedRows checks that a row under a load has the figures of estimate under that load.
func TestLoadedRows(t *testing.T) {
	alike := map[string]func(load map[string]any) any{
		"load_ttft_s": of("ttft_s"), "load_tpot_s": of("tpot_s"), "load_e2e_s": of("e2e_s"), "load_requests_s": of("requests_s"),
		"load_tok_s":   of("generated_tok_s"),
		"load_running": of("running"), "load_waiting": of("waiting"), "load_utilization": of("utilization"),
		"load_kv_share":  of("kv_cache_share"),
		"load_j_request": of("energy_j_request"), "load_usd_request": of("cost_usd_request"), "rate_hz": of("request_rate_hz"),
		"concurrency":      of("concurrency"),
		"load_ttft_high_s": of("high", "ttft_s"), "load_tpot_high_s": of("high", "tpot_s"), "load_e2e_high_s": of("high", "e2e_s"),
		"capacity_requests_s": of("capacity", "requests_s"), "capacity_bound": of("capacity", "bound"),
	}
	for lists, points := range map[string][]string{
		"--rate 2,4.5 --prompt-len 512,1k": {"--rate 2 --prompt-len 512", "--rate 2 --prompt-len 1k",
			"--rate 4.5 --prompt-len 512", "--rate 4.5 --prompt-len 1k"},
		"--concurrency 1..4x4 --max-num-seqs 2,64": {"--concurrency 1 --max-num-seqs 2", "--concurrency 4 --max-num-seqs 2",
			"--concurrency 1 --max-num-seqs 64", "--concurrency 4 --max-num-seqs 64"},
		"--rate 3 --speculative-tokens 0..2+2 --acceptance 0.75": {"--rate 3", "--rate 3 --speculative-tokens 2 --acceptance 0.75"},
		"--rate 3 --prefill-replicas 0,1 --kv-link 20 --dp 2":    {"--rate 3 --dp 2", "--rate 3 --dp 2 --prefill-replicas 1 --kv-link 20"},
		"--rate 3 --pp 1,2 --micro-batches 1 --cached-prefix 512": {"--rate 3 --cached-prefix 512 --micro-batches 1",
			"--rate 3 --pp 2 --micro-batches 1 --cached-prefix 512"},
		"--rate 3 --pp 1,2": {"--rate 3", "--rate 3 --pp 2"},
	} {
		rows := try(t, append(strings.Fields("sweep llama3.1-8b h100 --format jsonl"), strings.Fields(lists)...)...)
		lines := strings.Split(strings.TrimSpace(rows.stdout), "\n")
		if rows.code != 0 || len(lines) != len(points) {
			t.Errorf("%s: exit %d, %d rows, want %d: %s", lists, rows.code, len(lines), len(points), rows.stderr)
			continue
		}
		for i, point := range points {
			var row map[string]any
			var document struct{ Load map[string]any }
			one := try(t, append(strings.Fields("estimate llama3.1-8b h100 --format json"), strings.Fields(point)...)...)
			testkit.Must(t, errors.Join(json.Unmarshal([]byte(lines[i]), &row), json.Unmarshal([]byte(one.stdout), &document)))
			for column, want := range alike {
				if want := want(document.Load); row[column] != want {
					t.Errorf("%s: %s is %v, that of estimate %s is %v", lists, column, row[column], point, want)
				}
			}
		}
	}
}

// of returns a function that finds the value at a path of a document.
func of(path ...string) func(map[string]any) any {
	return func(m map[string]any) any {
		for _, name := range path[:len(path)-1] {
			m, _ = m[name].(map[string]any)
		}
		return m[path[len(path)-1]]
	}
}

// TestInterruptedSweep checks that Ctrl-C leaves a file of whole rows, and that the command
// says how many they are and how it goes on.
func TestInterruptedSweep(t *testing.T) {
	prompts := testkit.Cases(30, 4000)
	forms := map[string]func(file string) (int, error){"csv": linesOf}
	if prompts == 4000 { // The first row group of Parquet, at which the sweep is interrupted, has 131072 rows.
		forms["parquet"] = parquetRows
	}
	for form, rows := range forms {
		file := filepath.Join(t.TempDir(), "rows."+form)
		stop := make(chan struct{})
		go interruptOnceLarge(file, 1<<20, stop)
		var out, errs bytes.Buffer
		code := run([]string{"sweep", "llama3.1-8b", "a100", "--gen-len", "1..8", "--batch", "1..64", "--prompt-len",
			fmt.Sprintf("1..%d", prompts), "-o", file}, nil, &out, &errs, os.Getenv)
		close(stop)
		said := regexp.MustCompile(`(\d+) of (\d+) points were answered, and .* with --from (\d+) `).FindStringSubmatch(errs.String())
		if code != 130 || said == nil || said[1] != said[3] || said[2] != strconv.Itoa(512*prompts) {
			t.Errorf("%s: exit %d: %s", form, code, errs.String())
			continue
		}
		want, _ := strconv.Atoi(said[1]) // digits
		if got, err := rows(file); err != nil || got != want || got == 0 {
			t.Errorf("%s: the file has %d rows, and %d are said to be: %v", form, got, want, err)
		}
		if form == "csv" {
			goesOn(t, file, want, prompts)
		}
	}
}

// TestSweepSchema validates rows with and without a load, and of impossible points.
func TestSweepSchema(t *testing.T) {
	s := schema(t, "sweep")
	for _, lists := range []string{"--tp 1,3 --keep", "--rate 1,2", "--batch 1,1000000 --keep"} {
		got := try(t, append(strings.Fields("sweep llama3.1-8b h100 --format json"), strings.Fields(lists)...)...)
		checkSchema(t, s, got.stdout)
	}
}

// goesOn sees that an interrupted sweep goes on from its last whole row, and from no other.
func goesOn(t *testing.T, file string, done, prompts int) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	testkit.Must(t, err)
	_, err = f.WriteString("cut,by a crash")
	testkit.Must(t, errors.Join(err, f.Close()))
	for _, x := range []struct {
		from int
		want string
	}{{done + 1, "--from " + strconv.Itoa(done)}, {done, ""}} {
		var out, errs bytes.Buffer
		code := run([]string{"sweep", "llama3.1-8b", "a100", "--gen-len", "1..8", "--batch", "1..64", "--prompt-len",
			fmt.Sprintf("1..%d", prompts), "-o", file, "--from", strconv.Itoa(x.from)}, nil, &out, &errs, os.Getenv)
		if (code == 0) != (x.want == "") || !strings.Contains(errs.String(), x.want) {
			t.Errorf("from %d of %d: exit %d: %s", x.from, done, code, errs.String())
		}
	}
	if got, err := linesOf(file); err != nil || got != 512*prompts {
		t.Errorf("%d rows: %v", got, err)
	}
	if _, err := os.Stat(restName(file)); err == nil {
		t.Error("a whole file has a note of what is left")
	}
}

// A file keeps what it has where no row takes its place, rows of another grid are not appended, and a row that was cut is written anew.
func TestSweepFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "[grid].csv")
	sweeps := func(args ...string) (int, string) {
		var out, errs bytes.Buffer
		return run(append([]string{"sweep", "llama3.1-8b", "--prompt-len", "100", "-o", file}, args...), nil, &out, &errs, os.Getenv),
			errs.String()
	}
	read := func() string {
		text, err := os.ReadFile(file)
		testkit.Must(t, err)
		return string(text)
	}
	grid := []string{"--gpu", "h100", "--batch", "1..8"}
	if code, said := sweeps(grid...); code != 0 {
		t.Fatalf("exit %d: %s", code, said)
	}
	whole := read()
	if code, said := sweeps("--gpu", "h100", "--batch", "100000000"); code != 1 || read() != whole {
		t.Errorf("exit %d: %s\nno point is possible, and the file changed", code, said)
	}
	lines := strings.SplitAfter(whole, "\n")
	six := strings.Join(lines[:7], "")
	testkit.Must(t, os.WriteFile(restName(file), fmt.Appendf(nil, `{"key": "another", "done": 6, "bytes": %d}`, len(six)), 0o644))
	testkit.Must(t, os.WriteFile(file, []byte(six+lines[7][:20]), 0o644))
	if code, said := sweeps(append([]string{"--from", "6"}, grid...)...); code != 1 || !strings.Contains(said, "rows of another grid") ||
		read() != six+lines[7][:20] {
		t.Errorf("rows of another grid: exit %d: %s", code, said)
	}
	testkit.Must(t, os.Remove(restName(file)))
	if code, said := sweeps(append([]string{"--from", "6"}, grid...)...); code != 1 || !strings.Contains(said, "leave out --from") ||
		read() != six+lines[7][:20] {
		t.Errorf("rows without a note of what they are: exit %d: %s", code, said)
	}
}

// interruptOnceLarge interrupts this process once the rows of a file, which have another name until then, are so many bytes.
func interruptOnceLarge(file string, size int64, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Millisecond):
		}
		large := false
		written, _ := input.Files(filepath.Dir(file), "."+filepath.Base(file)+".*.tmp") // the pattern is well formed
		for _, part := range written {
			info, err := os.Stat(part)
			large = large || err == nil && info.Size() >= size
		}
		if !large {
			continue
		}
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			_ = self.Signal(os.Interrupt) // where there is no such signal the sweep ends, and the test fails
		}
		return
	}
}

// linesOf counts the rows of a CSV file, whose last line is whole.
func linesOf(file string) (int, error) {
	text, err := os.ReadFile(file)
	if err == nil && !bytes.HasSuffix(text, []byte("\n")) {
		err = fmt.Errorf("the last line is no whole one")
	}
	return bytes.Count(text, []byte("\n")) - 1, err
}

func parquetRows(file string) (int, error) {
	rows, err := parquet.ReadFile[sweep.Row](file)
	return len(rows), err
}

// A picture of a grid is drawn over the list that leaves few curves, and its points fit as the rows do.
func TestSweepPicture(t *testing.T) {
	of := func(args ...string) *gridPicture {
		t.Helper()
		grid, err := settings.NewGrid(func(flag string) (string, bool) {
			i := slices.Index(args, flag)
			return args[i+1], i >= 0
		})
		testkit.Must(t, err)
		p, err := newGridPicture("a.svg", grid)
		testkit.Must(t, err)
		return p
	}
	if p := of("model", "llama3.1-8b", "gpu", "h100", "tp", "1,2,4,8", "batch", "1..64"); p.over != "batch" || p.by.Name != "tp" {
		t.Errorf("64 batches and 4 splits are drawn over %s", p.over)
	}
	p := of("model", "llama3.1-8b", "gpu", "h100", "tp", "1..8", "batch", "1,8")
	if p.over != "tp" {
		t.Errorf("2 batches and 8 splits are drawn over %s", p.over)
	}
	for _, fits := range []bool{true, false} {
		p.add(&sweep.Row{Setting: sweep.Setting{TP: 1}, Figures: sweep.Figures{Fits: fits, Total: 5}})
		if points := p.curves[0].Points; points[len(points)-1].Memory.Fits() != fits {
			t.Errorf("a point that fits (%v) is drawn otherwise", fits)
		}
	}
}
