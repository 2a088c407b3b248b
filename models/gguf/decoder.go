package gguf

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"unicode/utf8"

	"llmprof/internal/input"
)

// A decoder reads figures one after the other. The first error sticks.
type decoder struct {
	r    *bufio.Reader
	at   int64 // bytes read
	most int64 // most bytes to read
	all  bool  // they are all of the file
	kept int64 // bytes that may be kept yet
	err  error
	buf  [8]byte
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf(format, args...)
	}
}

// has reports whether n bytes more may be read, before they are asked for: no
// length that a file names is believed until then.
func (d *decoder) has(n int64) bool {
	switch {
	case d.err != nil:
		return false
	case n <= d.most-d.at:
		return true
	case !d.all:
		d.fail("it has more than %s, the most that is read of the headers of a model", input.Size(maxHeader))
	default:
		d.err = fmt.Errorf("it needs %d bytes more and %d are left: the file is cut off (%w)", n, d.most-d.at, io.ErrUnexpectedEOF)
	}
	return false
}

// keeps takes n bytes off those that may be kept, and reports whether there are as many.
func (d *decoder) keeps(n int64) bool {
	if d.err == nil && n > d.kept {
		d.fail("its keys, values and tensors take more than %s, the most that is kept of a model", input.Size(maxKept))
	}
	d.kept -= n
	return d.err == nil
}

// string reads n bytes.
func (d *decoder) string(n int64) string {
	if !d.has(n) || !d.keeps(n) {
		return ""
	}
	buf := make([]byte, n)
	d.read(buf)
	return string(buf)
}

func (d *decoder) read(buf []byte) {
	read, err := io.ReadFull(d.r, buf)
	d.at += int64(read)
	d.ended(err)
}

// number reads a number of n bytes.
func (d *decoder) number(n int64) uint64 {
	d.buf = [8]byte{}
	if d.has(n) {
		d.read(d.buf[:n])
	}
	return binary.LittleEndian.Uint64(d.buf[:])
}

// skip reads n bytes and keeps none.
func (d *decoder) skip(n int64) {
	if !d.has(n) {
		return
	}
	for n > 0 && d.err == nil {
		done, err := d.r.Discard(int(min(n, 1<<20)))
		d.at += int64(done)
		n -= int64(done)
		d.ended(err)
	}
}

func (d *decoder) ended(err error) {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		d.fail("the file is cut off here: %w", io.ErrUnexpectedEOF)
	case err != nil:
		d.fail("%w", err)
	}
}

func (d *decoder) uint32() uint32 { return uint32(d.number(4)) }
func (d *decoder) uint64() uint64 { return d.number(8) }

func (d *decoder) version() int {
	if magic := d.string(4); d.err == nil && magic != "GGUF" {
		d.fail("it begins with %q; want \"GGUF\"", magic)
	}
	v := d.uint32()
	switch {
	case d.err != nil:
	case v == 1:
		d.fail("GGUF version 1, which was in use for a week of August 2023, is not read: convert the model anew")
	case v&0xffff == 0:
		d.fail("the file is in big-endian order, which is not read")
	case v != 2 && v != 3:
		d.fail("GGUF version %d is not known; 2 and 3 are read", v)
	}
	return int(v)
}

// count reads how many things follow.
func (d *decoder) count(what string, most uint64) int {
	n := d.uint64()
	if d.err == nil && n > most {
		d.fail("it has %d %s; at most %d are read", n, what, most)
	}
	if d.err != nil {
		return 0
	}
	return int(n)
}

// text reads a text of at most the given bytes.
func (d *decoder) text(most uint64, what string) string {
	n := d.uint64()
	if d.err == nil && n > most {
		d.fail("%s has %d bytes; at most %s are read", what, n, input.Size(int64(most)))
	}
	if d.err != nil {
		return ""
	}
	s := d.string(int64(n))
	if d.err == nil && !utf8.ValidString(s) {
		d.fail("%s is no text: %.40q", what, s)
	}
	return s
}

func (d *decoder) values(n int) map[string]any {
	all := make(map[string]any)
	for range n {
		key := d.text(maxName, "a key")
		if _, twice := all[key]; twice {
			d.fail("the key %.80q is given twice", key)
		}
		v := d.value(d.uint32(), key)
		if d.err != nil {
			return nil
		}
		all[key] = v
	}
	return all
}

// The types of values.
const (
	typeUint8 = iota
	typeInt8
	typeUint16
	typeInt16
	typeUint32
	typeInt32
	typeFloat32
	typeBool
	typeString
	typeArray
	typeUint64
	typeInt64
	typeFloat64
)

func (d *decoder) value(kind uint32, key string) any {
	switch kind {
	case typeString:
		return d.longText(key)
	case typeArray:
		return d.list(key)
	case typeFloat32:
		return float64(math.Float32frombits(d.uint32()))
	case typeFloat64:
		return math.Float64frombits(d.uint64())
	case typeBool:
		return d.whole(kind, key) != 0
	}
	return d.whole(kind, key)
}

// width is the bytes of a number of the type kind, 0 for what is none.
func width(kind uint32) int64 {
	switch kind {
	case typeUint8, typeInt8, typeBool:
		return 1
	case typeUint16, typeInt16:
		return 2
	case typeUint32, typeInt32, typeFloat32:
		return 4
	case typeUint64, typeInt64, typeFloat64:
		return 8
	}
	return 0
}

func (d *decoder) whole(kind uint32, key string) int64 {
	n := width(kind)
	if n == 0 {
		d.fail("the key %.80q has a value of the type %d, which is not known", key, kind)
		return 0
	}
	v := d.number(n)
	switch kind {
	case typeInt8:
		return int64(int8(v))
	case typeInt16:
		return int64(int16(v))
	case typeInt32:
		return int64(int32(v))
	case typeUint64:
		if v > math.MaxInt64 {
			d.fail("the key %.80q has the value %d, which is out of all proportion", key, v)
		}
	}
	return int64(v)
}

// longText reads a text, of which one beyond the limit (a chat template) is passed over.
func (d *decoder) longText(key string) string {
	n := d.uint64()
	if d.err != nil {
		return ""
	}
	if n > maxHeader {
		d.fail("the key %.80q has a text of %d bytes; at most %s are read", key, n, input.Size(maxHeader))
		return ""
	}
	if n > maxText {
		d.skip(int64(n))
		return ""
	}
	return d.string(int64(n))
}

func (d *decoder) list(key string) List {
	kind, n := d.uint32(), d.uint64()
	if d.err == nil && n > maxItems {
		d.fail("the key %.80q has a list of %d values; at most %d are read", key, n, maxItems)
	}
	if d.err != nil {
		return List{}
	}
	l := List{Len: int(n)}
	size := width(kind)
	switch {
	case kind == typeString:
		for range n {
			if length := d.uint64(); length <= maxHeader {
				d.skip(int64(length))
			} else {
				d.fail("the key %.80q has a text of %d bytes; at most %s are read", key, length, input.Size(maxHeader))
			}
			if d.err != nil {
				return l
			}
		}
	case size == 0:
		d.fail("the key %.80q has a list of values of the type %d, which is not read", key, kind)
	case kind == typeFloat32 || kind == typeFloat64 || n > maxList:
		d.skip(int64(n) * size)
	case d.has(int64(n)*size) && d.keeps(8*int64(n)):
		l.Numbers = make([]int64, 0, n)
		for range n {
			l.Numbers = append(l.Numbers, d.whole(kind, key))
		}
	}
	return l
}
