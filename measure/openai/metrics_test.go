package openai

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

const vllmPage = `# HELP vllm:num_requests_running Number of requests.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a \"b\", {c}"} 3.0
vllm:num_requests_running{engine="1",model_name="a"} 1.0 1795366436000
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:kv_cache_usage_perc{engine="1"} 0.75
vllm:cache_config_info{block_size="16",cache_dtype="fp8_e4m3",enable_prefix_caching="True",engine="0"} 1.0
vllm:bad{engine="0" 3
vllm:none{engine="0"} NaN
process_cpu_seconds_total 12.5e1
`

// Values of several engines are summed, and shares are their mean.
func TestParseMetrics(t *testing.T) {
	m := parseMetrics([]byte(vllmPage))
	running, _, _ := m.figure(gauges["running"], false)
	use, _, _ := m.figure(gauges["kv_use"], true)
	if m.kind() != "vllm" || *running != 4 || *use != 0.5 || m.values["process_cpu_seconds_total"] != 125 {
		t.Errorf("%+v", m.values)
	}
	if v, name, _ := m.figure(gauges["waiting"], false); v != nil || name != "" {
		t.Error("a figure that is not on the page")
	}
	if want := map[string]string{"block_size": "16", "cache_dtype": "fp8_e4m3", "enable_prefix_caching": "True", "engine": "0"}; !maps.Equal(
		m.labels["vllm:cache_config_info"], want) {
		t.Errorf("%v", m.labels["vllm:cache_config_info"])
	}
	for _, name := range []string{"vllm:bad", "vllm:none"} {
		if v, ok := m.values[name]; ok {
			t.Errorf("%s is %v", name, v)
		}
	}
	a := &About{Options: map[string]string{}}
	a.metrics([]byte(vllmPage))
	if a.Kind != "vllm" || a.KV != "fp8" || a.DP != 2 || !a.HasMetrics || a.Options["block_size"] != "16" {
		t.Errorf("%+v", a)
	}
	if other := parseMetrics([]byte("go_goroutines 3\n")); other.kind() != "" {
		t.Errorf("a page of another program is of %q", other.kind())
	}
}

// A gauge that cannot be is dropped and counted, and the requests beside it stay.
func TestMalformedMetrics(t *testing.T) {
	const running, use = "vllm:num_requests_running", "vllm:kv_cache_usage_perc"
	for page, test := range map[string]struct {
		running *float64 // of the samples that are kept
		note    string
	}{
		running + " -5\n":    {nil, "gave -5 for " + running + ", which cannot be: such samples were dropped, 2 in all"},
		running + " +Inf\n":  {nil, "gave +Inf for " + running + ", which cannot be: such samples were dropped, 2 in all"},
		running + " 1e999\n": {nil, "gave 1e999 for " + running + ", which cannot be: such samples were dropped, 2 in all"},
		running + " NaN\n":   {nil, "gave NaN for " + running + ", which cannot be: such samples were dropped, 2 in all"},
		running + " two\n":   {nil, "gave two for " + running + ", which cannot be: such samples were dropped, 2 in all"},
		running + "{e=\"0\"} 1.7e308\n" + running + "{e=\"1\"} 1.7e308\n": {nil,
			"gave +Inf for " + running + ", which cannot be: such samples were dropped, 2 in all"},
		running + " -2.7e-16\n": {new(0.), ""},
		running + " 2\n" + use + " 17\n": {new(2.),
			"gave 17 for " + use + ", which cannot be: such samples were dropped, 2 in all"},
		running + " 2\nvllm:prompt_tokens_total 1e300\n": {new(2.),
			"gave 1e+300 for vllm:prompt_tokens_total, which cannot be: such samples were dropped, 1 in all"},
	} {
		handler := func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				fmt.Fprint(w, page)
				return
			}
			time.Sleep(6 * time.Second)
			stream(w, whole())
		}
		bubble(t, handler, func(t *testing.T, o Options) {
			o.Metrics = true
			s, err := Run(t.Context(), o, nil)
			if err != nil || s.Completed != 4 {
				t.Fatalf("%s: %+v, %v", page, s, err)
			}
			if got := s.Metrics.Running; (got == nil) != (test.running == nil) || got != nil && got.Max != *test.running {
				t.Errorf("%s: running %+v", page, got)
			}
			if said := strings.Join(s.Notes, "\n"); !strings.Contains(said, test.note) || test.note == "" && strings.Contains(said, "dropped") {
				t.Errorf("%s: %s", page, said)
			}
			for key, rise := range s.Metrics.Counters {
				if !(rise >= 0 && rise <= mostCount) {
					t.Errorf("%s: %s rose by %v", page, key, rise)
				}
			}
		})
	}
}

func FuzzMetrics(f *testing.F) {
	for _, seed := range []string{vllmPage, "a{", "a{b=\"", "a{b=\"c\"}", "{} 1", "a 1e999", "a{b=\"\\q\"} 1"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, page []byte) {
		for name, v := range parseMetrics(page).values {
			if math.IsNaN(v) {
				t.Errorf("%q is %v", name, v)
			}
		}
	})
}

// What servers say of what they run is read in their own forms.
func TestAbout(t *testing.T) {
	for text, test := range map[string]struct {
		path string
		want About
	}{
		`{"version": "0.5.14", "dtype": "bfloat16", "tp_size": 4, "dp_size": 1, "kv_cache_dtype": "auto", "quantization": null}`: {
			"server_info", About{Version: "0.5.14", Weights: "bf16", TP: 4, DP: 1}},
		`{"version": "0.5.14", "dtype": "bfloat16", "tp_size": 2, "kv_cache_dtype": "fp8_e5m2", "quantization": "awq"}`: {"server_info",
			About{Version: "0.5.14", KV: "fp8", TP: 2}},
		`{"version": "3.3.5", "model_dtype": "float16", "router": "x", "max_total_tokens": 4096}`: {"info",
			About{Kind: "tgi", Version: "3.3.5", Weights: "fp16", MaxLen: 4096}},
		`{"build_info": "b6000-abc", "model_ftype": "Q4_K - Medium", "total_slots": 2}`: {"props",
			About{Kind: "llama.cpp", Version: "b6000-abc", Weights: "Q4_K - Medium"}},
		`{"version": "0.9.0"}`: {"api/version", About{Kind: "ollama", Version: "0.9.0"}},
		`{"tp_size": 1, "max_running_requests": 48, "chunked_prefill_size": 8192, "max_total_num_tokens": 400000, "max_total_tokens": 9}`: {
			"server_info", About{TP: 1, Options: map[string]string{"max_running_requests": "48", "chunked_prefill_size": "8192",
				"max_total_num_tokens": "400000"}}},
		`{"detail": "no"}`: {"server_info", About{}},
		`<html>`:           {"props", About{}},
	} {
		a := About{Options: map[string]string{}}
		a.read(&pages[slices.IndexFunc(pages, func(p page) bool { return p.path == test.path })], []byte(text))
		if a.Kind != test.want.Kind || a.Version != test.want.Version || a.Weights != test.want.Weights || a.KV != test.want.KV ||
			a.TP != test.want.TP || a.DP != test.want.DP || a.MaxLen != test.want.MaxLen ||
			test.want.Options != nil && !maps.Equal(a.Options, test.want.Options) {
			t.Errorf("%s: %+v", text, a)
		}
	}
}

// What vLLM's cache does not have is None in its metrics, and no option.
func TestAboutMetrics(t *testing.T) {
	a := About{Options: map[string]string{}}
	a.metrics([]byte("vllm:num_requests_running 0\nvllm:cache_config_info{block_size=\"128\",num_cpu_blocks=\"None\"} 1.0\n"))
	if want := map[string]string{"block_size": "128"}; a.Kind != "vllm" || !maps.Equal(a.Options, want) {
		t.Errorf("%+v, want the options %v", a, want)
	}
}
