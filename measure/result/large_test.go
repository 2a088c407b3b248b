package result

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"llmprof/internal/stats"
	"llmprof/internal/testkit"
)

// load is the result of n requests to a server, each with what a record can have.
func load(t testing.TB, n, texts int) *Result {
	t.Helper()
	r := fixture(t)
	s := &Serving{
		Endpoint: "http://localhost", API: "completions", Arrivals: "poisson", RateHz: new(30.), Requests: n, Completed: n,
		Failures: map[string]int{}, Duration: float64(n) / 30, RequestRate: 30,
		PromptTokens:    &stats.Summary{N: n, Mean: 1024, Median: 1024, Min: 1024, Max: 1024},
		GeneratedTokens: &stats.Summary{N: n, Mean: 128, Median: 128, Min: 128, Max: 128},
		Steady:          &SteadyState{Method: "MSER-5", Reached: true, Begin: n / 10, End: n - n/10},
		Metrics:         &ServerMetrics{Source: "vllm", PeriodS: 1, Counters: map[string]float64{}},
	}
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // times of a test
	times := map[string][]float64{}
	for i := range n {
		at := random.Float64()
		next := func(name string, more float64) *float64 {
			at += more * random.Float64()
			times[name] = append(times[name], at)
			return new(at)
		}
		q := Record{
			Index: i, SentS: float64(i) / 30, WroteS: new(1e-4 * random.Float64()), HeadersS: next("headers", 0.1), FirstChunkS: next("chunk", 0.1),
			FirstTokenS:  next("ttft", 0.01),
			FirstOutputS: next("output", 0.01), LastTokenS: next("ttlt", 2), DoneS: next("done", 0.01), Prompt: new(1024), Generated: new(128),
			Chunks: 128, Status: 200,
			Output: strings.Repeat("word ", texts),
		}
		times["tpot"] = append(times["tpot"], (*q.LastTokenS-*q.FirstTokenS)/127)
		s.Records = append(s.Records, q)
		if i%2 == 0 {
			s.Metrics.Samples = append(s.Metrics.Samples, ServerSample{AtS: float64(i), Running: new(float64(i % 100))})
		}
	}
	r.TTFT, r.TPOT, r.TTLT = sampled(t, times["ttft"]...), sampled(t, times["tpot"]...), sampled(t, times["ttlt"]...)
	s.FirstChunk, s.TTFO = sampled(t, times["chunk"]...), sampled(t, times["output"]...)
	s.ChunkGap = sampled(t, slices.Concat(times["tpot"], times["tpot"], times["tpot"])...).InBins()
	r.Serving, r.StepTime, r.Sizes, r.Operators, r.Reasons = s, nil, nil, nil, map[string]string{}
	return r
}

// TestLargest writes results of more and more requests, and reads each: as long as they fit with each request,
// and with summaries beyond.
func TestLargest(t *testing.T) {
	for _, x := range []struct {
		requests, texts int
		records, output bool
	}{
		{2000, 200, true, true}, {8000, 2000, true, false}, {80_000, 0, true, false}, {138_000, 0, true, false}, {150_000, 0, false, false},
	}[:testkit.Cases(1, 5)] {
		r := load(t, x.requests, x.texts)
		file, err := Write(t.TempDir(), r)
		testkit.Must(t, err)
		info, err := os.Stat(file)
		testkit.Must(t, err)
		got, err := Read(file)
		if err != nil {
			t.Errorf("%d requests, %d bytes: %v", x.requests, info.Size(), err)
			continue
		}
		t.Logf("%d requests with %d words: %d bytes", x.requests, x.texts, info.Size())
		s := got.Serving
		if records := len(s.Records) == x.requests; records != x.records || !records && len(s.Records) > 0 {
			t.Errorf("%d records of %d requests, want them %v", len(s.Records), x.requests, x.records)
		}
		if output := len(s.Records) > 0 && s.Records[0].Output != ""; output != x.output {
			t.Errorf("%d requests with %d words: they are there: %v", x.requests, x.texts, output)
		}
		if said := strings.Contains(strings.Join(got.Warnings, "\n"), "left out"); said == (x.records && (x.output || x.texts == 0)) {
			t.Errorf("%d requests: warnings %q", x.requests, got.Warnings)
		}
		if !reflect.DeepEqual(got.TTFT.Summary, r.TTFT.Summary) || got.TTFT.N != len(slices.Collect(got.TTFT.Values())) ||
			s.ChunkGap.N != 3*x.requests {
			t.Errorf("%d requests: TTFT is %+v, was %+v", x.requests, got.TTFT.Summary, r.TTFT.Summary)
		}
	}
}

// TestPacked reads a folder of results that are packed, and that are not.
func TestPacked(t *testing.T) {
	dir := t.TempDir()
	var ids []string
	for i := range 3 {
		r := fixture(t)
		r.ID = fmt.Sprint("r", i)
		file, err := Write(dir, r)
		testkit.Must(t, err)
		text, err := os.ReadFile(file)
		testkit.Must(t, err)
		if i > 0 {
			var b bytes.Buffer
			w := gzip.NewWriter(&b)
			_, err = w.Write(text)
			testkit.Must(t, err)
			testkit.Must(t, w.Close())
			testkit.Must(t, os.WriteFile(file+".gz", b.Bytes(), 0o644))
		}
		if i > 1 {
			testkit.Must(t, os.Remove(file))
		}
		if packed := filepath.Ext(Find(dir, r.ID, 0)) == ".gz"; packed != (i > 1) {
			t.Errorf("%s is found as %s", r.ID, Find(dir, r.ID, 0))
		}
	}
	var trace bytes.Buffer
	w := gzip.NewWriter(&trace)
	_, err := w.Write([]byte(`{"traceEvents": []}`))
	testkit.Must(t, err)
	testkit.Must(t, w.Close())
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "trace.json.gz"), trace.Bytes(), 0o644))
	all, err := ReadFolder(dir)
	testkit.Must(t, err)
	for _, r := range all {
		ids = append(ids, r.ID)
	}
	if !slices.Equal(ids, []string{"r0", "r1", "r2"}) {
		t.Errorf("read %q", ids)
	}
}

// TestGaps reads the gaps of earlier files, each by itself, and refuses bins that are not the summary's.
func TestGaps(t *testing.T) {
	r := load(t, 100, 0)
	before := sampled(t, slices.Collect(r.Serving.ChunkGap.Values())...)
	r.Serving.ChunkGap = before
	text, err := Encode(r)
	testkit.Must(t, err)
	got, err := Decode("x.json", text)
	testkit.Must(t, err)
	if !reflect.DeepEqual(got.Serving.ChunkGap.Samples, before.Samples) {
		t.Error("other samples were read")
	}
	for what, change := range map[string]func(*Times){
		"mean": func(x *Times) { x.Mean *= 1.1 }, "p99": func(x *Times) { x.P99 = x.Max * 1.1 }, "n is": func(x *Times) { x.N++ },
		"one of the two": func(x *Times) { x.Samples = []float64{1} }, "ratio": func(x *Times) { x.Histogram.Ratio = 1 },
		"no count below": func(x *Times) { x.Histogram.Counts[0] = -1 }, "at most": func(x *Times) { x.Histogram.First = 1e9 },
		"one at least": func(x *Times) { x.Histogram.Counts = nil },
	} {
		bad := load(t, 100, 0)
		change(bad.Serving.ChunkGap)
		text, err := json.Marshal(explained(bad))
		testkit.Must(t, err)
		if _, err := Decode("x.json", text); err == nil || !strings.Contains(err.Error(), "serving.chunk_gap_s") ||
			!strings.Contains(err.Error(), what) {
			t.Errorf("%s: error %v", what, err)
		}
	}
}
