//go:build unix

package worker_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"llmprof/measure/worker"
)

// The test binary is its own worker: LLMPROF_TEST_WORKER says how it behaves.
const modeKey = "LLMPROF_TEST_WORKER"

func TestMain(m *testing.M) {
	if mode := os.Getenv(modeKey); mode != "" {
		os.Exit(behave(mode))
	}
	os.Exit(m.Run())
}

// behave is a worker that goes wrong in the way that mode names.
func behave(mode string) int {
	fmt.Fprintln(os.Stderr, "worker in mode", mode)
	switch mode {
	case "early":
		fmt.Fprintln(os.Stderr, "no such library")
		return 3
	case "mute":
		time.Sleep(time.Hour)
	case "old":
		say(`{"event":"hello","hello":{"protocol":99,"engine":"test"}}`)
	case "rude":
		say(`{"event":"done","done":{"passes":0,"begin_ns":0,"end_ns":0}}`)
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
	case "family":
		child := exec.Command("sleep", "1000")
		child.Stdout = os.Stdout // it holds the pipe open
		if err := child.Start(); err != nil {
			return 4
		}
		fmt.Fprintf(os.Stderr, "child %d\n", child.Process.Pid)
	}
	say(`{"event":"hello","hello":{"protocol":1,"engine":"test","version":"1","pid":%d}}`, os.Getpid())
	w := behaviour{mode: mode, stop: make(chan struct{}, 1), commands: make(chan worker.Command)}
	go w.listen()
	for c := range w.commands {
		if c.Do == "quit" && mode != "stubborn" {
			return 0
		}
		w.obey(c)
	}
	if mode == "stubborn" {
		time.Sleep(time.Hour)
	}
	return 0
}

type behaviour struct {
	mode     string
	stop     chan struct{}
	commands chan worker.Command
}

func (b *behaviour) listen() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var c worker.Command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			fmt.Fprintln(os.Stderr, "bad command:", err)
			os.Exit(5)
		}
		if c.Do == "stop" {
			b.stop <- struct{}{}
			continue
		}
		b.commands <- c
	}
	close(b.commands)
}

func (b *behaviour) obey(c worker.Command) {
	switch c.Do {
	case "load":
		if b.mode == "small" {
			say(`{"event":"error","error":{"kind":"out-of-memory","message":"tried to allocate 20 GiB, 3 GiB free","fatal":false}}`)
			return
		}
		say(`{"event":"ready","ready":{"devices":[{"name":"cpu"}],"load_s":0.5,"timer":"none","params":10,"prompt_len":4}}`)
	case "size":
		say(`{"event":"size","size":{"params_bytes":20,"buffers_bytes":0,"kv_bytes":8,"kv_tokens":4,"state_bytes":0,"peak_bytes":null}}`)
	case "ops":
		b.ops(c.Ops)
	case "trace":
		say(`{"event":"traced","traced":{"file":%q,"anchor":"here","anchor_ns":5,"begin_ns":5,"end_ns":9}}`, c.Trace.File)
	case "bench":
		say(`{"event":"timed","timed":{"seconds":[0.25,0.5],"graph":false,"cold":true,"device":{"name":"cpu"}}}`)
	case "prepare":
		say(`{"event":"done","done":{"passes":0,"begin_ns":1,"end_ns":1}}`)
	case "run":
		b.run(c.Run)
	}
}

// ops answers with two operators and the whole, and goes wrong as it is told.
func (b *behaviour) ops(o *worker.Ops) {
	const op = `{"event":"op","op":{"phase":%q,"name":%q,"layers":2,"kernels":2,"context":%d,"samples_s":%s,"whole":%v}}`
	samples := strings.TrimSuffix("["+strings.Repeat("1e-3,", o.Rounds), ",") + "]"
	phase, second, context, late := o.Phase, "second", 4, samples
	switch b.mode {
	case "none":
		say(`{"event":"error","error":{"kind":"unsupported","message":"operators cannot be replayed here","fatal":false}}`)
		return
	case "twice":
		second = "first"
	case "phase":
		phase = worker.Request
	case "elsewhere":
		context = 5
	case "uneven":
		late = "[1e-3]"
	case "zero":
		late = "[0]"
	case "hasty":
		say(`{"event":"done","done":{"passes":1,"begin_ns":1,"end_ns":2}}`)
		return
	case "other":
		say(`{"event":"size","size":{"params_bytes":20,"buffers_bytes":0,"kv_bytes":8,"kv_tokens":4,"state_bytes":0,"peak_bytes":null}}`)
		return
	}
	say(op, phase, "first", 4, samples, false)
	say(op, phase, second, context, late, false)
	say(op, phase, "step", 4, samples, b.mode != "no whole")
	say(`{"event":"done","done":{"passes":%d,"begin_ns":1,"end_ns":9}}`, o.Rounds)
}

// run makes passes of two steps. It goes wrong in the third.
func (b *behaviour) run(r *worker.Run) {
	passes := 0
	for passes < max(r.Passes, 1000*int(r.Seconds)) {
		if passes == 2 {
			b.third()
		}
		b.pass(r, passes)
		passes++
		select {
		case <-b.stop:
			r = &worker.Run{}
		default:
		}
		if r.Seconds > 0 {
			time.Sleep(time.Millisecond)
		}
	}
	say(`{"event":"done","done":{"passes":%d,"begin_ns":1,"end_ns":%d}}`, passes, 1000*passes+500)
}

func (b *behaviour) pass(r *worker.Run, pass int) {
	first := 0
	if r.Phase == worker.Decode {
		first = 1
	}
	for i := range 2 {
		start := 1000*pass + 100*i
		say(`{"event":"step","step":{"phase":%q,"pass":%d,"index":%d,"context":4,"start_ns":%d,"end_ns":%d,"device_s":1e-8}}`,
			r.Phase, pass, first+i, start, start+90)
		say(`{"event":"token","token":{"pass":%d,"index":%d,"ns":%d,"ids":[7]}}`, pass, first+i, start+90)
	}
	if b.mode != "terse" {
		say(`{"event":"pass","pass":{"pass":%d,"begin_ns":%d,"end_ns":%d}}`, pass, 1000*pass, 1000*pass+200)
	}
}

func (b *behaviour) third() {
	const step = `{"event":"step","step":{"phase":"decode","pass":2,"index":%d,"context":4,"start_ns":%d,"end_ns":%d,"device_s":%s}}`
	switch b.mode {
	case "crash":
		fmt.Fprintln(os.Stderr, "about to crash")
		panic("the engine broke")
	case "killed":
		say(step, 1, 2000, 2090, "null") // a pass that never ends
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		time.Sleep(time.Hour)
	case "torn":
		fmt.Fprint(os.Stdout, `{"event":"step","st`)
		os.Exit(7)
	case "hang":
		time.Sleep(time.Hour)
	case "garbage":
		say("Loading checkpoint shards: 100%%")
	case "huge":
		say(strings.Repeat("x", worker.MaxLine+10))
	case "nan":
		say(step, 1, 2000, 2090, "NaN")
	case "backwards":
		say(step, 1, 100, 200, "null")
	case "shuffled":
		say(step, 2, 2000, 2090, "null")
	case "fails":
		say(`{"event":"error","error":{"kind":"internal","message":"a kernel failed","fatal":false}}`)
		b.mode = ""
	case "lost":
		say(`{"event":"error","error":{"kind":"gpu-failed","message":"cuda: cuStreamSynchronize: CUDA_ERROR_ECC_UNCORRECTABLE (214)",` +
			`"fatal":true}}`)
	case "aborts":
		fmt.Fprintln(os.Stderr, "terminate called after throwing an instance of 'c10::Error'\n  what(): CUDA error: unspecified launch failure")
		for i := range 200 {
			fmt.Fprintln(os.Stderr, "frame", i)
		}
		os.Exit(6)
	case "dies":
		say(`{"event":"error","error":{"kind":"internal","message":"CUDA error","fatal":true}}`)
	}
}

func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }
