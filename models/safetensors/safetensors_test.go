package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"llmprof/internal/testkit"
)

// file returns a safetensors file of a header and data.
func file(header string, data []byte) []byte {
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(out, header...), data...)
}

// two is a file with a bf16 tensor of 2×3 and a float32 tensor of 2.
func two() []byte {
	data := make([]byte, 0, 20)
	for i := range 6 {
		data = binary.LittleEndian.AppendUint16(data, uint16(0x3f80+i))
	}
	data = binary.LittleEndian.AppendUint32(data, math.Float32bits(1.5))
	data = binary.LittleEndian.AppendUint32(data, math.Float32bits(-3))
	return file(`{"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},`+
		`"b":{"dtype":"F32","shape":[2],"data_offsets":[12,20]}}`, data)
}

// folder returns a folder with the files.
func folder(t *testing.T, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), text, 0o644))
	}
	return dir
}

func open(t *testing.T, dir string) *Checkpoint {
	t.Helper()
	c, err := Open(dir)
	testkit.Must(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestRead(t *testing.T) {
	c := open(t, folder(t, map[string][]byte{"model.safetensors": two()}))
	a, err := c.BF16("a", []int{2, 3})
	if err != nil || !slices.Equal(a, []uint16{0x3f80, 0x3f81, 0x3f82, 0x3f83, 0x3f84, 0x3f85}) {
		t.Errorf("a = %x, %v", a, err)
	}
	b, err := c.BF16("b", []int{2})
	if err != nil || !slices.Equal(b, []uint16{0x3fc0, 0xc040}) { // 1.5 and -3
		t.Errorf("b = %x, %v", b, err)
	}
}

// A part of a tensor equals the same range of the whole. A part outside of the tensor is refused.
func TestPart(t *testing.T) {
	c := open(t, folder(t, map[string][]byte{"model.safetensors": two()}))
	whole := []uint16{0x3f80, 0x3f81, 0x3f82, 0x3f83, 0x3f84, 0x3f85}
	for row := range 2 {
		for rows := 1; row+rows <= 2; rows++ {
			for col := range 3 {
				for cols := 1; col+cols <= 3; cols++ {
					var want []uint16
					for r := row; r < row+rows; r++ {
						want = append(want, whole[3*r+col:3*r+col+cols]...)
					}
					got, err := c.Part(BFloat16, "a", []int{2, 3}, Span{row, rows}, Span{col, cols})
					if err != nil || !slices.Equal(got, want) {
						t.Errorf("%d rows from %d, %d columns from %d: %x, %v, want %x", rows, row, cols, col, got, err, want)
					}
				}
			}
		}
	}
	if got, err := c.Part(BFloat16, "b", []int{2}, Span{1, 1}, Span{0, 1}); err != nil || !slices.Equal(got, []uint16{0xc040}) {
		t.Errorf("b = %x, %v", got, err)
	}
	for _, s := range [][2]Span{{{0, 3}, {0, 3}}, {{2, 1}, {0, 3}}, {{-1, 1}, {0, 3}}, {{0, 2}, {1, 3}}, {{0, 0}, {0, 3}},
		{{1, 1 << 62}, {0, 3}}} {
		if got, err := c.Part(BFloat16, "a", []int{2, 3}, s[0], s[1]); err == nil {
			t.Errorf("%v gave %x", s, got)
		}
	}
}

// A file that is truncated anywhere is refused by name.
func TestTruncated(t *testing.T) {
	whole := two()
	for n := range whole {
		dir := folder(t, map[string][]byte{"model.safetensors": whole[:n]})
		c, err := Open(dir)
		if err == nil {
			c.Close()
			t.Fatalf("%d bytes of %d passed for the whole", n, len(whole))
		}
		if !strings.Contains(err.Error(), "model.safetensors") {
			t.Fatalf("%d bytes: %v does not name the file", n, err)
		}
	}
}

func TestCorrupt(t *testing.T) {
	entry := func(text string) []byte { return file(`{"a":`+text+`}`, make([]byte, 8)) }
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"no JSON":           {file(`{"a":`, nil), "not JSON"},
		"a list":            {file(`[1]`, nil), "not JSON"},
		"huge header":       {append(bytes.Repeat([]byte{0xff}, 8), 1, 2, 3), "header is said to have"},
		"no offsets":        {entry(`{"dtype":"BF16","shape":[4]}`), "no dtype, shape or data_offsets"},
		"one offset":        {entry(`{"dtype":"BF16","shape":[4],"data_offsets":[0]}`), "no dtype, shape or data_offsets"},
		"three offsets":     {entry(`{"dtype":"BF16","shape":[4],"data_offsets":[0,8,8]}`), "no dtype, shape or data_offsets"},
		"backwards":         {entry(`{"dtype":"BF16","shape":[4],"data_offsets":[8,0]}`), "truncated or corrupt"},
		"negative":          {entry(`{"dtype":"BF16","shape":[4],"data_offsets":[-8,0]}`), "truncated or corrupt"},
		"beyond the end":    {entry(`{"dtype":"BF16","shape":[5],"data_offsets":[0,10]}`), "truncated or corrupt"},
		"overflowing shape": {entry(`{"dtype":"BF16","shape":[4294967296,4294967296],"data_offsets":[0,8]}`), "impossible shape"},
		"negative shape":    {entry(`{"dtype":"BF16","shape":[-4],"data_offsets":[0,8]}`), "impossible shape"},
		"too few bytes":     {entry(`{"dtype":"F32","shape":[4],"data_offsets":[0,8]}`), "needs 16 bytes and has 8"},
		"a gap before":      {entry(`{"dtype":"U8","shape":[4],"data_offsets":[4,8]}`), "leave gaps"},
		"a gap behind":      {entry(`{"dtype":"U8","shape":[4],"data_offsets":[0,4]}`), "end at 4 of 8"},
		"shared bytes": {file(`{"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}`,
			make([]byte, 8)), "overlap"},
		"a text for a number": {entry(`{"dtype":"U8","shape":["8"],"data_offsets":[0,8]}`), `tensor "a"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(folder(t, map[string][]byte{"m.safetensors": c.file}))
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "m.safetensors") {
				t.Errorf("%v, want %q with the file's name", err, c.want)
			}
		})
	}
}

// A tensor that differs from what the model needs is named.
func TestUnfit(t *testing.T) {
	f := file(`{"a":{"dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8]},"q":{"dtype":"Q4","shape":[16],"data_offsets":[8,16]}}`,
		make([]byte, 16))
	c := open(t, folder(t, map[string][]byte{"model.safetensors": f}))
	if err := c.Check("b", nil); err == nil || !strings.Contains(err.Error(), `no tensor "b" among its 2`) {
		t.Error(err)
	}
	if err := c.Check("a", []int{2, 4}); err == nil || !strings.Contains(err.Error(), "[8]; the model needs [2 4]") {
		t.Error(err)
	}
	for _, name := range []string{"a", "q"} {
		shape := map[string]int{"a": 8, "q": 16}[name]
		var format *FormatError
		if _, err := c.BF16(name, []int{shape}); !errors.As(err, &format) || format.Tensor != name {
			t.Errorf("%s: %v is no FormatError", name, err)
		}
	}
}

// An index says which files belong to the checkpoint.
func TestIndex(t *testing.T) {
	one := file(`{"c":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, []byte{1})
	files := map[string][]byte{
		"x-1.safetensors": two(), "x-2.safetensors": one, "consolidated.safetensors": []byte("of another program"),
		indexFile: []byte(`{"weight_map":{"a":"x-1.safetensors","b":"x-1.safetensors","c":"x-2.safetensors"}}`),
	}
	dir := folder(t, files)
	if c := open(t, dir); len(c.tensors) != 3 {
		t.Errorf("%d tensors, want 3", len(c.tensors))
	}
	testkit.Must(t, os.Remove(filepath.Join(dir, "x-2.safetensors")))
	if _, err := Open(dir); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "x-2.safetensors") {
		t.Errorf("%v does not say that x-2.safetensors is missing", err)
	}
	for text, want := range map[string]string{
		`{"weight_map":{"a":"../x.safetensors"}}`: "beside it", `{}`: "no files", `{`: indexFile,
	} {
		if _, err := Open(folder(t, map[string][]byte{indexFile: []byte(text)})); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestNoFiles(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(dir); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), dir) {
		t.Errorf("%v does not say that %s is empty", err, dir)
	}
	if _, err := Open(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	twice := folder(t, map[string][]byte{"1.safetensors": two(), "2.safetensors": two()})
	if _, err := Open(twice); err == nil || !strings.Contains(err.Error(), "1.safetensors and in ") {
		t.Error(err)
	}
}

// Rounding is to nearest, ties to even; every binary16 keeps its value.
func TestFloats(t *testing.T) {
	for in, want := range map[float32]uint16{
		1: 0x3f80, -2: 0xc000, 1 + 1.0/256: 0x3f80, 1 + 3.0/256: 0x3f82, 1 + 1.1/256: 0x3f81, 3.4e38: 0x7f80,
		float32(math.Inf(-1)): 0xff80, 0: 0,
	} {
		if got := Round(in); got != want {
			t.Errorf("Round(%v) = %#x, want %#x", in, got, want)
		}
	}
	if got := Round(float32(math.NaN())); got&0x7f80 != 0x7f80 || got&0x7f == 0 {
		t.Errorf("Round(NaN) = %#x, no NaN", got)
	}
	for h, want := range map[uint16]float32{0x3c00: 1, 0xc000: -2, 0x0001: 1.0 / (1 << 24), 0x03ff: 1023.0 / (1 << 24),
		0x0400: 1.0 / (1 << 14), 0x7bff: 65504, 0x8000: 0} {
		if got := half(h); got != want {
			t.Errorf("half(%#x) = %v, want %v", h, got, want)
		}
	}
	if !math.IsInf(float64(half(0xfc00)), -1) || half(0x7e00) == half(0x7e00) {
		t.Error("infinity or NaN is lost")
	}
}

// No header makes ReadHeader panic, take more memory than the file has bytes, or
// let an entry pass that lies outside of the data.
func FuzzReadHeader(f *testing.F) {
	f.Add(two())
	f.Add(file(`{"a":{"dtype":"Q4","shape":[0,9],"data_offsets":[0,0]}}`, nil))
	f.Add(file(`{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}`, make([]byte, 4)))
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0x80, '{'})
	f.Fuzz(func(t *testing.T, in []byte) {
		entries, begin, err := ReadHeader(bytes.NewReader(in), int64(len(in)))
		if err != nil {
			return
		}
		sum := int64(0)
		for name, e := range entries {
			if e.Offsets[0] < 0 || e.Offsets[1] < e.Offsets[0] || begin+e.Offsets[1] > int64(len(in)) {
				t.Errorf("%q lies at %v of %d bytes", name, e.Offsets, len(in))
			}
			sum += e.Offsets[1] - e.Offsets[0]
		}
		if sum != int64(len(in))-begin {
			t.Errorf("tensors have %d bytes of %d", sum, int64(len(in))-begin)
		}
	})
}

// Rounding to fp16 keeps every value of fp16 and rounds others to the nearest, ties to even.
func TestRoundHalf(t *testing.T) {
	for h := range uint16(0x7c00) {
		v, next := float64(half(h)), float64(half(h+1))
		if h == 0x7bff {
			next = 65536
		}
		even := h + h%2
		for _, c := range []struct {
			v    float64
			want uint16
		}{{v, h}, {v + (next-v)*0.499, h}, {v + (next-v)*0.501, h + 1}, {v + (next-v)/2, even}} {
			if got := Float16.Round(float32(c.v)); got != c.want {
				t.Fatalf("%g is %#x, want %#x", c.v, got, c.want)
			}
			if got := Float16.Round(float32(-c.v)); got != c.want|0x8000 {
				t.Fatalf("%g is %#x, want %#x", -c.v, got, c.want|0x8000)
			}
		}
	}
	for v, want := range map[float32]uint16{float32(math.Inf(1)): 0x7c00, -1e30: 0xfc00, 65519.9: 0x7bff, 65520: 0x7c00} {
		if got := Float16.Round(v); got != want {
			t.Errorf("%g is %#x, want %#x", v, got, want)
		}
	}
	if got := half(Float16.Round(float32(math.NaN()))); got == got {
		t.Errorf("NaN is %v", got)
	}
}

// A number beyond the range of fp16 is an error that names the tensor.
func TestTooLargeForHalf(t *testing.T) {
	dir := t.TempDir()
	data := binary.LittleEndian.AppendUint16(nil, Round(1))
	data = binary.LittleEndian.AppendUint16(data, Round(70000))
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "model.safetensors"), file(
		`{"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}`, data), 0o644))
	c, err := Open(dir)
	testkit.Must(t, err)
	defer c.Close()
	if got, err := c.Part(Float16, "a", []int{2}, Span{0, 1}, Span{0, 1}); err != nil || got[0] != 0x3c00 {
		t.Errorf("%#x, %v", got, err)
	}
	if _, err := c.Part(Float16, "a", []int{2}, Span{0, 2}, Span{0, 1}); err == nil ||
		!strings.Contains(err.Error(), `tensor "a": element 1 is 70144; fp16 ends at 65504`) {
		t.Error(err)
	}
}
