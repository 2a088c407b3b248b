package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"llmprof/internal/testkit"
	"llmprof/internal/testkit/schematest"
	"llmprof/measure/result"
)

// single is a Measure of points that give one result.
func single(measure func(context.Context, Point) (*result.Result, error)) Measure {
	return func(ctx context.Context, p Point) ([]*result.Result, error) {
		r, err := measure(ctx, p)
		if r == nil && err != nil {
			return nil, err
		}
		return []*result.Result{r}, err
	}
}

// TestMain runs trials in a process of its own where a test asks for it.
func TestMain(m *testing.M) {
	if dir := os.Getenv("EXPERIMENT_STORE"); dir != "" {
		os.Exit(child(dir))
	}
	os.Exit(m.Run())
}

// child runs the twelve trials, each of which takes as long as the test says.
func child(dir string) int {
	pause, err := time.ParseDuration(os.Getenv("EXPERIMENT_PAUSE"))
	if err != nil {
		return 3
	}
	trials, err := dozen()
	if err != nil {
		return 4
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	_, err = Run(ctx, trials, logged(dir, pause), Options{Store: Store{dir}, File: "dozen.toml"})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// dozen are trials of twelve points, which their seeds tell apart.
func dozen() ([]Trial, error) {
	e, err := load("dozen.toml", archive("-- dozen.toml --\nmodel = \"m\"\ngrid = {seed = [0,1,2,3,4,5,6,7,8,9,10,11]}\n"))
	if err != nil {
		return nil, err
	}
	return e.Trials()
}

// logged stands for a measurement: it notes that it began, takes its time, and
// returns the fixture.
func logged(dir string, pause time.Duration) Measure {
	return single(func(ctx context.Context, p Point) (*result.Result, error) {
		f, err := os.OpenFile(filepath.Join(filepath.Dir(dir), "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(f, "%d\n", p.Seed)
		f.Close()
		select {
		case <-ctx.Done():
			return nil, errors.New("the worker ended")
		case <-time.After(pause):
		}
		return fixture(p)
	})
}

// fixture is a made-up result of a point.
func fixture(p Point) (*result.Result, error) {
	r, err := result.Read(filepath.Join("..", "result", "testdata", "fixture-8b-b8.p0.json"))
	if err != nil {
		return nil, err
	}
	r.Workload.Seed = p.Seed
	return r, nil
}

// start runs the trials in a process.
func start(t *testing.T, dir string, pause time.Duration) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "EXPERIMENT_STORE="+dir, "EXPERIMENT_PAUSE="+pause.String())
	cmd.Stderr = os.Stderr
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

// finishedSeeds reads the results in a store, each of which has to be whole.
func finishedSeeds(t *testing.T, dir string) map[uint64]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	testkit.Must(t, err)
	seeds := map[uint64]bool{}
	for _, f := range files {
		r, err := result.Read(f)
		testkit.Must(t, err)
		seeds[r.Workload.Seed] = true
	}
	return seeds
}

// starts counts how often each seed was begun.
func starts(t *testing.T, dir string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(filepath.Dir(dir), "log"))
	testkit.Must(t, err)
	n := map[string]int{}
	for seed := range strings.FieldsSeq(string(text)) {
		n[seed]++
	}
	return n
}

// TestKill kills the runner with SIGKILL after two, five and nine results, and
// runs the rest. Nothing that was finished is lost, or measured again.
func TestKill(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	before := map[uint64]bool{}
	begun := map[string]int{}
	check := func() {
		now, count := finishedSeeds(t, dir), starts(t, dir)
		for seed := range before {
			if key := fmt.Sprint(seed); !now[seed] || count[key] != begun[key] {
				t.Errorf("seed %d was finished: it is there %v, and was begun %d times, %d before", seed, now[seed], count[key], begun[key])
			}
		}
		before, begun = now, count
	}
	for _, enough := range []int{2, 5, 9} {
		cmd := start(t, dir, 20*time.Millisecond)
		testkit.Await(t, "results", func() bool { return len(finishedSeeds(t, dir)) >= enough })
		testkit.Must(t, cmd.Process.Kill())
		_ = cmd.Wait()
		check()
	}
	testkit.Must(t, start(t, dir, 0).Wait())
	check()
	if len(before) != 12 {
		t.Errorf("%d of 12 results", len(before))
	}
	total := 0
	for _, n := range begun {
		total += n
	}
	if total > 12+3 {
		t.Errorf("%d runs for 12 results and 3 kills: %v", total, begun)
	}
}

// TestCtrlC interrupts the runner: it ends by itself, what was finished stays,
// nothing counts as failed, and the lock is given up.
func TestCtrlC(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot be interrupted alone")
	}
	dir := filepath.Join(t.TempDir(), "store")
	cmd := start(t, dir, 20*time.Millisecond)
	testkit.Await(t, "results", func() bool { return len(finishedSeeds(t, dir)) >= 3 })
	testkit.Must(t, cmd.Process.Signal(os.Interrupt))
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("%v, want exit status 1", err)
	}
	kept := len(finishedSeeds(t, dir))
	if failures, err := (Store{dir}).Failures(); err != nil || len(failures) > 0 || kept < 3 {
		t.Errorf("%d results, failures %v, %v", kept, failures, err)
	}
	trials, err := dozen()
	testkit.Must(t, err)
	sum, err := Run(t.Context(), trials, logged(dir, 0), Options{Store: Store{dir}, Notify: func(e Event) {
		if e.State == Remark {
			t.Errorf("remark: %s", e.Note)
		}
	}})
	if err != nil || sum.Kept != kept {
		t.Errorf("%v, %+v, want %d kept", err, sum, kept)
	}
}

// TestLock checks that a second runner is refused while the first lives, and
// takes over once it is dead, and says so.
func TestLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	cmd := start(t, dir, time.Hour)
	testkit.Await(t, "the first run", func() bool { _, err := os.Stat(filepath.Join(filepath.Dir(dir), "log")); return err == nil })
	trials, err := dozen()
	testkit.Must(t, err)
	pid := fmt.Sprint(cmd.Process.Pid)
	_, err = Run(t.Context(), trials, logged(dir, 0), Options{Store: Store{dir}})
	if err == nil || !strings.Contains(err.Error(), "in use by another run (process "+pid+")") {
		t.Errorf("a second run: %v", err)
	}
	testkit.Must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	var notes []string
	notify := func(e Event) {
		if e.State == Remark {
			notes = append(notes, e.Note)
		}
	}
	for range 2 {
		if _, err := Run(t.Context(), trials, logged(dir, 0), Options{Store: Store{dir}, Notify: notify}); err != nil {
			t.Fatal(err)
		}
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "process "+pid+" ended in the middle") {
		t.Errorf("notes: %q", notes)
	}
}

// TestFailure has one point fail twice and then succeed.
func TestFailure(t *testing.T) {
	dir := t.TempDir()
	trials, err := dozen()
	testkit.Must(t, err)
	cause := fmt.Errorf("engine: %w", errors.New("CUDA out of memory\nTried to allocate 20 GiB"))
	broken := true
	measured := 0
	measure := single(func(_ context.Context, p Point) (*result.Result, error) {
		if measured++; p.Seed == 2 && broken {
			return nil, cause
		}
		return fixture(p)
	})
	file := filepath.Join(dir, trials[2].ID+".failed")
	for _, step := range []struct {
		broken, noRetry bool
		want            result.Summary
		runs            int
	}{
		{true, false, result.Summary{Trials: 12, Measured: 11, Failed: 1}, 12},
		{true, false, result.Summary{Trials: 12, Kept: 11, Failed: 1}, 1},
		{false, true, result.Summary{Trials: 12, Kept: 11, Skipped: 1}, 0},
		{false, false, result.Summary{Trials: 12, Kept: 11, Measured: 1}, 1},
		{false, false, result.Summary{Trials: 12, Kept: 12}, 0},
	} {
		broken, measured = step.broken, 0
		sum, err := Run(t.Context(), trials, measure, Options{Store: Store{dir}, NoRetry: step.noRetry})
		if diff := cmp.Diff(step.want, sum); diff != "" || measured != step.runs {
			t.Errorf("%d runs, want %d: %s", measured, step.runs, diff)
		}
		bad := sum.Failed+sum.Skipped > 0
		if bad != (err != nil) || bad && err.Error() != "1 of 12 runs have no result" {
			t.Errorf("error %v", err)
		}
		if bad {
			validFailure(t, file)
		}
		if f := (Store{dir}).failure(&trials[2]); bad != (f != nil) {
			t.Errorf("failure file: %v, want one: %v", f, bad)
		} else if bad && (f.Errors[0] != cause.Error() || f.Hash != trials[2].Hash) {
			t.Errorf("%+v", f)
		}
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the failure's file is still there")
	}
}

// validFailure holds a failure's file against its schema.
func validFailure(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	testkit.Must(t, err)
	if err := schematest.Of(t, result.FailureSchema, result.Failure{}).Check(string(text)); err != nil {
		t.Errorf("%#v", err)
	}
}

// TestInterrupted stops in the middle: what was finished stays, and what was
// interrupted is no failure.
func TestInterrupted(t *testing.T) {
	dir := t.TempDir()
	trials, err := dozen()
	testkit.Must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	sum, err := Run(ctx, trials, single(func(ctx context.Context, p Point) (*result.Result, error) {
		if p.Seed == 4 {
			stop()
			<-ctx.Done()
			return nil, errors.New("the worker was killed")
		}
		return fixture(p)
	}), Options{Store: Store{dir}})
	if !errors.Is(err, context.Canceled) || sum.Measured != 4 || sum.Failed != 0 {
		t.Errorf("%v, %+v", err, sum)
	}
	if failed, _ := filepath.Glob(filepath.Join(dir, "*.failed")); len(failed) > 0 || len(finishedSeeds(t, dir)) != 4 {
		t.Errorf("failures %v", failed)
	}
}

// TestStamp checks what a result is given by the runner, and that a changed
// setting is another run.
func TestStamp(t *testing.T) {
	dir := t.TempDir()
	trials, err := dozen()
	testkit.Must(t, err)
	two := func(_ context.Context, p Point) ([]*result.Result, error) {
		a, err := fixture(p)
		b, _ := fixture(p)
		return []*result.Result{a, b}, err
	}
	if _, err := Run(t.Context(), trials[:1], two, Options{Store: Store{dir}, File: "dozen.toml"}); err != nil {
		t.Fatal(err)
	}
	r, err := result.Read(filepath.Join(dir, trials[0].ID+".p1.json"))
	testkit.Must(t, err)
	if r.ID != trials[0].ID || r.Process != 1 || r.Processes != 2 || r.Provenance.Hash != trials[0].Hash ||
		r.Provenance.Config != "dozen.toml" {
		t.Errorf("%+v", r)
	}
	// One process's file gone, or one of other settings under its name: it is measured again.
	for _, spoil := range []func(){
		func() { os.Remove(filepath.Join(dir, trials[0].ID+".p0.json")) },
		func() { os.WriteFile(filepath.Join(dir, trials[0].ID+".p0.json"), []byte("{"), 0o644) },
	} {
		spoil()
		if sum, err := Run(t.Context(), trials[:1], two, Options{Store: Store{dir}}); err != nil || sum.Measured != 1 {
			t.Errorf("%v, %+v", err, sum)
		}
	}
}

// TestStrangeNames keeps settings with letters that JSON writes in two ways.
func TestStrangeNames(t *testing.T) {
	e := mustLoad(t, "s.yaml", "-- s.yaml --\nmodel: \"./a<b&c>\\u2028/ü\\\"\"\n")
	trials, err := e.Trials()
	testkit.Must(t, err)
	dir := t.TempDir()
	for _, want := range []result.Summary{{Trials: 1, Measured: 1}, {Trials: 1, Kept: 1}} {
		sum, err := Run(t.Context(), trials, single(func(_ context.Context, p Point) (*result.Result, error) { return fixture(p) }),
			Options{Store: Store{dir}})
		if err != nil || sum != want {
			t.Errorf("%v, %+v, want %+v", err, sum, want)
		}
	}
}

// TestNoFolder runs nothing where results cannot be written.
func TestNoFolder(t *testing.T) {
	trials, err := dozen()
	testkit.Must(t, err)
	file := filepath.Join(t.TempDir(), "file")
	testkit.Must(t, os.WriteFile(file, nil, 0o644))
	dirs := []string{file, filepath.Join(file, "below")}
	if os.Getuid() > 0 { // root may write anywhere
		locked := t.TempDir()
		testkit.Must(t, os.Chmod(locked, 0o555))
		dirs = append(dirs, locked)
	}
	for _, dir := range dirs {
		_, err := Run(t.Context(), trials, func(context.Context, Point) ([]*result.Result, error) {
			t.Errorf("%s: measured all the same", dir)
			return nil, nil
		}, Options{Store: Store{dir}})
		if err == nil || !strings.Contains(err.Error(), "results folder") {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// TestNothingMeasured records a measurement without result or error as failed.
func TestNothingMeasured(t *testing.T) {
	trials, err := dozen()
	testkit.Must(t, err)
	for _, results := range [][]*result.Result{nil, {nil}, {{}}} {
		sum, err := Run(t.Context(), trials[:1], func(context.Context, Point) ([]*result.Result, error) { return results, nil },
			Options{Store: Store{t.TempDir()}})
		if err == nil || sum.Failed != 1 {
			t.Errorf("%v: %v, %+v", results, err, sum)
		}
	}
}
