package safetensors

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"
)

// A Format is one of 16 bits that floats are read in.
type Format int

// The formats.
const (
	BFloat16 Format = iota
	Float16         // IEEE 754's binary16
)

// Round is the value of the format nearest to v, ties to even; NaN stays NaN.
func (f Format) Round(v float32) uint16 {
	if f == Float16 {
		return roundHalf(v)
	}
	return Round(v)
}

// Value is that of the format's bits.
func (f Format) Value(bits uint16) float32 {
	if f == Float16 {
		return half(bits)
	}
	return math.Float32frombits(uint32(bits) << 16)
}

// stored is the name of the format in a header.
func (f Format) stored() string {
	if f == Float16 {
		return "F16"
	}
	return "BF16"
}

// A convert rounds the stored floats of a format that Check let pass to another one.
type convert struct {
	dtype string
	to    Format
	table *[1 << 16]uint16 // results for all values of 16 bits
}

// tables are those of F16 to bf16 and of BF16 to fp16, made when first needed.
var tables = map[string]func() *[1 << 16]uint16{
	"F16":  sync.OnceValue(func() *[1 << 16]uint16 { return table("F16", BFloat16) }),
	"BF16": sync.OnceValue(func() *[1 << 16]uint16 { return table("BF16", Float16) }),
}

// conversion is that from dtype to f, which is another.
func conversion(dtype string, f Format) *convert {
	c := &convert{dtype: dtype, to: f}
	if t, ok := tables[dtype]; ok {
		c.table = t()
	}
	return c
}

func table(dtype string, f Format) *[1 << 16]uint16 {
	var out [1 << 16]uint16
	for i := range out {
		out[i] = f.Round(float(dtype, binary.LittleEndian.AppendUint16(nil, uint16(i))))
	}
	return &out
}

// values converts raw to 16-bit values, of which first is the number of the first, for
// an error: that of a number that fp16 is too small for.
func (c *convert) values(out, raw []byte, first int64) error {
	if c.round(out, raw) {
		return c.tooLarge(out, raw, first)
	}
	return nil
}

// round converts raw and reports whether there is a value that is infinite in fp16.
func (c *convert) round(out, raw []byte) bool {
	infinite := uint16(0) // The first bit says whether a value became or was infinite.
	switch table := c.table; {
	case table != nil:
		for ; len(out) >= 2 && len(raw) >= 2; out, raw = out[2:], raw[2:] {
			v := table[binary.LittleEndian.Uint16(raw)]
			infinite |= (v&0x7fff ^ 0x7c00) - 1
			binary.LittleEndian.PutUint16(out, v)
		}
	case c.to == BFloat16:
		for ; len(out) >= 2 && len(raw) >= 4; out, raw = out[2:], raw[4:] {
			binary.LittleEndian.PutUint16(out, Round(math.Float32frombits(binary.LittleEndian.Uint32(raw))))
		}
	default:
		for ; len(out) >= 2 && len(raw) >= 4; out, raw = out[2:], raw[4:] {
			v := roundHalf(math.Float32frombits(binary.LittleEndian.Uint32(raw)))
			infinite |= (v&0x7fff ^ 0x7c00) - 1
			binary.LittleEndian.PutUint16(out, v)
		}
	}
	return c.to == Float16 && infinite>>15 != 0
}

// tooLarge names the first number that became infinite and was not.
func (c *convert) tooLarge(out, raw []byte, first int64) error {
	width := len(raw) / (len(out) / 2)
	for i := range len(out) / 2 {
		v := float(c.dtype, raw[i*width:])
		if binary.LittleEndian.Uint16(out[2*i:])&0x7fff == 0x7c00 && !math.IsInf(float64(v), 0) {
			return fmt.Errorf("element %d is %g; fp16 ends at 65504: bf16 has room for it", first+int64(i), v)
		}
	}
	return nil
}

// float reads a number stored as F32, F16 or BF16.
func float(dtype string, at []byte) float32 {
	switch dtype {
	case "F32":
		return math.Float32frombits(binary.LittleEndian.Uint32(at))
	case "F16":
		return half(binary.LittleEndian.Uint16(at))
	}
	return math.Float32frombits(uint32(binary.LittleEndian.Uint16(at)) << 16)
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

// roundHalf is the binary16 nearest to v, ties to even; what is too large becomes
// infinite.
func roundHalf(v float32) uint16 {
	b := math.Float32bits(v)
	sign, a := uint16(b>>16&0x8000), b&0x7fffffff
	switch {
	case v != v:
		return sign | 0x7e00
	case a < 113<<23: // below the least normal value: so many times the least of all
		return sign | uint16(math.RoundToEven(float64(math.Float32frombits(a))*(1<<24)))
	case a >= 143<<23:
		return sign | 0x7c00
	}
	return sign | uint16((a+0xfff+a>>13&1-112<<23)>>13)
}
