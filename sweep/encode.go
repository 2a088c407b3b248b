package sweep

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"llmprof/printable"
)

// A column appends one value of a row.
type column struct {
	name   string
	text   func(r *Row) string
	number func(r *Row) float64
	count  func(r *Row) int
	flag   func(r *Row) bool

	value   float64 // the last number or text, which many a row has too
	string  string
	written []byte // what was written for it
}

// settings are the columns that the workload does not change.
func settings(loaded bool) []column {
	all := []column{
		{name: "model", text: func(r *Row) string { return r.Model }},
		{name: "gpu", text: func(r *Row) string { return r.GPU }},
		{name: "engine", text: func(r *Row) string { return r.Engine }},
		{name: "calibration", text: func(r *Row) string { return r.Calibration }},
		{name: "measured", flag: func(r *Row) bool { return r.Measured }},
		{name: "gpus", count: func(r *Row) int { return r.GPUs }},
		{name: "tp", count: func(r *Row) int { return r.TP }},
		{name: "pp", count: func(r *Row) int { return r.PP }},
		{name: "ep", count: func(r *Row) int { return r.EP }},
		{name: "moe_tp", count: func(r *Row) int { return r.MoETP }},
		{name: "dp", count: func(r *Row) int { return r.DP }},
		{name: "sp", flag: func(r *Row) bool { return r.SP }},
		{name: "micro_batches", count: func(r *Row) int { return r.MicroBatches }},
		{name: "weights", text: func(r *Row) string { return r.Weights }},
		{name: "act", text: func(r *Row) string { return r.Act }},
		{name: "kv", text: func(r *Row) string { return r.KV }},
		{name: "all_logits", flag: func(r *Row) bool { return r.AllLogits }},
		{name: "other", text: func(r *Row) string { return r.Other }},
		{name: "usd_h", number: func(r *Row) float64 { return r.PerHour }},
	}
	if loaded {
		all = append(all,
			column{name: "rate_hz", number: func(r *Row) float64 { return r.Rate }},
			column{name: "concurrency", count: func(r *Row) int { return r.Concurrency }})
	}
	return all
}

// numbers are the columns of the workload and of its figures.
func numbers(loaded bool) []column {
	all := []column{
		{name: "batch", count: func(r *Row) int { return r.Batch }},
		{name: "prompt_len", count: func(r *Row) int { return r.Prompt }},
		{name: "cached_prefix", count: func(r *Row) int { return r.CachedPrefix }},
		{name: "chunk", count: func(r *Row) int { return r.Chunk }},
		{name: "gen_len", count: func(r *Row) int { return r.Gen }},
		{name: "fits", flag: func(r *Row) bool { return r.Fits }},
		{name: "memory_bytes", number: func(r *Row) float64 { return r.Total }},
		{name: "capacity_bytes", number: func(r *Row) float64 { return r.Capacity }},
		{name: "max_batch", count: func(r *Row) int { return r.MaxBatch }},
		{name: "ttft_s", number: func(r *Row) float64 { return r.TTFT }},
		{name: "ttft_low_s", number: func(r *Row) float64 { return r.TTFTLow }},
		{name: "ttft_high_s", number: func(r *Row) float64 { return r.TTFTHigh }},
		{name: "ttft_floor_s", number: func(r *Row) float64 { return r.TTFTFloor }},
		{name: "ttft_bound", text: func(r *Row) string { return r.TTFTBound }},
		{name: "tpot_s", number: func(r *Row) float64 { return r.TPOT }},
		{name: "tpot_low_s", number: func(r *Row) float64 { return r.TPOTLow }},
		{name: "tpot_high_s", number: func(r *Row) float64 { return r.TPOTHigh }},
		{name: "tpot_floor_s", number: func(r *Row) float64 { return r.TPOTFloor }},
		{name: "tpot_bound", text: func(r *Row) string { return r.TPOTBound }},
		{name: "ttlt_s", number: func(r *Row) float64 { return r.TTLT }},
		{name: "ttlt_low_s", number: func(r *Row) float64 { return r.TTLTLow }},
		{name: "ttlt_high_s", number: func(r *Row) float64 { return r.TTLTHigh }},
		{name: "tok_s", number: func(r *Row) float64 { return r.Throughput }},
		{name: "tok_s_low", number: func(r *Row) float64 { return r.ThroughputLow }},
		{name: "tok_s_high", number: func(r *Row) float64 { return r.ThroughputHigh }},
		{name: "tok_s_gpu", number: func(r *Row) float64 { return r.PerGPU }},
		{name: "j_token", number: func(r *Row) float64 { return r.JToken }},
		{name: "j_request", number: func(r *Row) float64 { return r.JRequest }},
		{name: "usd_mtok", number: func(r *Row) float64 { return r.PerMillion }},
		{name: "usd_mtok_low", number: func(r *Row) float64 { return r.PerMillionLow }},
		{name: "usd_mtok_high", number: func(r *Row) float64 { return r.PerMillionHigh }},
	}
	if loaded {
		all = append(all, steady()...)
	}
	return append(all, column{name: "reason", text: func(r *Row) string { return r.Reason }})
}

// steady are the columns of the steady state under a load.
func steady() []column {
	return []column{
		{name: "load_ttft_s", number: func(r *Row) float64 { return r.LoadTTFT }},
		{name: "load_ttft_high_s", number: func(r *Row) float64 { return r.LoadTTFTHigh }},
		{name: "load_tpot_s", number: func(r *Row) float64 { return r.LoadTPOT }},
		{name: "load_tpot_high_s", number: func(r *Row) float64 { return r.LoadTPOTHigh }},
		{name: "load_e2e_s", number: func(r *Row) float64 { return r.LoadE2E }},
		{name: "load_e2e_high_s", number: func(r *Row) float64 { return r.LoadE2EHigh }},
		{name: "load_requests_s", number: func(r *Row) float64 { return r.Requests }},
		{name: "load_tok_s", number: func(r *Row) float64 { return r.Generated }},
		{name: "load_running", number: func(r *Row) float64 { return r.Running }},
		{name: "load_waiting", number: func(r *Row) float64 { return r.Waiting }},
		{name: "load_utilization", number: func(r *Row) float64 { return r.Utilization }},
		{name: "load_kv_share", number: func(r *Row) float64 { return r.KVShare }},
		{name: "load_j_request", number: func(r *Row) float64 { return r.LoadJ }},
		{name: "load_usd_request", number: func(r *Row) float64 { return r.LoadUSD }},
		{name: "capacity_requests_s", number: func(r *Row) float64 { return r.Most }},
		{name: "capacity_bound", text: func(r *Row) string { return r.MostBound }},
	}
}

// Columns names the columns of a row, in their order; those of a load are in rows of grids that have one.
func Columns(loaded bool) (names []string) {
	for _, c := range slices.Concat(settings(loaded), numbers(loaded)) {
		names = append(names, c.name)
	}
	return names
}

// A text writes rows as CSV or JSON Lines. What the workload does not change is written
// once for all rows that share it.
type text struct {
	json, loaded      bool
	settings, numbers []column
	prefix            []byte
}

func newText(f Format, loaded bool) *text {
	return &text{json: f == JSONL, loaded: loaded, settings: settings(loaded), numbers: numbers(loaded)}
}

// header is the first line of a CSV file.
func (t *text) header() []byte {
	if t.json {
		return nil
	}
	return []byte(strings.Join(Columns(t.loaded), ",") + "\n")
}

// begin begins rows of the setting of r.
func (t *text) begin(r *Row) {
	if t.prefix = t.prefix[:0]; t.json {
		t.prefix = append(t.prefix, '{')
	}
	t.prefix = t.columns(t.prefix, t.settings, r)
}

// append appends the line of a row.
func (t *text) append(dst []byte, r *Row) []byte {
	dst = append(dst, t.prefix...)
	dst = t.columns(dst, t.numbers, r)
	dst = dst[:len(dst)-1] // the last comma
	if t.json {
		dst = append(dst, '}')
	}
	return append(dst, '\n')
}

// columns appends values, each with a comma behind it.
func (t *text) columns(dst []byte, columns []column, r *Row) []byte {
	for i := range columns {
		c := &columns[i]
		if t.json {
			dst = append(append(append(dst, '"'), c.name...), '"', ':')
		}
		dst = append(t.value(dst, c, r), ',')
	}
	return dst
}

// value appends the value of a column; one that does not exist is empty in CSV, and null
// in JSON. No counts but those of a cached prefix can be 0.
func (t *text) value(dst []byte, c *column, r *Row) []byte {
	switch {
	case c.flag != nil:
		return strconv.AppendBool(dst, c.flag(r))
	case c.count != nil:
		if n := c.count(r); n != 0 || c.name == "cached_prefix" {
			return strconv.AppendInt(dst, int64(n), 10)
		}
	case c.number != nil:
		if v := c.number(r); v != 0 {
			if v != c.value {
				c.value, c.written = v, appendFloat(c.written[:0], v)
			}
			return append(dst, c.written...)
		}
	default:
		if s := c.text(r); s != "" {
			if s != c.string {
				c.string, c.written = s, t.quote(c.written[:0], s)
			}
			return append(dst, c.written...)
		}
	}
	if t.json {
		return append(dst, "null"...)
	}
	return dst
}

// appendFloat is strconv.AppendFloat in format g with the fewest digits that v can be read from. Format e, whose
// digits it moves where g has no exponent, is faster.
func appendFloat(dst []byte, v float64) []byte {
	if v < 1e-4 || v >= 1e6 {
		return strconv.AppendFloat(dst, v, 'g', -1, 64)
	}
	const exponent = len("e-0n")
	var scratch [32]byte
	e := strconv.AppendFloat(scratch[:0], v, 'e', -1, 64)
	first, further, n := e[0], []byte(nil), int(e[len(e)-1]-'0')
	if len(e) > exponent+1 {
		further = e[2 : len(e)-exponent]
	}
	if v < 1 {
		dst = append(append(dst, "0.000"[:1+n]...), first)
		return append(dst, further...)
	}
	dst = append(dst, first)
	if len(further) <= n {
		return append(append(dst, further...), "00000"[:n-len(further)]...)
	}
	dst = append(append(dst, further[:n]...), '.')
	return append(dst, further[n:]...)
}

// quote appends a text as the format wants it.
func (t *text) quote(dst []byte, s string) []byte {
	if t.json {
		if plain(s) {
			return append(append(append(dst, '"'), s...), '"')
		}
		quoted, _ := json.Marshal(s) // a string always can be
		return append(dst, quoted...)
	}
	s = printable.Cell(s)
	if !strings.ContainsAny(s, ",\"\r\n") {
		return append(dst, s...)
	}
	dst = append(dst, '"')
	dst = append(dst, strings.ReplaceAll(s, `"`, `""`)...)
	return append(dst, '"')
}

// plain reports whether JSON has the text as it stands.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == '"' || s[i] == '\\' {
			return false
		}
	}
	return true
}
