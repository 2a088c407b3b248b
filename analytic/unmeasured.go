package analytic

import (
	"fmt"
	"math"
	"slices"

	"llmprof/analytic/energy"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// ends are the distances of both ends of a 90 % interval from an expected time, as shares of that time.
type ends struct{ low, high float64 }

// add adds independent errors in quadrature.
func (e ends) add(other ends) ends {
	return ends{math.Hypot(e.low, other.low), math.Hypot(e.high, other.high)}
}

// What was not measured is wider by what such cases have shown. There are three degrees of it.

// unmeasuredFormat is how far kernels are off whose engine has no table of their number format on the GPU's generation, so that the
// constants of kernels in 16 bits price them, or those of a related class. The figures are the 5th and the 95th percentile of the errors
// that each section of analytic/engine/operators.csv has where it is left out (TestLeftOutTables): 1,218 GEMMs, 444
// attentions and 2,324 grouped GEMMs of vLLM 0.24, SGLang 0.5.14 and TensorRT-LLM 1.3 on nine GPUs.
func unmeasuredFormat(c roofline.Class) ends {
	switch c {
	case roofline.GEMM, roofline.SkinnyGEMM, roofline.WGMMAGEMM, roofline.VectorGEMM:
		return ends{0.11, 0.54}
	case roofline.AttentionPrefill, roofline.AttentionDecode, roofline.AttentionMMA, roofline.LatentPrefill, roofline.LatentDecode,
		roofline.Index, roofline.IndexEntries, roofline.IndexBlocks, roofline.SparseAttention, roofline.SparseEntries, roofline.SparseBlocks:
		return ends{0.23, 0.40}
	case roofline.GroupedGEMM, roofline.MoEDecode, roofline.MoEPrefill:
		return ends{0.11, 1.7}
	}
	return ends{}
}

// unmeasuredExperts is how far kernels of experts are off that constants of dense kernels price. All but two of 48 prompts of mixtures by
// llama.cpp on six kinds of GPU took from 0.78 to 1.55 times as long as predicted (llmprof validate --engine llama.cpp --format csv).
// Kernels of experts have 68 to 88 % of that time (llmprof estimate --ops).
var unmeasuredExperts = ends{0.3, 0.7}

// unmeasuredMixer is how far a phase is off on an engine none of whose kernels for a model's token mixers were measured on the GPU's
// generation: recurrences (gated delta nets, state-space models) and sparse attention with its indexer. Of MiniMax-M3, GLM-5, Qwen3.5 and
// Qwen3.6 by vLLM 0.26 and 0.33 and by SGLang 0.5.23 on H200 and B200, steps took from 0.48 to 1.5, and prompts from 0.9 to 1.9 times as
// long as predicted.
var unmeasuredMixer = ends{0.52, 0.9}

// unmeasuredVendor is how far a phase is off on a GPU of a vendor on whose GPUs no kernel of the engine was measured. Of MiniMax-M2.7 and
// Kimi-K2.6 by SGLang on MI300X and MI350X, TPOT was 1.8 to 2.8 times as long as predicted in FP8, and 4.8 and 12 times in INT4.
var unmeasuredVendor = ends{0.5, 4}

// A phase draws power that is off by as much as 90 % of the energies of vLLM and of the native engine on H100 and H200 are
// (docs/validation.md), and by more where neither the generation's nor the format's power was measured end to end. ML.ENERGY's leaderboard
// has vLLM's energies of up to 16 sequences, of which 18 in 16 bits on a B200 are predicted 1 to 19 % short, 8 in MXFP4 on a B200 and on
// H100s 4 % short to 11 % long, and two of Llama-3.1-405B in FP8 over four B200 27 and 29 % short (experiments/power/leaderboard.py).
var (
	measuredPower   = ends{0.08, 0.08}
	unmeasuredPower = ends{0.2, 0.4}
)

// power is how far the power of a phase may be off.
func (p *Predictor) power() ends {
	if p.machine.Cal.PowerMeasured && p.Scheme.Weights.Bits() >= 8 {
		return measuredPower
	}
	return unmeasuredPower
}

// energyWithin is the interval of an energy of a phase, from that of its time and that of its power.
func (p *Predictor) energyWithin(e unit.Joules, t Span) energy.Interval {
	off := ends{1 - float64(t.Low/t.Expected), float64(t.High/t.Expected) - 1}.add(p.power())
	return energy.Within(e, off.low, off.high)
}

// unmeasured is how far a kernel may be off because its constants were read off another board, or off kernels of another format or kind.
func (m *Machine) unmeasured(k *Kernel, c *roofline.Cost) ends {
	dense, board := m.Engine.Profile().DenseExperts, ends{m.Cal.Board, m.Cal.Board}
	switch {
	case c.Class == roofline.UnpackGEMM && k.Shape.Experts > 0 && dense > 0 && k.Shape.Tokens > dense:
		return unmeasuredExperts
	case m.Cal.Fitted[c.Leads]:
		return ends{}
	case m.tables() && !m.prices.Own(c.Leads) && m.Cal.Residuals[c.Leads] == 0:
		return unmeasuredFormat(c.Class).add(board)
	}
	return board
}

// tables reports whether constants of the engine's kernels follow from tables of their times, and not from a calibration of them.
func (m *Machine) tables() bool { return m.Engine.Profile().Tabled && !m.evidence.serves }

// A caveat is an error of a whole phase, and why there is one.
type caveat struct {
	ends
	why string
}

// caveatsOf are the errors of the phases of a case that nothing measured speaks for.
func (p *Predictor) caveatsOf() (all []caveat) {
	m, e := p.machine, p.machine.Engine.Profile()
	if !m.tables() {
		return nil
	}
	if vendor := m.GPU.Vendor; vendor != "nvidia" {
		all = append(all, caveat{unmeasuredVendor, fmt.Sprintf("no kernel of %s was measured on a GPU of %s", e.Engine(), vendor)})
	}
	var mixers []string
	for _, b := range p.Model.Blocks() {
		name := ""
		switch {
		case b.Scan != nil && !m.recurs(b.Scan):
			name = "recurrences"
		case b.Attention != nil && b.Attention.Indexer != nil && !m.chooses(b.Attention):
			name = "sparse attention"
		}
		if name != "" && !slices.Contains(mixers, name) {
			mixers = append(mixers, name)
			all = append(all, caveat{unmeasuredMixer, fmt.Sprintf("no kernel of %s for %s was measured", e.Engine(), name)})
		}
	}
	return all
}

// recurs reports whether an engine's kernels of a recurrence, over prompts and of one token, have constants of their own.
func (m *Machine) recurs(s *models.Scan) bool {
	section := "scan"
	if s.ChannelDecay {
		section = "scan_channel"
	}
	return s.Kind == models.GatedDelta && m.prices.Own(roofline.ConstantOf(section+".compute")) && m.prices.Own(roofline.ScanStepMemory)
}

// chooses reports whether an engine's kernels of sparse attention, and of the choice of its keys, have constants of their own.
func (m *Machine) chooses(a *models.Attention) bool {
	section := "index"
	switch {
	case a.Compress > 0:
		section = "index_entries"
	case a.Latent == nil:
		section = "index_blocks"
	}
	return m.prices.Own(roofline.ConstantOf(section + ".compute"))
}

// Unmeasured says of what nothing was measured that the estimates of a case rest on.
func (p *Predictor) Unmeasured() (why []string) {
	for _, d := range p.caveats {
		why = append(why, d.why)
	}
	return why
}

// within is how far a phase may be off, without errors of its host. An engine's calibration on this kind of GPU knows no
// other error than that of its constants and the scatter of shapes. Without one, what was not measured is added in quadrature:
// for each kernel by what its constants were read off, where a file is of the kernels of another engine by the error of the board for all
// of them, and for the whole phase by its caveats. Where no operators of the board were timed either, the half-width is at least the
// error that its generation of GPUs has.
func (p *Predictor) within(t *total, generation float64) ends {
	b, board := &p.machine.evidence, p.machine.Cal.Board
	if p.Scheme.Act == unit.FP32 {
		board = 0 // no operator table has products in FP32
	}
	off := math.Hypot(b.spread(t), t.share(t.scatter))
	both := ends{off, off}
	if b.fitted && b.serves {
		return both
	}
	switch unmeasured := (ends{t.share(t.unmeasured.low), t.share(t.unmeasured.high)}); {
	case board > 0 && b.otherEngine:
		both = both.add(ends{board, board})
	case board > 0:
		both = both.add(unmeasured)
	default:
		both = both.add(unmeasured)
		both = ends{max(both.low, generation), max(both.high, generation)}
	}
	for _, d := range p.caveats {
		both = both.add(d.ends)
	}
	return both
}
