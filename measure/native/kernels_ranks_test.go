package native

import (
	"fmt"
	"math"
	"testing"
	"time"

	"llmprof/measure/native/cuda"
)

// The test runs the GEMMs that only models on several GPUs have, for each ring: those that exchange
// their sums, and those of half tiles.
func TestKernelSkinnyGEMMRanks(t *testing.T) {
	t.Parallel()
	s := plain
	s.ranks = 2
	both(t, s, func(b *bench) {
		for i := range b.p.gemms {
			l := &b.p.gemms[i]
			for turn, c := range []struct{ batch, n, k int }{{l.rows, 16, 64}, {1, 80, 192}, {l.rows/2 + 1, 208, 704}, {l.rows, 48, 1088},
				{1, 992, 1280}} {
				for _, parts := range []int{1, 3} {
					b.allReduce(l, c.batch, c.n, c.k, parts, uint32(turn), turn%2 == 0)
				}
				if l.half.kernel != nil {
					b.scores(l.asHalves(), c.batch, c.n-3, c.k, 1)
				}
			}
		}
	})
}

// packetAt returns the packet in which a wgmma GEMM sends value i of n of a sequence, and the
// position of its bits.
func (l *gemmKernels) packetAt(n, i int) (word, shift int) {
	seq, o := i/n, i%n
	lane := seq%8*4 + o%8/2
	return (o/16*(l.rows/8)+seq/8)*64 + 2*lane + o%16/8, o % 2 * 24
}

// allReduce runs rank 1 of two after some turns; the sums of rank 0 are in its buffer. If adds is
// set, it adds to the stream. A skinny GEMM is split along k into parts, and a wgmma GEMM uses so
// many multiprocessors.
func (b *bench) allReduce(l *gemmKernels, batch, n, k, parts int, turns uint32, adds bool) {
	w, ws := b.normal(n*k, 0.05)
	x, xs := b.normal(batch*k, 2)
	stream, old := b.floats(batch*n, 1)
	other, others := b.floats(batch*n, 1)
	norm, g := b.normal(n, 1)
	y, h, sums := put(b, stream), room[uint16](b, batch*n), room[float32](b, batch*n/16)
	toH := h
	if !adds {
		toH = 0
	}
	turn := turns + 1
	side := int(turn % 2 * 2)
	mine := make([]uint64, 4*batch*n)
	for i, v := range other {
		if l.isWgmma() {
			at, shift := l.packetAt(n, i)
			word := &mine[side*l.rows*n/2+at]
			*word = *word&^(0xffff<<48) | uint64(turn)<<48 | uint64(math.Float32bits(v)>>8)<<shift
			continue
		}
		mine[side*batch*n+i] = uint64(turn)<<32 | uint64(math.Float32bits(v))
	}
	counts := make([]uint32, (n+15)/16)
	for i := range counts {
		counts[i] = turns
	}
	boxes := []cuda.Ptr{room[uint64](b, 4*batch*n), put(b, mine)}
	left := put(b, counts)
	c := l.splitKFor(n, k, residualEpilogue, 1)
	o := gemmOperands{w: put(b, w), x: put(b, x), out: n, in: k, y: y, y16: toH, nextSquares: sums, nextNorm: put(b, norm)}
	ll := llOperands{buffers: put(b, []uint64{uint64(boxes[0]), uint64(boxes[1])}), limit: time.Second, rank: 1, epochs: left}
	if r := &l.wgmma.residual; l.isWgmma() {
		maps, err := wgmmaTensorMaps(b.dev, r, l.rows, residualEpilogue, &o, batch)
		b.noError(err)
		b.run(l.allReduceGEMM, r.launch(l.rows, parts), append(append(maps, o.args(batch, 1e-5)...), ll.args()...)...)
	} else {
		c.parts = min(parts, (k+l.depth-1)/l.depth)
		split := splitKBuffers{parts: c.parts, sums: room[uint8](b, c.tiles*c.parts*l.sums()), arrived: put(b, make([]uint32, c.tiles))}
		b.run(l.allReduceGEMM, l.launch(c, b.dev.SMs, l.of(residualEpilogue)), append(o.skinnyArgs(batch, 1e-5, &split, nil), ll.args()...)...)
	}

	want, gemm, normed, squares := make([]float64, batch*n), make([]float64, batch*n), make([]float64, batch*n), make([]float64, batch*n/16)
	for s := range batch {
		for o := range n {
			i := s*n + o
			gemm[i] = dot(ws, xs, o, s, k)
			want[i] = gemm[i] + others[i]
			if adds {
				want[i] += old[i]
			}
			normed[i] = want[i] * g[o]
			squares[i/16] += want[i] * want[i]
		}
	}
	what := fmt.Sprintf("summed %d of %dx%dx%d, %d parts", l.rows, batch, n, k, c.parts)
	limit := 1e-5
	if l.isWgmma() {
		limit = wgmmaError
	}
	near(b.t, what, get[float32](b, y, batch*n), want, limit)
	if adds {
		near(b.t, what+", normed", b.toFloat(get[uint16](b, h, batch*n)), normed, b.rounding())
		near(b.t, what+", squares", get[float32](b, sums, batch*n/16), squares, 10*limit)
	}
	sent := make([]float32, batch*n)
	left0 := get[uint64](b, boxes[0], 4*batch*n)
	for i := range sent {
		if l.isWgmma() {
			at, shift := l.packetAt(n, i)
			v := left0[(side+1)*l.rows*n/2+at]
			if uint32(v>>48) != turn {
				b.t.Fatalf("%s: value %d was sent in turn %d, not %d", what, i, v>>48, turn)
			}
			sent[i] = math.Float32frombits(uint32(v>>shift) << 8)
			continue
		}
		v := left0[(side+1)*batch*n+i]
		if uint32(v>>32) != turn {
			b.t.Fatalf("%s: value %d was sent in turn %d, not %d", what, i, v>>32, turn)
		}
		sent[i] = math.Float32frombits(uint32(v))
	}
	near(b.t, what+", sent", sent, gemm, limit)
	for i, v := range get[uint32](b, left, n/16) {
		if v != turn {
			b.t.Errorf("%s: tile %d had turn %d, not %d", what, i, v, turn)
		}
	}
}
