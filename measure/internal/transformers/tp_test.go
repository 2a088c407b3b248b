//go:build linux

package transformers_test

import (
	"net"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"llmprof/internal/testkit"
	"llmprof/internal/testkit/pythontest"
	"llmprof/measure/internal/transformers"
	"llmprof/measure/worker"
)

// Two ranks choose the tokens that one chooses, and hold together what one holds.
func TestTensorParallel(t *testing.T) {
	l := tinyLoad(t, "llama")
	one := common(t)
	load(t, one, l)
	want := ids(repeat(t, one, worker.Request, 1)[0])

	two, err := transformers.Start(t.Context(), transformers.Options{
		Python: pythontest.Find(t), TP: 2, Env: []string{"HF_HUB_OFFLINE=1", "OMP_NUM_THREADS=1"},
	})
	testkit.Must(t, err)
	defer two.Close()
	l.TP = 2
	ready := load(t, two, l)
	if len(ready.Devices) != 2 || ready.Devices[0].PID == ready.Devices[1].PID {
		t.Errorf("the devices of two ranks are %+v", ready.Devices)
	}
	if diff := cmp.Diff(want, ids(repeat(t, two, worker.Request, 2)[1])); diff != "" {
		t.Errorf("two ranks chose other tokens (-one +two):\n%s", diff)
	}
	repeat(t, two, worker.Decode, 2)
	size, err := two.Size(t.Context())
	testkit.Must(t, err)
	alone, err := one.Size(t.Context())
	testkit.Must(t, err)
	if size.KVBytes != alone.KVBytes || len(size.Ranks) != 2 || size.Ranks[0].KVBytes*2 != alone.KVBytes {
		t.Errorf("two ranks keep %+v, one keeps %+v", size, alone)
	}
	if ready.Params != alone.ParamsBytes/4 {
		t.Errorf("two ranks say %d parameters, one has %d", ready.Params, alone.ParamsBytes/4)
	}
	if size.ParamsBytes < alone.ParamsBytes {
		t.Errorf("two ranks hold %d bytes of parameters, one holds %d", size.ParamsBytes, alone.ParamsBytes)
	}
	losesARank(t, two, ready.Devices)
}

// losesARank kills a rank: the run has to end with an error, not hang, and no
// process may be left.
func losesARank(t *testing.T, w *worker.Worker, ranks []worker.Device) {
	t.Helper()
	passes := 0
	_, err := w.Run(t.Context(), worker.Run{Phase: worker.Request, Seconds: 60}, func(worker.Pass) {
		if passes++; passes == 2 {
			if err := syscall.Kill(ranks[1].PID, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}
	})
	if err == nil || passes < 2 {
		t.Fatalf("after %d passes and the death of rank 1: %v", passes, err)
	}
	w.Close()
	for _, rank := range ranks {
		gone(t, rank.PID)
	}
}

// Two nodes on one host, the second of which joins: their ranks choose the tokens
// that one chooses, and the second ends when the first does.
func TestNodes(t *testing.T) {
	l := tinyLoad(t, "llama")
	one := common(t)
	load(t, one, l)
	want := ids(repeat(t, one, worker.Request, 1)[0])

	meet, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	o := transformers.Options{
		Python: pythontest.Find(t), TP: 2, Nodes: 2, Rdzv: meet.Addr().String(), Env: []string{"HF_HUB_OFFLINE=1", "OMP_NUM_THREADS=1"},
	}
	meet.Close()
	joined := make(chan error, 1)
	go func() {
		second := o
		second.Node = 1
		joined <- transformers.Join(t.Context(), second)
	}()
	two, err := transformers.Start(t.Context(), o)
	testkit.Must(t, err)
	l.TP = 2
	load(t, two, l)
	if diff := cmp.Diff(want, ids(repeat(t, two, worker.Request, 1)[0])); diff != "" {
		t.Errorf("two nodes chose other tokens (-one +two):\n%s", diff)
	}
	if err := two.Close(); err != nil {
		t.Error(err)
	}
	if err := <-joined; err != nil {
		t.Errorf("the second node: %v", err)
	}
}
