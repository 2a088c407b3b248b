package models_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"llmprof"
	"llmprof/internal/testkit"
	"llmprof/models"
	"llmprof/models/gguf"
	"llmprof/unit"
)

// ggufFiles are the sizes of files that llama.cpp wrote, of which testdata/gguf keeps the headers
// (testdata/gguf/write.py).
func ggufFiles(t testing.TB) map[string]int64 {
	t.Helper()
	data, err := os.ReadFile("testdata/gguf/sizes.json")
	testkit.Must(t, err)
	var sizes map[string]int64
	testkit.Must(t, json.Unmarshal(data, &sizes))
	return sizes
}

func ggufHeader(t testing.TB, name string) []byte {
	t.Helper()
	return testkit.Unzipped(t, "testdata/gguf/"+name+".gguf.gz")
}

// ggufFile is a file of the full size with a header and holes for weights.
func ggufFile(t *testing.T, path string, header []byte, size int64) {
	t.Helper()
	testkit.Must(t, os.WriteFile(path, header, 0o600))
	testkit.Must(t, os.Truncate(path, size))
}

// A file that llama.cpp wrote is read to the byte, and a quantized one is what Quantize makes of the
// model in 16 bits.
func TestGGUFMeetsLlamaCpp(t *testing.T) {
	sizes := ggufFiles(t)
	for name, size := range sizes {
		t.Run(name, func(t *testing.T) {
			m := readGGUF(t, name, size)
			headers := int64(len(ggufHeader(t, name)))
			if total := m.Stored.Bytes; total > size-headers || float64(total) < 0.98*float64(size-headers) {
				t.Errorf("%d bytes of tensors in %d bytes behind the header", total, size-headers)
			}
			if got := float64(m.StoredBytes()); math.Abs(got-float64(m.Stored.Bytes)) > 3e-4*got {
				t.Errorf("%.0f bytes by the shape, %d by the table", got, m.Stored.Bytes)
			}
			base, mix, _ := strings.Cut(name, ".")
			if mix == "f16" || strings.HasSuffix(mix, ".f16") {
				return
			}
			q, err := models.Quantize(readGGUF(t, base+".f16", sizes[base+".f16"]), mix)
			testkit.Must(t, err)
			if q.StoredBytes() != m.StoredBytes() || len(q.Layers) != len(m.Layers) || q.Stored.Method != m.Stored.Method {
				t.Errorf("%.0f bytes in %d kinds of layers of %s, Quantize has %.0f in %d of %s",
					float64(m.StoredBytes()), len(m.Layers), m.Stored.Method, float64(q.StoredBytes()), len(q.Layers), q.Stored.Method)
			}
		})
	}
}

func readGGUF(t *testing.T, name string, size int64) *models.Model {
	t.Helper()
	path := filepath.Join(t.TempDir(), name+".gguf")
	ggufFile(t, path, ggufHeader(t, name), size)
	m, err := models.Resolver{}.Resolve(t.Context(), path)
	testkit.Must(t, err)
	return m
}

// The shape in a GGUF file is that of the config.json.
func TestGGUFIsTheBuiltIn(t *testing.T) {
	table, err := models.Load(llmprof.ModelsJSON)
	testkit.Must(t, err)
	sizes := ggufFiles(t)
	for _, name := range []string{"llama3.1-8b", "deepseek-v2-lite", "gpt-oss-20b", "qwen3-30b-a3b"} {
		want, err := table.Model(name)
		testkit.Must(t, err)
		got := readGGUF(t, name+".f16", sizes[name+".f16"])
		// A correction of the router is a parameter of DeepSeek-V3, whose family reads V2 here.
		if d := got.Params() - want.Params(); d < 0 || d > 26*64 {
			t.Errorf("%s: %d parameters, want %d", name, got.Params(), want.Params())
		}
		if got.CacheBytes(32768, unit.BF16) != want.CacheBytes(32768, unit.BF16) || got.Hidden != want.Hidden || got.Vocab != want.Vocab {
			t.Errorf("%s: %v of cache, want %v", name, got.CacheBytes(32768, unit.BF16), want.CacheBytes(32768, unit.BF16))
		}
	}
}

// A split file is read from any of its parts, and needs all of them.
func TestGGUFSplit(t *testing.T) {
	dir := t.TempDir()
	path := func(i int) string {
		return filepath.Join(dir, []string{"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"}[i])
	}
	whole, err := gguf.Parse(bytes.NewReader(ggufHeader(t, "tiny-llama.q4_k_m")), ggufFiles(t)["tiny-llama.q4_k_m"])
	testkit.Must(t, err)
	first := map[string]any{"split.no": uint16(0), "split.count": uint16(2), "split.tensors.count": int32(len(whole.Tensors))}
	for key, v := range whole.Values {
		switch v := v.(type) {
		case int64:
			first[key] = uint64(v)
		case string:
			first[key] = v
		}
	}
	half := len(whole.Tensors) / 2
	header, size := writeGGUF(first, whole.Tensors[:half])
	ggufFile(t, path(0), header, size)
	if _, err := (models.Resolver{}).Resolve(t.Context(), path(0)); err == nil || !strings.Contains(err.Error(), "00002-of-00002") {
		t.Errorf("without its second part: %v", err)
	}
	header, size = writeGGUF(map[string]any{"split.no": uint16(1), "split.count": uint16(2)}, whole.Tensors[half:])
	ggufFile(t, path(1), header, size)
	want := readGGUF(t, "tiny-llama.q4_k_m", ggufFiles(t)["tiny-llama.q4_k_m"])
	for i := range 2 {
		m, err := models.Resolver{}.Resolve(t.Context(), path(i))
		testkit.Must(t, err)
		if m.Stored.Bytes != want.Stored.Bytes || m.Params() != want.Params() {
			t.Errorf("part %d: %d bytes, want %d", i+1, m.Stored.Bytes, want.Stored.Bytes)
		}
	}
}

// writeGGUF writes a header in version 2, and says how long the file is with its weights.
func writeGGUF(values map[string]any, tensors []gguf.Tensor) ([]byte, int64) {
	var b bytes.Buffer
	put := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) }
	text := func(s string) { put(uint64(len(s))); b.WriteString(s) }
	b.WriteString("GGUF")
	put(uint32(2))
	put(uint64(len(tensors)))
	put(uint64(len(values)))
	for key, v := range values {
		text(key)
		switch v := v.(type) {
		case uint16:
			put(uint32(2))
			put(v)
		case int32:
			put(uint32(5))
			put(v)
		case uint64:
			put(uint32(10))
			put(v)
		case string:
			put(uint32(8))
			text(v)
		case []uint32:
			put([]uint32{9, 4})
			put(uint64(len(v)))
			put(v)
		case []bool:
			put([]uint32{9, 7})
			put(uint64(len(v)))
			put(v)
		}
	}
	var offset int64
	for _, t := range tensors {
		text(t.Name)
		put(uint32(len(t.Dims)))
		for _, d := range t.Dims {
			put(uint64(d))
		}
		put(t.Type.ID)
		put(uint64(offset))
		offset += (t.Bytes() + 31) / 32 * 32
	}
	return b.Bytes(), int64(b.Len()+31)/32*32 + offset
}

// What is wrong with a file is said, and nothing is made of it.
func TestGGUFRefused(t *testing.T) {
	header, size := ggufHeader(t, "tiny-llama.q4_k_m"), ggufFiles(t)["tiny-llama.q4_k_m"]
	change := func(old, by string) []byte { return bytes.Replace(header, []byte(old), []byte(by), 1) }
	u32 := func(key string, n uint32) []byte {
		at := bytes.Index(header, []byte(key)) + len(key) + 4
		out := bytes.Clone(header)
		binary.LittleEndian.PutUint32(out[at:], n)
		return out
	}
	huge := bytes.Clone(header)
	binary.LittleEndian.PutUint64(huge[8:], 1<<60)
	for want, data := range map[string][]byte{
		`begins with "GGML"`:                        change("GGUF", "GGML"),
		"version 1, which was":                      append([]byte("GGUF\x01\x00\x00\x00"), header[8:]...),
		"big-endian":                                append([]byte("GGUF\x00\x00\x00\x03"), header[8:]...),
		"1152921504606846976 tensors; at most":      huge,
		`general.architecture is "llamq"`:           change("\x05\x00\x00\x00\x00\x00\x00\x00llama", "\x05\x00\x00\x00\x00\x00\x00\x00llamq"),
		"tensor blk.10.attn_q.weight is missing":    u32("llama.block_count", 11),
		"blk.0.attn_k.weight is [256 64]":           u32("llama.attention.head_count_kv", 4),
		"llama.block_count is 4294967295":           u32("llama.block_count", 1<<32-1),
		"blk.0.ffn_down.weight is missing":          change("blk.0.ffn_down.weight", "blk.0.ffn_dowx.weight"),
		"the key llama.embedding_length is missing": change("llama.embedding_length", "llama.embedding_lengtx"),
	} {
		path := filepath.Join(t.TempDir(), "m.gguf")
		ggufFile(t, path, data, size)
		m, err := models.Resolver{}.Resolve(t.Context(), path)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v and %v", want, m != nil, err)
		}
	}
	for _, n := range []int{0, 3, 10, 50, 500, len(header) - 1, len(header), len(header) + 1000} {
		path := filepath.Join(t.TempDir(), "m.gguf")
		ggufFile(t, path, header[:min(n, len(header))], int64(n))
		if _, err := (models.Resolver{}).Resolve(t.Context(), path); err == nil || !strings.Contains(err.Error(), "cut off") {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// FuzzGGUF: what is read has finite sizes, and each matrix is kept in some way.
func FuzzGGUF(f *testing.F) {
	for name, size := range ggufFiles(f) {
		f.Add(ggufHeader(f, name), size)
	}
	f.Fuzz(func(t *testing.T, data []byte, size int64) {
		h, err := gguf.Parse(bytes.NewReader(data), max(size, int64(len(data))))
		if err != nil {
			return
		}
		m, err := models.ReadGGUF("fuzz", h)
		if err != nil {
			return
		}
		if b := float64(m.StoredBytes()); b <= 0 || math.IsNaN(b) || b > 1<<52 || m.Params() <= 0 {
			t.Errorf("%g bytes, %d parameters", b, m.Params())
		}
	})
}
