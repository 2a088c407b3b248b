package safetensors

import "encoding/binary"

// BF16 reads a tensor of the shape that the model has, rounded to bf16 if it is
// stored as another float.
func (c *Checkpoint) BF16(name string, shape []int) ([]uint16, error) {
	rows, cols := Span{N: 1}, Span{N: 1}
	if len(shape) > 0 {
		rows.N = shape[0]
	}
	if len(shape) > 1 {
		cols.N = shape[1]
	}
	return c.Part(BFloat16, name, shape, rows, cols)
}

// Part reads the values of some rows and columns of a matrix, or of some rows of a
// vector, which has one column, rounded to a format if they are stored in another.
// Nothing else of the tensor is read.
func (c *Checkpoint) Part(f Format, name string, shape []int, rows, cols Span) ([]uint16, error) {
	s, err := c.Slice(f, name, shape, rows, cols)
	if err != nil {
		return nil, err
	}
	raw := make([]byte, s.Bytes())
	if err := s.Read(raw, 0); err != nil {
		return nil, err
	}
	out := make([]uint16, len(raw)/2)
	for i := range out {
		out[i] = binary.LittleEndian.Uint16(raw[2*i:])
	}
	return out, nil
}
