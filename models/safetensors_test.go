package models

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
)

// FuzzTensorHeader: what is read of a header has names, and a length that is not there is refused.
func FuzzTensorHeader(f *testing.F) {
	header := func(text string) []byte {
		return append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
	}
	f.Add(header(`{"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]}}`), int64(200))
	f.Add(header(`{"a":1}`), int64(15))
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 255, '{'}, int64(1<<62))
	f.Fuzz(func(t *testing.T, data []byte, size int64) {
		entries, err := tensorHeader(bytes.NewReader(data), size)
		if err == nil && (int64(len(data)) < 8 || size < 8) {
			t.Errorf("%d tensors of %d bytes", len(entries), len(data))
		}
	})
}

// A header that is longer than its file, or no JSON, is an error.
func TestTensorHeaderRefused(t *testing.T) {
	for want, data := range map[string][]byte{
		"no header":                       []byte("abc"),
		"would have 1000 bytes":           binary.LittleEndian.AppendUint64(nil, 1000),
		"18446744073709551615 bytes":      bytes.Repeat([]byte{255}, 8),
		"not valid JSON":                  append(binary.LittleEndian.AppendUint64(nil, 3), "{x}"...),
		`tensor "a" of its header is not`: append(binary.LittleEndian.AppendUint64(nil, 7), `{"a":1}`...),
	} {
		if _, err := tensorHeader(bytes.NewReader(data), int64(len(data))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}
