package calibrate

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"llmprof/analytic"
	"llmprof/hardware"
	"llmprof/measure/stats"
	"llmprof/unit"
)

// Fit makes a calibration of rows of one machine. Constants that the rows tell
// nothing of are the defaults of g's generation, and the file says so.
func Fit(rows *Rows, g *hardware.GPU, name string) (*hardware.CalibrationFile, error) {
	m := &rows.Machine
	if m.GPU != g.Key {
		return nil, fmt.Errorf("the rows are of %s, not of %s", m.GPU, g.Key)
	}
	f, err := hardware.NewCalibration(g, m.DType)
	if err != nil {
		return nil, err
	}
	f.Name, f.Engine, f.Kernels, f.Made, f.Version = name, m.Engine, m.Kernels, m.When, m.Version
	f.Notes = append(f.Notes, m.Notes...)
	m.device(f)
	for k, v := range m.Tools {
		f.Tools[k] = v
	}
	b := &builder{file: f, gpu: g, rows: rows.Rows}
	if f.TP, err = b.ranks(); err != nil {
		return nil, err
	}
	for _, part := range []func() error{b.products, b.wide, b.mixtures, b.experts, b.sustained, b.attention, b.elements, b.links, b.medians} {
		if err := part(); err != nil {
			return nil, err
		}
	}
	if err := b.plausible(); err != nil {
		return nil, err
	}
	return f, b.power(m)
}

// A builder puts what is fitted into a file.
type builder struct {
	file *hardware.CalibrationFile
	gpu  *hardware.GPU
	rows []Row
}

// of lists the rows of some kinds, in the order of their shapes, so that each
// third that is left out has all sizes.
func (b *builder) of(kinds ...Kind) []*Row {
	var out []*Row
	for i := range b.rows {
		if slices.Contains(kinds, b.rows[i].Kind) {
			out = append(out, &b.rows[i])
		}
	}
	slices.SortStableFunc(out, func(x, y *Row) int { return compareShapes(&x.Shape, &y.Shape) })
	return out
}

func compareShapes(x, y *Shape) int {
	a := []int{x.N, x.K, x.M, x.Experts, x.Hidden, x.Batch, x.Tokens, x.Context, x.Heads, x.Width, x.Bytes, x.Launches}
	return slices.Compare(a, []int{y.N, y.K, y.M, y.Experts, y.Hidden, y.Batch, y.Tokens, y.Context, y.Heads, y.Width, y.Bytes, y.Launches})
}

// ranks lists the numbers of GPUs that were timed.
func (b *builder) ranks() ([]int, error) {
	ranks := []int{1}
	for i := range b.rows {
		if b.rows[i].DType != b.file.DType {
			return nil, fmt.Errorf("%v is in %v, the machine's line says %v", b.rows[i].Point(), b.rows[i].DType, b.file.DType)
		}
		ranks = append(ranks, b.rows[i].Ranks)
	}
	slices.Sort(ranks)
	return slices.Compact(ranks), nil
}

// sample is the row in seconds at the peaks of the data sheet.
func (b *builder) sample(r *Row) sample {
	p := r.Point()
	w := p.Work()
	peak, _ := b.gpu.Peak(r.DType)
	s := sample{
		time: r.Median, compute: float64(w.FLOPs.Over(peak)), perKey: float64(w.PerKey.Over(peak)),
		memory: float64(w.Bytes.Over(b.gpu.Bandwidth)), ranks: float64(r.Ranks), rows: float64(r.Shape.M), groups: float64(w.Groups.Over(b.gpu.Bandwidth)), again: float64(w.Again.Over(b.gpu.Bandwidth)), several: r.Shape.Batch > 1,
		acts: float64(w.Acts.Over(b.gpu.Bandwidth)), order: float64(w.Order.Over(b.gpu.Bandwidth)), pairs: float64(r.Shape.Tokens) * float64(r.Shape.TopK),
		experts: float64(r.Shape.Experts), up: r.Kind == GateUpPrefill,
	}
	if s.order > 0 {
		s.memory *= p.reread(b.gpu)
	}
	if w.Wire > 0 {
		s.wire = float64(w.Wire.Over(b.gpu.LinkAmong(r.Ranks)))
	}
	return s
}

// hot reports whether the row may tell of the L2 cache what is asked of the
// memory: its buffers were the same in every call and fit there, and moving them
// is more than a trifle of its time.
func (b *builder) hot(r *Row, s *sample) bool {
	return !r.Cold && r.Bytes < float64(b.gpu.L2) && s.memory > s.compute && s.memory > 0.05*s.time
}

// samples are those of rows that tell of the memory, and how many were left out.
func (b *builder) samples(rows []*Row) (all []sample, left int) {
	for _, r := range rows {
		if s := b.sample(r); b.hot(r, &s) {
			left++
		} else {
			all = append(all, s)
		}
	}
	return all, left
}

// put takes the free constants of a fit into the file, and says of the others why
// they are not.
func (b *builder) put(f *fit, what string) {
	for k, key := range f.keys {
		v := b.file.Values[key]
		if f.held[k] {
			v.From = fmt.Sprintf("default for %s: %d of %d %s tell of it", b.gpu.Generation, f.n[k], len(f.samples), what)
			if f.n[k] >= least {
				v.From = fmt.Sprintf("default for %s: %s alone do not settle it", b.gpu.Generation, what)
			}
			b.file.Values[key] = v
			continue
		}
		if key == "attention.ramp" && f.value[k] < 0.1 || key == "power.fixed" && f.value[k] < 1e-3 || // of a token, of the power
			key == "posted.per_gpu" && f.value[k] < 1e-12 { // s
			f.value[k] = 0
		}
		b.file.Values[key] = hardware.Value{Value: f.value[k], Uncertainty: f.half[k], N: f.n[k], From: fmt.Sprintf("%d %s", len(f.samples), what)}
		if c := hardware.ConstantOf(key); c.Relative() && f.value[k] > 0 {
			errs := f.heldOut(k)
			b.file.HeldOut[key] = hardware.Residual{N: len(errs), Median: stats.Percentile(errs, 50), P90: stats.Percentile(errs, 90)}
		}
	}
}

// fit solves an equation for the rows, beginning at the defaults.
func (b *builder) fit(e equation, samples []sample, what string, hold ...string) error {
	if len(samples) == 0 {
		return nil
	}
	start := make([]float64, len(e.keys))
	for i, key := range e.keys {
		start[i] = b.file.Values[key].Value
	}
	f, err := solve(e, samples, start, hold...)
	if err != nil {
		return err
	}
	if b.hopeless(f, what) {
		return nil
	}
	b.put(f, what)
	return nil
}

// contradiction is the error of rows left out, as a share of their time, from which
// on they tell nothing.
const contradiction = 10

// hopeless leaves all constants of an equation at their defaults where it says next
// to nothing of rows that were left out of its fit.
func (b *builder) hopeless(f *fit, what string) bool {
	off := 0.0
	for _, k := range f.free() {
		off = max(off, stats.Percentile(f.heldOut(k), 90))
	}
	if off < contradiction {
		return false
	}
	for _, key := range f.keys {
		v := b.file.Values[key]
		v.From = fmt.Sprintf("default for %s: %d %s contradict each other", b.gpu.Generation, len(f.samples), what)
		b.file.Values[key] = v
	}
	b.note("%s contradict each other, as where something else ran beside: left out of a fit, they are missed by %.0f %%", what, 100*off)
	return true
}

// note adds a remark to the file.
func (b *builder) note(format string, args ...any) {
	b.file.Notes = append(b.file.Notes, fmt.Sprintf(format, args...))
}

// few is up to how many rows the engine multiplies by kernels of its own.
func (b *builder) few() int {
	e, err := analytic.ParseEngine(b.file.Engine)
	if err != nil {
		return 0
	}
	return int(e.Carries.Rows)
}

// products fits those of an engine's own kernels, which it has for few rows, apart from
// all others.
func (b *builder) products() error {
	few := b.few()
	var own, others []*Row
	for _, r := range b.of(GEMM) {
		if r.Shape.M <= few {
			own = append(own, r)
		} else {
			others = append(others, r)
		}
	}
	streams, left := b.samples(own)
	samples, also := b.samples(others)
	if left += also; left > 0 {
		b.note("products left out, for their matrices stayed in the L2 cache: %d", left)
	}
	if err := b.fit(kernel("gemm.compute", "gemm.memory", "gemm.fixed"), samples, "products"); err != nil || len(streams) == 0 {
		return err
	}
	c := hardware.DefaultCalibration(b.gpu)
	return b.optional(streamed("own.memory", "own.row", "own.fixed"), streams, "products of few rows", map[string]float64{
		"own.memory": c.Own.Memory, "own.row": ownRow, "own.fixed": float64(c.Own.Fixed),
	})
}

// mixtures fits those of decode steps, of an engine that has kernels of its own for them.
func (b *builder) mixtures() error {
	samples, left := b.samples(b.of(MixtureDecode))
	if left > 0 {
		b.note("mixtures left out, for their experts stayed in the L2 cache: %d", left)
	}
	if len(samples) == 0 {
		return nil
	}
	fixed := 4 * b.file.Values["gemm.fixed"].Value
	return b.optional(mixed("mixture.memory", "mixture.again", "mixture.fixed", "mixture.several"), samples, "mixtures", map[string]float64{
		"mixture.memory": b.file.Values["gemm.memory"].Value, "mixture.again": mixtureAgain, "mixture.fixed": fixed, "mixture.several": fixed,
	})
}

// wide fits the products of decode steps of many sequences, of an engine that has kernels of its own
// for them.
func (b *builder) wide() error {
	samples, left := b.samples(b.of(wideKinds...))
	if left > 0 {
		b.note("products of many sequences left out, for their matrices stayed in the L2 cache: %d", left)
	}
	if len(samples) == 0 {
		return nil
	}
	return b.optional(again("wide.memory", "wide.again", "wide.fixed"), samples, "products of many sequences", map[string]float64{
		"wide.memory": b.file.Values["gemm.memory"].Value, "wide.again": wideAgain, "wide.fixed": b.file.Values["gemm.fixed"].Value,
	})
}

// experts fits the operators of a prompt's mixtures, of an engine that has kernels of its own for them.
func (b *builder) experts() error {
	var choices []sample
	for _, r := range b.of(TopKPrefill) {
		choices = append(choices, b.sample(r))
	}
	samples, left := b.samples(b.of(GateUpPrefill, DownPrefill))
	if left > 0 {
		b.note("products of experts left out, for their matrices stayed in the L2 cache: %d", left)
	}
	if len(samples) == 0 || len(choices) == 0 {
		return nil
	}
	err := b.optional(grouped(b.file.Values["gemm.fixed"].Value, "experts.memory", "experts.compute", "experts.gather", "experts.sum"), samples, "products of experts", map[string]float64{
		"experts.memory": b.file.Values["gemm.memory"].Value, "experts.compute": b.file.Values["gemm.compute"].Value, "experts.gather": gatherTimes, "experts.sum": sumTimes,
	})
	if err != nil {
		return err
	}
	return b.optional(chosen("choice.pair", "choice.expert", "choice.fixed"), choices, "choices of experts", map[string]float64{
		"choice.pair": choicePair, "choice.expert": choiceExpert, "choice.fixed": b.file.Values["element.fixed"].Value,
	})
}

// Where fits of these constants begin, and what they are where rows tell of the others alone.
const (
	wideAgain    = 4.0  // times
	mixtureAgain = 0.5  // the L2 is no more than twice as fast
	gatherTimes  = 2.0  // read and written
	sumTimes     = 3.0  // written, and read by a sum that writes
	choicePair   = 1e-9 // of a thousand threads
	choiceExpert = 3e-8 // of one
)

// optional fits constants that a file may leave out, of memory, rows and a fixed time,
// beginning at start. Where rows do not tell of the first, it has none of them.
func (b *builder) optional(e equation, samples []sample, what string, start map[string]float64) error {
	for key, v := range start {
		b.file.Values[key] = hardware.Value{Value: v, From: "default for " + b.gpu.Generation}
	}
	err := b.fit(e, samples, what)
	if b.file.Values[e.keys[0]].N == 0 {
		for _, key := range e.keys {
			delete(b.file.Values, key)
		}
	}
	return err
}

// ownRow is where a fit of own.row begins, and what it is where rows tell of the
// others alone: an eighth of the weights' time for eight rows.
const ownRow = 1.0 / 64

// sustained is the share of the peak that products reach at the power limit.
func (b *builder) sustained() error {
	var shares []float64
	from := ""
	for _, r := range b.of(Sustained) {
		s := b.sample(r)
		shares = append(shares, s.compute/s.time)
		if from != "" {
			from += "; "
		}
		from += fmt.Sprintf("%d×%d×%d", r.Shape.M, r.Shape.N, r.Shape.K)
		if r.Power != nil {
			from += fmt.Sprintf(" at %.0f W", *r.Power)
		}
		if r.Clock != nil {
			from += fmt.Sprintf(" and %.0f MHz", *r.Clock/1e6)
		}
	}
	if len(shares) == 0 {
		return nil
	}
	v, err := middle(shares, "products for seconds: "+from)
	if err != nil {
		return err
	}
	b.file.Values["gemm.sustained"] = v
	if len(shares) > 1 {
		spread := make([]float64, len(shares))
		for i, s := range shares {
			spread[i] = math.Abs(v.Value/s - 1)
		}
		slices.Sort(spread)
		b.file.HeldOut["gemm.sustained"] = hardware.Residual{N: len(spread), Median: stats.Percentile(spread, 50), P90: stats.Percentile(spread, 90)}
	}
	return nil
}

// middle is the median of what several rows tell, with Student's interval of
// their mean.
func middle(xs []float64, from string) (v hardware.Value, err error) {
	sum, err := stats.Summarize(xs)
	if err != nil {
		return v, err
	}
	v = hardware.Value{Value: sum.Median, N: sum.N, From: from}
	if sum.MeanHigh != nil {
		v.Uncertainty = *sum.MeanHigh - sum.Mean
	}
	return v, nil
}

// attention fits prefill and decode together, for they share the fixed time.
// That of decode is what matters: with no rows of it, it stays at its default.
func (b *builder) attention() error {
	e := kernel("attention.compute", "attention.memory", "attention.fixed", "attention.ramp")
	decode := b.of(AttentionDecode)
	samples, left := b.samples(decode)
	if left > 0 {
		b.note("rows of decode attention left out, for their keys and values stayed in the L2 cache: %d", left)
	}
	for _, r := range b.of(AttentionPrefill) { // bound by arithmetic
		samples = append(samples, b.sample(r))
	}
	if len(decode) == 0 {
		return b.fit(e, samples, "prefills", "attention.fixed", "attention.memory")
	}
	return b.fit(e, samples, "prefills and decode steps")
}

// elements fit what reads and writes activations. None of them computes enough to
// tell of the vector units.
func (b *builder) elements() error {
	samples, left := b.samples(b.of(RMSNorm, Activation))
	if left > 0 {
		b.note("element-wise rows left out, for their tensors stayed in the L2 cache: %d", left)
	}
	if err := b.fit(kernel("element.compute", "element.memory", "element.fixed"), samples, "norms and activations", "element.compute"); err != nil {
		return err
	}
	for _, kind := range []Kind{Read, Copy} {
		best := 0.0
		for _, r := range b.of(kind) {
			best = max(best, r.Bytes/r.Median)
		}
		if best > 0 {
			b.note("the best %s reached %v", kind, unit.BytesPerSec(best))
		}
	}
	return nil
}

// links fit all-reduces. Over one number of GPUs, base and per_gpu cannot be told
// apart. An engine that does all of them over peer memory has one latency for large
// and small, and another where its own products of few rows sum themselves.
func (b *builder) links() error {
	var samples, within []sample
	for _, r := range b.of(AllReduce) {
		if b.gpu.LinkAmong(r.Ranks) == 0 {
			b.note("%v tells nothing: the table has no link of %s", r.Point(), b.gpu.Key)
			continue
		}
		if r.Ranks > b.gpu.LinkGPUs {
			b.note("%v went over PCIe, of which a calibration has no constants", r.Point())
			continue
		}
		if r.Shape.Bytes <= b.few()*sumRow && analytic.Posted(r.Ranks, unit.Bytes(r.Shape.Bytes), false) {
			within = append(within, b.sample(r))
		} else {
			samples = append(samples, b.sample(r))
		}
	}
	if len(within) < least { // they would tell nothing by themselves
		samples, within = append(within, samples...), nil
	}
	base, perGPU := "link.base", "link.per_gpu"
	if b.file.Engine == Native { // which does all of them over peer memory
		base, perGPU = "one_shot.base", "one_shot.per_gpu"
	}
	if err := b.fit(allReduce("link.share", base, perGPU), samples, "all-reduces", hold(samples, perGPU)...); err != nil || b.file.Engine != Native {
		return err
	}
	if len(samples) > 0 {
		b.file.Values["link.base"], b.file.Values["link.per_gpu"] = b.file.Values[base], b.file.Values[perGPU]
	}
	return b.posted(within)
}

// sumRow is the message of one row of the native engine's all-reduces that are timed:
// 4096 values in 16 bits.
const sumRow = 8 << 10

// posted fits all-reduces within own products, whose bytes move at the link's share.
func (b *builder) posted(within []sample) error {
	if len(within) == 0 {
		return nil
	}
	share := b.file.Values["link.share"].Value
	for _, key := range []string{"base", "per_gpu"} {
		b.file.Values["posted."+key] = hardware.Value{Value: b.file.Values["one_shot."+key].Value, From: "default for " + b.gpu.Generation}
	}
	e := equation{[]string{"posted.base", "posted.per_gpu"}, func(p []float64, s *sample, parts []float64) float64 {
		parts[0], parts[1] = p[0], s.ranks*p[1]
		return parts[0] + parts[1] + s.wire/share
	}}
	return b.fit(e, within, "all-reduces within products", hold(within, "posted.per_gpu")...)
}

// hold names the constant of each GPU where all samples are over one number of them.
func hold(samples []sample, perGPU string) []string {
	for i := range samples {
		if samples[i].ranks != samples[0].ranks {
			return nil
		}
	}
	return []string{perGPU}
}

// medians are the constants that rows tell directly: a time, or a time over
// launches.
func (b *builder) medians() error {
	for _, c := range []struct {
		key, what string
		kind      Kind
		host      bool
	}{
		{"graph.node", "empty kernels in a graph", GraphNode, false},
		{"stream.node", "prefills, in a graph and not", LaunchPrefill, false},
		{"host.step", "decode steps of a tiny model", HostStep, true},
		{"host.launch", "decode steps of a tiny model, over their launches", EagerStep, true},
		{"host.small_kernel", "small kernels in a graph", SmallKernel, true},
	} {
		var xs []float64
		for _, r := range b.of(c.kind) {
			xs = append(xs, r.Median/float64(max(r.Shape.Launches, 1)))
		}
		if len(xs) == 0 || c.host && b.file.Engine == "" {
			continue
		}
		v, err := middle(xs, c.what)
		if err != nil {
			return err
		}
		b.file.Values[c.key] = v
	}
	return nil
}

// plausible refuses constants that no file may have: a share above the peak says
// that the peak is wrong, or that what was timed did not do its work.
func (b *builder) plausible() error {
	var wrong []string
	for _, c := range hardware.Constants() {
		v, ok := b.file.Values[c.Key]
		if ok && v.N > 0 && !c.Valid(v.Value) {
			wrong = append(wrong, fmt.Sprintf("%s comes out as %.4g from %s, and has to be %s", c.Key, v.Value, v.From, c.Want()))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%s: the peaks in the table of GPUs are too low for this device, or its buffers stayed in a cache (%s: %v, %v)",
		strings.Join(wrong, "; "), b.gpu.Key, b.file.Device.Peak, b.gpu.Bandwidth)
}
