package sweep

import (
	"math"

	"llmprof/analytic"
)

// A Row is a point with its headline figures, in SI units. A figure that is 0 does not
// exist.
type Row struct {
	Setting
	Batch        int `parquet:"batch"`
	Prompt       int `parquet:"prompt_len"`
	CachedPrefix int `parquet:"cached_prefix"`
	Chunk        int `parquet:"chunk,optional"`
	Gen          int `parquet:"gen_len"`
	Figures
	Loaded
	Reason string `parquet:"reason,optional"` // why the point is impossible; empty where it is not
}

// A Setting is what the workload does not change.
type Setting struct {
	Model        string  `parquet:"model,dict"`
	GPU          string  `parquet:"gpu,dict"`
	Engine       string  `parquet:"engine,dict"`
	Calibration  string  `parquet:"calibration,dict,optional"`
	Measured     bool    `parquet:"measured"` // the constants were measured on a GPU of the kind
	GPUs         int     `parquet:"gpus,optional"`
	TP           int     `parquet:"tp"`
	PP           int     `parquet:"pp"`
	EP           int     `parquet:"ep"`
	MoETP        int     `parquet:"moe_tp,optional"` // value of the flag; 0 for what EP leaves of TP
	DP           int     `parquet:"dp"`
	SP           bool    `parquet:"sp"`
	MicroBatches int     `parquet:"micro_batches"`
	Weights      string  `parquet:"weights,dict,optional"` // the scheme
	Act          string  `parquet:"act,dict,optional"`
	KV           string  `parquet:"kv,dict,optional"`
	AllLogits    bool    `parquet:"all_logits"`
	Other        string  `parquet:"other,dict,optional"` // settings without a column of their own, as flag=value
	PerHour      float64 `parquet:"usd_h,optional"`
	Rate         float64 `parquet:"rate_hz,optional"` // request rate of the load
	Concurrency  int     `parquet:"concurrency,optional"`
}

// Figures are the headline figures of a point.
type Figures struct {
	Fits     bool    `parquet:"fits"`
	Total    float64 `parquet:"memory_bytes,optional"` // memory that one GPU needs
	Capacity float64 `parquet:"capacity_bytes,optional"`
	MaxBatch int     `parquet:"max_batch,optional"`

	TTFT      float64 `parquet:"ttft_s,optional"`
	TTFTLow   float64 `parquet:"ttft_low_s,optional"`
	TTFTHigh  float64 `parquet:"ttft_high_s,optional"`
	TTFTFloor float64 `parquet:"ttft_floor_s,optional"`
	TTFTBound string  `parquet:"ttft_bound,dict,optional"`
	TPOT      float64 `parquet:"tpot_s,optional"`
	TPOTLow   float64 `parquet:"tpot_low_s,optional"`
	TPOTHigh  float64 `parquet:"tpot_high_s,optional"`
	TPOTFloor float64 `parquet:"tpot_floor_s,optional"`
	TPOTBound string  `parquet:"tpot_bound,dict,optional"`
	TTLT      float64 `parquet:"ttlt_s,optional"`
	TTLTLow   float64 `parquet:"ttlt_low_s,optional"`
	TTLTHigh  float64 `parquet:"ttlt_high_s,optional"`

	Throughput     float64 `parquet:"tok_s,optional"`
	ThroughputLow  float64 `parquet:"tok_s_low,optional"`
	ThroughputHigh float64 `parquet:"tok_s_high,optional"`
	PerGPU         float64 `parquet:"tok_s_gpu,optional"`
	JToken         float64 `parquet:"j_token,optional"`
	JRequest       float64 `parquet:"j_request,optional"`
	PrefillW       float64 `parquet:"prefill_w,optional"` // mean power of one GPU
	DecodeW        float64 `parquet:"decode_w,optional"`
	PerMillion     float64 `parquet:"usd_mtok,optional"` // generated tokens, the prompt's cost in them
	PerMillionLow  float64 `parquet:"usd_mtok_low,optional"`
	PerMillionHigh float64 `parquet:"usd_mtok_high,optional"`
}

// Loaded is the steady state under the load of a point, all replicas together; the high ends are
// those of the slow end of the interval, where that is stable.
type Loaded struct {
	LoadTTFT     float64 `parquet:"load_ttft_s,optional"` // means
	LoadTTFTHigh float64 `parquet:"load_ttft_high_s,optional"`
	LoadTPOT     float64 `parquet:"load_tpot_s,optional"`
	LoadTPOTHigh float64 `parquet:"load_tpot_high_s,optional"`
	LoadE2E      float64 `parquet:"load_e2e_s,optional"`
	LoadE2EHigh  float64 `parquet:"load_e2e_high_s,optional"`
	Requests     float64 `parquet:"load_requests_s,optional"`
	Generated    float64 `parquet:"load_tok_s,optional"`
	Running      float64 `parquet:"load_running,optional"` // sequences that decode
	Waiting      float64 `parquet:"load_waiting,optional"` // requests without their first token
	Utilization  float64 `parquet:"load_utilization,optional"`
	KVShare      float64 `parquet:"load_kv_share,optional"`
	LoadJ        float64 `parquet:"load_j_request,optional"`
	LoadUSD      float64 `parquet:"load_usd_request,optional"`
	Most         float64 `parquet:"capacity_requests_s,optional"`
	MostBound    string  `parquet:"capacity_bound,dict,optional"`
}

// set fills in the figures of an estimate.
func (f *Figures) set(e *analytic.Estimate, w *analytic.Workload) {
	m := &e.Memory
	f.Fits, f.Total, f.Capacity, f.MaxBatch = m.Fits(), float64(m.Total), float64(m.Capacity), m.MaxBatch
	f.TTFT, f.TTFTLow, f.TTFTHigh, f.TTFTFloor = float64(e.TTFT.Expected), float64(e.TTFT.Low), float64(e.TTFT.High), float64(e.TTFT.Floor)
	f.TTFTBound, f.TPOTBound = e.Prefill.Bound.String(), ""
	f.TPOT, f.TPOTLow, f.TPOTHigh, f.TPOTFloor = float64(e.TPOT.Expected), float64(e.TPOT.Low), float64(e.TPOT.High), float64(e.TPOT.Floor)
	if w.GenLen > 1 {
		f.TPOTBound = e.Decode.Bound.String()
	}
	f.TTLT, f.TTLTLow, f.TTLTHigh = float64(e.TTLT.Expected), float64(e.TTLT.Low), float64(e.TTLT.High)
	slow, fast := f.TTLT/f.TTLTHigh, f.TTLT/f.TTLTLow
	f.Throughput, f.ThroughputLow, f.ThroughputHigh = e.Throughput, e.Throughput*slow, e.Throughput*fast
	f.PerGPU = e.Throughput / float64(e.GPUs)
	f.JToken, f.JRequest = float64(e.Energy.PerToken), float64(e.Energy.PerRequest)
	f.PrefillW, f.DecodeW = float64(e.Energy.Prefill), float64(e.Energy.Decode)
	usd := float64(e.Money.PerMillionGenerated)
	f.PerMillion, f.PerMillionLow, f.PerMillionHigh = usd, usd/fast, usd/slow
}

// finite reports whether the figures are numbers.
func (f *Figures) finite() bool {
	return isFinite(f.TTLTHigh + f.ThroughputHigh + f.JRequest + f.PerMillionHigh + f.TTFTFloor)
}

// finite reports whether the figures are numbers.
func (l *Loaded) finite() bool {
	return isFinite(l.LoadE2E + l.LoadE2EHigh + l.Running + l.Waiting + l.LoadJ + l.LoadUSD + l.Most)
}

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
