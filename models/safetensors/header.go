package safetensors

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"llmprof/internal/input"
)

// maxHeader is the longest header that the format allows.
const maxHeader = 100_000_000

// An Entry is where one tensor lies and what it is.
type Entry struct {
	DType   string  `json:"dtype"`
	Shape   []int64 `json:"shape"`
	Offsets []int64 `json:"data_offsets"` // its begin and its end
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

// Elements is how many values the tensor has.
func (e *Entry) Elements() int64 {
	n, _ := e.elements()
	return n
}

// check holds an entry against the format and against the bytes that there are.
func (e *Entry) check(name string, data int64) error {
	if len(e.Offsets) != 2 || e.Shape == nil || e.DType == "" {
		return fmt.Errorf("tensor %q has no dtype, shape or data_offsets [begin, end]", name)
	}
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
		return nil, 0, fmt.Errorf("it is shorter than the 8 bytes of a header's length: %w", err)
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > maxHeader || int64(n) > total-8 {
		return nil, 0, fmt.Errorf("its header is said to have %d bytes; the file has %d behind it and the format allows %d: truncated, or no "+
			"safetensors", n, total-8, maxHeader)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, 0, fmt.Errorf("its header: %w", err)
	}
	raw, err := rawEntries(text)
	if err != nil {
		return nil, 0, fmt.Errorf("its header%w", err)
	}
	entries, err := readEntries(raw, total-int64(n)-8)
	return entries, int64(n) + 8, err
}

func rawEntries(text []byte) (raw map[string]json.RawMessage, err error) {
	limits := input.Limits{Bytes: maxHeader, Depth: 8, Values: 2_000_000}
	if err := limits.JSON(string(text)); err != nil {
		return nil, fmt.Errorf(": %w", err)
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, fmt.Errorf(" is not JSON: %w", err)
	}
	delete(raw, "__metadata__")
	return raw, nil
}

// ParseEntries reads entries of several files, without holding against anything where they lie.
func ParseEntries(text []byte) (map[string]Entry, error) {
	raw, err := rawEntries(text)
	if err != nil {
		return nil, fmt.Errorf("the table of tensors%w", err)
	}
	return checkedEntries(raw, math.MaxInt64)
}

// checkedEntries reads entries that lie anywhere in data bytes.
func checkedEntries(raw map[string]json.RawMessage, data int64) (map[string]Entry, error) {
	entries := make(map[string]Entry, len(raw))
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		var e Entry
		if err := json.Unmarshal(raw[name], &e); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		if err := e.check(name, data); err != nil {
			return nil, err
		}
		entries[name] = e
	}
	return entries, nil
}

// readEntries reads what the header says of tensors in data bytes, which they
// have to fill without gaps and without sharing any.
func readEntries(raw map[string]json.RawMessage, data int64) (map[string]Entry, error) {
	entries, err := checkedEntries(raw, data)
	if err != nil {
		return nil, err
	}
	inOrder := slices.SortedFunc(maps.Keys(entries), func(a, b string) int {
		x, y := entries[a].Offsets, entries[b].Offsets
		return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1]), cmp.Compare(a, b))
	})
	at := int64(0)
	for _, name := range inOrder {
		if o := entries[name].Offsets; o[0] != at {
			return nil, fmt.Errorf("tensor %q begins at %d where %d is due: tensors overlap or leave gaps", name, o[0], at)
		}
		at = entries[name].Offsets[1]
	}
	if at != data {
		return nil, fmt.Errorf("its tensors end at %d of %d bytes of data", at, data)
	}
	return entries, nil
}
