package safetensors

import (
	"os"
	"path/filepath"
	"testing"
)

// For any index and files a tensor of the checkpoint either can be read whole, with as many values
// as its shape has, or the error says why not.
func FuzzOpen(f *testing.F) {
	other := file(`{"c":{"dtype":"F16","shape":[2,2],"data_offsets":[0,8]}}`, make([]byte, 8))
	f.Add([]byte(nil), two(), other)
	f.Add([]byte(`{"weight_map":{"a":"one.safetensors","c":"two.safetensors"}}`), two(), other)
	f.Add([]byte(`{"weight_map":{"a":"../one.safetensors"}}`), two(), two())
	f.Add([]byte(`{"weight_map":{"a":"one.safetensors"}}`),
		file(`{"a":{"dtype":"F64","shape":[1,1,1],"data_offsets":[0,8]}}`, make([]byte, 8)), []byte{})
	f.Fuzz(func(t *testing.T, index, one, two []byte) {
		dir := t.TempDir()
		files := map[string][]byte{"one.safetensors": one, "two.safetensors": two}
		if len(index) > 0 {
			files[indexFile] = index
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c, err := Open(dir)
		if (err == nil) && !Has(dir) {
			t.Fatal("it was opened, and is said not to be there")
		}
		if err != nil {
			return
		}
		defer c.Close()
		for name, p := range c.tensors {
			var shape []int
			n := 1
			for _, d := range p.Shape {
				shape = append(shape, int(d))
				n *= int(d)
			}
			if got, err := c.Float32(name, shape); err == nil && len(got) != n {
				t.Fatalf("%q of the shape %v has %d values", name, shape, len(got))
			}
			if got, err := c.BF16(name, shape); err == nil && len(got) != n {
				t.Fatalf("%q of the shape %v has %d values of 16 bits", name, shape, len(got))
			}
			if err := c.CheckIn(name, append(shape, 2), p.DType); err == nil {
				t.Fatalf("%q of the shape %v has another one too", name, shape)
			}
		}
	})
}
