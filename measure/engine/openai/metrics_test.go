package openai

import (
	"maps"
	"math"
	"testing"
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
	if m.kind() != "vllm" || *m.of(gauges["running"]) != 4 || *m.share(gauges["kv_use"]) != 0.5 || m.values["process_cpu_seconds_total"] != 125 {
		t.Errorf("%+v", m.values)
	}
	if m.of(gauges["waiting"]) != nil {
		t.Error("a figure that is not on the page")
	}
	if want := map[string]string{"block_size": "16", "cache_dtype": "fp8_e4m3", "enable_prefix_caching": "True", "engine": "0"}; !maps.Equal(m.labels["vllm:cache_config_info"], want) {
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
	for page, test := range map[string]struct {
		read func(*About, []byte)
		want About
	}{
		`{"version": "0.5.14", "dtype": "bfloat16", "tp_size": 4, "dp_size": 1, "kv_cache_dtype": "auto", "quantization": null}`: {(*About).serverInfo, About{Version: "0.5.14", Weights: "bf16", TP: 4, DP: 1}},
		`{"version": "0.5.14", "dtype": "bfloat16", "tp_size": 2, "kv_cache_dtype": "fp8_e5m2", "quantization": "awq"}`:          {(*About).serverInfo, About{Version: "0.5.14", KV: "fp8", TP: 2}},
		`{"version": "3.3.5", "model_dtype": "float16", "router": "x", "max_total_tokens": 4096}`:                                {(*About).info, About{Kind: "tgi", Version: "3.3.5", Weights: "fp16", MaxLen: 4096}},
		`{"build_info": "b6000-abc", "model_ftype": "Q4_K - Medium", "total_slots": 2}`:                                          {(*About).props, About{Kind: "llama.cpp", Version: "b6000-abc", Weights: "Q4_K - Medium"}},
		`{"version": "0.9.0"}`: {(*About).ollama, About{Kind: "ollama", Version: "0.9.0"}},
		`{"detail": "no"}`:     {(*About).serverInfo, About{}},
		`<html>`:               {(*About).props, About{}},
	} {
		a := About{Options: map[string]string{}}
		test.read(&a, []byte(page))
		if a.Kind != test.want.Kind || a.Version != test.want.Version || a.Weights != test.want.Weights || a.KV != test.want.KV ||
			a.TP != test.want.TP || a.DP != test.want.DP || a.MaxLen != test.want.MaxLen {
			t.Errorf("%s: %+v", page, a)
		}
	}
}
