package roofline

import (
	"slices"
	"strings"
)

// A Scheme says how the operands of a GEMM are quantized, as far as kernels for it differ, and whether its kernel was tuned.
// Where a calibration has any constants of a scheme, they replace those of 16-bit GEMMs.
// The scheme of attention is that of the KV cache.
type Scheme uint8

// The schemes.
const (
	Unquantized Scheme = iota // weights and activations in the format of the residual stream
	FP8                       // weights and activations in FP8, a scale for each tensor, row or column
	FP8Block                  // weights and activations in FP8, a scale for each block of 128×128 weights and of 128 activations
	INT8                      // weights and activations in INT8
	WeightFP8                 // weights in FP8 alone
	WeightINT8                // weights in INT8 alone
	WeightINT4                // weights in INT4 alone, a scale for each group
	WeightMXFP4               // weights in MXFP4 alone
	MXFP4                     // weights in MXFP4, activations in MXFP4 or FP8
	NVFP4                     // weights and activations in NVFP4
	Untuned                   // 16 bits, by a Triton kernel whose tiles nobody tuned for the shape
	NumSchemes
)

// schemes has their names, and what is quantized.
var schemes = [NumSchemes]struct{ name, help string }{
	Unquantized: {"unquantized", "in 16 bits"},
	FP8:         {"fp8", "in FP8 with a scale for each tensor, row or column; of attention, with the cache in 8 bits"},
	FP8Block:    {"fp8_block", "in FP8 with a scale for each block of 128"},
	INT8:        {"int8", "in INT8"},
	WeightFP8:   {"w8a16_fp8", "with weights alone in FP8"},
	WeightINT8:  {"w8a16", "with weights alone in INT8"},
	WeightINT4:  {"w4a16", "with weights alone in INT4"},
	WeightMXFP4: {"w4a16_mxfp4", "with weights alone in MXFP4"},
	MXFP4:       {"mxfp4", "with weights in MXFP4 and activations in 4 or 8 bits"},
	NVFP4:       {"nvfp4", "in NVFP4"},
	Untuned:     {"untuned", "in 16 bits by a Triton kernel whose tiles nobody tuned for the shape"},
}

// String is the name of the scheme, as sections of calibration files end with it.
func (s Scheme) String() string { return schemes[s].name }

// Help says what is quantized.
func (s Scheme) Help() string { return schemes[s].help }

// Quantizes reports whether activations are quantized before a GEMM.
func (s Scheme) Quantizes() bool {
	return s == FP8 || s == FP8Block || s == INT8 || s == MXFP4 || s == NVFP4
}

// defineBySchemes enters the constants of a section again for each scheme before end, as
// gemm_fp8.compute beside gemm.compute, and returns the lists by scheme. Where a
// calibration does not have the first constant of a list, it has none of the list.
func defineBySchemes(end Scheme, first ...Constant) (all [NumSchemes][]Constant) {
	all[Unquantized] = first
	section, _, _ := strings.Cut(table[first[0]].Key, ".")
	for s := FP8; s < end; s++ {
		all[s] = defineLike(section+"_"+s.String(), first)
	}
	return all
}

// The places of the constants in the lists of a scheme: gemmOf, groupedOf, attentionOf and latentOf.
const (
	compute, memory, fixed        = 0, 1, 2    // constants of all classes
	depth, quantize, row, exposed = 3, 4, 5, 6 // constants of a GEMM
	permute, expert               = 3, 4       // constants of a grouped GEMM
	ramp, tile                    = 3, 4       // constants of attention
	tileOfSparse                  = 3          // constant of sparse attention
	chunk                         = 3          // constant of a scan
)

// defineLike enters constants again in another section; each is replaced by its original where a calibration does not have it.
func defineLike(section string, first []Constant) (all []Constant) {
	leader := Constant(len(table))
	for _, c := range first {
		i := table[c]
		i.Key, i.Optional = section+"."+c.name(), true
		all = append(all, enter(i).insteadOf(c, leader))
	}
	return all
}

// alike is the same constants for every scheme.
func alike(set []Constant) (all [NumSchemes][]Constant) {
	for s := range all {
		all[s] = set
	}
	return all
}

// of gives the constants for the scheme s of a kernel.
func of(all *[NumSchemes][]Constant, s Scheme) []Constant {
	switch set := all[s]; {
	case set != nil:
		return set
	case s == Untuned: // grouped GEMMs alone have it
		return all[Unquantized]
	}
	return all[FP8] // other 8-bit formats of the KV cache take the constants of FP8
}

// GroupedOf is the constant that a calibration has if it has any of grouped GEMMs in a scheme.
func GroupedOf(s Scheme) Constant { return groupedOf[s][compute] }

// OfScheme reports whether the constant belongs to one scheme or to one kind of attention, as gemm_fp8.compute and
// latent_attention.memory do, and replaces another constant there.
func (c Constant) OfScheme() bool { return c >= gemmOf[FP8][compute] }

// Variants are the constants that c stands in for where a calibration does not have them.
func (c Constant) Variants() []Constant {
	return slices.DeleteFunc(All(), func(v Constant) bool { return table[v].Base != c })
}
