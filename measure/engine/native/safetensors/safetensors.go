// Package safetensors reads checkpoints in Hugging Face's format: 8 bytes that
// say how long the header is, a JSON header that says where each tensor lies,
// and the tensors. (https://huggingface.co/docs/safetensors, "Format".)
package safetensors

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
)

// maxHeader is the longest header that the format allows.
const maxHeader = 100_000_000

// An Entry is where one tensor lies and what it is.
type Entry struct {
	DType   string   `json:"dtype"`
	Shape   []int64  `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
}

// size of a format's elements in bytes; formats that are not whole bytes are
// not known here.
func size(dtype string) (int64, bool) {
	switch dtype {
	case "BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0":
		return 1, true
	case "BF16", "F16", "I16", "U16":
		return 2, true
	case "F32", "I32", "U32":
		return 4, true
	case "F64", "I64", "U64":
		return 8, true
	}
	return 0, false
}

// elements is the product of the shape, or false if it overflows.
func (e *Entry) elements() (int64, bool) {
	n := int64(1)
	for _, d := range e.Shape {
		if d < 0 || d > 0 && n > math.MaxInt64/16/d {
			return 0, false
		}
		n *= d
	}
	return n, true
}

// check holds an entry against the format and against the bytes that there are.
func (e *Entry) check(name string, data int64) error {
	begin, end := e.Offsets[0], e.Offsets[1]
	if begin < 0 || end < begin || end > data {
		return fmt.Errorf("tensor %q lies at %d..%d of %d bytes of data: truncated or corrupt", name, begin, end, data)
	}
	n, ok := e.elements()
	if !ok {
		return fmt.Errorf("tensor %q has the impossible shape %v", name, e.Shape)
	}
	if w, known := size(e.DType); known && n*w != end-begin {
		return fmt.Errorf("tensor %q of shape %v in %s needs %d bytes and has %d", name, e.Shape, e.DType, n*w, end-begin)
	}
	return nil
}

// ReadHeader reads the header of a file of total bytes and returns its entries
// and where their data begins.
func ReadHeader(r io.Reader, total int64) (map[string]Entry, int64, error) {
	var length [8]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, 0, fmt.Errorf("safetensors: the file is shorter than the 8 bytes of a header's length: %w", err)
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > maxHeader || int64(n) > total-8 {
		return nil, 0, fmt.Errorf("safetensors: the header says it is %d bytes long; the file has %d behind it and the format allows %d", n, total-8, maxHeader)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, 0, fmt.Errorf("safetensors: header: %w", err)
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, 0, fmt.Errorf("safetensors: header is not JSON: %w", err)
	}
	begin := int64(n) + 8
	entries := make(map[string]Entry, len(raw))
	for name, v := range raw {
		if name == "__metadata__" {
			continue
		}
		var e Entry
		if err := json.Unmarshal(v, &e); err != nil {
			return nil, 0, fmt.Errorf("safetensors: tensor %q: %w", name, err)
		}
		if err := e.check(name, total-begin); err != nil {
			return nil, 0, fmt.Errorf("safetensors: %w", err)
		}
		entries[name] = e
	}
	return entries, begin, nil
}

// A Checkpoint is the tensors of all files of a folder.
type Checkpoint struct {
	folder  string
	tensors map[string]place
	files   []*os.File
}

type place struct {
	Entry
	file  *os.File
	begin int64
}

// Open reads the headers of all *.safetensors files in folder.
func Open(folder string) (*Checkpoint, error) {
	names, err := filepath.Glob(filepath.Join(folder, "*.safetensors"))
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("safetensors: %s has no *.safetensors files", folder)
	}
	sort.Strings(names)
	c := &Checkpoint{folder: folder, tensors: map[string]place{}}
	for _, name := range names {
		if err := c.add(name); err != nil {
			c.Close()
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return c, nil
}

func (c *Checkpoint) add(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	c.files = append(c.files, f)
	st, err := f.Stat()
	if err != nil {
		return err
	}
	entries, begin, err := ReadHeader(f, st.Size())
	if err != nil {
		return err
	}
	for t, e := range entries {
		if _, twice := c.tensors[t]; twice {
			return fmt.Errorf("safetensors: tensor %q is in an earlier file too", t)
		}
		c.tensors[t] = place{Entry: e, file: f, begin: begin}
	}
	return nil
}

// Close closes the files.
func (c *Checkpoint) Close() {
	for _, f := range c.files {
		f.Close() // opened for reading: nothing is lost
	}
}

// BF16 reads a tensor of the shape that the model has, rounded to bf16 if it is
// stored as another float.
func (c *Checkpoint) BF16(name string, shape []int) ([]uint16, error) {
	p, ok := c.tensors[name]
	if !ok {
		return nil, fmt.Errorf("safetensors: %s has no tensor %q among its %d", c.folder, name, len(c.tensors))
	}
	want := make([]int64, len(shape))
	for i, d := range shape {
		want[i] = int64(d)
	}
	if !slices.Equal(want, p.Shape) {
		return nil, fmt.Errorf("safetensors: tensor %q has shape %v; the model needs %v", name, p.Shape, want)
	}
	raw := make([]byte, p.Offsets[1]-p.Offsets[0])
	if _, err := p.file.ReadAt(raw, p.begin+p.Offsets[0]); err != nil {
		return nil, fmt.Errorf("safetensors: tensor %q: %w", name, err)
	}
	out, ok := toBF16(p.DType, raw)
	if !ok {
		return nil, fmt.Errorf("safetensors: tensor %q is stored as %s; BF16, F16 and F32 can be read", name, p.DType)
	}
	return out, nil
}

// toBF16 converts the stored floats.
func toBF16(dtype string, raw []byte) ([]uint16, bool) {
	w, _ := size(dtype)
	out := make([]uint16, int64(len(raw))/max(w, 1))
	for i := range out {
		switch dtype {
		case "BF16":
			out[i] = binary.LittleEndian.Uint16(raw[2*i:])
		case "F32":
			out[i] = Round(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])))
		case "F16":
			out[i] = Round(half(binary.LittleEndian.Uint16(raw[2*i:])))
		default:
			return nil, false
		}
	}
	return out, true
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
