package native

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"llmprof/measure/engine/native/cuda"
)

// layersPlan is how the kernel of all layers is launched (moe_layers.cu).
type layersPlan struct {
	sms, stages, held, parts                      int
	bulk, in, out, up, down, ahead, later, aheado int
	stamps                                        cuda.Ptr
}

const layerStage = 16*512 + 64

// layersTable is what the kernel knows of each layer: words of its table.
const stepLayerWords = 14

// widestGathered is the most values of 16 bits that a block gathers.
func (s *shape) widestGathered() int {
	group := s.heads / s.kvHeads
	attention := 2 * (group*s.headDim + max(2*s.headDim, 2*max(mostSplits, group)))
	return max(s.widestInput(), attention)
}

// layersBeside is a block's dynamic shared memory without stages.
func (e *Engine) layersBeside(p *layersPlan) int {
	sh := &e.shape
	tiles := (sh.hidden/16 + p.sms - 1) / p.sms
	units := (sh.qkvWidth()/8 + p.sms - 1) / p.sms
	return 2*(sh.widestGathered()+sh.hidden+2*sh.headDim) + tiles*(128+64) + 8*stepLayerWords*sh.layers + 32*units*((sh.hidden+511)/512)
}

// layersHold is the memory of stages that are held, and of attention's tiles.
func (e *Engine) layersHold(p *layersPlan) int { return max(p.held*layerStage, e.p.decode.shared) }

func (e *Engine) layersShared(p *layersPlan) int {
	return p.stages*layerStage + e.layersHold(p) + e.layersBeside(p)
}

// postedInLayers are the bytes of what blocks post to each other.
func (s *shape) postedInLayers() int {
	group := s.heads / s.kvHeads
	return postedBytes * (s.qkvWidth() + s.kvHeads*mostSplits*(group*s.headDim+2*max(mostSplits, group)) + s.attWidth()/2 +
		2*(s.hidden/2+s.hidden/16+1) + s.topK*s.inner/2 + s.experts)
}

// shareOf is the least share of a head's output, as a power of 2, that so many blocks make
// together; -1 if there are too few.
func (s *shape) shareOf(blocks int) int {
	values := s.heads / s.kvHeads * s.headDim
	for share := 2; 1<<share <= values; share++ {
		if values%(1<<share) == 0 && values>>share <= blocks {
			return share
		}
	}
	return -1
}

func (e *Engine) planLayers() *layersPlan {
	sh := &e.shape
	p := &layersPlan{sms: min(e.opt.sms, sh.topK*sh.inner/8), stages: 16, held: 4}
	p.parts = 16
	if err := p.set(os.Getenv("LLMPROF_STEP")); err != nil {
		panic(err)
	}
	return p
}

// set is for experiments.
func (p *layersPlan) set(spec string) error {
	for _, f := range strings.Split(spec, ",") {
		name, value, ok := strings.Cut(f, "=")
		if !ok {
			continue
		}
		n, err := strconv.Atoi(value)
		if err != nil {
			return err
		}
		at := map[string]*int{"sms": &p.sms, "stages": &p.stages, "held": &p.held, "parts": &p.parts, "bulk": &p.bulk, "in": &p.in, "out": &p.out, "up": &p.up, "down": &p.down, "ahead": &p.ahead, "later": &p.later, "aheado": &p.aheado}[name]
		if at == nil {
			return fmt.Errorf("no %q", name)
		}
		*at = n
	}
	return nil
}

// table fills what the kernel knows of each layer.
func (e *Engine) layersTable() []uint64 {
	var out []uint64
	for i := range e.w.layers {
		w := &e.w.layers[i]
		next := e.w.norm
		if i+1 < len(e.w.layers) {
			next = e.w.layers[i+1].attNorm
		}
		k, v := e.b.layerCache(&e.shape, i, 0)
		for _, p := range []cuda.Ptr{w.qkv, w.bias, w.qNorm, w.kNorm, w.o, w.mlpNorm, w.router, w.gateUp, w.down, next, e.frequencies(i), k, v} {
			out = append(out, uint64(p))
		}
		out = append(out, uint64(e.b.layers[i].capacity))
	}
	return out
}

// queueLayers queues layers i to i+n-1.
func (e *Engine) queueLayers(p *layersPlan, i, n int) error {
	sh, b := &e.shape, e.b
	normalized := map[bool]int32{true: 1}[sh.normalized]
	l := cuda.Launch{Grid: cuda.Dim{X: p.sms}, Block: cuda.Dim{X: 12 * 32}, Shared: e.layersShared(p), Early: true}
	n32 := func(n int) int32 { return int32(n) }
	return e.p.moe.layers.Queue(e.s, l, b.stepTable.Add(8*stepLayerWords*i), n32(n), n32(sh.attWidth()), n32(sh.hidden), n32(sh.inner),
		n32(sh.experts), n32(sh.topK), normalized, n32(sh.qkvWidth()), n32(sh.kvHeads), n32(sh.shareOf(min(p.parts, p.sms/sh.kvHeads))), n32(p.stages), n32(p.held), n32(sh.widestGathered()),
		n32(p.bulk), n32(p.in), n32(p.out), n32(p.up), n32(p.down), n32(p.ahead), n32(p.later), n32(p.aheado), sh.eps, sh.scale(), b.positions, b.x, b.h, b.squares, b.postedLayers, b.stepTurns, p.stamps)
}
