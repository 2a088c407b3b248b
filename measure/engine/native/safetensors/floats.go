package safetensors

import (
	"encoding/binary"
	"math"
)

// toBF16 converts the stored floats of a format that Check let pass.
func toBF16(dtype string, raw []byte) []uint16 {
	width, convert := 2, func(at []byte) uint16 { return binary.LittleEndian.Uint16(at) }
	switch dtype {
	case "F32":
		width, convert = 4, func(at []byte) uint16 {
			return Round(math.Float32frombits(binary.LittleEndian.Uint32(at)))
		}
	case "F16":
		convert = func(at []byte) uint16 { return Round(half(binary.LittleEndian.Uint16(at))) }
	}
	out := make([]uint16, len(raw)/width)
	for i := range out {
		out[i] = convert(raw[i*width:])
	}
	return out
}

// Round is the bf16 nearest to v, ties to even; NaN stays NaN.
func Round(v float32) uint16 {
	b := math.Float32bits(v)
	if v != v {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// half is the value of an IEEE 754 binary16.
func half(h uint16) float32 {
	sign, exp, frac := uint32(h>>15)<<31, uint32(h>>10&31), uint32(h&1023)
	switch exp {
	case 0:
		f := float32(frac) / (1 << 24)
		return math.Float32frombits(math.Float32bits(f) | sign)
	case 31:
		return math.Float32frombits(sign | 0xff<<23 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}
