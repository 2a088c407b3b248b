package unit

import (
	"fmt"
	"slices"
	"strings"
)

// A Format is a number format: how one weight, activation or cached key is
// stored and multiplied.
type Format uint8

// The number formats. The zero Format says that none was set.
const (
	NoFormat Format = iota
	FP32            // IEEE 754 binary32
	TF32            // 32 bits in memory, 19 in the tensor core (NVIDIA Ampere)
	FP16            // IEEE 754 binary16
	BF16            // bfloat16: the exponent of FP32, 8 bits of precision
	FP8             // E4M3 or E5M2 (OCP 8-bit floating point): the same size and speed
	INT8            // integers of 8 bits, with a scale of the scheme
	INT4            // integers of 4 bits, with a scale of the scheme
	NVFP4           // FP4 (E2M1) with an FP8 scale for each block of 16
	MXFP4           // FP4 (E2M1) with an 8-bit power-of-two scale for each block of 32
	NumFormats
)

var formatNames = [NumFormats]string{"", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "int4", "nvfp4", "mxfp4"}

// formatBits has the bits of a value in memory. The block scales of the two FP4 formats belong to
// the format (OCP Microscaling Formats v1.0; NVFP4 as in cuDNN and TensorRT-LLM); the group scales
// of INT4 belong to the scheme, or to the cache.
var formatBits = [NumFormats]float64{0, 32, 32, 16, 16, 8, 8, 4, 4 + 8.0/16, 4 + 8.0/32}

// Formats lists every number format, widest first.
func Formats() []Format {
	fs := make([]Format, 0, NumFormats-1)
	for f := FP32; f < NumFormats; f++ {
		fs = append(fs, f)
	}
	return fs
}

// String is the name of the format as flags and files spell it.
func (f Format) String() string {
	if f >= NumFormats {
		return fmt.Sprintf("Format(%d)", uint8(f))
	}
	return formatNames[f]
}

// ListFormats names formats, as errors and pages do.
func ListFormats(fs []Format) string {
	names := make([]string, len(fs))
	for i, f := range fs {
		names[i] = f.String()
	}
	return strings.Join(names, ", ")
}

// Rate is a rate of products in the format with its unit: those of integers are no floating-point operations.
func (f Format) Rate(r FLOPsPerSec) fmt.Stringer {
	if f == INT8 || f == INT4 {
		return OPsPerSec(r)
	}
	return r
}

// Bits is the memory that one value takes, its share of a block scale included.
func (f Format) Bits() float64 { return formatBits[f] }

// Bytes is the memory that n values take.
func (f Format) Bytes(n float64) Bytes { return Bytes(n * formatBits[f] / 8) }

// formatAliases are the names that torch, engines and llama.cpp give the formats.
var formatAliases = map[string]Format{
	"float32": FP32, "float": FP32, "float16": FP16, "half": FP16, "bfloat16": BF16, "float8": FP8,
	"f32": FP32, "f16": FP16, "q8_0": INT8, "q4_0": INT4,
	"fp8_e4m3": FP8, "fp8_e5m2": FP8, "float8_e4m3fn": FP8, "float8_e5m2": FP8,
}

// ParseFormat reads the name of a format, or the one that torch or an engine has for it,
// ignoring case.
func ParseFormat(s string) (Format, error) {
	name := strings.ToLower(s)
	if i := slices.Index(formatNames[1:], name); i >= 0 {
		return FP32 + Format(i), nil
	}
	if f, ok := formatAliases[name]; ok {
		return f, nil
	}
	return NoFormat, fmt.Errorf("%q is not a number format (known: %s)", s, strings.Join(formatNames[1:], ", "))
}

// Texts are the names of all formats.
func (Format) Texts() []string { return formatNames[1:] }

// MarshalText writes the name of the format.
func (f Format) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText reads the name of a format.
func (f *Format) UnmarshalText(text []byte) (err error) {
	*f, err = ParseFormat(string(text))
	return err
}
