package roofline

// TileQueries is how many queries of one sequence and KV head a tile of FlashAttention has
// at most.
const TileQueries = 128

// Prefill attention reaches its rate only with long prompts: tiles on the diagonal
// are half empty, and short sequences do not fill the GPU. It is taken to do the
// work of ramp/2 more keys for every query. Of these, half a tile of keys are the products on the diagonal that the mask
// discards; the rest is the time of multiprocessors that wait.
//
// Attention by mma has its own share of the peak.
func prefillAttention(constants *[NumSchemes][]Constant, mma Constant) Law {
	share := "compute"
	if mma != None {
		share = "mma"
	}
	return Law{
		Equation: "fixed + tiles × tile + max((FLOPs + ramp/2 × FLOPs a key) / (" + share + " × peak), bytes / (memory × bandwidth))",
		List: func(t *Terms, k *Kernel, p *Peaks) {
			c := of(constants, k.Scheme)
			arithmetic := c[compute]
			if mma != None {
				arithmetic = mma
			}
			t.once(k, p, arithmetic, c[memory], c[fixed])
			key := 2 * k.Shape.M * k.Shape.K / float64(p.matrix(k.Format)) // one more key for every query
			t.waste(arithmetic, c[ramp], key/2, key*TileQueries/2)
			t.add(Fixed, c[tile], k.Launches*k.Shape.Tiles)
		},
		Power: PowerAttention,
	}
}

// Decode attention splits the keys over the GPU, so it has no ramp. The block of a
// sequence and a KV head takes some time however few keys it has.
func decodeAttention(constants *[NumSchemes][]Constant) Law {
	return Law{
		Equation: "fixed + tiles × tile + max(FLOPs / (compute × peak), bytes / (memory × bandwidth))",
		List: func(t *Terms, k *Kernel, p *Peaks) {
			c := of(constants, k.Scheme)
			t.once(k, p, c[compute], c[memory], c[fixed])
			t.add(Fixed, c[tile], k.Launches*k.Shape.Tiles)
		},
		Power: PowerAttention,
	}
}

// Sparse attention, and the scores that choose its keys, do the work that there is, after a time of the small kernels that prepare it. A
// query of attention reads its keys one block after the other.
func sparse(constants *[NumSchemes][]Constant) Law {
	return Law{
		Equation: "fixed + blocks × tile + max(FLOPs / (compute × peak), bytes / (memory × bandwidth)); without blocks of the scores",
		List: func(t *Terms, k *Kernel, p *Peaks) {
			c := of(constants, k.Scheme)
			if t.once(k, p, c[compute], c[memory], c[fixed]); len(c) > tileOfSparse {
				t.add(Fixed, c[tileOfSparse], k.Shape.Tiles)
			}
		},
		Power: PowerAttention,
	}
}

// A scan in chunks does a chunk's products at once, and hands the state from a chunk to the next, one after the other. A sequence waits
// for that, while other sequences keep the GPU busy.
func chunkedScan(constants ...Constant) Law {
	return Law{
		Equation: "fixed + √((chunks × chunk)² + max(C, M)²), C = FLOPs / (compute × peak), M = bytes / (memory × bandwidth)",
		List: func(t *Terms, k *Kernel, p *Peaks) {
			t.once(k, p, constants[compute], constants[memory], constants[fixed])
			t.add(Chain, constants[chunk], k.Shape.Tiles)
		},
		Power: PowerAttention,
	}
}
