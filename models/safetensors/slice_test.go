package safetensors

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"llmprof/internal/testkit"
)

// stored writes one tensor of n rows and columns whose elements value gives, and returns
// its data.
func stored(t *testing.T, dtype string, n int, value func(i int) float32) (*Checkpoint, []byte) {
	t.Helper()
	var data []byte
	for i := range n * n {
		switch v := value(i); dtype {
		case "F32":
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
		case "F16":
			data = binary.LittleEndian.AppendUint16(data, Float16.Round(v))
		default:
			data = binary.LittleEndian.AppendUint16(data, Round(v))
		}
	}
	f := file(fmt.Sprintf(`{"a":{"dtype":%q,"shape":[%d,%d],"data_offsets":[0,%d]}}`, dtype, n, n, len(data)), data)
	return open(t, folder(t, map[string][]byte{"model.safetensors": f})), data
}

// Any range of a slice equals its elements read one by one, in every format, also if it is longer
// than the read buffer.
func TestSlice(t *testing.T) {
	const n = 390 // 608 kB as F32
	r := rand.New(rand.NewPCG(1, 2))
	for _, dtype := range []string{"BF16", "F16", "F32"} {
		c, data := stored(t, dtype, n, func(int) float32 { return float32(r.NormFloat64() * math.Exp2(float64(r.IntN(30)-20))) })
		width := len(data) / n / n
		for _, f := range []Format{BFloat16, Float16} {
			for _, p := range [][2]Span{{{0, n}, {0, n}}, {{17, 301}, {0, n}}, {{3, n - 5}, {11, 200}}, {{9, 1}, {n - 1, 1}}} {
				s, err := c.Slice(f, "a", []int{n, n}, p[0], p[1])
				testkit.Must(t, err)
				all := p[0].N * p[1].N
				if s.Bytes() != int64(2*all) {
					t.Fatalf("%v: %d bytes, want %d", p, s.Bytes(), 2*all)
				}
				for try := range 5 {
					from := r.IntN(all)
					out := make([]byte, 2*(1+r.IntN(all-from)))
					if try == 0 {
						from, out = 0, make([]byte, 2*all)
					}
					testkit.Must(t, s.Read(out, int64(2*from)))
					for i := range len(out) / 2 {
						row, col := p[0].Begin+(from+i)/p[1].N, p[1].Begin+(from+i)%p[1].N
						want := f.Round(float(dtype, data[(row*n+col)*width:]))
						if got := binary.LittleEndian.Uint16(out[2*i:]); got != want {
							t.Fatalf("%s as %s, %v: element %d from %d on is %#x, want %#x", dtype, f.stored(), p, i, from, got, want)
						}
					}
				}
			}
		}
	}
}

// The conversion of many 16-bit values equals that of each one, and values beyond the range of fp16
// are named.
func TestSliceOfAllValues(t *testing.T) {
	for _, c := range []struct {
		dtype string
		to    Format
	}{{"BF16", Float16}, {"F16", BFloat16}} {
		for i := range 1 << 16 {
			raw := binary.LittleEndian.AppendUint16(nil, uint16(i))
			v, out := float(c.dtype, raw), make([]byte, 2)
			err := conversion(c.dtype, c.to).values(out, raw, 7)
			if large := c.to == Float16 && math.Abs(float64(v)) >= 65520 && !math.IsInf(float64(v), 0); large != (err != nil) {
				t.Fatalf("%g: %v", v, err)
			}
			if err != nil && !strings.Contains(err.Error(), "element 7 is ") {
				t.Fatal(err)
			}
			if got, want := binary.LittleEndian.Uint16(out), c.to.Round(v); got != want {
				t.Fatalf("%s %#x is %#x, want %#x", c.dtype, i, got, want)
			}
		}
	}
}

// An error names an element by its place in the part, for any range that is read.
func TestSliceTooLarge(t *testing.T) {
	const n, at = 390, 100_000
	for _, dtype := range []string{"BF16", "F32"} {
		c, _ := stored(t, dtype, n, func(i int) float32 {
			switch i {
			case at:
				return -131072
			case 5:
				return float32(math.Inf(1)) // which fp16 has
			}
			return 1
		})
		s, err := c.Slice(Float16, "a", []int{n, n}, Span{0, n}, Span{0, n})
		testkit.Must(t, err)
		for from, want := range map[int]bool{0: true, 99_000: true, at: true, at + 1: false} {
			err := s.Read(make([]byte, s.Bytes()-int64(2*from)), int64(2*from))
			if named := err != nil && strings.Contains(err.Error(), `tensor "a": element 100000 is -131072; fp16 ends at 65504`); named != want ||
				(err != nil) != want {
				t.Errorf("%s from %d: %v", dtype, from, err)
			}
		}
	}
}

// A range outside of the slice is refused, and so is a file that became shorter.
func TestSliceRefused(t *testing.T) {
	c, data := stored(t, "BF16", 8, func(int) float32 { return 1 })
	s, err := c.Slice(BFloat16, "a", []int{8, 8}, Span{2, 6}, Span{0, 8})
	testkit.Must(t, err)
	for _, r := range [][2]int{{-2, 2}, {1, 2}, {0, 3}, {0, 98}, {96, 2}} {
		if err := s.Read(make([]byte, r[1]), int64(r[0])); err == nil || !strings.Contains(err.Error(), `tensor "a"`) {
			t.Errorf("%v: %v", r, err)
		}
	}
	path := filepath.Join(c.folder, "model.safetensors")
	info, err := os.Stat(path)
	testkit.Must(t, err)
	testkit.Must(t, os.Truncate(path, info.Size()-int64(len(data)/2)))
	if err := s.Read(make([]byte, s.Bytes()), 0); err == nil || !strings.Contains(err.Error(), "EOF") ||
		!strings.Contains(err.Error(), "model.safetensors") {
		t.Error(err)
	}
}
