package tracefile_test

import (
	"bytes"
	"encoding/json"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"llmprof/internal/testkit"
	"llmprof/measure/tracefile"
)

// The trace is a part of one that torch 2.11 wrote on an H200: a request of
// llama3.1-8b, annotated by the transformers worker.
const sample = "testdata/h200.json"

// anchor is what the worker said of that trace.
const anchor = "llmprof clock"

func read(t *testing.T) *tracefile.Trace {
	t.Helper()
	trace, err := tracefile.ReadFile(sample)
	testkit.Must(t, err)
	return trace
}

func TestKernels(t *testing.T) {
	trace := read(t)
	var kernels, types bytes.Buffer
	testkit.Must(t, tracefile.WriteKernels(&kernels, trace.Kernels()))
	testkit.Must(t, tracefile.WriteTypes(&types, trace.Kernels()))
	testkit.Golden(t, filepath.Join("testdata", "kernels.csv"), kernels.String())
	testkit.Golden(t, filepath.Join("testdata", "types.csv"), types.String())
	count, share := 0, 0.0
	for _, k := range trace.Kernels() {
		count, share = count+k.Count, share+k.Share
		if k.Min > k.Mean || k.Mean > k.Max || k.Count == 1 != math.IsNaN(k.Std) {
			t.Errorf("%+v", k)
		}
	}
	if count != 63 || math.Abs(share-1) > 1e-12 {
		t.Errorf("%d kernels with a share of %v, want the 63 of the file and all of their time", count, share)
	}
}

func TestTypeOf(t *testing.T) {
	for name, want := range map[string]tracefile.Type{
		"Memcpy HtoD (Pinned -> Device)": tracefile.Memory,
		"Memset (Device)":                tracefile.Memory,
		"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096>)": tracefile.Communication,
		"ncclKernel_AllReduce_RING_LL_Sum_float":                                   tracefile.Communication,
		"void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>":                  tracefile.Communication,
		"multimem_all_reduce_kernel":                                               tracefile.Communication,
		"nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT":                                   tracefile.Compute,
		"void at::native::reduce_kernel<512, 1, at::native::ReduceOp>":             tracefile.Compute,
	} {
		if got := tracefile.TypeOf(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// Counters lie where the host's clock says, the file stays a trace, and a file
// that is written and read again is the same.
func TestCounters(t *testing.T) {
	trace := read(t)
	const ns = 98881036488 // as the worker said of the annotation
	testkit.Must(t, trace.Anchor(anchor, ns))
	power := tracefile.Counter{Name: "GPU 0 power", Unit: "W", Samples: []tracefile.Sample{
		{NS: ns, Value: 120.5}, {NS: ns + 50_000_000, Value: 540}, {NS: ns + 100_000_000, Value: 600},
	}}
	testkit.Must(t, trace.AddCounters(power))
	for _, name := range []string{"merged.json", "merged.json.gz"} {
		path := filepath.Join(t.TempDir(), name)
		testkit.Must(t, trace.WriteFile(path))
		again, err := tracefile.ReadFile(path)
		testkit.Must(t, err)
		if diff := cmp.Diff(counters(t, again), []counter{
			{4371107860560.102, 120.5}, {4371107910560.102, 540}, {4371107960560.102, 600},
		}); diff != "" {
			t.Errorf("%s (-got +want):\n%s", name, diff)
		}
		if a, b := len(trace.Kernels()), len(again.Kernels()); a != b {
			t.Errorf("%d names of kernels before, %d after", a, b)
		}
	}
	left, err := filepath.Glob(filepath.Join(t.TempDir(), ".*.tmp"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

type counter struct{ TS, W float64 }

// counters reads the added events as Perfetto would, and holds that each names
// what it has to.
func counters(t *testing.T, trace *tracefile.Trace) (found []counter) {
	t.Helper()
	var text bytes.Buffer
	testkit.Must(t, trace.Write(&text))
	var whole struct {
		Base   int64 `json:"baseTimeNanoseconds"`
		Events []struct {
			Phase string         `json:"ph"`
			Name  string         `json:"name"`
			PID   any            `json:"pid"`
			TS    float64        `json:"ts"`
			Args  map[string]any `json:"args"`
		} `json:"traceEvents"`
	}
	testkit.Must(t, json.Unmarshal(text.Bytes(), &whole))
	if whole.Base == 0 {
		t.Error("the base of the trace's time was lost")
	}
	for _, e := range whole.Events {
		if e.Phase != "C" {
			continue
		}
		w, ok := e.Args["W"].(float64)
		if !ok || e.Name != "GPU 0 power" || e.PID == nil {
			t.Errorf("a counter event %+v", e)
		}
		found = append(found, counter{e.TS, w})
	}
	return found
}

func TestCountersRefuse(t *testing.T) {
	trace := read(t)
	good := tracefile.Counter{Name: "p", Unit: "W", Samples: []tracefile.Sample{{NS: 1, Value: 2}}}
	if err := trace.AddCounters(good); err == nil || !strings.Contains(err.Error(), "no anchor") {
		t.Errorf("without an anchor: %v", err)
	}
	if err := trace.Anchor("nothing", 1); err == nil || !strings.Contains(err.Error(), `"nothing"`) {
		t.Errorf("an anchor that is not there: %v", err)
	}
	testkit.Must(t, trace.Anchor(anchor, 1))
	for want, samples := range map[string][]tracefile.Sample{
		"is NaN":         {{NS: 1, Value: math.NaN()}},
		"is +Inf":        {{NS: 1, Value: math.Inf(1)}},
		"goes backwards": {{NS: 5, Value: 1}, {NS: 4, Value: 1}},
	} {
		if err := trace.AddCounters(tracefile.Counter{Name: "p", Samples: samples}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		``:                                 "not a trace",
		`{}`:                               "no traceEvents",
		`{"traceEvents":3}`:                "not a trace",
		`[{"ph":"X","dur":-1,"name":"k"}]`: `event 0 of the trace: "k" lasts -1 us`,
		`[{"ph":"X","ts":"soon"}]`:         "event 0 of the trace",
		`{"traceEvents":[{"ph":"X","dur":1e999}]}`: "event 0 of the trace",
	} {
		if _, err := tracefile.Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	if trace, err := tracefile.Read(strings.NewReader(`[]`)); err != nil || len(trace.Kernels()) != 0 {
		t.Errorf("an empty trace: %v", err)
	}
}

// Whatever the file, it is refused, or written again as a trace that reads.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"traceEvents":[{"ph":"X","cat":"kernel","name":"k","ts":1,"dur":2}],"baseTimeNanoseconds":5}`))
	f.Add([]byte(`[{"ph":"M"},null,{"ph":"X","cat":"user_annotation","name":"a","ts":1e300}]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		trace, err := tracefile.Read(bytes.NewReader(text))
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := trace.Write(&again); err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		second, err := tracefile.Read(&again)
		if err != nil || len(second.Kernels()) != len(trace.Kernels()) {
			t.Fatalf("what was written reads otherwise: %v", err)
		}
	})
}
