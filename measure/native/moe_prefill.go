package native

import (
	"llmprof/analytic/engine"
	"llmprof/measure/native/cuda"
)

// pairsOfItem repeats MOST_PAIRS of moe_prefill_hopper.cu, and pairsOfBox repeats BOX_PAIRS.
const pairsOfItem, pairsOfBox = engine.WGMMATile, 16

// hopperShared is the dynamic shared memory of a block in moe_prefill_hopper.cu: four stages of 256
// weight rows and the pairs, with 64 columns each, and the alignment.
const hopperShared = 4*(256+pairsOfItem)*128 + 1024

// promptExperts queues the grouped GEMMs of a prefill by wgmma.
type promptExperts struct {
	dev           *cuda.Device
	s             *cuda.Stream
	k             *moeKernels
	sh            *shape
	rows          int
	order, tiles  cuda.Ptr
	chosen        cuda.Ptr
	x             cuda.Ptr // [rows][hidden], the normed tokens
	sorted        cuda.Ptr // 16 bits [pairs][hidden], the tokens sorted by expert; later the experts' outputs
	act           cuda.Ptr // 16 bits [pairs][inner], sorted by expert
	gateUp, downs cuda.Ptr
}

func (e *Engine) promptExperts(w *layerWeights, rows int) *promptExperts {
	b := e.b
	return &promptExperts{dev: e.dev, s: e.s, k: &e.p.moe, sh: &e.shape, rows: rows, order: b.order, tiles: b.tiles, chosen: b.chosen,
		x: b.h, sorted: b.outputs, act: b.act, gateUp: w.gateUp, downs: w.down}
}

func (p *promptExperts) sort() error {
	return p.k.sort.Queue(p.s, cuda.Launch{Block: cuda.Dim{X: 1024}}, p.chosen, int32(p.rows*p.sh.topK), int32(p.sh.experts), p.order, p.tiles)
}

// up queues the gather of the tokens and experts_gate_up.
func (p *promptExperts) up() error {
	l := cuda.Launch{Grid: cuda.Dim{X: p.rows * p.sh.topK}, Block: cuda.Dim{X: 128}}
	if err := p.k.gather.Queue(p.s, l, p.x, p.order, int32(p.sh.hidden), int32(p.sh.topK), p.sorted); err != nil {
		return err
	}
	return p.queueGEMM(&groupedGEMM{kernel: p.k.hopperGateUp, w: p.gateUp, x: p.sorted, y: p.act, in: p.sh.hidden, out: p.sh.inner,
		matrices: 2 * p.sh.experts})
}

func (p *promptExperts) down() error {
	return p.queueGEMM(&groupedGEMM{kernel: p.k.hopperDown, w: p.downs, x: p.act, y: p.sorted, in: p.sh.inner, out: p.sh.hidden,
		matrices: p.sh.experts})
}

// A groupedGEMM multiplies by matrices of `out` rows and `in` columns.
type groupedGEMM struct {
	kernel            *cuda.Kernel
	w, x, y           cuda.Ptr
	in, out, matrices int
}

func (p *promptExperts) queueGEMM(g *groupedGEMM) error {
	pairs := p.rows * p.sh.topK
	maps, err := p.dev.TensorMaps(
		&cuda.Tensor{At: g.w, Size: [3]int{g.in, g.out, g.matrices}, Stride: [2]int{2 * g.in, 2 * g.in * g.out}, Box: [3]int{64, 128, 1}},
		&cuda.Tensor{At: g.x, Size: [3]int{g.in, pairs, 1}, Stride: [2]int{2 * g.in, 2 * g.in * pairs}, Box: [3]int{64, pairsOfBox, 1}})
	if err != nil {
		return err
	}
	l := cuda.Launch{Grid: cuda.Dim{X: p.dev.SMs}, Block: cuda.Dim{X: 384}, Shared: hopperShared}
	return g.kernel.Queue(p.s, l, append(maps, p.order, p.tiles, int32(p.sh.hidden), int32(p.sh.inner), g.y)...)
}
