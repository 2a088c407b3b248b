package view

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/unit"
)

// A Headline is one figure of an estimate as people read it.
type Headline struct {
	Key      string  `json:"key"`
	Name     string  `json:"name"`
	Value    string  `json:"value"`
	Interval string  `json:"interval"`
	Note     string  `json:"note"`
	SI       float64 `json:"si"`
	High     float64 `json:"high"` // the interval's slow end
}

// Words is an estimate as a page says it, rounded as the command line rounds it.
type Words struct {
	Fits      string      `json:"fits"`
	Basis     string      `json:"basis"`
	Headlines []Headline  `json:"headlines"`
	Memory    [][2]string `json:"memory"`
	Prefill   []OpWords   `json:"prefill"`
	Decode    []OpWords   `json:"decode"`
	Roofs     []Roof      `json:"roofs"` // roofs of the formats of the GEMMs, the highest first
	Bandwidth float64     `json:"bandwidth_bytes_per_s"`
	Home      [][2]string `json:"home"` // what lies in host memory, and what it is worth, by name
}

// A Roof is the peak of a number format.
type Roof struct {
	Format string  `json:"format"`
	Peak   float64 `json:"peak_flop_per_s"`
}

// OpWords is an operator as a page says it.
type OpWords struct {
	Expected  string `json:"expected"`
	Floor     string `json:"floor"`
	FLOPs     string `json:"flops"`
	Bytes     string `json:"bytes"`
	Intensity string `json:"intensity"`
	Share     string `json:"share"`
	Format    string `json:"format"`
}

// Words is the estimate in words.
func (e *Estimate) Words() *Words {
	v := e.Verdict()
	w := &Words{Fits: e.verdictLine(&v), Basis: e.basis(), Headlines: e.headlines(), Prefill: opWords(e.PrefillOps),
		Decode: opWords(e.DecodeOps)}
	m := &e.Memory
	for _, part := range []named[unit.Bytes]{
		{"weights", m.Weights}, {"KV cache", m.KV}, {"state", m.State}, {"activations", m.Activations}, {"reserve", m.Reserve},
		{"total", m.Total}, {"usable", m.Usable}, {"capacity", m.Capacity},
	} {
		w.Memory = append(w.Memory, [2]string{part.name, e.sized(part.of)})
	}
	e.homeLines(func(name string, lines ...string) { w.Home = append(w.Home, [2]string{name, strings.Join(lines, " ")}) })
	w.Roofs, w.Bandwidth = e.roofs(), float64(e.Machine.GPU.Bandwidth)
	return w
}

// headlines are the figures that people ask for first: times, and rates where it can run.
func (e *Estimate) headlines() []Headline {
	all := []Headline{timeHeadline("ttft", "TTFT", e.TTFT, e.Prefill.Bound.String())}
	if e.Tokens > 0 {
		all = append(all, timeHeadline("tpot", "TPOT", e.TPOT, e.Decode.Bound.String()))
	}
	all = append(all, timeHeadline("ttlt", "TTLT", e.TTLT, ""))
	if e.Verdict().Possible {
		all = append(all, e.rateHeadlines()...)
	}
	return all
}

// roofs are the peaks of the formats that GEMMs run in, the highest first.
func (e *Estimate) roofs() (all []Roof) {
	for _, ops := range [][]breakdown.Operator{e.PrefillOps, e.DecodeOps} {
		for i := range ops {
			if ops[i].FLOPs == 0 {
				continue
			}
			run, peak := e.Machine.Runs(ops[i].Format)
			if r := (Roof{run.String(), float64(peak)}); !slices.Contains(all, r) {
				all = append(all, r)
			}
		}
	}
	// slices.SortStableFunc would be compiled for this type alone, 7 kB of the page's program.
	sort.SliceStable(all, func(i, j int) bool { return all[i].Peak > all[j].Peak })
	return all
}

func timeHeadline(key, name string, s analytic.Span, bound string) Headline {
	r := unit.Around(s.Expected, s.Low, s.High)
	note := "floor " + unit.Around(s.Floor, s.Floor, s.Floor).String()
	if bound != "" {
		note = bound + "-bound, " + note
	}
	return Headline{Key: key, Name: name, Value: r.String(), Interval: r.Interval(), Note: note, SI: float64(s.Expected),
		High: float64(s.High)}
}

// rateHeadlines are those that exist only where it can run.
func (e *Estimate) rateHeadlines() []Headline {
	headline := func(key, name string, m *unit.Metric, format, note string) Headline {
		v, interval := rounded(m)
		return Headline{Key: key, Name: name, Value: fmt.Sprintf(format, v), Interval: interval, Note: note, SI: m.Value, High: m.High}
	}
	each, _ := rounded(e.Metric("tok_s_gpu"))
	rate := headline("tps", "Throughput", e.Metric("tok_s"), "%s tok/s", each+" tok/s per GPU")
	rate.High = e.Metric("tok_s").Low // the slow end
	usd := headline("usd", "Cost", e.Metric("usd_mtok"), "$%s", fmt.Sprintf("per million generated; %v per GPU", e.Price))
	if e.Price <= 0 {
		usd = Headline{Key: "usd", Name: "Cost", Value: "n/a", Note: "no price of " + e.Machine.GPU.Name + " is known: give one"}
	}
	j, i, per := e.Energy.PerToken, e.Energy.Token, "per token"
	if e.Tokens == 0 {
		j, i, per = e.Energy.PerPrompt, e.Energy.Prompt, "per prompt"
	}
	r := unit.Around(j, i.Low, i.High)
	return []Headline{rate, usd, {Key: "j", Name: "Energy", Value: r.String(), Interval: r.Interval(), Note: per, SI: float64(j),
		High: float64(i.High)}}
}

func opWords(ops []breakdown.Operator) []OpWords {
	all := make([]OpWords, len(ops))
	for i := range ops {
		o := &ops[i]
		w := &all[i]
		w.Expected, w.Floor, w.Share = o.Expected.String(), o.Floor.String(), fmt.Sprintf("%.1f %%", 100*o.Share)
		if o.FLOPs > 0 {
			w.FLOPs, w.Format = o.FLOPs.String(), o.Format.String()
		}
		if b := o.Traffic(); b > 0 {
			w.Bytes = b.String()
		}
		if x := finite(o.Intensity()); x != nil && *x > 0 {
			w.Intensity = unit.Significant(*x, 3)
		}
	}
	return all
}
