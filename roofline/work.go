package roofline

import "llmprof/unit"

// Work is what has to be done, whoever does it. As JSON it is that of a report, whose wire includes what is sent to other nodes.
type Work struct {
	FLOPs  unit.FLOPs `json:"flops"`        // FLOPs of matrix products; a multiply-add is two
	Vector unit.FLOPs `json:"vector_flops"` // FLOPs of everything else, on the FP32 units

	Weights unit.Bytes `json:"weight_bytes"` // weights read from memory
	KV      unit.Bytes `json:"kv_bytes"`     // KV cache, read and written
	State   unit.Bytes `json:"state_bytes"`  // state of scans and convolutions, read and written
	Acts    unit.Bytes `json:"act_bytes"`    // activations, read and written

	Wire     unit.Bytes `json:"wire_bytes"` // bytes that one GPU sends to others of its node
	NodeWire unit.Bytes `json:"-"`          // bytes that one GPU sends to other nodes
}

// Compulsory is the traffic that no engine can avoid. Activations are not in it:
// fusion and the L2 cache may keep them on the chip.
func (w *Work) Compulsory() unit.Bytes { return w.Weights + w.KV + w.State }

// Traffic is all bytes that move between memory and the chip.
func (w *Work) Traffic() unit.Bytes { return w.Compulsory() + w.Acts }

// Add adds n times v.
func (w *Work) Add(v *Work, n float64) {
	w.FLOPs += v.FLOPs.Times(n)
	w.Vector += v.Vector.Times(n)
	w.Weights += v.Weights.Times(n)
	w.KV += v.KV.Times(n)
	w.State += v.State.Times(n)
	w.Acts += v.Acts.Times(n)
	w.Wire += v.Wire.Times(n)
	w.NodeWire += v.NodeWire.Times(n)
}

// Scale is n times w.
func (w Work) Scale(n float64) Work {
	var sum Work
	sum.Add(&w, n)
	return sum
}

// Intensity is the matrix FLOPs for each byte of memory traffic.
func (w *Work) Intensity() float64 { return w.FLOPs.Per(w.Traffic()) }

// Peaks are the rates of a GPU's data sheet.
type Peaks struct {
	Matrix [unit.NumFormats]unit.FLOPsPerSec // rate of products in each format, or in the format that stands in for it
	Vector unit.FLOPsPerSec                  // FP32 on the vector units
	Memory unit.BytesPerSec                  // bandwidth of the GPU's memory
	SMs    float64                           // streaming multiprocessors, or compute units of AMD

	Link     unit.BytesPerSec // rate to the other GPUs of the node, in one direction
	LinkGPUs float64          // GPUs that the link joins
	PCIe     unit.BytesPerSec // rate to the host, and to GPUs that no link joins, in one direction
	NIC      unit.BytesPerSec // rate to other nodes

	HostMemory unit.BytesPerSec // rate at which the threads of the host read its memory
	HostVector unit.FLOPsPerSec // rate of the host's threads in weights of Q4_K, where its memory does not limit them
	Pageable   unit.BytesPerSec // rate of copies of the host's memory that is not pinned
}

// LinkAmong is the rate at which each of n GPUs of a node sends to the others.
func (p *Peaks) LinkAmong(n float64) unit.BytesPerSec {
	if n <= p.LinkGPUs {
		return p.Link
	}
	return p.PCIe
}

// matrix is the rate of products in format f.
func (p *Peaks) matrix(f unit.Format) unit.FLOPsPerSec {
	if f == unit.NoFormat {
		return p.Vector
	}
	return p.Matrix[f]
}

// Floor is the least time that each resource takes for some work: at the peaks of
// the data sheet, with the compulsory traffic alone.
type Floor struct{ Matrix, Vector, Memory, Link, Node unit.Seconds }

// FloorOf is the floor of the work w of one GPU, whose products are in format f.
func (p *Peaks) FloorOf(w *Work, f unit.Format) (least Floor) {
	least.AddWork(p, w, f, 1, 1)
	return least
}

// AddWork adds the floor of count times the work w, whose products are in a format.
func (f *Floor) AddWork(p *Peaks, w *Work, format unit.Format, ranks, count float64) {
	f.Matrix += w.FLOPs.Over(p.matrix(format)).Times(count)
	f.Vector += w.Vector.Over(p.Vector).Times(count)
	f.Memory += w.Compulsory().Over(p.Memory).Times(count)
	if w.Wire != 0 || w.NodeWire != 0 { // the division of nothing takes time too
		f.Link += w.Wire.Over(p.LinkAmong(ranks)).Times(count)
		f.Node += w.NodeWire.Over(p.NIC).Times(count)
	}
}

// Time is the floor where all resources work at once.
func (f *Floor) Time() unit.Seconds { return max(f.Matrix, f.Vector, f.Memory, f.Link, f.Node) }

// Add adds n times g.
func (f *Floor) Add(g *Floor, n float64) {
	f.Matrix += g.Matrix.Times(n)
	f.Vector += g.Vector.Times(n)
	f.Memory += g.Memory.Times(n)
	f.Link += g.Link.Times(n)
	f.Node += g.Node.Times(n)
}
