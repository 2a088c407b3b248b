// Package safetensors reads checkpoints in Hugging Face's format: 8 bytes that
// say how long the header is, a JSON header that says where each tensor lies,
// and the tensors. (https://huggingface.co/docs/safetensors, "Format".)
package safetensors

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"llmprof/internal/input"
)

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

// indexFile names the files of a checkpoint that is cut into several.
const indexFile = "model.safetensors.index.json"

// Open reads the headers of the files of a checkpoint: those that its index
// names, or else all *.safetensors files of the folder.
func Open(folder string) (*Checkpoint, error) {
	names, err := fileNames(folder)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	c := &Checkpoint{folder: folder, tensors: map[string]place{}}
	for _, name := range names {
		if err := c.add(filepath.Join(folder, name)); err != nil {
			c.Close()
			return nil, fmt.Errorf("safetensors: %w", err)
		}
	}
	return c, nil
}

// Has reports whether a folder holds a checkpoint.
func Has(folder string) bool {
	names, err := fileNames(folder)
	return err == nil && len(names) > 0
}

// mostIndex bounds an index: that of a model with 384 experts in 60 layers has
// 15 MB.
const mostIndex = 64 << 20

func fileNames(folder string) ([]string, error) {
	text, err := input.Read(filepath.Join(folder, indexFile), mostIndex)
	if err == nil {
		return indexed(folder, text)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	entries, err := os.ReadDir(folder) // ReadDir sorts them by name
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".safetensors" {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s has no *.safetensors files: %w", folder, fs.ErrNotExist)
	}
	return names, nil
}

// indexed are the files that an index names, which lie beside it.
func indexed(folder string, text []byte) ([]string, error) {
	var index struct {
		Map map[string]string `json:"weight_map"`
	}
	path := filepath.Join(folder, indexFile)
	limits := input.Limits{Bytes: mostIndex, Depth: 4, Values: 1_000_000}
	if err := limits.JSON(string(text)); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := json.Unmarshal(text, &index); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	names := slices.Compact(slices.Sorted(maps.Values(index.Map)))
	for _, name := range names {
		if name == "" || filepath.Base(name) != name {
			return nil, fmt.Errorf("%s names the file %q: want one beside it", path, name)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s names no files in its weight_map", path)
	}
	return names, nil
}

// add reads one file's header.
func (c *Checkpoint) add(path string) error {
	f, size, err := input.Open(path)
	if err != nil {
		return err
	}
	c.files = append(c.files, f)
	entries, begin, err := ReadHeader(f, size)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for t, e := range entries {
		if earlier, twice := c.tensors[t]; twice {
			return fmt.Errorf("tensor %q is in %s and in %s", t, earlier.file.Name(), path)
		}
		c.tensors[t] = place{Entry: e, file: f, begin: begin}
	}
	return nil
}

// Close closes the files; there are none of nil.
func (c *Checkpoint) Close() {
	if c == nil {
		return
	}
	for _, f := range c.files {
		f.Close() // opened for reading: nothing is lost
	}
}

// E4M3 is the name of fp8 weights in a header.
const E4M3 = "F8_E4M3"

// A FormatError is a tensor in a format that cannot be read.
type FormatError struct {
	Tensor, File, DType string
	Known               []string // formats that can be
}

// Error names the tensor and the formats that can be.
func (e *FormatError) Error() string {
	last := len(e.Known) - 1
	known := e.Known[last]
	if last > 0 {
		known = strings.Join(e.Known[:last], ", ") + " and " + known
	}
	return fmt.Sprintf("safetensors: %s: tensor %q is stored as %s; %s can be read", e.File, e.Tensor, e.DType, known)
}

// DType is the format that a tensor is stored in, "" of one that is not there.
func (c *Checkpoint) DType(name string) string { return c.tensors[name].DType }

// Shaped reports whether a tensor has this shape.
func (c *Checkpoint) Shaped(name string, shape []int) bool {
	return slices.EqualFunc(shape, c.tensors[name].Shape, func(a int, b int64) bool { return int64(a) == b })
}

// Check reports whether Part could read a tensor, without reading it.
func (c *Checkpoint) Check(name string, shape []int) error {
	return c.CheckIn(name, shape, "BF16", "F16", "F32")
}

// CheckIn reports whether a tensor is there, in this shape and one of these formats.
func (c *Checkpoint) CheckIn(name string, shape []int, known ...string) error {
	p, ok := c.tensors[name]
	if !ok {
		return fmt.Errorf("safetensors: %s has no tensor %q among its %d: it is another model's, or not whole", c.folder, name, len(c.tensors))
	}
	if !c.Shaped(name, shape) {
		return fmt.Errorf("safetensors: %s: tensor %q has the shape %v; the model needs %v", p.file.Name(), name, p.Shape, shape)
	}
	if !slices.Contains(known, p.DType) {
		return &FormatError{Tensor: name, File: p.file.Name(), DType: p.DType, Known: known}
	}
	return nil
}

// Float32 reads a tensor of floats.
func (c *Checkpoint) Float32(name string, shape []int) ([]float32, error) {
	if err := c.Check(name, shape); err != nil {
		return nil, err
	}
	p := c.tensors[name]
	raw := make([]byte, p.Offsets[1]-p.Offsets[0])
	if err := p.read(raw, 0); err != nil {
		return nil, fmt.Errorf("safetensors: %s: tensor %q: %w", p.file.Name(), name, err)
	}
	width, _ := size(p.DType)
	out := make([]float32, len(raw)/int(width))
	for i := range out {
		out[i] = float(p.DType, raw[i*int(width):])
	}
	return out, nil
}

// read fills raw with the tensor's bytes from at on.
func (p *place) read(raw []byte, at int64) error {
	_, err := p.file.ReadAt(raw, p.begin+p.Offsets[0]+at)
	return err
}

// A Span is N rows or columns from Begin on.
type Span struct{ Begin, N int }

func (s Span) within(n int) bool { return s.Begin >= 0 && s.N > 0 && s.Begin <= n-s.N }
