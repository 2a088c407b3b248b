package input

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
)

// What gzip packs of a trace has a tenth to a fiftieth of its size; a file that was made to fill a memory has a thousandth.
const (
	mostUnpacked = 100      // times the size of the file
	freeUnpacked = 16 << 20 // bytes that may be more
)

// Unpack reads what gzip packed, whatever the name of the file, and everything else as it is.
func Unpack(from io.Reader) (io.Reader, error) {
	packed := &counted{from: from}
	b := bufio.NewReaderSize(packed, 1<<16)
	if magic, _ := b.Peek(2); string(magic) != "\x1f\x8b" {
		return b, nil
	}
	z, err := gzip.NewReader(b)
	if err != nil {
		return nil, err
	}
	return &unpacked{text: counted{from: z}, packed: packed}, nil
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
	packed *counted
}

func (u *unpacked) Read(p []byte) (int, error) {
	if u.text.bytes > freeUnpacked && u.text.bytes > mostUnpacked*u.packed.bytes {
		return 0, fmt.Errorf("it unpacks to more than %d times its size: give it unpacked if it is no mistake", mostUnpacked)
	}
	return u.text.Read(p)
}
