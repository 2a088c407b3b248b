package safetensors

import "fmt"

// A Slice is some rows and columns of a tensor. Several goroutines may read it at once.
type Slice struct {
	p          place
	name       string
	width      int // columns of the whole tensor
	rows, cols Span
	stored     int64    // bytes of an element in the file
	convert    *convert // nil for bytes as they are stored
}

// Slice is some rows and columns of a matrix, or some rows of a vector, which has one column: 16-bit
// values of a format, little-endian, rounded if they are stored in another. Nothing else of the
// tensor is read.
func (c *Checkpoint) Slice(f Format, name string, shape []int, rows, cols Span) (*Slice, error) {
	if err := c.Check(name, shape); err != nil {
		return nil, err
	}
	s, err := c.slice(name, shape, rows, cols)
	if err == nil && s.p.DType != f.stored() {
		s.convert = conversion(s.p.DType, f)
	}
	return s, err
}

// SliceBytes is that of a tensor that has to be stored as dtype, as it is stored.
func (c *Checkpoint) SliceBytes(name, dtype string, shape []int, rows, cols Span) (*Slice, error) {
	if err := c.CheckIn(name, shape, dtype); err != nil {
		return nil, err
	}
	return c.slice(name, shape, rows, cols)
}

func (c *Checkpoint) slice(name string, shape []int, rows, cols Span) (*Slice, error) {
	p, width := c.tensors[name], 1
	if len(shape) == 2 {
		width = shape[1]
	}
	if len(shape) < 1 || len(shape) > 2 || !rows.within(shape[0]) || !cols.within(width) {
		return nil, fmt.Errorf("safetensors: %s: tensor %q of the shape %v has no rows %+v and columns %+v", p.file.Name(), name, shape, rows,
			cols)
	}
	each, _ := size(p.DType)
	return &Slice{p: p, name: name, width: width, rows: rows, cols: cols, stored: each}, nil
}

// each is the bytes of an element as Read gives it.
func (s *Slice) each() int64 {
	if s.convert != nil {
		return 2
	}
	return s.stored
}

// Bytes are those that Read gives of the whole.
func (s *Slice) Bytes() int64 { return int64(s.rows.N) * int64(s.cols.N) * s.each() }

// Stored reports whether the slice is of a tensor that is stored as dtype.
func (s *Slice) Stored(dtype string) bool { return s.p.DType == dtype }

// convertBytes of a file are read at a time where they are converted: so many stay in
// a processor's cache.
const convertBytes = 256 << 10

// Read fills out with the bytes of the slice from at on, of which both are whole
// elements. A number that fp16 is too small for is an error.
func (s *Slice) Read(out []byte, at int64) error {
	each := s.each()
	if n := int64(len(out)); at < 0 || at%each != 0 || n%each != 0 || at > s.Bytes()-n {
		return fmt.Errorf("safetensors: %s: tensor %q: %d bytes from %d on are no elements of its part of %d", s.p.file.Name(), s.name, n, at,
			s.Bytes())
	}
	err := s.read(out, at/each)
	if err != nil {
		return fmt.Errorf("safetensors: %s: tensor %q: %w", s.p.file.Name(), s.name, err)
	}
	return nil
}

func (s *Slice) read(out []byte, first int64) error {
	if s.convert == nil {
		return s.raw(out, first)
	}
	raw := make([]byte, min(int64(len(out))/2*s.stored, convertBytes))
	for len(out) > 0 {
		n := min(int64(len(out))/2, int64(len(raw))/s.stored)
		if err := s.raw(raw[:n*s.stored], first); err != nil {
			return err
		}
		if err := s.convert.values(out[:2*n], raw[:n*s.stored], first); err != nil {
			return err
		}
		out, first = out[2*n:], first+n
	}
	return nil
}

// raw reads the stored bytes of elements from the first on: what lies in one piece in
// the file at a time, which is all if the slice has all columns, else a row.
func (s *Slice) raw(out []byte, first int64) error {
	for len(out) > 0 {
		row, col := first/int64(s.cols.N), first%int64(s.cols.N)
		n := int64(len(out)) / s.stored
		if s.cols.N < s.width {
			n = min(n, int64(s.cols.N)-col)
		}
		at := (int64(s.rows.Begin)+row)*int64(s.width) + int64(s.cols.Begin) + col
		if err := s.p.read(out[:n*s.stored], at*s.stored); err != nil {
			return err
		}
		out, first = out[n*s.stored:], first+n
	}
	return nil
}
