package models

import (
	"fmt"
	"slices"
	"strings"

	"llmprof/models/gguf"
	"llmprof/unit"
)

// A fileType is a file type of llama.cpp: most matrices have the type Base, and some a larger one.
type fileType struct {
	name string
	file int64 // general.file_type
	base string
}

// fileTypes lists the file types (enum llama_ftype of llama.h, and llama_ftype_get_default_type; MIT licence).
var fileTypes = []fileType{
	{"Q8_0", 7, "Q8_0"}, {"Q6_K", 18, "Q6_K"}, {"Q5_K_M", 17, "Q5_K"}, {"Q5_K_S", 16, "Q5_K"}, {"Q5_1", 9, "Q5_1"}, {"Q5_0", 8, "Q5_0"},
	{"Q4_K_M", 15, "Q4_K"}, {"Q4_K_S", 14, "Q4_K"}, {"Q4_1", 3, "Q4_1"}, {"Q4_0", 2, "Q4_0"}, {"IQ4_NL", 25, "IQ4_NL"},
	{"IQ4_XS", 30, "IQ4_XS"},
	{"MXFP4_MOE", 38, "MXFP4"}, {"Q3_K_L", 13, "Q3_K"}, {"Q3_K_M", 12, "Q3_K"}, {"Q3_K_S", 11, "Q3_K"},
	{"IQ3_M", 27, "IQ3_S"}, {"IQ3_S", 26, "IQ3_S"}, {"IQ3_XS", 22, "IQ3_S"}, {"IQ3_XXS", 23, "IQ3_XXS"}, {"Q2_K", 10, "Q2_K"},
	{"Q2_K_S", 21, "Q2_K"},
	{"IQ2_M", 29, "IQ2_S"}, {"IQ2_S", 28, "IQ2_XS"}, {"IQ2_XS", 20, "IQ2_XS"}, {"IQ2_XXS", 19, "IQ2_XXS"}, {"IQ1_M", 31, "IQ1_M"},
	{"IQ1_S", 24, "IQ1_S"},
	{"TQ2_0", 37, "TQ2_0"}, {"TQ1_0", 36, "TQ1_0"}, {"Q2_0", 41, "Q2_0"}, {"Q1_0", 40, "Q1_0"},
}

// FileTypes lists the names of llama.cpp's quantizations, the largest first.
func FileTypes() []string {
	names := make([]string, len(fileTypes))
	for i := range fileTypes {
		names[i] = strings.ToLower(fileTypes[i].name)
	}
	return names
}

// findFileType finds a quantization of llama.cpp by its name. Without a size it is the middle one,
// as llama-quantize has it.
func findFileType(name string) (*fileType, bool) {
	upper := strings.ToUpper(name)
	switch upper {
	case "Q3_K", "Q4_K", "Q5_K":
		upper += "_M"
	}
	for i := range fileTypes {
		if fileTypes[i].name == upper {
			return &fileTypes[i], true
		}
	}
	return nil, false
}

// IsFileType reports whether name is a quantization of llama.cpp.
func IsFileType(name string) bool {
	_, ok := findFileType(name)
	return ok
}

// fileTypeName is the name of a file type, "" for one that has no name here.
func fileTypeName(file int64) string {
	switch file {
	case 0:
		return "F32"
	case 1:
		return "F16"
	case 32:
		return "BF16"
	case 39:
		return "NVFP4"
	}
	for i := range fileTypes {
		if fileTypes[i].file == file {
			return fileTypes[i].name
		}
	}
	return ""
}

// Quantize is the model as llama-quantize would store it in a file type, such as q4_k_m:
// attention's values, the product down and the head have larger types, some of them in some
// layers only. The rules are those of llama_tensor_get_type in llama.cpp.
func Quantize(m *Model, name string) (*Model, error) {
	x, ok := findFileType(name)
	if !ok {
		return nil, fmt.Errorf("%q is no quantization of llama.cpp (known: %s)", name, strings.Join(FileTypes(), ", "))
	}
	base, err := gguf.ParseType(x.base)
	if err != nil {
		return nil, err
	}
	q := newQuantizer(m, x, base)
	out := *m
	out.Layers, out.Order = slices.Clone(m.Layers), slices.Clone(m.Order)
	if err := out.store(q.pick); err != nil {
		return nil, err
	}
	out.Embedding.Stored = q.storage(q.embedding(), int64(m.Embedding.Width))
	out.Head.Stored = q.storage(q.head(int64(m.Head.In)), int64(m.Head.In))
	out.Cache = unit.NoFormat
	out.Stored = Stored{Method: "gguf " + x.name, Weights: base.Format, Plain: unit.BF16, Vectors: unit.FP32}
	return &out, nil
}

// PublishedFileType is the quantization of llama.cpp in which a checkpoint's formats are published, "" where it has 16 bits or
// formats that llama.cpp does not read.
func PublishedFileType(m *Model) string {
	for _, b := range m.Blocks() {
		if e := b.Experts; e != nil && len(e.In) > 0 && keepsMXFP4(&e.In[0]) && m.Stored.Experts {
			return "mxfp4_moe"
		}
	}
	return ""
}

// A quantizer goes through the matrices in the order of llama-quantize, which counts
// some of them.
type quantizer struct {
	mix      string
	base     *gguf.Type
	model    *Model
	experts  int // experts of the first MoE layer
	grouped  int // query heads of a key head in the first layer
	large    bool
	layers   int
	values   int // matrices that make values
	value    int // matrices that make values, of which this many came so far
	downs    int // matrices down so far
	storages map[string]*Storage
}

func newQuantizer(m *Model, x *fileType, base *gguf.Type) *quantizer {
	q := &quantizer{mix: x.name, base: base, model: m, layers: m.NumLayers(), storages: make(map[string]*Storage)}
	fused := fusedAttention(m)
	for _, kind := range m.Order {
		for i := range m.Layers[kind].Blocks {
			b := &m.Layers[kind].Blocks[i]
			if b.Experts != nil && b.Attention == nil {
				q.experts = b.Experts.Count
			}
			if a := b.Attention; a != nil && a.KVHeads > 0 {
				if q.grouped == 0 {
					q.grouped = a.Heads / a.KVHeads
				}
				if fused || slices.ContainsFunc(b.In, func(l Linear) bool { return l.Name == "v_proj" }) {
					q.values++
				}
			}
		}
	}
	switch m.Family { // llama.cpp calls these "70B"
	case "llama", "qwen2", "deepseek_llm":
		q.large = q.layers == 80
	}
	return q
}

// fusedAttention reports whether a family's GGUF files have queries, keys and values in one matrix.
func fusedAttention(m *Model) bool {
	switch m.Family {
	case "bailing_moe": // the second version does, which has norms of heads
		return slices.ContainsFunc(m.Layers[0].Blocks[0].Norms, func(n Norm) bool { return n.PerHead })
	case "phi3", "gpt2", "gpt_neox", "bloom", "mpt", "falcon", "gpt_bigcode", "dbrx", "chatglm", "qwen", "codeshell":
		return true
	}
	return false
}

func (q *quantizer) named(name string) *gguf.Type {
	if name == "" {
		return q.base
	}
	return typeNamed(name)
}

// storage is how a matrix of a type is kept whose rows have in values. A type whose blocks do not
// divide the rows gives way to one that does.
func (q *quantizer) storage(name string, in int64) *Storage {
	t := fallback(q.named(name), in)
	if q.storages[t.Name] == nil {
		q.storages[t.Name] = ggmlStorage(t)
	}
	return q.storages[t.Name]
}

// fallback is the type that llama-quantize takes for rows of in values.
func fallback(t *gguf.Type, in int64) *gguf.Type {
	if t.Fits(in) {
		return t
	}
	next := "F16"
	switch t.Name {
	case "IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_XS":
		next = "IQ4_NL"
	case "Q2_0", "Q2_K", "Q3_K", "TQ1_0", "TQ2_0":
		next = "Q4_0"
	case "Q4_K":
		next = "Q5_0"
	case "Q5_K":
		next = "Q5_1"
	case "Q6_K":
		next = "Q8_0"
	}
	if u := typeNamed(next); u.Fits(in) {
		return u
	}
	return typeNamed("F16")
}

// typeNamed is a type that is known to exist.
func typeNamed(name string) *gguf.Type {
	t, err := gguf.ParseType(name)
	if err != nil {
		panic(err) // a name in this file
	}
	return t
}
