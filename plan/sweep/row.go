package sweep

import (
	"math"
	"reflect"

	"llmprof/analytic"
	"llmprof/unit"
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
	Loaded `late:"true"` // in rows of grids with a load
	Reason string        `parquet:"reason,optional"` // why the point is impossible; empty where it is not
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
	Rate         float64 `parquet:"rate_hz,optional" late:"true"` // request rate of the load
	Concurrency  int     `parquet:"concurrency,optional" late:"true"`
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
	FLOPsToken     float64 `parquet:"flops_token,optional"`    // FLOPs of a generated token
	KVToken        float64 `parquet:"kv_bytes_token,optional"` // cache of a token
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

// A filler puts metrics into the figures of a row, by the names of their columns. The order of the metrics is always the same.
type filler struct {
	metrics []unit.Metric
	columns [][]any // for each metric its value, ends, floor and bound; nil for what has no column
}

// fill fills in the figures of an estimate.
func (f *filler) fill(r *Row, e *analytic.Estimate) {
	m := &e.Memory
	r.Fits, r.Capacity, r.MaxBatch = m.Fits(), float64(m.Capacity), m.MaxBatch
	f.metrics = e.Metrics(f.metrics[:0], "")
	if f.columns == nil {
		f.bind(&r.Figures)
	}
	f.set()
}

// set puts the metrics into their columns.
func (f *filler) set() {
	for i := range f.metrics {
		m := &f.metrics[i]
		for part, v := range [...]float64{m.Value, m.Low, m.High, m.Floor} {
			if to, ok := f.columns[i][part].(*float64); ok {
				*to = v
			}
		}
		if to, ok := f.columns[i][4].(*string); ok {
			*to = m.Bound
		}
	}
}

// bind finds the columns of the metrics.
func (f *filler) bind(figures any) {
	of := map[string]any{}
	for _, c := range columnsOf(reflect.ValueOf(figures).Elem(), true) {
		of[c.name] = c.of
	}
	for i := range f.metrics {
		var parts []any
		for _, part := range []string{"", "low", "high", "floor", "bound"} {
			parts = append(parts, of[f.metrics[i].Column(part)])
		}
		f.columns = append(f.columns, parts)
	}
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
