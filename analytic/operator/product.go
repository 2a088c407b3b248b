package operator

import (
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// linears appends one GEMM for each run of matrices that read the same input: engines fuse
// q, k and v, and gate and up.
//
//	FLOPs = 2·rows·in·out, bytes = in·out·w + rows·(in + out)·a
func (s *Step) linears(dst []Op, t Type, f *models.Scheme, ls []models.Linear, rows float64, tp int) []Op {
	for i := 0; i < len(ls); {
		j := i + 1
		for j < len(ls) && ls[j].In == ls[i].In && ls[j].Split == ls[i].Split && f.ActOf(&ls[j]) == f.ActOf(&ls[i]) {
			j++
		}
		var o *Op
		dst, o = add(dst, FusedName(ls[i:j]), t)
		s.gemm(o, f, ls[i:j], rows, tp)
		i = j
	}
	return dst
}

// gemm fills in o as one GEMM of rows rows with all matrices of ls, each of which is split over
// tp ranks.
func (s *Step) gemm(o *Op, f *models.Scheme, ls []models.Linear, rows float64, tp int) {
	var local, whole, out float64
	var weights unit.Bytes
	in, act := float64(ls[0].In), f.ActOf(&ls[0])
	if ls[0].Split == models.Rows {
		in /= float64(max(ls[0].Parts(tp), 1))
	}
	for i := range ls {
		values, outputs := ls[i].Share(tp)
		all := values
		if tp > 1 {
			all, _ = ls[i].Share(1)
		}
		local, whole, out = local+values, whole+all, out+outputs
		weights += f.LinearBytes(s.Model, &ls[i], values, outputs)
	}
	o.Format, o.Scheme, o.Model = act, productScheme(f), unit.FLOPs(2*rows*whole)
	o.Shape.M, o.Shape.N, o.Shape.K, o.Shape.Matrices = rows, out, in, float64(len(ls))
	o.Work.FLOPs, o.Work.Weights = unit.FLOPs(2*rows*local), weights
	o.Work.Acts = act.Bytes(rows*in) + f.Stream().Bytes(rows*out)
}

// FusedName is the name that engines give a fused GEMM.
func FusedName(ls []models.Linear) string {
	first, last := ls[0].Name, ls[len(ls)-1].Name
	switch {
	case len(ls) == 1:
		return first
	case first == "q_proj":
		return "qkv_proj"
	case first == "gate_proj" && last == "up_proj":
		return "gate_up_proj"
	case first == "q_a_proj":
		return "qkv_a_proj"
	}
	return first
}

// productSchemes has for each format of weights the scheme of GEMMs with quantized activations,
// and the scheme of GEMMs with activations in the format of the residual stream.
var productSchemes = [unit.NumFormats][2]roofline.Scheme{
	unit.FP8:  {roofline.FP8, roofline.WeightFP8},
	unit.INT8: {roofline.INT8, roofline.WeightINT8}, unit.INT4: {roofline.WeightINT4, roofline.WeightINT4},
	unit.MXFP4: {roofline.MXFP4, roofline.WeightMXFP4}, unit.NVFP4: {roofline.NVFP4, roofline.NVFP4},
}

// productScheme is the scheme of the kernels of GEMMs.
func productScheme(s *models.Scheme) roofline.Scheme {
	both := productSchemes[s.Weights]
	switch {
	case s.Act == s.Stream():
		return both[1]
	case both[0] == roofline.FP8 && s.Group > 0:
		return roofline.FP8Block
	}
	return both[0]
}

// cacheScheme is the scheme of the kernels of attention, which follows from the KV cache.
func cacheScheme(s *models.Scheme) roofline.Scheme {
	if s.KV != unit.NoFormat && s.KV.Bits() < 16 {
		return roofline.FP8
	}
	return roofline.Unquantized
}
