package input

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// What gzip packs of a trace has a tenth to a fiftieth of its size; a file that was made to fill a memory has a thousandth.
const (
	mostUnpacked = 100      // times the size of the file
	freeUnpacked = 16 << 20 // bytes that may be more
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
	return &unpacked{text: counted{from: z}, z: z, b: b, packed: packed}, nil
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

// An unpacked file ends in an error where it has far more than a file of its size holds.
type unpacked struct {
	text   counted
	z      *gzip.Reader
	b      *bufio.Reader
	packed *counted
}

func (u *unpacked) Read(p []byte) (n int, err error) {
	for n == 0 && err == nil && len(p) > 0 {
		if u.text.bytes > freeUnpacked && u.text.bytes > mostUnpacked*u.packed.bytes {
			return 0, fmt.Errorf("it unpacks to more than %d times its size: give it unpacked if it is no mistake", mostUnpacked)
		}
		if n, err = u.text.Read(p); errors.Is(err, io.EOF) {
			err = u.further()
		} else if err != nil {
			err = damaged(err)
		}
	}
	return n, err
}

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
