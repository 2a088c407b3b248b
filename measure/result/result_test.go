package result

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"llmprof/internal/testkit"
	"llmprof/internal/testkit/schematest"
)

// TestRoundTrip checks that what is read is what was written, and that the
// fixture which other packages' tests read is that of fixture.
func TestRoundTrip(t *testing.T) {
	r := fixture(t)
	file, err := Write(t.TempDir(), r)
	testkit.Must(t, err)
	if got, want := filepath.Base(file), "fixture-8b-b8.p0.json"; got != want {
		t.Errorf("the file is %s, want %s", got, want)
	}
	got, err := Read(file)
	testkit.Must(t, err)
	if diff := cmp.Diff(r, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(Provenance{}, "Settings")); diff != "" {
		t.Errorf("read something else than was written: %s", diff)
	}
	golden(t, file)
}

// golden compares a result with that of its file name in testdata, to the digits
// that all machines agree on: some fuse multiplication and addition.
func golden(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	testkit.Must(t, err)
	kept := filepath.Join("testdata", filepath.Base(file))
	if testkit.Update() {
		testkit.Must(t, os.WriteFile(kept, data, 0o644))
	}
	want, err := Read(kept)
	testkit.Must(t, err)
	got, err := Read(file)
	testkit.Must(t, err)
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(1e-9, 0)); diff != "" {
		t.Error(diff)
	}
}

// TestWriteLeavesNothing checks that a result which is refused, or a folder that
// cannot be written, leaves no file and keeps the one that was there.
func TestWriteLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	if _, err := Write(dir, fixture(t)); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(filepath.Join(dir, "fixture-8b-b8.p0.json"))
	bad := fixture(t)
	bad.Energy.Request.Seconds = 0
	if _, err := Write(dir, bad); err == nil {
		t.Error("a window without time was written")
	}
	after, _ := os.ReadFile(filepath.Join(dir, "fixture-8b-b8.p0.json"))
	if !bytes.Equal(before, after) {
		t.Error("a refused result changed the file")
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("%d files are left: %v", len(files), files)
	}
	if _, err := Write(filepath.Join(dir, "missing"), fixture(t)); err == nil {
		t.Error("wrote to a folder that does not exist")
	}
}

// TestRefused changes one thing of a good file at a time.
func TestRefused(t *testing.T) {
	good, err := Encode(fixture(t))
	testkit.Must(t, err)
	for _, test := range []struct{ old, changed, want string }{
		{`"schema": "llmprof.measure/v1"`, `"schema": "llmprof.measure/v9"`, `schema "llmprof.measure/v9": this version reads`},
		{`"schema": "llmprof.measure/v1",`, ``, `it has no "schema"`},
		{`"batch": 8`, `"bacth": 8`, `workload.bacth is not a key of a result that this version knows, a newer one may; did you mean "batch"?`},
		{`"batch": 8`, `"Batch": 8`, `workload.Batch is not a key`},
		{`"batch": 8`, `"batch": 8, "batch": 9`, `workload.batch stands twice`},
		{`"batch": 8,`, ``, `workload.batch is missing`},
		{`"batch": 8`, `"batch": "8"`, `workload.batch is a string: want int`},
		{`"batch": 8`, `"batch": 0`, `workload.batch is 0: want at least 1`},
		{`"batch": 8`, `"batch": 8.5`, `workload.batch is a number 8.5`},
		{`"gen_len": 128`, `"gen_len": 1`, `tpot_s has a value although one token was generated`},
		{`"process": 0`, `"process": 1`, `process is 1 of 1`},
		{`"id": "fixture-8b-b8"`, `"id": "../up"`, `id "../up"`},
		{`"n": 5`, `"n": 4`, `ttft_s.n is 4, but it has 5 samples`},
		{`"mean": 0.21139999999999998`, `"mean": 0.3`, `ttft_s.mean is 0.3, but the samples' is 0.21`},
		{`0.212,`, `-0.212,`, `is -0.212: it cannot be negative`},
		{`0.212,`, `1e999,`, `line`},
		{`0.212,`, `NaN,`, `not JSON`},
		{`"step_s": "the engine does not say its steps"`, `"nothing": ""`, `step_s is null and reasons does not say why`},
		{`"started": "2026`, `"started": "2027`, `is before started`},
		{`"config_hash": ""`, `"config_hash": "00"`, ``}, // a hash without settings is nothing to compare
		{`"settings": null`, `"settings": {"batch":8}`, `config_hash is "", but the settings' is`},
	} {
		text := strings.Replace(string(good), test.old, test.changed, 1)
		if text == string(good) {
			t.Fatalf("%s is not in the file", test.old)
		}
		_, err := Decode("x.json", []byte(text))
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", test.changed, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "x.json")):
			t.Errorf("%s: got %v, want %q", test.changed, err, test.want)
		}
	}
}

// TestCutOff cuts the file at every length.
func TestCutOff(t *testing.T) {
	good, err := Encode(fixture(t))
	testkit.Must(t, err)
	whole := len(bytes.TrimSpace(good))
	for n := range whole {
		if _, err := Decode("x.json", good[:n]); err == nil || n > 0 && !strings.Contains(err.Error(), "cut off") {
			t.Fatalf("%d bytes of %d: %v", n, whole, err)
		}
	}
	for _, foreign := range []string{"", "\n", "[]", "null", "7", `"x"`, "PNG", `{"schema": 3}`, string(good) + "{}"} {
		if _, err := Decode("x.json", []byte(foreign)); err == nil {
			t.Errorf("%.20q was read as a result", foreign)
		}
	}
}

// TestOrder checks that no last token of a request is before its first. Requests
// that were all faster than the prefills, measured apart, are no reason to lose
// them.
func TestOrder(t *testing.T) {
	r := fixture(t)
	r.TTLT = sampled(t, 0.1, 0.2)
	if err := Check(r); err != nil {
		t.Error(err)
	}
	r = fixture(t)
	delete(r.Reasons, "serving")
	r.Serving = &Serving{Requests: 2, Completed: 1, Records: []Record{{FirstTokenS: new(0.5), LastTokenS: new(0.2)}}}
	err := Check(r)
	for _, want := range []string{"1 completed and 0 failed are not the 2 requests", "records[0]: its events are out of order"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestShares checks that a utilization is no percentage.
func TestShares(t *testing.T) {
	r := fixture(t)
	r.Conditions[0].Utilization = summary(t, 97, 98)
	if err := Check(r); err == nil || !strings.Contains(err.Error(), "conditions[0].utilization.max is 98: want a share") {
		t.Error(err)
	}
}

// TestJSONSchema holds the schema against the writer: it takes
// what is written, has every key, and refuses others.
func TestJSONSchema(t *testing.T) {
	s := schematest.Of(t, Schema, Result{})
	bare := fixture(t)
	bare.TTFT, bare.TPOT, bare.TTLT, bare.Throughput, bare.Sizes, bare.Energy, bare.Meter = nil, nil, nil, nil, nil, nil, nil
	served := fixture(t)
	delete(served.Reasons, "serving")
	served.Serving = &Serving{
		Endpoint: "http://localhost:8000", API: "chat", Concurrency: 4, Requests: 3, Completed: 2, Failures: map[string]int{"timeout": 1},
		FirstChunk: sampled(t, 0.1, 0.2), Usage: &UsageCheck{Tokens: new(2)}, Duration: 2, RequestRate: 1,
		Records: []Record{{SentS: 0, FirstTokenS: new(0.1), LastTokenS: new(0.2), Prompt: new(3), Generated: new(2), Chunks: 2, Status: 200,
			Output: "x"}},
	}
	for name, r := range map[string]*Result{"whole": fixture(t), "bare": bare, "served": served, "everything": everything()} {
		text, err := encoded(r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := s.Check(text); err != nil {
			t.Errorf("%s: %#v", name, err)
		}
		if s.Check(strings.Replace(text, `"batch"`, `"bacth"`, 1)) == nil {
			t.Errorf("%s: the schema takes an unknown key", name)
		}
	}
}

// encoded is r as JSON, with empty lists, unchecked.
func encoded(r *Result) (string, error) {
	fill(reflect.ValueOf(r))
	text, err := json.Marshal(r)
	return string(text), err
}

// everything has a value for every key there is, so that none can be missing in
// the schema. It is no result that could be.
func everything() *Result {
	r := &Result{}
	testkit.Fill(reflect.ValueOf(r).Elem())
	r.Schema, r.ID = Schema, "x"
	r.Provenance.Settings = []byte(`{"batch":8}`)
	return r
}

// FuzzDecode checks that no input panics, and that what is read can be written
// and read again.
func FuzzDecode(f *testing.F) {
	good, err := Encode(fixture(f))
	testkit.Must(f, err)
	f.Add(good)
	f.Add([]byte(`{"schema":"llmprof.measure/v1"}`))
	f.Add([]byte(`{"schema":"llmprof.measure/v1","ttft_s":{"samples":[1e308]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Decode("x.json", data)
		if err != nil {
			if r != nil {
				t.Fatal("an error and a result")
			}
			return
		}
		again, err := Encode(r)
		if err != nil {
			t.Fatalf("read, but not written: %v", err)
		}
		if _, err := Decode("x.json", again); err != nil {
			t.Fatalf("written, but not read: %v", err)
		}
	})
}
