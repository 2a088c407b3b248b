package calibrate

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"llmprof/analytic/engine"
	"llmprof/hardware"
	"llmprof/internal/stats"
	"llmprof/roofline"
	"llmprof/unit"
)

// Fit makes a calibration of rows of one machine. Constants on which no row depends
// are the defaults of g's generation, and the file says so.
func Fit(rows *Rows, g *hardware.GPU, name string) (*hardware.CalibrationFile, error) {
	m := &rows.Head
	if m.GPU != g.Key {
		return nil, fmt.Errorf("the rows are of %s, not of %s", m.GPU, g.Key)
	}
	f, err := hardware.NewCalibrationFile(g, m.DType)
	if err != nil {
		return nil, err
	}
	f.Name, f.Engine, f.Kernels, f.Made, f.Version = name, m.Engine, m.Kernels, m.When, m.Version
	f.Notes = append(f.Notes, m.Notes...)
	m.device(f)
	maps.Copy(f.Tools, m.Tools)
	g = g.Linked(hardware.Links{NVLink: true}) // Ranks that a bridge can join are taken to have it.
	peaks, err := g.Peaks()
	if err != nil {
		return nil, err
	}
	b := &builder{file: f, gpu: g, peaks: peaks, rows: rows.Rows}
	for i := range b.rows {
		if r := &b.rows[i]; r.DType != f.DType {
			return nil, fmt.Errorf("%v is in %v, the machine's line says %v", r.Point(), r.DType, f.DType)
		}
	}
	b.ranks()
	for _, part := range []func(){b.products, b.ownKernels, b.attention, b.elements, b.links, b.sustained, b.medians} {
		part()
	}
	if err := b.plausible(); err != nil {
		return nil, err
	}
	return f, b.power(m)
}

// A builder puts what is fitted into a file.
type builder struct {
	file  *hardware.CalibrationFile
	gpu   *hardware.GPU
	peaks *roofline.Peaks
	rows  []Row
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
	order := func(s *Shape) []int {
		return []int{s.N, s.K, s.M, s.Experts, s.Hidden, s.Batch, s.Tokens, s.Context, s.Heads, s.Width, s.Bytes, s.Launches}
	}
	return slices.Compare(order(x), order(y))
}

// ranks notes the numbers of GPUs that were timed.
func (b *builder) ranks() {
	for i := range b.rows {
		b.file.TP = append(b.file.TP, b.rows[i].Ranks)
	}
	slices.Sort(b.file.TP)
	b.file.TP = slices.Compact(b.file.TP)
}

func (b *builder) sample(r *Row) sample {
	p := r.Point()
	s := sample{time: r.Median, kernel: p.kernel(b.gpu, b.skinny()), copies: r.Copies, random: r.Random, inTurn: r.InTurn}
	if k := &s.kernel; r.Kind == AllReducePower || r.Kind == AllReduce && b.file.Engine == Native { // over peer memory
		k.Class = roofline.OneShotAllReduce
		k.Exchange(engine.OneShotBytes)
	}
	engine.SetTile(b.file.Engine, b.gpu, &s.kernel)
	if k := &s.kernel; k.Class == roofline.GroupedGEMM && k.Tile.Rows > 0 { // all experts have as many tokens
		k.Shape.Tiles = k.Shape.Hit * math.Ceil(k.Shape.Pairs/k.Shape.Hit/k.Tile.Rows)
	}
	if b.file.Engine == "tensorrt-llm" && s.copies > 0 { // its collector takes no more copies than fill the L2 cache
		s.copies = min(s.copies, int(math.Ceil(b.cache()/float64(s.kernel.Work.Weights))))
	}
	return s
}

// cache is the bytes of the L2 cache.
func (b *builder) cache() float64 { return float64(b.gpu.L2) * mebi }

// hot reports whether the row may have timed the L2 cache instead of the memory: its
// buffers were the same in every call and fit there, and moving them is more than a
// trifle of its time.
func (b *builder) hot(r *Row, s *sample) bool {
	f := b.peaks.FloorOf(&s.kernel.Work, r.DType)
	memory := float64(s.kernel.Work.Traffic().Over(b.gpu.Bandwidth))
	return !r.Cold && r.Bytes < float64(b.gpu.L2) && memory > float64(f.Matrix) && memory > 0.05*s.time
}

// samples are those of rows that read the memory rather than the L2 cache, and how many
// were left out.
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

// nothing is what constants that may be 0 are as good as nothing below: in tokens, in
// shares of the power, in seconds.
var nothing = map[roofline.Constant]float64{roofline.AttentionRamp: 0.1, roofline.PowerFixed: 1e-3, roofline.FusedAllReducePerGPU: 1e-12}

// put takes the free constants of a fit into the file, with the errors of samples of another fit of which each accounts for a share.
func (b *builder) put(f *fit, from string, scored *fit, share float64) {
	for _, k := range f.free() {
		c := f.keys[k]
		if f.value[k] < nothing[c] {
			f.value[k], f.half[k] = 0, 0
		}
		key := c.String()
		b.file.Values[key] = hardware.Value{Value: f.value[k], Uncertainty: f.half[k], N: f.n[k], From: from}
		delete(b.file.HeldOut, key)
		if c.Relative() && f.value[k] > 0 {
			b.file.HeldOut[key] = residual(scored.boundBy(k, share))
		}
	}
}

// keepHeld says why constants that a fit held have their defaults.
func (b *builder) keepHeld(f *fit, what string) {
	for k, c := range f.keys {
		if f.held[k] {
			b.keep(c, "%s", f.why(k, what))
		}
	}
}

// keep says why a constant has the default of the GPU's generation.
func (b *builder) keep(c roofline.Constant, why string, args ...any) {
	v := b.file.Values[c.String()]
	v.From = "default for " + b.gpu.Generation + ": " + fmt.Sprintf(why, args...)
	b.file.Values[c.String()] = v
}

// fit fits constants to the rows by the law of their kernels, beginning at the values that the file has.
func (b *builder) fit(samples []sample, what string, keys []roofline.Constant, hold ...roofline.Constant) {
	b.solve(b.law(keys...), samples, what, hold...)
}

// solve puts the constants of an equation into the file.
func (b *builder) solve(e equation, samples []sample, what string, hold ...roofline.Constant) {
	if len(samples) == 0 {
		return
	}
	f := solve(e, samples, b.values(e.keys), hold...)
	if f.leaveOut(); !b.hopeless(f, what) {
		b.put(f, fmt.Sprintf("%d %s", len(samples), what), f, bearing)
		b.keepHeld(f, what)
	}
}

// values are those of constants in the file.
func (b *builder) values(keys []roofline.Constant) []float64 {
	values := make([]float64, len(keys))
	for i, c := range keys {
		values[i] = b.value(c)
	}
	return values
}

// contradiction is the error of rows left out, as a share of their time, from which
// on their prediction is taken for unreliable.
const contradiction = 10

// hopeless leaves all constants of an equation at their defaults where it says next
// to nothing of rows that were left out of its fit.
func (b *builder) hopeless(f *fit, what string) bool {
	off := 0.0
	for _, k := range f.free() {
		off = max(off, stats.Percentile(f.boundBy(k, bearing), 90))
	}
	if off < contradiction {
		return false
	}
	for _, c := range f.keys {
		b.keep(c, "%d %s contradict each other", len(f.samples), what)
	}
	b.note("%s contradict each other, as where something else ran beside: left out of a fit, they are missed by %.0f %%", what, 100*off)
	return true
}

func (b *builder) note(format string, args ...any) {
	b.file.Notes = append(b.file.Notes, fmt.Sprintf(format, args...))
}

// law is the law of the samples' classes, with the constants that the file has so far.
func (b *builder) law(keys ...roofline.Constant) equation {
	c := hardware.DefaultCalibration(b.gpu).Constants
	for _, k := range roofline.All() {
		if v, ok := b.file.Values[k.String()]; ok {
			c[k] = v.Value
		}
	}
	return byLaw(b.peaks, c, keys...)
}

func (b *builder) value(c roofline.Constant) float64 { return b.file.Values[c.String()].Value }

// skinny is up to how many rows the engine multiplies by skinny GEMM.
func (b *builder) skinny() int {
	if b.file.Engine == Native {
		return engine.SkinnyRows
	}
	return 0
}

// cold are the samples of rows whose buffers came from memory; others are noted.
func (b *builder) cold(what, buffers string, kinds ...Kind) []sample {
	samples, left := b.samples(b.of(kinds...))
	if left > 0 {
		b.note("%s left out, for their %s stayed in the L2 cache: %d", what, buffers, left)
	}
	return samples
}

// products fits GEMMs, and those of few rows separately where the engine has a kernel for them.
func (b *builder) products() {
	var few, others []sample
	for _, s := range b.cold("products", "matrices", GEMM) {
		if s.kernel.Class == roofline.SkinnyGEMM {
			few = append(few, s)
		} else {
			others = append(others, s)
		}
	}
	b.fit(others, "products", []roofline.Constant{roofline.GEMMCompute, roofline.GEMMMemory, roofline.GEMMFixed})
	c := hardware.DefaultCalibration(b.gpu).Constants
	b.optional(few, "products of few rows", begin{roofline.SkinnyGEMMMemory, c[roofline.GEMMMemory]},
		begin{roofline.SkinnyGEMMRow, skinnyRow}, begin{roofline.SkinnyGEMMFixed, c[roofline.GEMMFixed]})
}

// ownKernels fits what an engine has kernels of its own for: products of decode steps of many sequences, and the experts of decode
// steps and of prompts.
func (b *builder) ownKernels() {
	compute, memory, fixed := b.value(roofline.GEMMCompute), b.value(roofline.GEMMMemory), b.value(roofline.GEMMFixed)
	b.optional(b.cold("products of many sequences", "matrices", wgmmaKinds...), "products of many sequences",
		begin{roofline.WGMMAMemory, memory}, begin{roofline.WGMMAReload, wgmmaReload}, begin{roofline.WGMMAFixed, fixed})
	b.optional(b.cold("mixtures", "experts", MixtureDecode), "mixtures", begin{roofline.MoEDecodeMemory, memory},
		begin{roofline.MoEDecodeReload, moeDecodeReload}, begin{roofline.MoEDecodeFixed, 4 * fixed}, begin{roofline.MoEDecodeBatched, 4 * fixed})
	routings, _ := b.samples(b.of(TopKPrefill))
	samples := b.cold("products of experts", "matrices", GateUpPrefill, DownPrefill)
	if len(samples) == 0 || len(routings) == 0 {
		return
	}
	b.optional(samples, "products of experts", begin{roofline.MoEPrefillMemory, memory}, begin{roofline.MoEPrefillCompute, compute},
		begin{roofline.MoEPrefillPermute, permutes}, begin{roofline.MoEPrefillUnpermute, unpermutes})
	b.optional(routings, "choices of experts", begin{roofline.RoutingPair, routingPair}, begin{roofline.RoutingExpert, routingExpert},
		begin{roofline.RoutingFixed, b.value(roofline.ElementwiseFixed)})
}

// Fits of these constants begin at these values, and keep them where rows determine only the others.
const (
	skinnyRow       = 1.0 / 64 // an eighth of the weights' time for eight rows
	wgmmaReload     = 4.0      // times
	moeDecodeReload = 0.5      // the L2 is no more than twice as fast
	permutes        = 2.0      // read and written
	unpermutes      = 3.0      // written, and read by a sum that writes
	routingPair     = 1e-9     // time of a pair among a thousand threads
	routingExpert   = 3e-8     // time of an expert in one thread
)

// A begin is where the fit of a constant begins.
type begin struct {
	constant roofline.Constant
	value    float64
}

// optional fits constants that a file may leave out. Where rows do not determine the
// first, the file has none of them.
func (b *builder) optional(samples []sample, what string, start ...begin) {
	if len(samples) == 0 {
		return
	}
	keys := make([]roofline.Constant, len(start))
	for i, x := range start {
		keys[i] = x.constant
		b.byDefault(x.constant, x.value)
	}
	b.fit(samples, what, keys)
	if b.file.Values[keys[0].String()].N == 0 {
		for _, c := range keys {
			delete(b.file.Values, c.String())
		}
	}
}

// byDefault gives a constant the value that its fit begins at, and keeps where rows do not determine it.
func (b *builder) byDefault(c roofline.Constant, v float64) {
	b.file.Values[c.String()] = hardware.Value{Value: v, From: "default for " + b.gpu.Generation}
}

// sustained is the share of the peak that products reach at the power limit.
func (b *builder) sustained() {
	var shares []float64
	var from []string
	for _, r := range b.of(Sustained) {
		s := b.sample(r)
		f := b.peaks.FloorOf(&s.kernel.Work, r.DType)
		shares = append(shares, float64(f.Matrix)/s.time)
		text := fmt.Sprintf("%d×%d×%d", r.Shape.M, r.Shape.N, r.Shape.K)
		if r.Power != nil {
			text += fmt.Sprintf(" at %.0f W", *r.Power)
		}
		if r.Clock != nil {
			text += fmt.Sprintf(" and %.0f MHz", *r.Clock/1e6)
		}
		from = append(from, text)
	}
	if len(shares) == 0 {
		return
	}
	v := middle(shares, "products for seconds: "+strings.Join(from, "; "))
	b.file.Values["gemm.sustained"] = v
	if len(shares) > 1 {
		for i, s := range shares {
			shares[i] = math.Abs(v.Value/s - 1)
		}
		b.file.HeldOut["gemm.sustained"] = residual(shares)
	}
}

// middle is the median of several rows' values, with Student's interval of their mean.
func middle(xs []float64, from string) hardware.Value {
	sum, _ := stats.Summarize(xs) // there are some, and they were checked as they were read
	v := hardware.Value{Value: sum.Median, N: sum.N, From: from}
	if sum.MeanHigh != nil {
		v.Uncertainty = *sum.MeanHigh - sum.Mean
	}
	return v
}

// attention fits prefill and decode together, for they share the fixed time.
// The fixed time of decode steps is what matters, so it stays at its default where no decode step was timed.
func (b *builder) attention() {
	keys := []roofline.Constant{roofline.AttentionCompute, roofline.AttentionMemory, roofline.AttentionFixed, roofline.AttentionRamp}
	samples := b.cold("rows of decode attention", "keys and values", AttentionDecode)
	for _, r := range b.of(AttentionPrefill) { // bound by arithmetic
		samples = append(samples, b.sample(r))
	}
	if len(b.of(AttentionDecode)) == 0 {
		b.fit(samples, "prefills", keys, roofline.AttentionFixed, roofline.AttentionMemory)
		return
	}
	b.fit(samples, "prefills and decode steps", keys)
}

// elements fits the elementwise kernels, which read and write activations. None of them
// computes enough to be bound by the vector units.
func (b *builder) elements() {
	samples := b.cold("element-wise rows", "tensors", RMSNorm, Activation)
	keys := []roofline.Constant{roofline.ElementwiseCompute, roofline.ElementwiseMemory, roofline.ElementwiseFixed}
	b.fit(samples, "norms and activations", keys, roofline.ElementwiseCompute)
	for _, kind := range []Kind{Read, Copy} {
		best := 0.0
		for _, r := range b.of(kind) {
			best = max(best, r.Bytes/r.Median)
		}
		if best > 0 {
			b.note("the best %s reached %v", kind, unit.BytesPerSec(best))
		}
	}
}

// links fits the all-reduces. Measurements over one number of GPUs do not separate base and
// per_gpu. The native engine does all of them over peer memory, with one latency for large and
// small messages, and another where its GEMMs fuse them.
func (b *builder) links() {
	base, perGPU := roofline.LinkBase, roofline.LinkPerGPU
	if b.file.Engine == Native {
		base, perGPU = roofline.OneShotBase, roofline.OneShotPerGPU
	}
	var samples, fused []sample
	for _, r := range b.of(AllReduce) {
		s := b.sample(r)
		switch {
		case b.gpu.LinkAmong(r.Ranks) == 0:
			b.note("%v says nothing: the table has no link of %s", r.Point(), b.gpu.Key)
		case r.Ranks > b.gpu.LinkGPUs:
			b.note("%v went over PCIe, of which a calibration has no constants", r.Point())
		case r.Shape.Bytes <= b.skinny()*sumRow && engine.FusesAllReduce(r.Ranks, unit.Bytes(r.Shape.Bytes), false):
			fused = append(fused, s)
		default:
			samples = append(samples, s)
		}
	}
	if len(fused) < least { // they are too few for a fit of their own
		samples, fused = append(fused, samples...), nil
	}
	keys := []roofline.Constant{roofline.LinkShare, base, perGPU}
	sliced := 0.0
	for i := range samples {
		sliced += samples[i].kernel.Sliced
	}
	if sliced >= least { // all-reduces in two exchanges tell their share of the link, whose fit begins at that of one exchange
		keys = append(keys, roofline.OneShotSlicedShare)
		b.byDefault(roofline.OneShotSlicedShare, b.value(roofline.LinkShare))
	}
	b.fit(samples, "all-reduces", keys, hold(samples, perGPU)...)
	if b.file.Engine != Native {
		return
	}
	if len(samples) > 0 {
		b.file.Values["link.base"], b.file.Values["link.per_gpu"] = b.file.Values[base.String()], b.file.Values[perGPU.String()]
	}
	b.fusedAllReduces(fused)
}

// sumRow is the message of one row of the native engine's all-reduces that are timed:
// 4096 values in 16 bits.
const sumRow = 8 << 10

// fusedAllReduces fits all-reduces that products do, whose bytes move at the link's
// share.
func (b *builder) fusedAllReduces(samples []sample) {
	if len(samples) == 0 {
		return
	}
	for i := range samples {
		samples[i].kernel.Class = roofline.FusedAllReduce
	}
	b.byDefault(roofline.FusedAllReduceBase, b.value(roofline.OneShotBase))
	b.byDefault(roofline.FusedAllReducePerGPU, b.value(roofline.OneShotPerGPU))
	keys := []roofline.Constant{roofline.FusedAllReduceBase, roofline.FusedAllReducePerGPU}
	b.fit(samples, "all-reduces within products", keys, hold(samples, roofline.FusedAllReducePerGPU)...)
}

// hold names the constant of each GPU where all samples are over one number of them.
func hold(samples []sample, perGPU roofline.Constant) []roofline.Constant {
	for i := range samples {
		if samples[i].kernel.Shape.Ranks != samples[0].kernel.Shape.Ranks {
			return nil
		}
	}
	return []roofline.Constant{perGPU}
}

// medians are the constants that rows measure directly: a time, or a time over
// launches.
func (b *builder) medians() {
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
		if len(xs) > 0 && (!c.host || b.file.Engine != "") {
			b.file.Values[c.key] = middle(xs, c.what)
		}
	}
}

// plausible refuses constants that no file may have: a share above the peak says
// that the peak is wrong, or that what was timed did not do its work.
func (b *builder) plausible() error {
	var wrong []string
	for _, c := range roofline.All() {
		v, ok := b.file.Values[c.String()]
		if ok && v.N > 0 && !c.Valid(v.Value) {
			wrong = append(wrong, fmt.Sprintf("%s comes out as %.4g from %s, and has to be %s", c, v.Value, v.From, c.Info().Quantity.Want()))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%s: the peaks in the table of GPUs are too low for this device, or its buffers stayed in a cache (%s: %v, %v)",
		strings.Join(wrong, "; "), b.gpu.Key, b.file.Device.Peak, b.gpu.Bandwidth)
}
