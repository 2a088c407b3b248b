package transformers_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"llmprof/internal/testkit"
	"llmprof/internal/testkit/pythontest"
	"llmprof/measure/internal/transformers"
	"llmprof/measure/worker"
)

// onGPU skips a test unless LLMPROF_TEST_GPU is set: these need a GPU of 80 GB or
// more that does nothing else.
func onGPU(t *testing.T) {
	t.Helper()
	if os.Getenv("LLMPROF_TEST_GPU") == "" {
		t.Skip("LLMPROF_TEST_GPU is not set")
	}
}

// load loads, or fails the test.
func load(t *testing.T, w *worker.Worker, l worker.Load) *worker.Ready {
	t.Helper()
	ready, err := w.Load(t.Context(), l)
	testkit.Must(t, err)
	return ready
}

// A graph replays what eager decoding does, whatever the architecture. In fp32
// with a static cache both run the same kernels.
func TestGPUGraphChoosesTheSameTokens(t *testing.T) {
	onGPU(t)
	w := start(t)
	for _, name := range []string{"llama", "qwen3moe", "mamba2", "qwen3next", "gemma3", "bamba"} {
		t.Run(name, func(t *testing.T) {
			l := tinyLoad(t, name)
			l.Device, l.GenLen, l.StaticCache = "cuda", 12, true
			load(t, w, l)
			want := ids(repeat(t, w, worker.Request, 1)[0])
			l.Graph = true
			load(t, w, l)
			for what, got := range everyWay(t, w, want[:1:1]) {
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-eager +graph):\n%s", what, diff)
				}
			}
		})
	}
}

// The host's clock and the device's events have to agree on a decode step of 8
// billion parameters.
func TestGPUClocksAgree(t *testing.T) {
	onGPU(t)
	w := start(t)
	tokens := map[int][][]int{}
	for _, batch := range []int{1, 32} {
		for _, graph := range []bool{false, true} {
			l := tinyLoad(t, "llama3.1-8b")
			l.DType, l.Device, l.Batch, l.PromptLen, l.GenLen = "bf16", "cuda", batch, 1024, 33
			l.Graph, l.StaticCache = graph, batch == 1
			ready := load(t, w, l)
			repeat(t, w, worker.Decode, 1)
			decode := repeat(t, w, worker.Decode, 3)
			prefill := repeat(t, w, worker.Prefill, 4)
			host, device := medians(decode)
			size, err := w.Size(t.Context())
			testkit.Must(t, err)
			first, _ := medians(prefill[1:])
			t.Logf("batch %d graph %v: load %.2f s, decode %.3f ms by the host, %.3f ms by the device, prefill %.2f ms; %+v, "+
				"peak %d, activations %d",
				batch, graph, ready.LoadS, 1e3*host, 1e3*device, 1e3*first, *size, *size.PeakBytes, *size.Activations)
			if off := device/host - 1; off < -0.02 || off > 0.02 {
				t.Errorf("batch %d graph %v: the device's events say %.1f %% of the host's time", batch, graph, 100*(1+off))
			}
			if before, ok := tokens[batch]; ok {
				t.Logf("batch %d: %s of eager and graph are equal", batch, shared(before, ids(decode[0])))
			}
			t.Logf("batch %d graph %v: %s of two passes are equal", batch, graph, shared(ids(decode[0]), ids(decode[1])))
			tokens[batch] = ids(decode[0])
		}
	}
}

func TestGPULongPromptAndTrace(t *testing.T) {
	onGPU(t)
	w := start(t)
	l := tinyLoad(t, "llama3.1-8b")
	l.DType, l.Device, l.Batch, l.PromptLen, l.GenLen = "bf16", "cuda", 1, 4096, 4
	for _, static := range []bool{false, true} {
		l.StaticCache = static
		load(t, w, l)
		host, device := medians(repeat(t, w, worker.Prefill, 4)[1:])
		t.Logf("prefill of 4096, static cache %v: %.2f ms by the host, %.2f ms by the device", static, 1e3*host, 1e3*device)
	}
	host, _ := medians(repeat(t, w, worker.Decode, 3)[1:])
	t.Logf("eager decode with a static cache: %.3f ms", 1e3*host)
	l.Graph = true
	load(t, w, l)
	file := filepath.Join(os.Getenv("OUT"), "request.pt.trace.json")
	traced, err := w.Trace(t.Context(), worker.Trace{Phase: worker.Request, Passes: 1, File: file})
	t.Logf("%+v, %v", traced, err)
}

func TestGPUTooSmall(t *testing.T) {
	onGPU(t)
	w := start(t)
	for _, batch := range []int{1024, 200000} {
		l := tinyLoad(t, "llama3.1-8b")
		l.DType, l.Device, l.Batch, l.PromptLen = "bf16", "cuda", batch, 4096
		_, err := w.Load(t.Context(), l)
		var failure *worker.Failure
		if !errors.As(err, &failure) || failure.Kind != worker.OutOfMemory {
			t.Fatalf("got %v", err)
		}
		t.Log(err)
	}
	l := tinyLoad(t, "llama")
	l.Device, l.Graph, l.Compile = "cuda", true, true
	load(t, w, l) // the worker survives
	want := ids(repeat(t, w, worker.Request, 1)[0])
	l.Compile = false
	load(t, w, l)
	if diff := cmp.Diff(ids(repeat(t, w, worker.Request, 1)[0]), want); diff != "" {
		t.Errorf("torch.compile chose other tokens (-without +with):\n%s", diff)
	}
}

// Two GPUs choose the tokens of one, also through a graph.
func TestGPUTensorParallel(t *testing.T) {
	onGPU(t)
	l := tinyLoad(t, "llama")
	l.Device, l.GenLen = "cuda", 12
	one := start(t)
	load(t, one, l)
	want := ids(repeat(t, one, worker.Request, 1)[0])
	one.Close()
	two, err := transformers.Start(t.Context(), transformers.Options{Python: pythontest.Find(t), TP: 2, Env: []string{"HF_HUB_OFFLINE=1"}})
	testkit.Must(t, err)
	defer two.Close()
	l.TP = 2
	for _, graph := range []bool{false, true} {
		l.Graph = graph
		ready, err := two.Load(t.Context(), l)
		if err != nil {
			t.Fatalf("graph %v: %v", graph, err)
		}
		t.Logf("%+v", ready.Devices)
		if diff := cmp.Diff(want, ids(repeat(t, two, worker.Request, 2)[1])); diff != "" {
			t.Errorf("graph %v: two ranks chose other tokens (-one +two):\n%s", graph, diff)
		}
	}
	l = tinyLoad(t, "llama3.1-8b")
	l.DType, l.Device, l.Batch, l.PromptLen, l.GenLen, l.TP = "bf16", "cuda", 1, 1024, 17, 2
	for _, graph := range []bool{false, true} {
		l.Graph = graph
		ready := load(t, two, l)
		repeat(t, two, worker.Decode, 1)
		host, device := medians(repeat(t, two, worker.Decode, 2))
		size, err := two.Size(t.Context())
		t.Logf("TP 2, graph %v: load %.1f s, decode %.3f ms by the host, %.3f ms by the device, %+v %v",
			graph, ready.LoadS, 1e3*host, 1e3*device, size.Ranks, err)
	}
}

// Replicas run on GPUs of their own.
func TestGPUReplicas(t *testing.T) {
	onGPU(t)
	two, err := worker.StartGroup(t.Context(), 2, func(ctx context.Context, i int) (*worker.Worker, error) {
		return transformers.Start(ctx, transformers.Options{Python: pythontest.Find(t), GPUs: []string{strconv.Itoa(i)}})
	})
	testkit.Must(t, err)
	defer two.Close()
	l := tinyLoad(t, "llama3.1-8b")
	l.DType, l.Device, l.Batch, l.PromptLen, l.GenLen, l.Graph = "bf16", "cuda", 1, 1024, 17, true
	if one, other := load(t, two[0], l), load(t, two[1], l); one.Devices[0].UUID == other.Devices[0].UUID {
		t.Errorf("both replicas use %+v", one.Devices)
	}
	for _, w := range two {
		repeat(t, w, worker.Decode, 5)
	}
}

// shared says how many tokens of two runs are equal.
func shared(a, b [][]int) string {
	equal, all := 0, 0
	for i := range a {
		for k := range a[i] {
			all++
			if a[i][k] == b[i][k] {
				equal++
			}
		}
	}
	return fmt.Sprintf("%d of %d tokens", equal, all)
}

// medians gives the median duration of all steps, by the host and by the device.
func medians(passes []worker.Pass) (host, device float64) {
	var hosts, devices []float64
	for _, p := range passes {
		for _, s := range p.Steps {
			hosts = append(hosts, float64(s.EndNS-s.StartNS)/1e9)
			if s.DeviceS != nil {
				devices = append(devices, *s.DeviceS)
			}
		}
	}
	slices.Sort(hosts)
	slices.Sort(devices)
	if len(devices) == 0 {
		return hosts[len(hosts)/2], 0
	}
	return hosts[len(hosts)/2], devices[len(devices)/2]
}
