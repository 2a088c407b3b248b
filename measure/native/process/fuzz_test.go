package process_test

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"sync"
	"testing"

	"llmprof/measure/native"
	"llmprof/measure/native/cuda"
	"llmprof/measure/native/process"
	"llmprof/measure/worker"
)

// written has what a worker writes, which may continue after Serve has returned.
type written struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *written) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *written) lines() [][]byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Split(bytes.Clone(bytes.TrimSpace(w.text.Bytes())), []byte("\n"))
}

// tame changes commands that would take long, use much memory, or read files of this machine. Only
// the driver, which is this program, gives commands.
func tame(c *worker.Command, folder string) {
	least := func(n *int, most int) { *n = min(*n, most) }
	if l := c.Load; l != nil {
		least(&l.Batch, 64)
		least(&l.PromptLen, 64)
		least(&l.GenLen, 16)
		least(&l.TP, 2)
		if l.Weights != "" {
			l.Weights = folder
		}
	}
	if r := c.Run; r != nil {
		least(&r.Passes, 3)
		r.Seconds = min(r.Seconds, 0.01)
	}
	if o := c.Ops; o != nil {
		least(&o.Rounds, 2)
		o.Seconds = min(o.Seconds, 0.01)
	}
	if tr := c.Trace; tr != nil {
		least(&tr.Passes, 2)
		tr.File = filepath.Join(folder, "trace")
	}
}

// The worker answers any commands in any order with events of the protocol, and does not panic. It
// runs on a GPU that computes nothing.
func FuzzCommands(f *testing.F) {
	load, err := json.Marshal(worker.Command{Do: "load", Load: new(tinyLoad())})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(load, "\n"+`{"do":"prepare","run":{"phase":"decode"}}
{"do":"run","run":{"phase":"request","passes":2}}
{"do":"size"}
{"do":"ops","ops":{"phase":"decode","rounds":1}}
{"do":"trace","trace":{"phase":"prefill","passes":1,"file":"x"}}
{"do":"bench","bench":{"kind":"read","shape":{"bytes":16},"dtype":"bf16","samples":1}}
{"do":"quit"}`...))
	f.Add([]byte(`{"do":"run"}` + "\n" + `{"do":"load","load":{}}` + "\n" + `{"do":"stop"}` + "\n{"))
	f.Add([]byte(`{"do":"run","run":{"phase":"prefill","seconds":0.001}}null[]`))
	ready := cuda.Ready("") == nil
	f.Fuzz(func(t *testing.T, text []byte) {
		folder := t.TempDir()
		var in bytes.Buffer
		for line := range bytes.SplitSeq(text, []byte("\n")) {
			var c worker.Command
			if json.Unmarshal(line, &c) == nil {
				if tame(&c, folder); ready && c.Bench != nil {
					continue // there is a GPU, which others may use
				}
				if line, err = json.Marshal(c); err != nil {
					t.Fatal(err)
				}
			}
			in.Write(append(line, '\n'))
		}
		var out written
		_ = process.ServeOn(context.Background(), &in, &out, "test", native.TeamOnStandIns)
		for i, line := range out.lines() {
			e, err := worker.ParseEvent(line)
			if err != nil || (i == 0) != (e.Hello != nil) {
				t.Fatalf("line %d: %v: %q", i, err, line)
			}
		}
	})
}
