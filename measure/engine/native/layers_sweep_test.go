package native

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"llmprof/measure/engine/native/cuda"
)

// TestSweepLayers times the step with the kernel of all layers launched in many ways.
func TestSweepLayers(t *testing.T) {
	spec := os.Getenv("LLMPROF_SWEEP")
	if spec == "" {
		t.Skip("no sweep")
	}
	gpu(t)
	m := &meter{t: t, model: qwen30BA3B}
	const gen = 65
	ctx := 1024
	if v := os.Getenv("LLMPROF_SWEEP_CONTEXT"); v != "" {
		ctx = number(t, v)
	}
	opt := m.options(1, ctx-gen/2, gen, "")
	e := open(t, m.model, opt)
	m.must(e.SetPrompts(randomPrompts(1, 1, e.opt.PromptLen, e.shape.vocab)))
	first, err := e.Prefill()
	m.must(err)
	stamps, err := e.dev.Alloc("stamps", 8*e.opt.sms*e.shape.layers*32)
	m.must(err)
	m.must(e.dev.Fill(stamps, 0, 8*e.opt.sms*e.shape.layers*32))
	a, err := e.dev.NewEvent()
	m.must(err)
	b, err := e.dev.NewEvent()
	m.must(err)
	var same []int32
	run := func(s string) float64 {
		p := e.planStep()
		m.must(p.set(s))
		stamped := strings.Contains(s, "stamp")
		if stamped {
			p.stamps = stamps
		}
		if e.stepShared(p)+besideStep > e.dev.SharedOptIn {
			t.Logf("%-60s too large: %d", s, e.stepShared(p))
			return 1e9
		}
		e.stepPlan = p
		if strings.Contains(s, "apart") {
			e.stepPlan = nil
		} else {
			p.share = e.shape.shareOf(min(p.parts, p.blocks/e.shape.kvHeads))
		}
		e.decode = e.decodeSequence()
		if e.step != nil {
			m.must(e.step.Close())
		}
		if e.step, err = e.s.Record(e.queueStep); err != nil {
			t.Logf("%-60s %v", s, err)
			return 1e9
		}
		var device []float64
		var tokens []int32
		for pass := range 3 {
			m.must(e.Rewind(first))
			for range gen - 1 {
				m.must(a.Record(e.s))
				m.must(e.StartStep())
				m.must(b.Record(e.s))
				token, err := e.tokens()
				m.must(err)
				d, err := b.Since(a)
				m.must(err)
				if pass > 0 {
					device = append(device, float64(d)*1e3)
				} else {
					tokens = append(tokens, token...)
				}
			}
		}
		slices.Sort(device)
		if same == nil {
			same = tokens
		}
		agree := 0
		for agree < len(same) && same[agree] == tokens[agree] {
			agree++
		}
		t.Logf("%-60s %.4f ms, least %.4f, tokens as the first's: %d of %d", s, device[len(device)/2], device[0], agree, len(same))
		if stamped {
			e.logStamps(t, p, stamps)
		}
		return device[len(device)/2]
	}
	for _, s := range strings.Split(spec, ";") {
		start, knobs, tune := strings.Cut(s, ":")
		if !tune {
			run(s)
			continue
		}
		best := start // begins with commas or nothing
		least := run(best)
		for range 2 {
			before := best
			for _, knob := range strings.Split(knobs, "/") {
				for _, v := range strings.Split(knob, "|") {
					next := merge(best, v)
					if next == best {
						continue
					}
					if ms := run(next); ms < least {
						best, least = next, ms
					}
				}
			}
			if best == before {
				break
			}
		}
		run(best)
		run(best + ",stamp")
	}
}

// merge puts the settings of v in the place of those of s.
func merge(s, v string) string {
	out := strings.Split(s, ",")
	for _, f := range strings.Split(v, ",") {
		name, _, _ := strings.Cut(f, "=")
		if i := slices.IndexFunc(out, func(o string) bool { return strings.HasPrefix(o, name+"=") }); i >= 0 {
			out[i] = f
		} else {
			out = append(out, f)
		}
	}
	return strings.Join(out, ",")
}

// logStamps says how many cycles lie between the stamps of the last step.
func (e *Engine) logStamps(t *testing.T, p *stepPlan, at cuda.Ptr) {
	L := e.shape.layers
	all := make([]uint64, p.blocks*L*32)
	if err := cuda.Download(e.dev, all, at); err != nil {
		t.Fatal(err)
	}
	for _, which := range []string{"attending", "others"} {
		var line []string
		sum := make([]float64, 32)
		n := make([]float64, 32)
		total, layers := 0.0, 0.0
		for b := range p.blocks {
			if (b < (e.shape.heads/e.shape.kvHeads*e.shape.headDim>>p.share)*e.shape.kvHeads) != (which == "attending") {
				continue
			}
			for l := 2; l < L-2; l++ {
				s := all[(b*L+l)*32:][:32]
				next := all[(b*L+l+1)*32]
				last := s[0]
				for _, i := range []int{1, 2, 16, 17, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15} {
					if s[i] != 0 {
						sum[i] += float64(s[i] - last)
						n[i]++
						last = s[i]
					}
				}
				total += float64(next - s[0])
				layers++
			}
		}
		for _, i := range []int{1, 2, 16, 17, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15} {
			if n[i] > 0 {
				line = append(line, fmt.Sprintf("%s %.0f", []string{"", "qkv", "q gathered", "attention", "posted", "parts gathered", "att gathered", "o_proj", "gathered", "router", "choice", "first up", "up", "up gathered", "down", "down gathered", "prepared", "mixed"}[i], sum[i]/n[i]))
			}
		}
		t.Logf("  %s, cycles of a layer %.0f: %s", which, total/layers, strings.Join(line, ", "))
	}
}
