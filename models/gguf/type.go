package gguf

import (
	"fmt"
	"strings"

	"llmprof/unit"
)

// A Type is the format of a tensor of ggml: blocks of Block values, each of Size bytes
// with its scales.
type Type struct {
	Name   string
	ID     uint32
	Block  int64       // values of a block
	Size   int64       // bytes of a block
	Format unit.Format // the number format that comes nearest
}

// types lists the types that files hold, by the enumeration ggml_type of ggml.h and the block
// structures of ggml-common.h (MIT licence). Q8_1 and Q8_K are formats of activations
// and occur in no file.
var types = [...]Type{
	{"F32", 0, 1, 4, unit.FP32},
	{"F16", 1, 1, 2, unit.FP16},
	{"Q4_0", 2, 32, 18, unit.INT4},
	{"Q4_1", 3, 32, 20, unit.INT4},
	{"Q5_0", 6, 32, 22, unit.INT8},
	{"Q5_1", 7, 32, 24, unit.INT8},
	{"Q8_0", 8, 32, 34, unit.INT8},
	{"Q2_K", 10, 256, 84, unit.INT4},
	{"Q3_K", 11, 256, 110, unit.INT4},
	{"Q4_K", 12, 256, 144, unit.INT4},
	{"Q5_K", 13, 256, 176, unit.INT8},
	{"Q6_K", 14, 256, 210, unit.INT8},
	{"IQ2_XXS", 16, 256, 66, unit.INT4},
	{"IQ2_XS", 17, 256, 74, unit.INT4},
	{"IQ3_XXS", 18, 256, 98, unit.INT4},
	{"IQ1_S", 19, 256, 50, unit.INT4},
	{"IQ4_NL", 20, 32, 18, unit.INT4},
	{"IQ3_S", 21, 256, 110, unit.INT4},
	{"IQ2_S", 22, 256, 82, unit.INT4},
	{"IQ4_XS", 23, 256, 136, unit.INT4},
	{"I8", 24, 1, 1, unit.INT8},
	{"I16", 25, 1, 2, unit.NoFormat},
	{"I32", 26, 1, 4, unit.NoFormat},
	{"I64", 27, 1, 8, unit.NoFormat},
	{"F64", 28, 1, 8, unit.NoFormat},
	{"IQ1_M", 29, 256, 56, unit.INT4},
	{"BF16", 30, 1, 2, unit.BF16},
	{"TQ1_0", 34, 256, 54, unit.INT4},
	{"TQ2_0", 35, 256, 66, unit.INT4},
	{"MXFP4", 39, 32, 17, unit.MXFP4},
	{"NVFP4", 40, 64, 36, unit.NVFP4},
	{"Q1_0", 41, 128, 18, unit.INT4},
	{"Q2_0", 42, 64, 18, unit.INT4},
}

// ParseType finds a type by its name, ignoring case.
func ParseType(name string) (*Type, error) {
	for i := range types {
		if strings.EqualFold(types[i].Name, name) {
			return &types[i], nil
		}
	}
	return nil, fmt.Errorf("%.40q is not a tensor type of GGUF (known: %s)", name, strings.Join(typeNames(), ", "))
}

func typeOf(id uint32) (*Type, error) {
	for i := range types {
		if types[i].ID == id {
			return &types[i], nil
		}
	}
	switch id {
	case 4, 5:
		return nil, fmt.Errorf("has the type %d (Q4_2 or Q4_3), which llama.cpp gave up in 2023", id)
	case 31, 32, 33, 36, 37, 38:
		return nil, fmt.Errorf("has the type %d (Q4_0 or IQ4_NL repacked for a CPU), which llama.cpp no longer reads", id)
	}
	return nil, fmt.Errorf("has the type %d, which is not known (known: %s)", id, strings.Join(typeNames(), ", "))
}

func typeNames() []string {
	names := make([]string, len(types))
	for i := range types {
		names[i] = types[i].Name
	}
	return names
}

// Bits is the memory of one value with its share of the scales.
func (t *Type) Bits() float64 { return float64(8*t.Size) / float64(t.Block) }

// Fits reports whether rows of n values are made of whole blocks.
func (t *Type) Fits(n int64) bool { return n%t.Block == 0 }
