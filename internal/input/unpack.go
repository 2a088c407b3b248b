package input

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// What gzip packs of a trace has a tenth to a fiftieth of its size; a file that was made to fill a memory has a thousandth.
const (
	mostUnpacked = 100      // times the size of what it was unpacked from, for each window of the text
	windowBytes  = 16 << 20 // bytes of a window, which is unpacked whole before any of it is given
	mostPacked   = 1032     // times that deflate can make a text smaller, of zeros alone
)

// isGzip is what a text begins with that gzip packed.
const isGzip = "\x1f\x8b"

// Unpack reads what gzip packed, whatever the name of the file, and everything else as it is.
func Unpack(from io.Reader) (io.Reader, error) {
	packed := &counted{from: from}
	b := bufio.NewReaderSize(packed, 1<<16)
	if magic, _ := b.Peek(len(isGzip)); string(magic) != isGzip {
		return b, nil
	}
	z, err := gzip.NewReader(b)
	if err != nil {
		return nil, damaged(err)
	}
	z.Multistream(false) // What follows is looked at before it is unpacked, to tell a further part from anything else.
	return &unpacked{z: z, b: b, packed: packed}, nil
}

// A counted reader knows how many bytes it gave.
type counted struct {
	from  io.Reader
	bytes int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.bytes += int64(n)
	return n, err
}

// An unpacked file gives its text window by window. It ends in an error before a window that is far larger than what it was
// unpacked from: to unpack a text is much faster than to parse it, so that a file that is made to take long is refused early.
type unpacked struct {
	z      *gzip.Reader
	b      *bufio.Reader
	packed *counted
	window bytes.Buffer // what is left to give of the window
	end    error        // what comes after it, if that is known
}

func (u *unpacked) Read(p []byte) (int, error) {
	if u.window.Len() == 0 && u.end == nil {
		u.end = u.fill()
	}
	if u.window.Len() == 0 {
		return 0, u.end
	}
	return u.window.Read(p)
}

// fill unpacks a window.
func (u *unpacked) fill() error {
	u.window.Reset()
	before := u.taken()
	for u.window.Len() < windowBytes {
		n, err := u.window.ReadFrom(io.LimitReader(u.z, int64(windowBytes-u.window.Len())))
		switch {
		case err != nil:
			return damaged(err)
		case n > 0:
			continue
		}
		if err := u.further(); err != nil {
			return err
		}
	}
	if windowBytes > mostUnpacked*(u.taken()-before) {
		u.window.Reset()
		return fmt.Errorf("it unpacks to more than %d times its size: give it unpacked if it is no mistake", mostUnpacked)
	}
	return nil
}

// taken is how many bytes of the file were unpacked so far.
func (u *unpacked) taken() int64 { return u.packed.bytes - int64(u.b.Buffered()) }

// further begins with the part that follows the one that ended: a file of gzip may have several.
func (u *unpacked) further() error {
	magic, err := u.b.Peek(len(isGzip))
	switch {
	case len(magic) == 0:
		return err
	case string(magic) != isGzip:
		return errors.New("what follows the compressed text was not written by gzip: remove it, or compress the text anew")
	}
	if err := u.z.Reset(u.b); err != nil {
		return damaged(err)
	}
	u.z.Multistream(false)
	return nil
}

// damaged says why a compressed file cannot be unpacked.
func damaged(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the compressed file ends in the middle: it is cut off")
	}
	return fmt.Errorf("the compressed file is damaged: %w", err)
}

// said is how many bytes a compressed file of a size has unpacked, as it says itself and as far as that can be true.
func said(file io.ReaderAt, size int64) int64 {
	var last [4]byte
	_, _ = file.ReadAt(last[:], max(size-int64(len(last)), 0))
	return min(int64(binary.LittleEndian.Uint32(last[:])), mostPacked*size)
}
