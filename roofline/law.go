package roofline

import (
	"fmt"

	"llmprof/unit"
)

// A Resource is what a kernel keeps busy.
type Resource uint8

// The resources. Serial is memory traffic that nothing overlaps, as that of a
// permutation; Chain is the steps of a thread block that wait for each other, however few blocks there
// are; Fixed is what starts, ends and latencies take whatever the size.
const (
	Matrix Resource = iota
	Vector
	Memory
	Network
	Serial
	Chain
	Fixed
	NumResources
)

// A Term is a part of a kernel's time on one resource: Ideal seconds, stretched by
// one constant or by two. The constant None stretches nothing.
type Term struct {
	Resource Resource
	// Waste is time that draws no power: that of matrix units without data, as rows and tiles of zeros have, and, of the memory, that of
	// weights that tiles read again. An H200 draws less power where experts have two tiles (experiments/h200-experts).
	Waste   bool
	By, And Constant
	Ideal   float64 // seconds at the peak, or how often a constant that is a time counts
	Data    float64 // seconds at the peak of waste that are products of data after all
}

// Terms is a list of terms, of a fixed size so that pricing a kernel allocates nothing.
type Terms struct {
	n       int
	list    [12]Term
	exposed Constant // how far arithmetic and memory traffic hide each other; None where the law says so
}

// add adds a term of ideal seconds, unless these are 0.
func (t *Terms) add(r Resource, by Constant, ideal float64) {
	t.put(Term{Resource: r, By: by, Ideal: ideal})
}

// waste adds a term of matrix units without data, but for so many seconds at the peak.
func (t *Terms) waste(by, and Constant, ideal, data float64) {
	t.put(Term{Resource: Matrix, Waste: true, By: by, And: and, Ideal: ideal, Data: data})
}

// put adds a term, unless it takes no time.
func (t *Terms) put(x Term) {
	if x.Ideal != 0 {
		t.list[t.n] = x
		t.n++
	}
}

// seconds is the time of some FLOPs or bytes at a rate.
func seconds[W unit.FLOPs | unit.Bytes, R unit.FLOPsPerSec | unit.BytesPerSec](work W, rate R) float64 {
	if work == 0 {
		return 0
	}
	return float64(work) / float64(rate)
}

// arithmetic adds the terms of matrix and vector units.
func (t *Terms) arithmetic(k *Kernel, p *Peaks, share Constant) {
	t.add(Matrix, share, seconds(k.Work.FLOPs, p.matrix(k.Format)))
	t.add(Vector, ElementwiseCompute, seconds(k.Work.Vector, p.Vector))
}

// once adds the terms of a kernel that reads and writes everything once.
func (t *Terms) once(k *Kernel, p *Peaks, compute, memory, fixed Constant) {
	t.arithmetic(k, p, compute)
	t.add(Memory, memory, seconds(k.Work.Traffic(), p.Memory))
	t.add(Fixed, fixed, k.Launches)
}

func (t *Terms) divide(r Resource, by float64) {
	for i := range t.List() {
		if x := &t.list[i]; x.Resource == r {
			x.Ideal /= by
		}
	}
}

// List is the terms as a slice.
func (t *Terms) List() []Term { return t.list[:t.n] }

// A Law says what the kernels of a class take.
type Law struct {
	Equation string // the terms in words, for files and documents
	List     func(t *Terms, k *Kernel, p *Peaks)
	// Changes the terms to those of the fastest algorithm that a library has for the kernel; nil where it has one.
	Choose  func(m *Machine, t *Terms, k *Kernel)
	Exposed float64  // how far arithmetic and memory traffic hide each other (Times.both), of a law that has no constant for it
	Power   Constant // power of the GPU while the kernel's bytes move
	ByByte  bool     // a byte takes the same energy at every rate
	Steady  bool     // the GPU draws that all the time, for matrix units wait for vector units
}

// laws has the law of every class; a test finds a class without one.
var laws = [NumClasses]Law{
	GEMM: gemm, SkinnyGEMM: skinnyGEMM, WGMMAGEMM: wgmmaGEMM, VectorGEMM: vectorGEMM(), UnpackGEMM: unpackGEMM, GroupedGEMM: groupedGEMM,
	AttentionPrefill: prefillAttention(&attentionOf, None), AttentionDecode: decodeAttention(&attentionOf),
	AttentionMMA: prefillAttention(&attentionOf, AttentionMMACompute),
	// Some engines copy keys and values for every query head. Attention reads those copies at another share of the bandwidth than it reads
	// a cache without copies.
	AttentionCopied: streaming("peak", AttentionCompute, AttentionCopies, AttentionFixed, PowerMemory),
	LatentPrefill:   prefillAttention(&latentOf, None), LatentDecode: decodeAttention(&latentOf),
	ChunkedScan:     chunkedScan(ScanCompute, ScanMemory, ScanFixed, ScanChunk),
	ChannelScan:     chunkedScan(channelScan...),
	SparseAttention: sparse(&sparseOf), SparseEntries: sparse(&entriesOf), SparseBlocks: sparse(&blocksOf),
	Index: sparse(&indexOf), IndexEntries: sparse(&indicesOf), IndexBlocks: sparse(&indexingOf),
	// No table has the recurrence of a state-space model over a prompt, so that constants of attention stand for it.
	StateScan: streaming("peak", AttentionCompute, AttentionMemory, AttentionFixed, PowerAttention),
	ScanStep:  streaming("vector peak", ElementwiseCompute, ScanStepMemory, ScanStepFixed, PowerMemory),

	Convolution:     streaming("vector peak", ElementwiseCompute, ConvMemory, ConvFixed, PowerMemory),
	ConvolutionStep: streaming("vector peak", ElementwiseCompute, ConvStepMemory, ConvStepFixed, PowerMemory),
	Elementwise:     streaming("vector peak", ElementwiseCompute, ElementwiseMemory, ElementwiseFixed, PowerMemory),
	// Element-wise kernels that follow each other in a stream overlap most of their launch.
	SmallElementwise: streaming("vector peak", ElementwiseCompute, ElementwiseUnfused, HostSmallKernel, PowerMemory),
	MoEDecode:        moeDecode, MoERouting: moeRouting, MoEPrefill: moePrefill,
	AllReduce: ring(LinkShare, LinkBase, LinkPerGPU), OneShotAllReduce: peerReduce(),
	FusedAllReduce: ring(LinkShare, FusedAllReduceBase, FusedAllReducePerGPU), PCIeCollective: ring(PCIeShare, PCIeBase, PCIePerGPU),
	HostCopy: hostCopy, HostProduct: hostProduct, WeightCopy: weightCopy, PageableCopy: pageableCopy, HostCrossing: hostCrossing,
}

// streaming is the law of kernels that read and write everything once: the roofline itself, and a time of each launch. Peak says of
// which units the peak is.
func streaming(peak string, compute, memory, fixed, power Constant) Law {
	return Law{
		Equation: fmt.Sprintf("%s + max(FLOPs / (%s × %s), bytes / (%s × bandwidth))", fixed.name(), compute.name(), peak, memory.name()),
		List:     func(t *Terms, k *Kernel, p *Peaks) { t.once(k, p, compute, memory, fixed) },
		Power:    power,
	}
}

// LawOf is the law of a class.
func LawOf(c Class) *Law { return &laws[c] }
