package validate

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"llmprof/measure/result"
)

// forecast is predictions of one point that fits and one that does not.
func forecast(t testing.TB, s *Scorer) *Predictions {
	t.Helper()
	small, large := observation().Config, observation().Config
	large.Batch = 1 << 20
	p := &Predictions{
		Written: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), Version: "llmprof test",
		GPU: NamedGPU{"h200-sxm-141gb", "H200 SXM 141GB"}, Grid: "test",
	}
	for _, c := range []Config{small, large} {
		p.Add(s, c, strings.Repeat("0", 64), []byte(`{"batch": 1}`))
	}
	return p
}

// TestForecast checks that what is forecast is what is scored, and that a point
// without an estimate says why.
func TestForecast(t *testing.T) {
	s := scorer(t)
	p := forecast(t, s)
	if c := p.Calibrations; len(c) != 1 || c[0].Name != "default for hopper" || *p.Points[0].Calibration != c[0].Name ||
		p.Points[1].Calibration != nil {
		t.Errorf("calibrations %v", c)
	}
	if n := len(p.Points[0].Figures); n != len(metrics()) || p.Points[0].Reason != nil {
		t.Errorf("%d figures, want %d", n, len(metrics()))
	}
	if p.Points[1].Reason == nil || !strings.Contains(*p.Points[1].Reason, string(DoesNotFit)) || len(p.Points[1].Figures) != 0 {
		t.Errorf("%+v: want the reason that it does not fit", p.Points[1])
	}
	var all []Observation
	for _, m := range metrics() {
		o := observation()
		o.Metric = m
		all = append(all, o)
	}
	rows := s.Score(all).Rows
	if err := p.Hold(rows); err != nil || len(rows) != len(metrics()) {
		t.Errorf("%d rows: %v", len(rows), err)
	}
	p.Points[0].Figures[1].Expected *= 1 + 1e-15
	if err := p.Hold(rows); err == nil || !strings.Contains(err.Error(), "was written as") {
		t.Errorf("a changed figure: %v", err)
	}
	rows[0].Batch++
	if err := p.Hold(rows[:1]); err == nil || !strings.Contains(err.Error(), "was not predicted before") {
		t.Errorf("another batch: %v", err)
	}
}

// TestKeep checks that the same predictions are written once, others beside them,
// and that an altered file is found.
func TestKeep(t *testing.T) {
	s, dir := scorer(t), filepath.Join(t.TempDir(), "new", "results")
	p := forecast(t, s)
	first, err := p.Keep(dir)
	if err != nil || first.Earlier || first.Others != 0 {
		t.Fatalf("%+v, %v", first, err)
	}
	read, err := ReadPredictions(first.File)
	if err != nil || !p.same(read) || !read.Written.Equal(p.Written) || filepath.Base(first.File) != result.PredictionsName(first.SHA256) {
		t.Errorf("%+v, %v", read, err)
	}
	later := *p
	later.Written, later.Version = p.Written.Add(time.Hour), "llmprof next"
	again, err := later.Keep(dir)
	if err != nil || !again.Earlier || again.File != first.File || !again.Written.Equal(p.Written) || again.SHA256 != first.SHA256 {
		t.Errorf("the same predictions: %+v, %v", again, err)
	}
	later.Points = later.Points[:1]
	other, err := later.Keep(dir)
	if err != nil || other.Earlier || other.Others != 1 || other.File == first.File {
		t.Errorf("other predictions: %+v, %v", other, err)
	}
	if all, err := result.ReadFolder(dir); len(all) != 0 || err != nil {
		t.Errorf("predictions pass for results: %v, %v", all, err)
	}
	data, err := os.ReadFile(first.File)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(first.File, bytes.Replace(data, []byte(`"batch": 1,`), []byte(`"batch": 2,`), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{"read": readError(first.File), "kept beside": keepError(p, dir)} {
		if err == nil || !strings.Contains(err.Error(), "altered after it was written") || !strings.Contains(err.Error(), first.File) {
			t.Errorf("an altered file, %s: %v", name, err)
		}
	}
}

func readError(file string) error { _, err := ReadPredictions(file); return err }

func keepError(p *Predictions, dir string) error { _, err := p.Keep(dir); return err }

// TestKeepNowhere checks that a folder that cannot be one is an error.
func TestKeepNowhere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := keepError(forecast(t, scorer(t)), file); err == nil || !strings.Contains(err.Error(), "results folder") {
		t.Error(err)
	}
}

// TestPredictionsDamaged checks that nothing passes for predictions that has their
// hash and not their form.
func TestPredictionsDamaged(t *testing.T) {
	good, err := json.Marshal(&Predictions{
		Schema: PredictionsSchema, Written: time.Now(), GPU: NamedGPU{Key: "h200"},
		Points: []Predicted{{Figures: []Figure{{Metric: TPOT, Expected: 1}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	read := func(text string) error {
		_, err := decodePredictions(result.PredictionsName(digest([]byte(text))), []byte(text))
		return err
	}
	if err := read(string(good)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ old, new, want string }{
		"schema":    {PredictionsSchema, "llmprof.predictions/v9", "this version reads"},
		"field":     {`"grid"`, `"gird"`, "gird"},
		"no points": {`"points":[`, `"points":null,"x":[`, "x"},
		"metric":    {`"tpot_s"`, `"tpot_h"`, "want a metric"},
		"negative":  {`"expected":1`, `"expected":-1`, "above 0"},
		"no figure": {`"figures":[{"metric":"tpot_s","expected":1,"low":null,"high":null,"floor":null}]`, `"figures":[]`,
			"want figures, or the reason"},
		"no GPU":  {`"key":"h200"`, `"key":""`, "want a time, a GPU"},
		"no JSON": {`{`, `[`, "invalid character"},
	} {
		text := strings.Replace(string(good), c.old, c.new, 1)
		if text == string(good) {
			t.Fatalf("%s: nothing is replaced in %s", name, good)
		}
		if err := read(text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := decodePredictions("predictions.json", good); err == nil || !strings.Contains(err.Error(), "want a name like") {
		t.Error(err)
	}
}

// FuzzPredictions checks that no content panics.
func FuzzPredictions(f *testing.F) {
	f.Add(`{"schema": "llmprof.predictions/v1", "points": [{}]}`)
	f.Add(`{"schema": "llmprof.predictions/v1", "written": "2026-11-21T00:00:00Z", "gpu": {"key": "a"}, "points": [{"figures": [], ` +
		`"reason": "x"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := decodePredictions(result.PredictionsName(digest([]byte(text))), []byte(text))
		if err == nil && !p.same(p) {
			t.Error("predictions differ from themselves")
		}
	})
}
