package native

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"llmprof/analytic/operator"
	"llmprof/measure/native/cuda"
	"llmprof/measure/native/internal/emulate"
)

// moe is the feed-forward of an MoE layer.
func (r *reference) moe(h []float64, layer string) []float64 {
	s := &r.s
	router, expert, gate, up, down := expertNames(s.family, layer)
	name := func(n string) string { return strings.TrimSuffix(n, ".weight") }
	chosen, shares, gap := choose(r.linear(h, name(router)), s.topK, s.normalized)
	r.last = min(r.last, gap)
	out := make([]float64, len(h))
	for i, e := range chosen {
		p := fmt.Sprintf(expert, e)
		g, u := r.quant(r.linear(h, p+name(gate))), r.quant(r.linear(h, p+name(up)))
		for j := range g {
			g[j] = silu(g[j]) * u[j]
		}
		for j, v := range r.linear(r.quant(g), p+name(down)) {
			out[j] += shares[i] * v
		}
	}
	return out
}

// choose applies the router's rule: the highest softmax weights, and the lower index among equals.
// It also returns the distance of the last chosen weight from the next, relative to it.
func choose(scores []float64, top int, normalized bool) (chosen []int, shares []float64, gap float64) {
	peak, sum := slices.Max(scores), 0.0
	p := make([]float64, len(scores))
	for i, v := range scores {
		p[i] = math.Exp(v - peak)
		sum += p[i]
		chosen = append(chosen, i)
	}
	slices.SortStableFunc(chosen, func(a, b int) int { return cmp.Compare(p[b], p[a]) })
	gap = 1
	if top < len(chosen) {
		gap = 1 - p[chosen[top]]/p[chosen[top-1]]
	}
	if chosen = chosen[:top]; normalized {
		sum = 0
		for _, e := range chosen {
			sum += p[e]
		}
	}
	for _, e := range chosen {
		shares = append(shares, p[e]/sum)
	}
	return chosen, shares, gap
}

// A moeBench has the MoE layer of one model, on the device and in the reference.
type moeBench struct {
	*bench
	s               *shape
	wGateUp, wDown  cuda.Ptr
	gateUps, downs  []float64
	chosen          []int32
	shares          []float32
	dChosen, dShare cuda.Ptr
	scores          cuda.Ptr
}

// The test runs each kernel of an MoE layer with sizes that no tile divides, with experts that no
// token chooses, and with one that all tokens choose.
func TestKernelMoE(t *testing.T) {
	for _, m := range []moeShape{{experts: 8, topK: 2, normalized: true}, {experts: 37, topK: 5}, {experts: 256, topK: 32, normalized: true},
		{experts: 3, topK: 3}} {
		t.Run(fmt.Sprintf("%d of %d", m.topK, m.experts), func(t *testing.T) {
			t.Parallel()
			if m.experts != 37 {
				emulate.Long(t)
			}
			s := shape{heads: 4, kvHeads: 1, headDim: 64, hidden: 192, inner: 64, moeShape: m}
			if m.experts < 9 {
				s.hidden, s.inner = 320, 480
			}
			b := newMoEBench(t, newBench(t, &s), &s)
			for _, rows := range []int{1, 3, 9} {
				b.choose(rows)
				b.step(rows, false)
				b.step(rows, true)
			}
			for _, rows := range []int{1, 65, 150} {
				b.choose(rows)
				b.prompt(rows)
			}
		})
	}
}

// newMoEBench makes a bench with the experts' weights.
func newMoEBench(t *testing.T, on *bench, s *shape) *moeBench {
	t.Helper()
	b := &moeBench{bench: on, s: s}
	var raw []uint16
	raw, b.gateUps = b.normal(s.experts*2*s.inner*s.hidden, 0.05)
	b.wGateUp = put(b.bench, raw)
	raw, b.downs = b.normal(s.experts*s.hidden*s.inner, 0.05)
	b.wDown = put(b.bench, raw)
	return b
}

// The rings of a decode step's experts fit into little shared memory too, for up to 16 tokens. For
// more tokens the host knows when they do not.
func TestExpertRingsFit(t *testing.T) {
	for _, m := range []moeShape{{experts: 8, topK: 2}, {experts: 128, topK: 8}, {experts: maxExperts, topK: maxTopK}} {
		for _, memory := range []int{227 << 10, 163 << 10, 99 << 10, 96 << 10, 64 << 10} {
			e := &Engine{shape: shape{moeShape: m}, dev: &cuda.Device{}, p: &program{}}
			e.dev.SharedOptIn = memory
			e.p.moe.rings = m.fit(expertRings(), memory)
			for _, r := range e.p.moe.rings {
				if n := r.gateStages; n != 2 && n%copyWarps != 0 {
					t.Errorf("%d KiB: rings of %d and %d stages", memory>>10, r.gateStages, r.downStages)
				}
				if n := r.downStages; n != 2 && n%copyWarps != 0 {
					t.Errorf("%d KiB: rings of %d and %d stages", memory>>10, r.gateStages, r.downStages)
				}
			}
			for _, tokens := range []int{1, 2, 16} {
				if !e.fitsDecodeRings(tokens) {
					t.Errorf("%d tokens of %d experts do not fit in %d KiB", tokens, m.experts, memory>>10)
				}
			}
			if e.fitsDecodeRings(maxDecodeTokens + 1) {
				t.Error("more tokens than the kernels take")
			}
		}
	}
}

// The GEMM of a router with few experts is split along k, as in Mixtral-8x7B. Its buffer has room
// for the parts even if no other GEMM of the model has any.
func TestRouterHasRoomForParts(t *testing.T) {
	s := shape{heads: 32, kvHeads: 8, headDim: 128, hidden: 4096, inner: 14336, tokens: 32000, moeShape: moeShape{experts: 8, topK: 2}}
	splitK := 0
	for _, l := range skinnyGEMMs() {
		c := l.splitKFor(s.experts, s.hidden, storeEpilogue, 132)
		if c.parts < 2 {
			continue
		}
		splitK++
		if sums, counters := l.scratch(&s, 132); sums < c.tiles*c.parts*l.sums() || counters < c.tiles {
			t.Errorf("up to %d rows: %d bytes and %d counters for %d parts of %d tiles", l.rows, sums, counters, c.parts, c.tiles)
		}
	}
	if splitK == 0 {
		t.Error("no router is cut")
	}
}

// The test runs a step in which all tokens choose one expert, which makes many groups of it, with
// the most tokens that these kernels take.
func TestKernelMoEOfOne(t *testing.T) {
	s := shape{heads: 4, kvHeads: 1, headDim: 64, hidden: 576, inner: 320, moeShape: moeShape{experts: 4, topK: 1}}
	b := newMoEBench(t, newBench(t, &s), &s)
	for _, rows := range []int{8, 9, maxDecodeTokens} {
		b.choose(rows)
		b.step(rows, rows == maxDecodeTokens)
	}
}

// choose checks the choice of the experts.
func (b *moeBench) choose(rows int) {
	s, n := b.s, b.s.experts
	scores, values := b.floats(rows*n, 1)
	for i := range n { // one that all take, and in the first row a tie of all others
		scores[i], values[i] = 0.5, 0.5
	}
	for r := range rows {
		scores[r*n+n/2], values[r*n+n/2] = 9, 9
	}
	b.scores = put(b.bench, scores)
	b.dChosen, b.dShare = room[int32](b.bench, rows*s.topK), room[float32](b.bench, rows*s.topK)
	flag := map[bool]int32{true: 1}[s.normalized]
	b.run(b.p.moe.topK, cuda.Launch{Grid: cuda.Dim{X: rows}, Block: cuda.Dim{X: 32}}, b.scores, int32(n), int32(s.topK), flag, b.dChosen,
		b.dShare)
	b.chosen, b.shares = get[int32](b.bench, b.dChosen, rows*s.topK), get[float32](b.bench, b.dShare, rows*s.topK)
	for r := range rows {
		chosen, shares, _ := choose(values[r*n:(r+1)*n], s.topK, s.normalized)
		got := b.chosen[r*s.topK : (r+1)*s.topK]
		if fmt.Sprint(got) != fmt.Sprint(chosen) {
			b.t.Fatalf("row %d of %d: experts %d, want %d", r, rows, got, chosen)
		}
		near(b.t, "weights", b.shares[r*s.topK:(r+1)*s.topK], shares, 1e-5)
	}
}

// pair returns an expert's activations for a token's normed input, before down.
func (b *moeBench) pair(e int, x []float64) []float64 {
	s := b.s
	w := b.gateUps[e*2*s.inner*s.hidden:]
	out := make([]float64, s.inner)
	for o := range out {
		out[o] = silu(dot(w, x, o, 0, s.hidden)) * dot(w, x, s.inner+o, 0, s.hidden)
	}
	return out
}

// output returns what the experts of a row add to the stream.
func (b *moeBench) output(row int, act []float64) []float64 {
	s := b.s
	out := make([]float64, s.hidden)
	for k := range s.topK {
		pair := row*s.topK + k
		w := b.downs[int(b.chosen[pair])*s.hidden*s.inner:]
		for o := range out {
			out[o] += float64(b.shares[pair]) * dot(w, act, o, pair, s.inner)
		}
	}
	return out
}

// step checks both halves of a decode step, with x normed or not yet normed.
func (b *moeBench) step(rows int, normed bool) {
	s := b.s
	x, xs := b.normal(rows*s.hidden, 2)
	sq, scale := b.squares(xs, s.hidden)
	squares := cuda.Ptr(0)
	if !normed {
		squares = put(b.bench, sq)
	}
	e := b.engine(rows)
	e.b.h, e.b.act, e.b.chosen, e.b.shares = put(b.bench, x), room[uint16](b.bench, rows*s.topK*s.inner), b.dChosen, b.dShare
	b.groups(e, rows)
	b.noError(e.queueExpertsGateUp(&layerWeights{gateUp: b.wGateUp}, rows, squares))
	input := func(row int) []float64 {
		out := slices.Clone(xs[row*s.hidden : (row+1)*s.hidden])
		for i := range out {
			if !normed {
				out[i] *= scale[row]
			}
		}
		return out
	}
	acts := b.checkActs(e.b.act, rows, input)
	if !normed {
		e.b.act, e.b.squares = room[uint16](b.bench, rows*s.topK*s.inner), squares
		b.noError(e.queueStepGateUp(&layerWeights{gateUp: b.wGateUp}))
		acts = b.checkActs(e.b.act, rows, input)
	}
	b.down(e, rows, acts, normed)
}

// engine returns an engine that can queue the experts and no more.
func (b *moeBench) engine(rows int) *Engine {
	e := &Engine{opt: Options{Workload: operator.Workload{Batch: rows}, sms: b.dev.SMs}, shape: *b.s, dev: b.dev, s: b.bench.s, p: b.p,
		b: &buffers{}}
	e.shape.eps = 1e-5
	return e
}

// groups sorts the pairs into groups.
func (b *moeBench) groups(e *Engine, rows int) {
	pairs, s := rows*b.s.topK, b.s
	most := s.maxTiles(pairs, pairsOfGroup)
	e.b.order, e.b.tiles = room[int32](b.bench, most*pairsOfGroup), room[int32](b.bench, 1+most)
	if rows == 1 {
		return
	}
	e.b.routed = put(b.bench, []uint32{0})
	e.b.router, e.b.chosen, e.b.shares = b.scores, room[int32](b.bench, pairs), room[float32](b.bench, pairs)
	b.noError(e.queueChoice(rows, false))
	if got := get[int32](b.bench, e.b.chosen, pairs); !slices.Equal(got, b.chosen) {
		b.t.Fatalf("%d rows together: experts %d, want %d", rows, got, b.chosen)
	}
	b.checkOrder(get[int32](b.bench, e.b.order, most*pairsOfGroup), get[int32](b.bench, e.b.tiles, 1+most), pairsOfGroup)
}

// checkActs checks the activations of gate and up for each pair, from normed inputs.
func (b *moeBench) checkActs(act cuda.Ptr, rows int, normed func(row int) []float64) []float64 {
	s := b.s
	acts := b.toFloat(get[uint16](b.bench, act, rows*s.topK*s.inner))
	for pair, e := range b.chosen {
		near(b.t, fmt.Sprintf("pair %d of %d, expert %d", pair, rows*s.topK, e), acts[pair*s.inner:(pair+1)*s.inner],
			b.pair(int(e), normed(pair/s.topK)), b.rounding())
	}
	return acts
}

// down checks the second half, with and without what the next GEMM needs.
func (b *moeBench) down(e *Engine, rows int, acts []float64, last bool) {
	s := b.s
	stream, old := b.floats(rows*s.hidden, 1)
	norm, g := b.normal(s.hidden, 1)
	next := cuda.Ptr(0)
	if !last {
		next = put(b.bench, norm)
	}
	e.b.x, e.b.h, e.b.squares = put(b.bench, stream), room[uint16](b.bench, rows*s.hidden), room[float32](b.bench, rows*s.hidden/16)
	b.noError(e.queueExpertsDown(&layerWeights{down: b.wDown}, rows, next))
	want, normed, squares := make([]float64, rows*s.hidden), make([]float64, rows*s.hidden), make([]float64, rows*s.hidden/16)
	for r := range rows {
		for o, v := range b.output(r, acts) {
			at := r*s.hidden + o
			want[at] = old[at] + v
			normed[at] = want[at] * g[o]
			squares[at/16] += want[at] * want[at]
		}
	}
	near(b.t, fmt.Sprintf("stream of %d", rows), get[float32](b.bench, e.b.x, len(want)), want, 1e-5)
	if last {
		return
	}
	near(b.t, "normed", b.toFloat(get[uint16](b.bench, e.b.h, len(want))), normed, b.rounding())
	near(b.t, "squares", get[float32](b.bench, e.b.squares, len(squares)), squares, 1e-5)
}

func (b *moeBench) prompt(rows int) {
	s, hidden, inner, top := b.s, int32(b.s.hidden), int32(b.s.inner), int32(b.s.topK)
	pairs := rows * s.topK
	tiles := s.maxTiles(pairs, pairsOfTile)
	order, list := room[int32](b.bench, tiles*pairsOfTile), room[int32](b.bench, 1+tiles)
	b.run(b.p.moe.group, cuda.Launch{Block: cuda.Dim{X: 1024}}, b.dChosen, int32(pairs), int32(s.experts), order, list)
	b.checkOrder(get[int32](b.bench, order, tiles*pairsOfTile), get[int32](b.bench, list, 1+tiles), pairsOfTile)
	x, xs := b.normal(rows*s.hidden, 1)
	act, outputs := room[uint16](b.bench, pairs*s.inner), room[uint16](b.bench, pairs*s.hidden)
	const shared = 2 * (pairsOfTile + 64) * 64 * 2
	b.run(b.p.moe.promptsGateUp, cuda.Launch{Grid: cuda.Dim{X: s.inner / 32, Y: tiles}, Block: cuda.Dim{X: 128}, Shared: shared},
		b.wGateUp, put(b.bench, x), order, list, hidden, inner, top, act)
	acts := b.toFloat(get[uint16](b.bench, act, pairs*s.inner))
	for pair, e := range b.chosen {
		row := pair / s.topK
		near(b.t, fmt.Sprintf("pair %d of %d, expert %d", pair, pairs, e), acts[pair*s.inner:(pair+1)*s.inner],
			b.pair(int(e), xs[row*s.hidden:(row+1)*s.hidden]), b.rounding())
	}
	b.run(b.p.moe.promptsDown, cuda.Launch{Grid: cuda.Dim{X: s.hidden / 64, Y: tiles}, Block: cuda.Dim{X: 128}, Shared: shared},
		b.wDown, act, order, list, hidden, inner, top, outputs)
	b.sum(rows, outputs, acts)
}

// The test runs the grouped GEMMs of a MoE prefill on Hopper's tensor cores, with experts of no,
// few and more pairs than an item has, and with rows of weights that fill no item.
func TestKernelHopperExperts(t *testing.T) {
	for _, m := range []moeShape{{experts: 8, topK: 2, normalized: true}, {experts: 37, topK: 5}, {experts: 3, topK: 1}} {
		t.Run(fmt.Sprintf("%d of %d", m.topK, m.experts), func(t *testing.T) {
			t.Parallel()
			if m.experts != 37 {
				emulate.Long(t)
			}
			s := shape{heads: 4, kvHeads: 1, headDim: 64, hidden: 192, inner: 64, moeShape: m}
			if m.experts < 9 {
				s.hidden, s.inner = 320, 480
			}
			b := newMoEBench(t, hopperBench(t, &s), &s)
			for _, k := range []struct {
				name string
				at   **cuda.Kernel
			}{{"prompts_gate_up_hopper", &b.p.moe.hopperGateUp}, {"prompts_down_hopper", &b.p.moe.hopperDown}} {
				var err error
				*k.at, err = b.p.module.Kernel(k.name)
				b.noError(err)
			}
			for _, rows := range []int{1, 65, 171} {
				b.choose(rows)
				b.hopper(rows)
			}
		})
	}
}

func (b *moeBench) hopper(rows int) {
	s, pairs := b.s, rows*b.s.topK
	x, xs := b.normal(rows*s.hidden, 1)
	most := s.maxTiles(pairs, pairsOfItem)
	p := &promptExperts{dev: b.dev, s: b.bench.s, k: &b.p.moe, sh: s, rows: rows, chosen: b.dChosen, x: put(b.bench, x), gateUp: b.wGateUp,
		downs: b.wDown,
		order: room[int32](b.bench, pairs), tiles: room[int32](b.bench, 1+3*most),
		sorted: room[uint16](b.bench, pairs*s.hidden), act: room[uint16](b.bench, pairs*s.inner)}
	b.noError(p.sort())
	order, tiles := get[int32](b.bench, p.order, pairs), get[int32](b.bench, p.tiles, 1+3*most)
	var list, experts []int32 // in the form that checkOrder takes
	for i := range tiles[0] {
		tile := tiles[1+3*i:]
		row := make([]int32, pairsOfItem)
		for k := range row {
			row[k] = -1
		}
		copy(row, order[tile[1]:tile[1]+tile[2]])
		list, experts = append(list, row...), append(experts, tile[0])
	}
	b.checkOrder(list, append([]int32{tiles[0]}, experts...), pairsOfItem)
	b.noError(p.up())
	sorted := b.toFloat(get[uint16](b.bench, p.act, pairs*s.inner))
	acts := make([]float64, pairs*s.inner)
	for at, pair := range order {
		row := int(pair) / s.topK
		copy(acts[int(pair)*s.inner:], sorted[at*s.inner:(at+1)*s.inner])
		near(b.t, fmt.Sprintf("pair %d of %d", pair, pairs), acts[int(pair)*s.inner:int(pair+1)*s.inner],
			b.pair(int(b.chosen[pair]), xs[row*s.hidden:(row+1)*s.hidden]), b.rounding())
	}
	b.noError(p.down())
	b.sum(rows, p.sorted, acts)
}

// sum checks the sum of the experts' outputs, and with it the outputs.
func (b *moeBench) sum(rows int, outputs cuda.Ptr, acts []float64) {
	s := b.s
	stream, old := b.floats(rows*s.hidden, 1)
	y := put(b.bench, stream)
	b.run(b.p.moe.sumParts, cuda.Launch{Grid: cuda.Dim{X: rows}, Block: cuda.Dim{X: 256}}, outputs, b.dShare, y, int32(s.hidden),
		int32(s.topK))
	got := get[float32](b.bench, y, rows*s.hidden)
	for r := range rows {
		want := b.output(r, acts)
		for o := range want {
			want[o] += old[r*s.hidden+o]
		}
		near(b.t, fmt.Sprintf("row %d of %d", r, rows), got[r*s.hidden:(r+1)*s.hidden], want, b.rounding())
	}
}

// checkOrder checks that each pair is in one tile of its expert.
func (b *moeBench) checkOrder(order, tiles []int32, size int) {
	seen := map[int32]int{}
	for i, p := range order[:int(tiles[0])*size] {
		if p < 0 {
			continue
		}
		seen[p]++
		if e := tiles[1+i/size]; b.chosen[p] != e {
			b.t.Fatalf("pair %d of expert %d is in a tile of expert %d", p, b.chosen[p], e)
		}
	}
	for p := range b.chosen {
		if seen[int32(p)] != 1 {
			b.t.Fatalf("pair %d is in %d tiles", p, seen[int32(p)])
		}
	}
}
