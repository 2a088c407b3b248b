package cuda

import (
	"fmt"
	"unsafe"
)

// A Tensor is 16-bit values in three dimensions, the first of them dense, as bulk copies
// see it: boxes of it are copied, in which rows of 128 bytes are swizzled, and what of
// a box is outside of the tensor is zeros.
type Tensor struct {
	At     Ptr
	Size   [3]int // in values
	Stride [2]int // bytes between neighbours in the second and in the third dimension
	Box    [3]int
	Short  bool // where the L2 lacks a row of a box, it fetches 128 bytes and not 256
}

// A TensorMap is the driver's form of a Tensor, to be an argument of a kernel.
type TensorMap struct {
	words [24]uint64 // CUtensorMap of cuda.h, 16 words that lie at a multiple of 64 bytes
}

// pointer is where the driver's form begins.
func (m *TensorMap) pointer() unsafe.Pointer {
	p := unsafe.Pointer(&m.words[0])
	return unsafe.Add(p, -uintptr(p)&63)
}

// TensorMaps makes the driver's forms of some tensors, as arguments of a kernel.
func (dev *Device) TensorMaps(tensors ...*Tensor) (args []any, err error) {
	for _, t := range tensors {
		m, err := dev.TensorMap(t)
		if err != nil {
			return nil, err
		}
		args = append(args, m)
	}
	return args, nil
}

// TensorMap makes the driver's form (CUDA driver API, cuTensorMapEncodeTiled).
func (dev *Device) TensorMap(t *Tensor) (*TensorMap, error) {
	size, stride, box, step := [3]uint64{}, [2]uint64{uint64(t.Stride[0]), uint64(t.Stride[1])}, [3]uint32{}, [3]uint32{1, 1, 1}
	for i := range 3 {
		size[i], box[i] = uint64(t.Size[i]), uint32(t.Box[i])
	}
	const bfloat16, swizzle128B, promote128B, promote256B = 9, 3, 2, 3 // CU_TENSOR_MAP_...; of fp16 too: copies do not look into values
	promotion := int32(promote256B)
	if t.Short {
		promotion = promote128B
	}
	m := &TensorMap{}
	code := dev.d.encodeTiled(m.pointer(), bfloat16, 3, uint64(t.At), unsafe.Pointer(&size), unsafe.Pointer(&stride),
		unsafe.Pointer(&box), unsafe.Pointer(&step), 0, swizzle128B, promotion, 0)
	if err := dev.d.check("cuTensorMapEncodeTiled", code); err != nil {
		return nil, fmt.Errorf("%w (a tensor of %v values at %#x, rows and planes %v bytes apart, in boxes of %v)", err, t.Size, uint64(t.At),
			t.Stride, t.Box)
	}
	return m, nil
}
