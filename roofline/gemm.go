package roofline

// A GEMM computes whole tiles, and as many at a time as there are SMs. Hopper's tensor memory
// accelerator fills the rows of a tile beyond the last row of the inputs more slowly than it loads rows.
//
// A tile of a product adds up its products along the inputs, one step after the other,
// which takes longer the more of them there are, however few tiles there are. In 16 bits a library splits the
// inputs of a tile among thread blocks where that is faster (fastestAlgorithm). The first loads of a wave of
// tiles have no arithmetic beside them, and its last sums no loads, so that arithmetic and memory traffic hide
// each other in part. Where a kernel of its own quantizes the activations, each row with a maximum of its own,
// it does so ahead of the product; most engines let the norm or the activation before do it.
var gemm = Law{
	Equation: "fixed + √(greater² + exposed × lesser² + (inputs × depth)²) of (FLOPs + tile_empty × FLOPs of rows beyond the last one + " +
		"tile_idle × FLOPs that SMs without a tile could do, where tiles are known) / (compute × peak) and bytes / (memory × bandwidth) + " +
		"quantize × bytes of quantized inputs / bandwidth + quantized rows × row; in 16 bits by whole waves of tiles, tile_idle × FLOPs that " +
		"SMs without results could do, and where that is faster with split inputs: inputs / s, bytes of s sums, and element.fixed",
	List: func(t *Terms, k *Kernel, p *Peaks) {
		c := of(&gemmOf, k.Scheme)
		t.once(k, p, c[compute], c[memory], c[fixed])
		t.add(Chain, c[depth], k.Launches*k.Shape.K)
		t.add(Serial, c[quantize], seconds(k.Format.Bytes(k.Quantized*k.Shape.K), p.Memory))
		t.add(Serial, c[row], k.Quantized)
		t.exposed = c[exposed]
		if empty, idle := k.Tile.waste(&k.Shape, p.SMs); empty+idle > 0 {
			each := seconds(k.Work.FLOPs, p.matrix(k.Format)) / k.Shape.M
			t.waste(c[compute], TileEmpty, empty*each, 0)
			t.waste(c[compute], TileIdle, idle*each, 0)
		}
	},
	Choose: fastestAlgorithm,
	Power:  PowerMemory,
	ByByte: true,
}

// A board of little power sustains a small share of its vector peak, and was timed where it does:
// the power limit does not slow it a second time.
func vectorGEMM() Law {
	law := streaming("vector peak", VectorGEMMCompute, GEMMMemory, GEMMFixed, PowerMemory)
	law.Steady = true
	return law
}

// The experts of a layer are one grouped GEMM: each group of rows has the weights of one
// expert. Tiles have few stages of weights in flight, so that arithmetic and memory traffic hide
// each other only in part. A tile has rows of one expert alone: with n tokens it takes ⌈n / rows⌉ tiles, and
// the matrix units compute the rows without a token too. How many tokens each expert has decides, not their mean:
// popular experts take several tiles, and rare ones a part of one. OpenAI's Triton kernels for MXFP4 read and unpack the weights of an
// expert for each of its tiles: an H200 takes as long for a tile whether its expert has one or several (experiments/h200-experts). Each
// tile takes a time, or each expert with at least one row where the size of a tile is not known. Separate kernels gather the inputs and sum
// the results of all token-expert pairs of the layer, including those of other ranks.
var groupedGEMM = Law{
	Equation: "fixed + (tiles, or experts with rows where tiles are not known) × expert + √(C² + M²) + permute × bytes of the inputs of " +
		"all pairs / bandwidth, C = FLOPs / (compute × peak), of whole tiles where their rows are known, M = bytes of weights, and of those " +
		"that are read again / (memory × bandwidth)",
	List: func(t *Terms, k *Kernel, p *Peaks) {
		c := groupedOf[k.Scheme]
		t.arithmetic(k, p, c[compute])
		t.waste(c[compute], None, k.padding()*seconds(k.Work.FLOPs, p.matrix(k.Format)), 0)
		t.add(Memory, c[memory], seconds(k.Work.Weights+k.Reread, p.Memory))
		t.put(Term{Resource: Memory, Waste: true, By: c[memory], Ideal: seconds(k.unpackedAgain(), p.Memory)})
		t.add(Fixed, c[fixed], k.Launches)
		t.add(Serial, c[permute], seconds(k.Permuted, p.Memory))
		t.add(Fixed, c[expert], k.Launches*max(k.Shape.Hit, k.Shape.Tiles))
	},
	Exposed: 1,
	Power:   PowerMemory,
	ByByte:  true,
}

// A skinny GEMM streams its weights. Each row's inputs are read again for every tile of
// weights, so the time grows with the rows, though next to nothing more comes from memory.
// On an H200 the law is within 3.0 % (median) of 60 GEMMs of 1 to 16 rows; with shares and
// a fixed time alone the error would be 5.2 %
// (go test ./measure/calibrate -run TestSkinnyRows -v).
var skinnyGEMM = Law{
	Equation: "fixed + bytes / (memory × bandwidth) + rows × row × bytes of weights / bandwidth",
	List: func(t *Terms, k *Kernel, p *Peaks) {
		t.arithmetic(k, p, GEMMCompute)
		t.add(Memory, SkinnyGEMMMemory, seconds(k.Work.Traffic(), p.Memory))
		t.add(Memory, SkinnyGEMMRow, k.Shape.M*seconds(k.Work.Weights, p.Memory))
		t.add(Fixed, SkinnyGEMMFixed, k.Launches)
	},
	Power: PowerSkinnyGEMM,
}

// A wgmma GEMM reads its weights once, and the inputs of all sequences again, out of the L2
// cache, for every tile of weights.
var wgmmaGEMM = Law{
	Equation: "fixed + bytes of weights / (memory × bandwidth) + reload × bytes of inputs and results / bandwidth",
	List: func(t *Terms, k *Kernel, p *Peaks) {
		t.arithmetic(k, p, GEMMCompute)
		t.add(Memory, WGMMAMemory, seconds(k.Work.Weights, p.Memory))
		t.add(Memory, WGMMAReload, seconds(k.Work.Acts, p.Memory))
		t.add(Fixed, WGMMAFixed, k.Launches)
	},
	Power: PowerWGMMA,
}

// A GEMM that unpacks its weights on the vector units spends more instructions on unpacking
// and on scaling the sums of each block than the matrix units take for the sums. Few loads
// are in flight meanwhile, so that arithmetic and memory traffic hide each other in part.
var unpackGEMM = Law{
	Equation: "launches × small_kernel + √(C² + M²), C = max(FLOPs / (gemm.compute × peak), vector operations / (element.compute × vector " +
		"peak)), M = bytes / (gemm.memory × bandwidth)",
	List: func(t *Terms, k *Kernel, p *Peaks) {
		t.arithmetic(k, p, GEMMCompute)
		t.add(Memory, GEMMMemory, seconds(k.Work.Traffic(), p.Memory))
		t.add(Fixed, HostSmallKernel, k.Launches)
	},
	Exposed: 1,
	Power:   PowerMemory,
	Steady:  true,
}
