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
