package calibrate

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"

	"llmprof/hardware"
	"llmprof/internal/stats"
	"llmprof/roofline"
	"llmprof/unit"
)

// FitImport adds the constants of the rows of published tables to a file that says what they are of. It fits each section of constants
// separately, and fits it again to one half of the shapes to find the errors of the other half. Launched are the schemes whose products
// were timed launch by launch: the time of those products beyond their work is time of the host.
func FitImport(f *hardware.CalibrationFile, g *hardware.GPU, rows []Row, launched []roofline.Scheme) error {
	f.Operators = map[string]hardware.Operators{}
	peaks, err := g.Peaks()
	if err != nil {
		return err
	}
	b := &builder{file: f, gpu: g, peaks: peaks, rows: rows}
	b.ranks()
	for _, s := range importedSections {
		b.imported(&s)
	}
	for _, s := range launched {
		b.shortOf(s, "fixed")
		b.shortOf(s, "depth")
	}
	return b.plausible()
}

// shortOf gives products in a scheme a time that short products show from FP8 products by another kernel, or
// else from 16-bit products.
func (b *builder) shortOf(s roofline.Scheme, name string) {
	for _, from := range []roofline.Constant{roofline.ConstantOf("gemm_fp8." + name), roofline.ConstantOf("gemm." + name)} {
		key := "gemm_" + s.String() + "." + name
		if v, ok := b.file.Values[from.String()]; ok && (v.N > 0 || from.Info().Base == roofline.None) && from.String() != key {
			b.note("products in %s were timed launch by launch, with a %s of %v: %s is that of %s", s, name, unit.Seconds(b.file.Values[key].Value),
				key, from)
			b.file.Values[key] = hardware.Value{Value: v.Value, From: "default: " + from.String()}
			return
		}
	}
}

// An importedSection names the rows that one section of constants is fitted to.
type importedSection struct {
	name  string
	kinds []Kind
	what  string
}

// importedSections lists the sections so that unquantized constants come first.
var importedSections = []importedSection{
	{"gemm", []Kind{GEMM}, "products"},
	{"attention", []Kind{AttentionPrefill, AttentionDecode}, "prefills and decode steps"},
	{"latent_attention", []Kind{LatentPrefill, LatentDecode}, "prefills and decode steps"},
	{"scan", []Kind{ScanPrefill}, "scans"},
	{"scan_channel", []Kind{ChannelScan}, "scans with a decay a channel"},
	{"scan_step", []Kind{ScanStep}, "steps of scans"},
	{"conv", []Kind{ConvPrefill}, "convolutions"},
	{"conv_step", []Kind{ConvStep}, "steps of convolutions"},
	{"grouped_gemm", []Kind{Mixture}, "mixtures"},
	{"link", []Kind{AllReduce}, "all-reduces"},
	{"one_shot", []Kind{OneShot}, "all-reduces over peer memory"},
}

// starts has the value from which the fit of each constant without a default begins, and that of scans, which are far from the shares of
// attention that stand in for them.
var starts = map[string]float64{
	"scan.compute": 0.05, "scan.memory": 0.3, "scan_channel.compute": 0.05, "scan_channel.memory": 0.3,
	"depth": 1e-9, "exposed": 0.5, "tile_empty": 1, "tile_idle": 0.5, "quantize": 2, "row": 1e-9, "tile": 2e-8, "ramp": 500, "chunk": 1e-6,
	"permute": 4, "expert": 1e-7,
	"compute": 0.6, "memory": 0.8, "fixed": 1e-5, "share": 0.6,
}

// imported fits a section in each scheme that has rows.
func (b *builder) imported(s *importedSection) {
	for scheme := range roofline.NumSchemes {
		var samples []sample
		for _, r := range b.of(s.kinds...) {
			if sample := b.sample(r); sample.kernel.Scheme == scheme {
				samples = append(samples, sample)
			}
		}
		inTurn(samples)
		samples = b.drawing(b.uncached(b.padded(samples, scheme), s.what), s.what)
		if len(samples) < folds*least {
			continue
		}
		name := s.name
		if scheme != roofline.Unquantized {
			name += "_" + scheme.String()
		}
		b.section(name, samples, s.what)
	}
}

// padded leaves out quantized GEMMs of rows that are no multiple of 8, unless their tiles are known: decode
// batches are padded to one.
func (b *builder) padded(samples []sample, scheme roofline.Scheme) []sample {
	return b.without(samples, func(s *sample) bool {
		k := &s.kernel
		return k.Class == roofline.GEMM && k.Scheme.Quantizes() && k.Tile.Rows == 0 && k.Shape.M > 16 && math.Mod(k.Shape.M, 8) != 0
	}, "products %s of more than 16 rows that are no multiple of 8 left out: %d", scheme.Help())
}

// without leaves samples out, and notes how many with the text of format.
func (b *builder) without(samples []sample, out func(*sample) bool, format string, args ...any) []sample {
	kept := slices.DeleteFunc(samples, func(s sample) bool { return out(&s) })
	if left := len(samples) - len(kept); left > 0 {
		b.note(format, append(args, left)...)
	}
	return kept
}

// mebi is how much more a megabyte of a cache is than one of memory: caches have 2²⁰ bytes for it. KV caches of exactly
// 96 MiB on an L40S and 128 MiB on an RTX PRO 6000 were read up to 4.6 and twice as fast as memory is.
const mebi = float64(1<<20) / 1e6

// nearCache is the share of the L2 cache that data may have and stay there for the most part. On an L40S products whose weights have 1.00
// to 1.05 of it in all copies are read at up to 1.6 times the rate of memory, from 1.05 on as slowly as any (docs/calibration.md).
const nearCache = 1.05

// trifle is the share of a row's time that reading the weights of its experts from memory may have without the row being left out: rows of
// which a cache can take away no more say what short kernels take.
const trifle = 0.1

// uncached leaves out memory-bound GEMMs and mixtures whose weights, in all copies that a table took in turn, fit into the L2 cache, and
// decode attention whose KV cache fits. Where the number of copies is not known and none of a table is faster than memory, its buffers
// were cold.
func (b *builder) uncached(samples []sample, what string) []sample {
	memory := func(s *sample) float64 { return float64(s.kernel.Work.Traffic().Over(b.gpu.Bandwidth)) }
	reads := func(s *sample) unit.Bytes {
		switch s.kernel.Class {
		case roofline.GEMM:
			if s.copies > 0 {
				return s.kernel.Work.Weights.Times(float64(s.copies) / nearCache)
			}
			return s.kernel.Work.Weights
		case roofline.GroupedGEMM: // it reads the experts that tokens are sent to
			return s.kernel.Work.Weights.Times(float64(s.copies) / nearCache)
		case roofline.AttentionDecode, roofline.LatentDecode:
			return s.kernel.Work.KV
		case roofline.ScanStep, roofline.ConvolutionStep: // a state is read and written
			return s.kernel.Work.State / 2
		case roofline.Convolution:
			return s.kernel.Work.Acts
		}
		return 0
	}
	if !slices.ContainsFunc(samples, func(s sample) bool { return reads(&s) > 0 && (s.copies > 0 || memory(&s) > s.time) }) {
		return samples
	}
	return b.without(samples, func(s *sample) bool {
		floor, from := b.peaks.FloorOf(&s.kernel.Work, s.kernel.Format), reads(s)
		short := s.kernel.Class != roofline.GEMM && s.kernel.Work.KV == 0 && memory(s) <= trifle*s.time
		return from > 0 && float64(from) <= b.cache() && memory(s) > float64(floor.Matrix) && !short
	}, "%s %s left out, for what they read may have stayed in the L2 cache: %d", what, samples[0].kernel.Scheme.Help())
}

// drawing leaves out GEMMs in 16 bits that ran into the power limit with weights whose values are not known. vLLM's collector multiplies
// by what the memory held before: on an L40S such GEMMs take from 0.6 of the time of SGLang's random weights, as zeros draw little power,
// to all of it (experiments/operators/power.py).
func (b *builder) drawing(samples []sample, what string) []sample {
	return b.without(samples, func(s *sample) bool {
		return s.kernel.Class == roofline.GEMM && s.kernel.Scheme == roofline.Unquantized && !s.random && s.atBurst(s.time, 0) < 1
	}, "%s in 16 bits left out, for weights of unknown values draw unknown power at its limit: %d", what)
}

// section fits the constants of a section to samples, but for those that are held.
func (b *builder) section(name string, samples []sample, what string, held ...roofline.Constant) {
	keys, hold := b.begin(name, samples)
	hold = append(hold, held...)
	law, start := b.law(keys...), b.values(keys)
	law.resamples = fewResamples
	var halves [2][]sample
	for _, s := range samples {
		halves[s.half()] = append(halves[s.half()], s)
	}
	law = withHeadroom(law, b.law(keys...), thin(halves[0]), start, hold)
	whole := solve(law, thin(samples), start, hold...)
	if whole.unslowed() {
		b.section(name, b.atOneRate(samples, what), what, held...)
		return
	}
	for k, c := range keys {
		switch impossible := c.Relative() && whole.value[k] > 1 && c.Info().Base != roofline.None; { // few rows depend on it
		case slices.Contains(hold, c):
			continue
		case impossible:
			base, value := b.standIn(c)
			b.file.Values[c.String()] = hardware.Value{Value: value, From: "default: " + base.String()}
		case whole.held[k] && b.noDefault(c):
			b.file.Values[c.String()] = hardware.Value{}
		default:
			continue
		}
		b.section(name, samples, what, append(hold, c)...)
		return
	}
	left := newFit(law, thin(halves[0]), start, hold)
	left.nearest(start)
	left.samples, left.errors = halves[1], left.errorsOf(left.value, halves[1])
	b.put(whole, fmt.Sprintf("%d of %d %s", len(whole.samples), len(samples), what), left, 0.5)
	b.keepHeld(whole, what)
	fitted, r := slices.Sorted(slices.Values(whole.errorsOf(whole.value, samples))), residual(left.errors)
	b.file.Operators[name] = hardware.Operators{N: len(samples), Fitted: stats.Percentile(fitted, 50), HeldOut: r.N, Median: r.Median,
		P90: r.P90}
}

// begin gives the constants of a section a first value where they have none, and returns
// those that the fit leaves unchanged.
func (b *builder) begin(name string, samples []sample) (keys, hold []roofline.Constant) {
	base := hardware.DefaultCalibration(b.gpu).Constants
	for _, c := range roofline.All() {
		section, key, _ := strings.Cut(c.String(), ".")
		if i := c.Info(); section != name || i.Unfiled || c == roofline.GEMMSustained && !samples[0].random {
			continue
		}
		v := cmp.Or(starts[c.String()], base[c])
		if v == 0 {
			_, v = b.standIn(c)
		}
		if v == 0 {
			v = starts[key]
		}
		keys = append(keys, c)
		if _, ok := b.file.Values[c.String()]; !ok {
			b.byDefault(c, v)
		}
		if b.unfelt(c, &samples[0].kernel) {
			hold = append(hold, c)
			b.file.Values[c.String()] = hardware.Value{Value: 0, From: "default: no such kernel"}
		}
	}
	return keys, hold
}

// noDefault reports whether a constant that may be 0 has no default, and none that stands in for it has one.
func (b *builder) noDefault(c roofline.Constant) bool {
	_, known := b.standIn(c)
	return c.Valid(0) && known == 0 && hardware.DefaultCalibration(b.gpu).Constants[c] == 0
}

// standIn is the nearest constant with a value that stands in for c; None and 0 where there is none.
func (b *builder) standIn(c roofline.Constant) (base roofline.Constant, value float64) {
	for base = c.Info().Base; base != roofline.None; base = base.Info().Base {
		if value = b.value(base); value != 0 {
			break
		}
	}
	return base, value
}

// unfelt reports whether no sample depends on a constant of its section: known tiles alone have rows beyond the last one, kernels for mma
// run in waves, and no kernel quantizes activations in a scheme that leaves them in 16 bits.
func (b *builder) unfelt(c roofline.Constant, k *roofline.Kernel) bool {
	_, key, _ := strings.Cut(c.String(), ".")
	switch {
	case c == roofline.GEMMIdle:
		return !b.gpu.MMA()
	case key == "tile_empty" || key == "tile_idle":
		return k.Tile.Rows == 0
	case key == "quantize" || key == "row":
		return !k.Scheme.Quantizes()
	}
	return false
}

// mostFitted is the largest number of samples that a fit takes, evenly spread over the table.
// fewResamples is the number of fits that the interval is computed from.
const (
	mostFitted   = 800
	fewResamples = 20
)

// thin keeps at most mostFitted samples, evenly spread.
func thin(samples []sample) []sample {
	if len(samples) <= mostFitted {
		return samples
	}
	out := make([]sample, 0, mostFitted)
	for i := range mostFitted {
		out = append(out, samples[i*len(samples)/mostFitted])
	}
	return out
}

// half is 0 or 1, by a hash of the shape without its number of tokens.
func (s *sample) half() int {
	k := &s.kernel
	h := fnv.New32a()
	switch k.Class {
	case roofline.GEMM:
		fmt.Fprint(h, k.Shape.N, k.Shape.K)
	case roofline.GroupedGEMM:
		fmt.Fprint(h, k.Shape.Experts, k.Shape.TopK, float64(k.Work.Weights)/k.Shape.Hit, k.Shape.Pairs/k.Shape.Tokens)
	default:
		fmt.Fprint(h, k.Class, k.Work, k.Shape)
	}
	return int(h.Sum32()>>7) & 1
}

// residual is the median and the 90th percentile of errors.
func residual(errs []float64) hardware.Residual {
	errs = slices.Sorted(slices.Values(errs))
	return hardware.Residual{N: len(errs), Median: stats.Percentile(errs, 50), P90: stats.Percentile(errs, 90)}
}
