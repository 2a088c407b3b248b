package models

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"llmprof/internal/spelling"
	"llmprof/unit"
)

// A Scheme says in which formats weights, activations and the cache are kept.
// It quantizes the matrices of the blocks; embedding, norms, routers, recurrent
// parameters and the LM head stay in the format of the stream.
type Scheme struct {
	Name    string
	Weights unit.Format // format of the blocks' matrices
	Act     unit.Format // in which the products with them run
	KV      unit.Format // format of the KV cache; NoFormat for that of the residual stream
	State   unit.Format // format of recurrent states where the model's config names none; NoFormat for that of the residual stream
	Conv    unit.Format // format of the inputs that convolutions remember; NoFormat for that of the residual stream
	Newest  bool        // A convolution's newest input is kept too, though the next token needs only those before.
	Group   int         // weights that share a scale; 0 for one scale a row
	Zero    bool        // each group has a zero point beside its scale
	Experts bool        // only the experts' matrices are quantized
	scale   float64     // bytes of the scale of a group, and of its zero point, where they are not the usual
	Stored  bool        // each matrix is kept as its Linear.Stored says, and what has none in 16 bits
	given   unit.Format // format of the activations in place of each matrix's own
}

// sixteen stands in a scheme for whichever 16-bit format the GPU has.
const sixteen = unit.BF16

// schemes are the quantizations that engines ship, by the names they go by.
var schemes = []Scheme{
	{Name: "w16a16", Weights: sixteen, Act: sixteen},
	{Name: "bf16", Weights: unit.BF16, Act: unit.BF16},
	{Name: "fp16", Weights: unit.FP16, Act: unit.FP16},
	{Name: "fp32", Weights: unit.FP32, Act: unit.FP32},
	{Name: "tf32", Weights: unit.TF32, Act: unit.TF32},
	{Name: "fp8", Weights: unit.FP8, Act: unit.FP8},
	{Name: "fp8-block", Weights: unit.FP8, Act: unit.FP8, Group: 128 * 128}, // DeepSeek-V3
	{Name: "mxfp8", Weights: unit.FP8, Act: unit.FP8, Group: 32, scale: 1},
	{Name: "w8a16-fp8", Weights: unit.FP8, Act: sixteen},
	{Name: "w8a8", Weights: unit.INT8, Act: unit.INT8}, // SmoothQuant
	{Name: "w8a16", Weights: unit.INT8, Act: sixteen},
	{Name: "int8", Weights: unit.INT8, Act: sixteen},
	{Name: "w4a16-g128", Weights: unit.INT4, Act: sixteen, Group: 128, Zero: true}, // AWQ, GPTQ
	{Name: "w4a16-g64", Weights: unit.INT4, Act: sixteen, Group: 64, Zero: true},
	{Name: "w4a16-g32", Weights: unit.INT4, Act: sixteen, Group: 32, Zero: true},
	{Name: "w4a16", Weights: unit.INT4, Act: sixteen, Group: 128, Zero: true},
	{Name: "int4", Weights: unit.INT4, Act: sixteen, Group: 128, Zero: true},
	{Name: "nf4", Weights: unit.INT4, Act: sixteen, Group: 64, scale: 4},                // bitsandbytes
	{Name: "nf4-nested", Weights: unit.INT4, Act: sixteen, Group: 64, scale: 65.0 / 64}, // its scales quantized too
	{Name: "w4a16-mlx", Weights: unit.INT4, Act: sixteen, Group: 64, scale: 4},          // MLX, HQQ
	{Name: "w8a16-mlx", Weights: unit.INT8, Act: sixteen, Group: 64, scale: 4},
	{Name: "w4a16-torchao", Weights: unit.INT4, Act: sixteen, Group: 128, scale: 4},
	{Name: "w4a8-g128", Weights: unit.INT4, Act: unit.INT8, Group: 128, Zero: true},
	{Name: "w4a4", Weights: unit.INT4, Act: unit.INT4, Group: 128, Zero: true},
	{Name: "nvfp4", Weights: unit.NVFP4, Act: unit.NVFP4},
	{Name: "w4a16-nvfp4", Weights: unit.NVFP4, Act: sixteen},
	{Name: "mxfp4", Weights: unit.MXFP4, Act: sixteen}, // gpt-oss
	{Name: "w4a4-mxfp4", Weights: unit.MXFP4, Act: unit.MXFP4},
	{Name: "w4a8-mxfp4", Weights: unit.MXFP4, Act: unit.FP8},
}

// schemeAliases are names that people give a quantization, and the scheme that they mean.
var schemeAliases = map[string]string{
	"awq": "w4a16-g128", "gptq": "w4a16-g128", "awq-marlin": "w4a16-g128", "gptq-marlin": "w4a16-g128", "4bit": "int4", "8bit": "int8",
	"auto-round": "w4a16-g128", "autoround": "w4a16-g128", "hqq": "w4a16-mlx", "mlx": "w4a16-mlx", "mlx-4bit": "w4a16-mlx",
	"mlx-8bit": "w8a16-mlx",
	"torchao":  "w4a16-torchao", "int4wo": "w4a16-torchao", "int8wo": "w8a16", "float8dq": "fp8", "float8wo": "w8a16-fp8", "bnb": "nf4",
	"bitsandbytes": "nf4", "bnb-4bit": "nf4", "bnb-nf4": "nf4", "qlora": "nf4", "bnb-8bit": "w8a8", "llm-int8": "w8a8",
	"fp8-channel": "fp8", "fp8-per-channel": "fp8", "fp8-per-tensor": "fp8", "fp8-dynamic": "fp8", "fp8-blockwise": "fp8-block",
	"fp8-128x128": "fp8-block", "w8a8-fp8": "fp8", "w8a8-int8": "w8a8",
	"smoothquant": "w8a8", "fp4": "nvfp4", "deepseek-fp8": "fp8-block",
	"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "float": "fp32", "f16": "fp16", "f32": "fp32", "fp8-e4m3": "fp8",
	"float8": "fp8",
}

// SchemeNames lists the named schemes.
func SchemeNames() []string {
	names := make([]string, len(schemes))
	for i, s := range schemes {
		names[i] = s.Name
	}
	return names
}

// ParseScheme finds a scheme by its name or an alias, ignoring case and taking _ for -.
func ParseScheme(name string) (Scheme, error) {
	want := strings.ReplaceAll(strings.ToLower(name), "_", "-")
	if full, ok := schemeAliases[want]; ok {
		want = full
	}
	for _, s := range schemes {
		if s.Name == want {
			return s, nil
		}
	}
	known := strings.Join(SchemeNames(), ", ") + "; awq, gptq, smoothquant"
	if IsFileType(name) {
		return Scheme{}, fmt.Errorf("%.40q is a quantization of llama.cpp, which has several formats: want one of %s", name, known)
	}
	names := slices.Concat(SchemeNames(), slices.Sorted(maps.Keys(schemeAliases)), FileTypes())
	if len(spelling.Near(name, names)) > 0 {
		return Scheme{}, fmt.Errorf("unknown weight scheme %.40q; %s", name, spelling.Hint(name, names))
	}
	return Scheme{}, fmt.Errorf("unknown weight scheme %.40q (known: %s; of llama.cpp %s)", name, known, strings.Join(FileTypes(), ", "))
}

// CheckWeights reports what is wrong with a name that is neither a scheme nor a quantization of llama.cpp.
func CheckWeights(name string) error {
	if IsFileType(name) {
		return nil
	}
	_, err := ParseScheme(name)
	return err
}

// StoredScheme is the scheme that a model's published checkpoint is stored in.
func StoredScheme(m *Model) Scheme {
	st := m.Stored
	cache := cmp.Or(st.KV, m.Cache)
	s := Scheme{Name: "w16a16", Weights: sixteen, Act: sixteen, KV: cache}
	if st.Method == "" || st.Weights == unit.NoFormat {
		return s
	}
	s = Scheme{Name: st.Method, Weights: st.Weights, Act: sixteen, KV: cache, Group: st.Group, Experts: st.Experts, Stored: true}
	switch {
	case st.Act != unit.NoFormat:
		s.Act = st.Act
	case st.Weights == unit.FP32:
		s.Act = unit.FP32
	}
	return s
}

// NamedScheme is the scheme of a name for a model. Of a checkpoint that is quantized so it is the stored one, which keeps in
// 16 bits what the publisher left so, as the attention of gpt-oss.
func NamedScheme(m *Model, name string) (Scheme, error) {
	s, err := ParseScheme(name)
	stored := StoredScheme(m)
	alike := s.Weights == stored.Weights && s.Act == stored.Act && (s.Name == stored.Name || s.Group == stored.Group && s.Zero == stored.Zero)
	if err == nil && stored.Stored && alike {
		return stored, nil
	}
	return s, err
}

// WithAct returns s computing in format f.
func (s Scheme) WithAct(f unit.Format) Scheme {
	if f != s.Act {
		s.Name += "+act-" + f.String()
	}
	s.Act, s.given = f, f
	return s
}

// ActOf is the format in which the product with a matrix runs.
func (s *Scheme) ActOf(l *Linear) unit.Format {
	switch {
	case !s.Stored:
		return s.Act
	case l.Stored == nil || l.Stored.Act == unit.NoFormat && s.given == unit.NoFormat:
		return s.Stream()
	case s.given != unit.NoFormat:
		return s.given
	}
	return l.Stored.Act
}

// MatrixBytes is the memory of the share of a matrix that has n of its values in rows outputs.
func (s *Scheme) MatrixBytes(l *Linear, n, rows float64) unit.Bytes {
	switch {
	case !s.Stored:
		return s.WeightBytes(n, rows)
	case l.Stored == nil:
		return s.Stream().Bytes(n)
	}
	in, out := float64(l.In), float64(l.Out)
	return l.Stored.Bytes(in, out).Times(n / (in * out))
}

// VectorBytes is the memory of n values of norms and biases.
func (s *Scheme) VectorBytes(m *Model, n float64) unit.Bytes {
	if s.Stored && m.Stored.Vectors != unit.NoFormat {
		return m.Stored.Vectors.Bytes(n)
	}
	return s.Stream().Bytes(n)
}

// ShareBytes is the memory of the share of a matrix of m that one of tp ranks has, its
// scales and its bias included.
func (s *Scheme) ShareBytes(m *Model, l *Linear, tp int) unit.Bytes {
	values, outputs := l.Share(tp)
	return s.LinearBytes(m, l, values, outputs)
}

// LinearBytes is the memory of the share of a matrix, and of its bias, that has so many of its values and outputs.
func (s *Scheme) LinearBytes(m *Model, l *Linear, values, outputs float64) unit.Bytes {
	b := s.MatrixBytes(l, values, outputs)
	if l.Bias {
		b += s.VectorBytes(m, outputs)
	}
	return b
}

// Table is the embedding as a matrix, whose rows tokens are looked up in.
func (m *Model) Table() Linear {
	return Linear{Name: "embedding", In: m.Embedding.Width, Out: m.Vocab, Stored: m.Embedding.Stored}
}

// For returns s with the 16-bit formats that a GPU computes in: FP16 where it has no
// BF16 unit.
func (s Scheme) For(gpu interface{ Has(f unit.Format) bool }) Scheme {
	swap := func(f unit.Format) unit.Format {
		if f == unit.BF16 && !gpu.Has(unit.BF16) && gpu.Has(unit.FP16) {
			return unit.FP16
		}
		return f
	}
	s.Weights, s.Act, s.KV = swap(s.Weights), swap(s.Act), swap(s.KV)
	if s.KV == unit.NoFormat {
		s.KV = swap(s.Stream())
	}
	return s
}

// Check returns what is wrong with the scheme, if anything is.
func (s *Scheme) Check() error {
	if s.Weights == unit.NoFormat || s.Weights >= unit.NumFormats || s.Act == unit.NoFormat ||
		s.Act >= unit.NumFormats || s.KV >= unit.NumFormats {
		return fmt.Errorf("scheme %q lacks the format of its weights, activations or cache", s.Name)
	}
	if s.Weights.Bits() > s.Act.Bits()+1 {
		return fmt.Errorf("weights in %v with activations in %v: no engine narrows weights before a product; give --act %v or quantize the "+
			"weights",
			s.Weights, s.Act, s.Weights)
	}
	if s.KV == unit.TF32 {
		return fmt.Errorf("a KV cache in tf32: tf32 is a format of the tensor core, not of memory; give --kv fp32")
	}
	return nil
}

// Stream is the format of the residual stream, of everything that is not
// quantized, and of attention's products.
func (s *Scheme) Stream() unit.Format {
	switch s.Act {
	case unit.FP32, unit.TF32, unit.FP16, unit.BF16:
		return s.Act
	}
	return sixteen
}

// WeightBytes is the memory of n weights in rows outputs, the scales included.
func (s *Scheme) WeightBytes(n, rows float64) unit.Bytes {
	b := s.Weights.Bytes(n)
	if s.scale > 0 {
		return b + unit.Bytes(s.scale*n/float64(s.Group))
	}
	switch s.Weights {
	case unit.FP8, unit.INT8:
		if s.Group > 0 {
			return b + unit.Bytes(4*n/float64(s.Group)) // a float32 a block
		}
		return b + unit.Bytes(4*rows) // a float32 a row
	case unit.INT4:
		if s.Group == 0 {
			return b + unit.Bytes(4*rows)
		}
		groups := n / float64(s.Group)
		if s.Zero {
			return b + unit.Bytes(2.5*groups) // an FP16 scale and a 4-bit zero point
		}
		return b + unit.Bytes(2*groups)
	}
	return b
}

// Parts returns the scheme of the dense matrices and that of what is never
// quantized.
func (s *Scheme) Parts() (dense, plain Scheme) {
	plain = Scheme{Name: "stream", Weights: s.Stream(), Act: s.Stream(), KV: s.KV, Stored: s.Stored}
	if s.Experts {
		return plain, plain
	}
	return *s, plain
}
