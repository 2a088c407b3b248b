package native

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"llmprof/measure/native/cuda"
	"llmprof/models/safetensors"
)

// A checkpoint goes to the GPU in chunks of up to stagedBytes, through page-locked buffers of that
// size, which goroutines fill while others are copied. The host needs stagedBytes·stagedChunks, 128
// MiB, for each GPU, and 256 KiB for each reader that converts. With 16 buffers of 16 MiB an H200's
// weights took 1.6 times as long, with 64 of 2 MiB the same (docs/log/native-tests.md).
const (
	stagedBytes  = 4 << 20
	stagedChunks = 32
)

// maxReaders bounds the goroutines that read for one GPU.
const maxReaders = 16

// A chunk is some bytes of a tensor's piece.
type chunk struct {
	t       *tensor
	slice   *safetensors.Slice
	from, n int // bytes of the slice
	to      cuda.Ptr
	then    func() error // It queues what follows the copy; nil for nothing.
}

// read fills buf. Several goroutines read at once.
func (c *chunk) read(buf []byte) error {
	if err := c.slice.Read(buf, int64(c.from)); err != nil {
		return &WeightsError{err}
	}
	if !c.slice.Stored(safetensors.E4M3) {
		return nil
	}
	if i := noNumber(buf); i >= 0 {
		i, t := i+c.from, c.t
		return &WeightsError{fmt.Errorf("tensor %q: element %d is no number", t.name,
			(t.rows.Begin+i/t.cols.N)*t.width()+t.cols.Begin+i%t.cols.N)}
	}
	return nil
}

// noNumber is the index of the first NaN among e4m3 values, all bits but the sign set; -1 for none.
func noNumber(values []byte) int {
	const sevens, ones = 0x7f7f7f7f7f7f7f7f, 0x0101010101010101
	i := 0
	for ; i+8 <= len(values); i += 8 {
		if (binary.LittleEndian.Uint64(values[i:])&sevens+ones)&^sevens != 0 {
			break
		}
	}
	for ; i < len(values); i++ {
		if values[i]&0x7f == 0x7f {
			return i
		}
	}
	return -1
}

// split appends the chunks of a slice of t that goes to an address; then is queued behind the last.
func (l *loader) split(chunks []chunk, t *tensor, s *safetensors.Slice, to cuda.Ptr, then func() error) []chunk {
	all, each := int(s.Bytes()), cmp.Or(l.staged, stagedBytes)
	for from := 0; from < all; from += each {
		chunks = append(chunks, chunk{t: t, slice: s, from: from, n: min(each, all-from), to: to.Add(from)})
	}
	chunks[len(chunks)-1].then = then
	return chunks
}

// load reads the weights from a checkpoint. All copies and kernels are in one stream, so what goes
// through the scratch buffer waits for what went through it before.
func (l *loader) load(c *safetensors.Checkpoint) error {
	chunks, err := l.allChunks(c)
	if err != nil {
		return err
	}
	g, err := l.newStaging(chunks, stagedChunks)
	if err == nil {
		err = g.run(l.readers())
	}
	return errors.Join(err, l.s.Sync(), g.close())
}

// allChunks are the chunks of all tensors, in their order.
func (l *loader) allChunks(c *safetensors.Checkpoint) (chunks []chunk, err error) {
	for i := range l.w.tensors {
		if chunks, err = l.chunks(chunks, c, &l.w.tensors[i]); err != nil {
			return nil, err
		}
	}
	return chunks, nil
}

// readers is how many goroutines read for this rank, which shares the processors with other ranks.
func (l *loader) readers() int {
	return max(1, min(maxReaders, runtime.GOMAXPROCS(0)/max(1, l.ranks)))
}

// A staging is the buffers that chunks go through. Chunk i uses buffer i modulo their number.
type staging struct {
	s      *cuda.Stream
	chunks []chunk
	each   int // bytes of a buffer
	buffer *cuda.Host[uint8]
	copied []*cuda.Event // an event for each buffer
	work   chan int      // chunks whose buffers are free
	filled []chan error  // a channel for each buffer
}

// newStaging makes up to most buffers.
func (l *loader) newStaging(chunks []chunk, most int) (*staging, error) {
	g := &staging{s: l.s, chunks: chunks}
	for i := range chunks {
		g.each = max(g.each, chunks[i].n)
	}
	n := min(most, len(chunks))
	var err error
	if g.buffer, err = cuda.Pin[uint8](l.dev, n*g.each); err != nil {
		return g, err
	}
	g.work = make(chan int, n)
	for i := range n {
		e, err := l.dev.NewEvent()
		if err != nil {
			return g, err
		}
		g.copied = append(g.copied, e)
		g.filled = append(g.filled, make(chan error, 1))
		g.work <- i
	}
	return g, nil
}

// close frees the buffers, which have to be idle.
func (g *staging) close() error {
	var errs []error
	for _, e := range g.copied {
		errs = append(errs, e.Close())
	}
	if g.buffer != nil {
		errs = append(errs, g.buffer.Close())
	}
	return errors.Join(errs...)
}

// run copies all chunks in their order, so it returns the error of the first chunk that has one. The
// GPU belongs to the caller's thread; readers only fill buffers.
func (g *staging) run(readers int) error {
	var reading sync.WaitGroup
	for range readers {
		reading.Go(func() {
			for i := range g.work {
				slot := i % len(g.copied)
				g.filled[slot] <- g.chunks[i].read(g.buffer.Data[slot*g.each:][:g.chunks[i].n])
			}
		})
	}
	err := g.copyAll()
	close(g.work)
	reading.Wait()
	return err
}

// copyAll queues the copies of chunks as they are filled. Up to half of the buffers are in flight;
// then the oldest copy is waited for, and its buffer filled again.
func (g *staging) copyAll() error {
	n := len(g.copied)
	for i := range g.chunks {
		c, slot := &g.chunks[i], i%n
		if err := <-g.filled[slot]; err != nil {
			return err
		}
		if err := cuda.SendPart(g.s, c.to, g.buffer, slot*g.each, c.n); err != nil {
			return err
		}
		if err := g.copied[slot].Record(g.s); err != nil {
			return err
		}
		if c.then != nil {
			if err := c.then(); err != nil {
				return err
			}
		}
		oldest := i - n/2
		if oldest < 0 || oldest+n >= len(g.chunks) {
			continue
		}
		if err := g.copied[oldest%n].Sync(); err != nil {
			return err
		}
		g.work <- oldest + n
	}
	return nil
}
