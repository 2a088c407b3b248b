// Package gguf reads the header of GGUF files: keys and values, and the table of tensors.
// It reads no weights. The format is described in
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
package gguf

import (
	"bufio"
	"fmt"
	"io"
	"math"

	"llmprof/internal/input"
	"llmprof/unit"
)

// Limits on a header. Published ones have some 50 keys, at most 20 MB of tokens and
// at most 3,000 tensors.
const (
	maxHeader  = 256 << 20 // bytes, of all parts together
	maxKept    = 64 << 20  // bytes of keys, values and names that are kept, of all parts together
	maxKeys    = 10_000
	maxTensors = 200_000
	maxName    = 1 << 16 // bytes of a key or of the name of a tensor
	maxText    = 1 << 16 // bytes of a value that is kept
	maxList    = 1 << 14 // numbers of a list that are kept: more than a model has layers
	maxItems   = 1 << 26 // items of a list, kept or not
	maxDims    = 4
	perTensor  = 128     // bytes of an entry of the table, beside the name
	maxBytes   = 1 << 50 // size of all weights
)

// A Header is what stands before the weights.
type Header struct {
	Version int
	Values  map[string]any // int64, float64, bool, string or List
	Tensors []Tensor
	Start   int64 // offset of the weights in the file
	Size    int64 // bytes of the weights, padding included
}

// A List is a value of several numbers or texts. Texts and numbers in excess of a limit are
// counted and not kept.
type List struct {
	Len     int
	Numbers []int64 // whole numbers; 0 and 1 for no and yes
}

// A Tensor is one entry of the table.
type Tensor struct {
	Name   string
	Dims   []int64 // the innermost first: of a matrix its inputs, then its outputs
	Type   *Type
	Offset int64 // offset from Start
}

// Elements is the number of values.
func (t *Tensor) Elements() int64 {
	n := int64(1)
	for _, d := range t.Dims {
		n *= d
	}
	return n
}

// Bytes is the memory of the values with their scales.
func (t *Tensor) Bytes() int64 { return t.Elements() / t.Type.Block * t.Type.Size }

// A Budget is what may be read yet of the headers of a model, and how much of it may be kept.
type Budget struct{ header, kept int64 }

// NewBudget is that of a model of which nothing was read yet.
func NewBudget() *Budget { return &Budget{maxHeader, maxKept} }

// Parse reads the header of a file of size bytes.
func Parse(r io.Reader, size int64) (*Header, error) {
	return NewBudget().Parse(r, size)
}

// Parse reads the header of one file of a model, of size bytes.
func (left *Budget) Parse(r io.Reader, size int64) (*Header, error) {
	d := &decoder{r: bufio.NewReaderSize(r, 1<<16), most: min(size, left.header), all: size <= left.header, kept: left.kept}
	h := &Header{}
	h.Version = d.version()
	tensors, keys := d.count("tensors", maxTensors), d.count("keys", maxKeys)
	h.Values = d.values(keys)
	for range tensors {
		if d.err != nil {
			break
		}
		h.Tensors = append(h.Tensors, d.tensor())
	}
	if d.err != nil {
		return nil, fmt.Errorf("the header at byte %d: %w", d.at, d.err)
	}
	left.header, left.kept = left.header-d.at, d.kept
	if err := h.place(d.at, size); err != nil {
		return nil, err
	}
	return h, nil
}

// place finds where the weights stand, and that they are all in the file.
func (h *Header) place(end, size int64) error {
	align, err := h.alignment()
	if err != nil {
		return err
	}
	h.Start = padded(end, align)
	seen := make(map[string]bool, len(h.Tensors))
	for i := range h.Tensors {
		t := &h.Tensors[i]
		if seen[t.Name] {
			return fmt.Errorf("the tensor %.80q is in the table twice", t.Name)
		}
		seen[t.Name] = true
		if t.Offset != h.Size {
			return fmt.Errorf("the tensor %.80q begins at byte %d of the weights; the one before it ends at %d", t.Name, t.Offset, h.Size)
		}
		h.Size += padded(t.Bytes(), align)
		if h.Size > maxBytes {
			return fmt.Errorf("the tensors up to %.80q take %v; more than %v is a mistake", t.Name, unit.Bytes(h.Size), unit.Bytes(int64(maxBytes)))
		}
	}
	last := h.Start + h.Size
	if n := len(h.Tensors); n > 0 { // the padding of the last tensor may be missing
		last += h.Tensors[n-1].Bytes() - padded(h.Tensors[n-1].Bytes(), align)
	}
	if size < last {
		return fmt.Errorf("the file has %d bytes of the %d that its table of tensors names: it is cut off", size, last)
	}
	return nil
}

// alignment is what the beginning of each tensor is a multiple of.
func (h *Header) alignment() (int64, error) {
	v, ok := h.Values["general.alignment"]
	if !ok {
		return 32, nil
	}
	n, isInt := v.(int64)
	if !isInt || n < 1 || n > 1<<20 || n&(n-1) != 0 {
		return 0, fmt.Errorf("general.alignment is %v; want a power of two", v)
	}
	return n, nil
}

func padded(n, align int64) int64 { return (n + align - 1) / align * align }

func (d *decoder) tensor() Tensor {
	t := Tensor{Name: d.text(maxName, "the name of a tensor")}
	d.keeps(perTensor)
	n := d.uint32()
	if d.err == nil && (n < 1 || n > maxDims) {
		d.fail("the tensor %.80q has %d dimensions; want 1 to %d", t.Name, n, maxDims)
	}
	total := 1.0
	for range min(n, maxDims) {
		dim := d.uint64()
		if d.err == nil && (dim < 1 || dim > math.MaxInt32) {
			d.fail("the tensor %.80q has a dimension of %d; want 1 to %d", t.Name, dim, math.MaxInt32)
			break
		}
		t.Dims = append(t.Dims, int64(dim))
		total *= float64(dim)
	}
	id, offset := d.uint32(), d.uint64()
	if d.err != nil {
		return t
	}
	if total > maxBytes || offset > maxBytes {
		d.fail("the tensor %.80q has %.3g values from byte %.3g on; more than %.3g is a mistake", t.Name, total, float64(offset),
			float64(int64(maxBytes)))
		return t
	}
	t.Offset = int64(offset)
	if t.Type, d.err = typeOf(id); d.err != nil {
		d.err = fmt.Errorf("the tensor %.80q %w", t.Name, d.err)
		return t
	}
	if !t.Type.Fits(t.Dims[0]) {
		d.fail("the tensor %.80q of type %s has rows of %d values, no multiple of its blocks of %d", t.Name, t.Type.Name, t.Dims[0], t.Type.Block)
	}
	return t
}

// Open reads the header of a file, and those of the other parts if it is split.
func Open(path string) ([]*Header, error) {
	paths, err := Parts(path)
	if err != nil {
		return nil, err
	}
	headers := make([]*Header, len(paths))
	left := NewBudget()
	for i, p := range paths {
		if headers[i], err = openOne(p, left); err != nil {
			return nil, err
		}
	}
	return headers, nil
}

func openOne(path string, left *Budget) (*Header, error) {
	f, size, err := input.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h, err := left.Parse(f, size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return h, nil
}
