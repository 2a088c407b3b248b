package experiment

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/measure/result"
)

// TestSetAside checks that what stands where a result goes is never overwritten: not
// one of a newer version, whose keys are not known here, nor a damaged one.
func TestSetAside(t *testing.T) {
	dir := t.TempDir()
	trials, err := dozen()
	testkit.Must(t, err)
	one := trials[:1]
	good := single(func(_ context.Context, p Point) (*result.Result, error) { return fixture(p) })
	if _, err := Run(t.Context(), one, good, Options{Store: Store{dir}}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, one[0].ID+".p0.json")
	text, err := os.ReadFile(file)
	testkit.Must(t, err)
	newer := bytes.Replace(text, []byte(`"marks"`), []byte(`"pressure_pa": 3, "marks"`), 1)
	for i, bad := range [][]byte{newer, text[:100], []byte("x")} {
		testkit.Must(t, os.WriteFile(file, bad, 0o644))
		var notes []string
		notify := func(e Event) {
			if e.State == Remark {
				notes = append(notes, e.Note)
			}
		}
		broken := single(func(context.Context, Point) (*result.Result, error) { return nil, errors.New("no") })
		if _, err := Run(t.Context(), one, broken, Options{Store: Store{dir}}); err == nil {
			t.Error("no error")
		}
		if still, err := os.ReadFile(file); err != nil || !bytes.Equal(still, bad) {
			t.Errorf("%d: a run that failed changed the file: %v", i, err)
		}
		if sum, err := Run(t.Context(), one, good, Options{Store: Store{dir}, Notify: notify}); err != nil || sum.Measured != 1 {
			t.Errorf("%d: %+v, %v", i, sum, err)
		}
		if len(notes) != 1 || !strings.Contains(notes[0], "kept under another name") {
			t.Errorf("%d: notes %q", i, notes)
		}
		if _, err := result.Read(file); err != nil {
			t.Error(err)
		}
		aside := file + asideExtension + []string{"", "2", "3"}[i]
		if kept, err := os.ReadFile(aside); err != nil || !bytes.Equal(kept, bad) {
			t.Errorf("%s: %v", aside, err)
		}
	}
	if all, err := result.ReadFolder(dir); err != nil || len(all) != 1 {
		t.Errorf("%d results, %v", len(all), err)
	}
}

// TestTemperature checks that choosing the likeliest token is the same setting as before there was another.
func TestTemperature(t *testing.T) {
	e := mustLoad(t, "f.toml", "-- f.toml --\nmodel = \"m\"\nengine = \"openai\"\nbase_url = \"http://h/v1\"\ngrid = {temperature = [0, "+
		"0.7, 2]}\n")
	for i := range e.Points {
		text, err := e.Points[i].Canonical()
		if err != nil || strings.Contains(string(text), "temperature") != (i > 0) {
			t.Errorf("%s, %v", text, err)
		}
	}
	_, err := load("f.toml", archive("-- f.toml --\nmodel = \"m\"\nengine = \"openai\"\nbase_url = \"http://h/v1\"\ntemperature = 2.1\n"))
	if err == nil || !strings.Contains(err.Error(), "temperature: 2.1: want 0, for the likeliest token, to 2") {
		t.Error(err)
	}
}

// TestMaxFailures checks that 0 is a limit of its own, and that no limit is the same
// setting as before there was one.
func TestMaxFailures(t *testing.T) {
	e := mustLoad(t, "f.toml", "-- f.toml --\nmodel = \"m\"\nengine = \"openai\"\nbase_url = \"http://h/v1\"\ngrid = {max_failures = [0, "+
		"0.05, 1]}\n"+
		"points = [{concurrency = 1}]\n")
	hashes := map[string]bool{}
	for i, want := range []float64{0, 0.05, 1, defaultMaxFailures} {
		p := &e.Points[i]
		if got := p.FailuresAllowed(); got != want {
			t.Errorf("point %d allows %v, want %v", i, got, want)
		}
		text, err := p.Canonical()
		if err != nil || strings.Contains(string(text), "max_failures") != (i < 3) {
			t.Errorf("%s, %v", text, err)
		}
		hashes[string(text)] = true
	}
	if len(hashes) != 4 {
		t.Errorf("%d different points of 4", len(hashes))
	}
	_, err := load("f.toml", archive("-- f.toml --\nmodel = \"m\"\nengine = \"openai\"\nbase_url = \"http://h/v1\"\nmax_failures = 5\n"))
	if err == nil || !strings.Contains(err.Error(), "want a share of the requests") {
		t.Error(err)
	}
}
