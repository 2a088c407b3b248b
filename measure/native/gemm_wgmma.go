package native

import (
	"fmt"

	"llmprof/analytic/engine"
	"llmprof/measure/native/cuda"
)

// A wgmmaRing is the ring of a kernel of gemm_wgmma.cu.
type wgmmaRing struct {
	units     int // units of 16 weight rows in a stage
	stages    int
	span      int  // columns of a stage, in units of 64
	cluster   int  // blocks of a cluster, which share the rows of a tile and take different columns
	norms     bool // The kernel has the RMSNorm prologue and a plain store: qkv_proj and the LM head.
	exclusive bool // No two blocks fit on a multiprocessor.
	clusters  int  // number of clusters that are resident at the same time
}

// wgmmaRings are the rings of the GEMMs of a step. The LM head has one of its own.
type wgmmaRings struct{ norm, head, swiglu, residual wgmmaRing }

func (w *wgmmaRings) of(u epilogue, head bool) *wgmmaRing {
	switch {
	case u == residualEpilogue:
		return &w.residual
	case u == swigluEpilogue:
		return &w.swiglu
	case head:
		return &w.head
	}
	return &w.norm
}

// newWgmmaRing is the ring of a GEMM with n weight rows on so many multiprocessors. It has the
// smallest even number of units that needs the fewest passes, and as many stages as fit into room.
// Pairs of blocks take 128 columns a stage; with 64 columns a step of llama3.1-8b at batch 32 took
// 5.98 ms in place of 5.20 (docs/log/native-experiments.md).
func newWgmmaRing(n, rows, cluster, sms, room int) wgmmaRing {
	ceil := func(a, b int) int { return (a + b - 1) / b }
	each := ceil(ceil(n, 16), max(1, sms/cluster))
	r := wgmmaRing{units: 14, cluster: cluster, span: cluster} // A thread has registers for the sums of at most so many units.
	for r.units > 2 && r.fit(rows, room) < 2 {
		r.units -= 2
	}
	passes := ceil(each, r.units)
	r.units = ceil(ceil(each, passes), 2) * 2
	r.stages = r.fit(rows, room)
	return r
}

// fit is how many stages fit into room; more than 8 are of no use.
func (r *wgmmaRing) fit(rows, room int) int { return min(8, (room-r.staticShared(rows))/r.stage(rows)) }

// stage is the bytes of one stage.
func (r *wgmmaRing) stage(rows int) int { return r.span * (r.units*2048 + rows*128) }

// sent is the bytes that the blocks of a cluster reserve to send each other sums.
func (r *wgmmaRing) sent(rows int) int { return (r.cluster - 1) * r.units * 32 * rows }

// staticShared is an upper bound of what a block takes of a multiprocessor's shared memory beside its
// ring: alignment to 1024 bytes, static memory, and the 1 KiB that every block costs.
func (r *wgmmaRing) staticShared(rows int) int { return 1<<10 + r.sent(rows) + 512 + 1<<10 }

// maxWgmmaBatch is the largest batch that the wgmma GEMM is compiled for.
const maxWgmmaBatch = engine.WGMMARows

// wgmmaGEMMs are the kernels of gemm_wgmma.cu for a batch: at most one entry, because compiling takes
// time. A multiprocessor has room for two blocks, but not for two with the residual epilogue, as in
// skinnyGEMMs; their ring takes what the other GEMMs leave. On one GPU gate_up_proj, which is half of
// all weights, has a multiprocessor for itself and a ring twice as long: on an H200 a step of
// llama3.1-8b took 5.200 and 5.230 ms, before that 5.241 and 5.249, at batch 32, and 6.356 ms, before
// that 6.416, at 64 (docs/log/native-experiments.md).
func wgmmaGEMMs(s *shape, batch, sms int) []gemmKernels {
	const shared = 228 << 10
	const room = shared - oneBlockPerSM - 1536 // shared memory beside a block that takes oneBlockPerSM
	rows := 32
	if batch > 32 {
		rows = 64
	}
	if batch <= engine.SkinnyRows || batch > maxWgmmaBatch || !s.usesWgmma() {
		return nil
	}
	tokens := max(s.tokens, s.tokensEach(max(1, s.ranks))) // The last rank has fewer tokens and the same kernels.
	w := wgmmaRings{
		norm: newWgmmaRing(s.qkvWidth(), rows, 2, sms, room), head: newWgmmaRing(tokens, rows, 1, sms, room),
		swiglu: newWgmmaRing(2*s.inner, rows, 1, sms, room),
	}
	w.norm.norms, w.head.norms = true, true
	most := 0
	for _, r := range []*wgmmaRing{&w.norm, &w.head, &w.swiglu} {
		most = max(most, r.stages*r.stage(rows)+r.staticShared(rows))
	}
	w.residual = newWgmmaRing(s.hidden, rows, 2, sms, shared-most)
	w.residual.exclusive = true
	if s.ranks == 1 {
		w.swiglu.exclusive, w.swiglu.stages = true, min(8, 192<<10/w.swiglu.stage(rows))
	}
	return []gemmKernels{{rows: rows, columns: rows / 8, wgmma: w, tiles: 1, depth: 64, minStages: 1}}
}

// isWgmma reports whether the kernels are those of gemm_wgmma.cu.
func (l *gemmKernels) isWgmma() bool { return l.wgmma.norm.units > 0 }

// usesWgmma reports whether the decode steps of a model can use the wgmma GEMM: dense models with
// 16-bit weights whose blocks add their output to the stream without a norm. The boxes of tensor
// copies have to divide the part of each rank.
func (s *shape) usesWgmma() bool {
	return !s.outputNorm && s.experts == 0 && s.quant == Unquantized && s.hidden%64 == 0 && s.inner%64 == 0 && s.attWidth()%64 == 0
}

func (l *gemmKernels) wgmmaDefines() (out []string) {
	w := &l.wgmma
	out = append(out, "WGMMA_GEMM=1")
	for i, r := range []*wgmmaRing{&w.norm, &w.head, &w.swiglu, &w.residual} {
		name := []string{"NORM", "HEAD", "SWIGLU", "RESIDUAL"}[i]
		out = append(out, fmt.Sprintf("WGMMA_%s_%d=%d,%d,%d,%d,%d", name, l.rows, 8*r.units, r.stages, l.rows, r.cluster, r.span))
	}
	return out
}

// wgmmaTensorMaps are the tensor maps of a GEMM's weights and inputs.
func wgmmaTensorMaps(dev *cuda.Device, r *wgmmaRing, rows int, u epilogue, o *gemmOperands, batch int) ([]any, error) {
	n, k := o.out, o.in
	weights := cuda.Tensor{At: o.w, Size: [3]int{k, n, 1}, Stride: [2]int{2 * k, 2 * k * n}, Box: [3]int{64, 8 * r.units, 1}, Short: true}
	if u == swigluEpilogue {
		weights.Size[2], weights.Box = 2, [3]int{64, 4 * r.units, 2}
	}
	inputs := cuda.Tensor{At: o.x, Size: [3]int{k, batch, 1}, Stride: [2]int{2 * k, 2 * k * batch}, Box: [3]int{64, rows, 1}, Short: true}
	return dev.TensorMaps(&weights, &inputs)
}

// launch is the grid on so many multiprocessors.
func (r *wgmmaRing) launch(rows, sms int) cuda.Launch {
	blocks := sms
	if r.cluster > 1 {
		blocks = r.cluster * max(1, min(r.clusters, sms/r.cluster))
	}
	shared := r.stages*r.stage(rows) + 1024 // The ring is aligned to 1024 bytes.
	if r.exclusive {
		shared = max(shared, oneBlockPerSM-r.sent(rows))
	}
	return cuda.Launch{Grid: cuda.Dim{X: blocks}, Block: cuda.Dim{X: r.threads()}, Shared: shared, Early: true, Cluster: r.cluster}
}

// threads is how many threads a block has: eight warps multiply, one copies, and one computes norms.
// Four warps compute norms if the epilogue is a plain store and registers suffice.
func (r *wgmmaRing) threads() int {
	if r.norms && r.units <= 8 {
		return 32 * (8 + 1 + 4)
	}
	return 32 * (8 + 1 + 1)
}

// ringOf maps the rings to the kernels that use them. Some models lack some kernels.
func (l *gemmKernels) ringOf() map[*wgmmaRing][]*cuda.Kernel {
	w := &l.wgmma
	return map[*wgmmaRing][]*cuda.Kernel{&w.norm: {l.normGEMM}, &w.head: {l.headGEMM}, &w.swiglu: {l.swigluGEMM},
		&w.residual: {l.residualGEMM, l.allReduceGEMM, l.plainGEMM}}
}

// countClusters asks the GPU how many clusters of one block a multiprocessor can be resident at the
// same time.
func (l *gemmKernels) countClusters() error {
	for r, kernels := range l.ringOf() {
		for _, kernel := range kernels {
			if kernel == nil || r.cluster < 2 {
				continue
			}
			launch := r.launch(l.rows, 1<<16)
			launch.Shared = max(launch.Shared, oneBlockPerSM-r.sent(l.rows))
			n, err := kernel.Clusters(launch)
			if err != nil {
				return err
			}
			if r.clusters == 0 || n < r.clusters {
				r.clusters = n
			}
		}
	}
	return nil
}

// wgmmaNames adds the kernels to the map from their names. With several ranks, a GEMM has a fused
// all-reduce or leaves its sums for the all_reduce kernel.
func (l *gemmKernels) wgmmaNames(s *shape, to map[string]**cuda.Kernel) {
	name := func(what string) string { return fmt.Sprintf("wgmma_%s_%d", what, l.rows) }
	to[name("norm")], to[name("head")], to[name("swiglu")] = &l.normGEMM, &l.headGEMM, &l.swigluGEMM
	if s.ranks > 1 {
		to[name("all_reduce")], to[name("plain")] = &l.allReduceGEMM, &l.plainGEMM
		return
	}
	to[name("residual")] = &l.residualGEMM
}
