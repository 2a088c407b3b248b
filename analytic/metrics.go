package analytic

import (
	"llmprof/analytic/energy"
	"llmprof/unit"
)

// Metrics appends the figures of an estimate, in the order in which tables have them. What cannot run has no throughput and no cost, and
// why is the reason; it is empty for what can.
func (e *Estimate) Metrics(dst []unit.Metric, why string) []unit.Metric {
	span := func(key, title string, s *Span, bound string) unit.Metric {
		return unit.Metric{Key: key, Title: title, Unit: "s", Value: float64(s.Expected), Low: float64(s.Low), High: float64(s.High),
			Floor: float64(s.Floor), Bound: bound}
	}
	joules := func(key, title string, j unit.Joules, i energy.Interval) unit.Metric {
		return unit.Metric{Key: key, Title: title, Unit: "J", Value: float64(j), Low: float64(i.Low), High: float64(i.High)}
	}
	decode := ""
	if e.Tokens > 0 {
		decode = e.Decode.Bound.String()
	}
	slow, fast := float64(e.TTLT.Expected/e.TTLT.High), float64(e.TTLT.Expected/e.TTLT.Low)
	rate := func(key, title string, v float64) unit.Metric {
		return unit.Metric{Key: key, Title: title, Unit: "tok/s", Value: v, Low: v * slow, High: v * fast}
	}
	usd := float64(e.Money.PerMillionGenerated)
	first := len(dst)
	dst = append(dst,
		span("ttft_s", "TTFT", &e.TTFT, e.Prefill.Bound.String()), span("tpot_s", "TPOT", &e.TPOT, decode), span("ttlt_s", "TTLT", &e.TTLT, ""),
		rate("tok_s", "tokens/s", e.Throughput), rate("tok_s_gpu", "tokens/s/GPU", e.Throughput/float64(e.GPUs)),
		joules("j_token", "J/token", e.Energy.PerToken, e.Energy.Token), joules("j_request", "J/request", e.Energy.PerRequest, e.Energy.Request),
		unit.Metric{Key: "usd_h", Title: "$/h", Unit: "$", Value: float64(e.Money.PerHour)},
		unit.Metric{Key: "usd_mtok", Title: "$/Mtok", Unit: "$", Value: usd, Low: usd / fast, High: usd / slow},
		unit.Metric{Key: "memory_bytes", Title: "memory/GPU", Unit: "B", Value: float64(e.Memory.Total)},
		unit.Metric{Key: "flops_token", Title: "FLOPs/token", Unit: "FLOP", Value: float64(e.FLOPsPerToken)},
		unit.Metric{Key: "kv_bytes_token", Title: "KV cache/token", Unit: "B", Value: float64(e.KVPerToken)},
		unit.Metric{Key: "prefill_w", Unit: "W", Value: float64(e.Energy.Prefill)},
		unit.Metric{Key: "decode_w", Unit: "W", Value: float64(e.Energy.Decode)},
	)
	for i := first; i < len(dst); i++ {
		switch m := &dst[i]; {
		case why != "" && (m.Unit == "tok/s" || m.Unit == "$"):
			*m = unit.Metric{Key: m.Key, Title: m.Title, Unit: m.Unit, Reason: why}
		case m.Value == 0 && m.Unit == "$":
			m.Reason = "no price is known"
		case m.Value == 0 && m.Unit == "B":
			m.Reason = "there is none"
		case m.Value == 0:
			m.Reason = "one token is generated"
		}
	}
	return dst
}
