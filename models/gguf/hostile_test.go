package gguf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
)

// A source is pieces of a header, and of zeros between them.
type source struct {
	pieces []io.Reader
	size   int64
}

func (s *source) add(data []byte, empty int64) {
	s.pieces = append(s.pieces, bytes.NewReader(data), io.LimitReader(zeros{}, empty))
	s.size += int64(len(data)) + empty
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// key is a key with the type of its value and, of a list, the type of its items and their number.
func key(name string, kinds []uint32, items uint64) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(name)))
	b = append(b, name...)
	for _, k := range kinds {
		b = binary.LittleEndian.AppendUint32(b, k)
	}
	return binary.LittleEndian.AppendUint64(b, items)
}

func begin(keys, tensors uint64) []byte {
	b := append([]byte("GGUF"), 3, 0, 0, 0)
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, tensors), keys)
}

// parsed reads a header, and fails the test where that takes much memory.
func parsed(t *testing.T, s *source) (*Header, error) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	h, err := Parse(io.MultiReader(s.pieces...), s.size)
	runtime.ReadMemStats(&after)
	if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 200 {
		t.Errorf("it took %d MB", mb)
	}
	return h, err
}

// TestManyValues reads headers of many and of large values, few of which are kept.
func TestManyValues(t *testing.T) {
	for name, x := range map[string]struct {
		keys  int
		kinds []uint32
		items uint64 // items of a list, or bytes of a text
		empty int64
		want  string
	}{
		"lists too long to keep":   {3800, []uint32{typeArray, typeUint8}, 65536, 65536, ""},
		"lists that are kept":      {9000, []uint32{typeArray, typeUint8}, 1 << 14, 1 << 14, "more than 67 MB"},
		"texts":                    {4000, []uint32{typeString}, 1 << 16, 1 << 16, "more than 67 MB"},
		"a list of empty texts":    {1, []uint32{typeArray, typeString}, 30 << 20, 240 << 20, ""},
		"a list of lists":          {1, []uint32{typeArray, typeArray}, 1000, 1 << 20, "values of the type 9"},
		"a list of too many texts": {1, []uint32{typeArray, typeString}, 1 << 40, 1 << 20, "at most 67108864 are read"},
		"tokens":                   {20, []uint32{typeArray, typeString}, 150_000, 1_200_000, ""},
		"a long header":            {3, []uint32{typeArray, typeUint8}, 1 << 26, 1 << 26, ""},
		"a longer header":          {5, []uint32{typeArray, typeUint8}, 1 << 26, 1 << 26, "more than 268 MB"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &source{}
			s.add(begin(uint64(x.keys), 0), 0)
			for i := range x.keys {
				s.add(key(fmt.Sprintf("k%04d", i), x.kinds, x.items), x.empty)
			}
			s.add(nil, 32) // The weights begin at a multiple of 32 bytes.
			h, err := parsed(t, s)
			if (x.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), x.want) {
				t.Errorf("want %q, got %v", x.want, err)
			}
			if err == nil && len(h.Values) != x.keys {
				t.Errorf("%d keys of %d", len(h.Values), x.keys)
			}
		})
	}
}

// TestManyTensors refuses a table of tensors with long names.
func TestManyTensors(t *testing.T) {
	s := &source{}
	s.add(begin(0, 4000), 0)
	for i := range 4000 {
		name := fmt.Sprintf("%060000d", i)
		entry := append(binary.LittleEndian.AppendUint64(nil, uint64(len(name))), name...)
		entry = append(entry, 1, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0)
		s.add(entry, 12)
	}
	if _, err := parsed(t, s); err == nil || !strings.Contains(err.Error(), "more than 67 MB") {
		t.Errorf("want a refusal, got %v", err)
	}
}
