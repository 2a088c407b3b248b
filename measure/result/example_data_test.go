package result

import (
	"testing"
	"time"

	"llmprof/analytic/operator"
	"llmprof/internal/stats"
)

// fixture is a result made up by hand for tests, with figures of the size that
// an 8B model in bf16 has on one H200. No machine measured it.
func fixture(t testing.TB) *Result {
	t.Helper()
	start := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	const passes = 40.0
	return &Result{
		Schema: Schema, ID: "fixture-8b-b8", Processes: 1, Started: start, Ended: start.Add(2 * time.Minute),
		Model: Model{Name: "llama3.1-8b", Source: "fixture, not measured", Family: "llama", ParamsTotal: 8030261248, RandomWeights: true},
		Engine: Engine{
			Name: "transformers", Version: "5.17.0", Versions: map[string]string{"torch": "2.9.0"},
			Options: map[string]string{"graph": "true"}, Timer: "submission to token on the host", LoadS: new(12.5),
		},
		Parallelism: Parallelism{TP: 1, PP: 1, EP: 1, DP: 1, Replicas: 1},
		Workload: Workload{Workload: operator.Workload{Batch: 8, PromptLen: 1024, GenLen: 128}, Weights: "bf16", KV: "bf16", Act: "bf16",
			Prompts: "random", Seed: 7},
		TTFT:       sampled(t, 0.212, 0.209, 0.215, 0.211, 0.210),
		TPOT:       sampled(t, 0.00741, 0.00738, 0.00744, 0.00740, 0.00739),
		TTLT:       sampled(t, 1.153, 1.146, 1.160, 1.151, 1.149),
		Throughput: &Rates{Generated: new(889.7), Decode: new(1081.), Prompt: new(38800.)},
		Sizes: &Sizes{
			Params: new(int64(16060522496)), Buffers: new(int64(0)), KV: new(int64(1207959552)), State: new(int64(0)),
			Activations: new(int64(1200000000)), Peak: new(int64(18468482048)), Reserved: new(int64(500000000)),
		},
		Energy: &Energy{
			Scope: "gpu", PerPrompt: new(17.2), PerToken: new(0.442), PerRequest: new(73.5),
			Request: window(46.04, passes, 588), Prefill: window(8.48, passes, 650), Decode: window(37.6, passes, 570),
			IdleLoaded: window(30, 0, 118), Idle: window(30, 0, 76),
		},
		Closure: []Closure{{Name: "time", Whole: 1.151, Parts: 1.151, Off: 0, Limit: 0.02, Passed: true}},
		Machine: Machine{OS: "linux", CPU: "fixture", Cores: 16, Driver: "570.86", CUDA: "12.8", GPUs: []GPU{{
			Key: "h200-sxm-141gb", Name: "NVIDIA H200", UUID: "GPU-00000000-0000-0000-0000-000000000001", MemoryBytes: new(int64(150754820096)),
			PowerLimitW: new(700.),
		}}},
		Conditions: []Condition{{
			Phase: "request", UUID: "GPU-00000000-0000-0000-0000-000000000001",
			Utilization: summary(t, 0.97, 0.98, 0.99), MemoryUtil: summary(t, 0.6, 0.62), Temperature: summary(t, 51, 55),
			ThrottledS: map[string]float64{"power": 0.4},
		}},
		Meter:      &Meter{PeriodS: new(0.1), ReadS: 0.004, Overhead: new(-0.0003)},
		Provenance: Provenance{Version: "test", Command: []string{"llmprof", "measure"}, Seed: 7},
		Reasons: map[string]string{"step_s": "the engine does not say its steps", "serving": "the engine is not asked over HTTP",
			"operators": "not asked for"},
		Warnings: []string{"fixture: made up for tests, not measured"},
	}
}

func summary(t testing.TB, xs ...float64) *stats.Summary {
	t.Helper()
	s, err := stats.Summarize(xs)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func sampled(t testing.TB, xs ...float64) *Times {
	t.Helper()
	return &Times{Summary: *summary(t, xs...), Samples: xs, Warmups: 12, Steady: true}
}

func window(seconds, passes, watts float64) *Window {
	j := seconds * watts
	return &Window{Seconds: seconds, Passes: passes, Steps: passes * 128, Domains: []Domain{{
		Name: "GPU 0", Kind: "gpu", ID: "GPU-00000000-0000-0000-0000-000000000001", Sensor: "nvml counter", Summed: true,
		EnergyJ: j, CounterJ: &j, IntegralJ: new(j * 1.004), MeanW: watts, Seconds: seconds, Samples: int(seconds * 10),
	}}}
}
