package worker_test

import (
	"strings"
	"testing"

	"llmprof/measure/worker"
)

func TestParseEvent(t *testing.T) {
	bad := map[string]string{
		``:                             "not an event",
		`null`:                         `event "" is none`,
		`[]`:                           "not an event",
		`{"event":"party"}`:            `event "party" is none`,
		`{"event":"step"}`:             `has no field "step"`,
		`{"event":"step","done":{}}`:   `has no field "step"`,
		`{"event":"hello","hello":{}}`: "speaks protocol 0",
		`{"event":"ready","ready":{"load_s":-1}}`:                              "load_s is -1",
		`{"event":"ready","ready":{"load_s":1e999}}`:                           "not an event",
		`{"event":"step","step":{"start_ns":5,"end_ns":4}}`:                    "time goes backwards",
		`{"event":"step","step":{"start_ns":-5,"end_ns":4}}`:                   "before the clock did",
		`{"event":"step","step":{"device_s":-0.1}}`:                            "device_s is -0.1",
		`{"event":"step","step":{"context":-1}}`:                               "context is -1",
		`{"event":"step","step":{"start_ns":1.5,"end_ns":4}}`:                  "not an event",
		`{"event":"token","token":{"pass":-1}}`:                                "pass is -1",
		`{"event":"pass","pass":{"begin_ns":9,"end_ns":1}}`:                    "time goes backwards",
		`{"event":"done","done":{"passes":-2}}`:                                "passes is -2",
		`{"event":"size","size":{"kv_bytes":-2}}`:                              "kv_bytes is -2",
		`{"event":"size","size":{"peak_bytes":-2}}`:                            "a size of -2 bytes",
		`{"event":"traced","traced":{}}`:                                       "names no file",
		`{"event":"error","error":{"kind":"internal"}}`:                        "no message",
		`{"event":"hello","hello":{"protocol":1}}`:                             "no name",
		`{"event":"hello","hello":{"protocol":1,"engine":"x"}} {"event":"no"}`: "not an event",
	}
	for line, want := range bad {
		if _, err := worker.ParseEvent([]byte(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", line, err, want)
		}
	}
	e, err := worker.ParseEvent([]byte(`{"event":"done","done":{"passes":2,"begin_ns":1,"end_ns":3}}`))
	if err != nil || e.Done == nil || e.Done.Passes != 2 {
		t.Errorf("got %+v, %v", e, err)
	}
}

// Whatever a worker writes, it is an event with its field, or an error.
func FuzzParseEvent(f *testing.F) {
	for _, seed := range []string{
		`{"event":"hello","hello":{"protocol":1,"engine":"x","version":"1","pid":4,"versions":{"a":"b"}}}`,
		`{"event":"step","step":{"phase":"decode","pass":0,"index":1,"context":16,"start_ns":1,"end_ns":2,"device_s":0.1}}`,
		`{"event":"token","token":{"pass":0,"index":1,"ns":2,"ids":[860,817]}}`,
		`{"event":"size","size":{"params_bytes":1,"peak_bytes":null,"ranks":[{"kv_bytes":3}]}}`,
		`{"event":"error","error":{"kind":"internal","message":"m","fatal":true}}`, `{"event":"pass","pass":null}`, "\x00",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := worker.ParseEvent(line)
		if err != nil {
			return
		}
		if s := e.Step; e.Event == "step" && (s.EndNS < s.StartNS || s.DeviceS != nil && !(*s.DeviceS >= 0)) {
			t.Errorf("%s passed as a step", line)
		}
	})
}
