package cuda

import (
	"errors"
	"unsafe"

	"llmprof/unit"
)

// A Stream is a queue of work; what is in it is done in order.
type Stream struct {
	dev    *Device
	h      uintptr
	queued int
}

// Queued is how many kernels and fills were queued so far or recorded, a GEMM
// of cuBLASLt counted as one. Copies are not counted.
func (s *Stream) Queued() int { return s.queued }

// NewStream makes a queue that does not wait for the default one.
func (dev *Device) NewStream() (*Stream, error) {
	s := &Stream{dev: dev}
	const nonBlocking = 1 // CU_STREAM_NON_BLOCKING
	if err := dev.d.check("cuStreamCreate", dev.d.streamCreate(&s.h, nonBlocking)); err != nil {
		return nil, err
	}
	return s, nil
}

// Sync waits until the queue is empty.
func (s *Stream) Sync() error { return s.dev.d.check("cuStreamSynchronize", s.dev.d.streamSync(s.h)) }

// Close destroys the queue.
func (s *Stream) Close() error {
	return s.dev.d.check("cuStreamDestroy", s.dev.d.streamDestroy(s.h))
}

// Copy queues a copy of n bytes within the GPU.
func (s *Stream) Copy(dst, src Ptr, n int) error {
	return s.dev.d.check("cuMemcpyDtoDAsync", s.dev.d.copyDeviceAsync(uint64(dst), uint64(src), uint64(n), s.h))
}

// Fill queues setting n bytes to v.
func (s *Stream) Fill(p Ptr, v byte, n int) error {
	s.queued++
	return s.dev.d.check("cuMemsetD8Async", s.dev.d.setBytesAsync(uint64(p), v, uint64(n), s.h))
}

// Fill32 queues setting n words to v.
func (s *Stream) Fill32(p Ptr, v uint32, n int) error {
	s.queued++
	return s.dev.d.check("cuMemsetD32Async", s.dev.d.setWordsAsync(uint64(p), v, uint64(n), s.h))
}

// Send queues a copy of the whole of src to dst; src must not change before
// Sync.
func Send[T Number](s *Stream, dst Ptr, src *Host[T]) error {
	return SendPart(s, dst, src, 0, len(src.Data))
}

// SendPart is Send of n values of src from one on.
func SendPart[T Number](s *Stream, dst Ptr, src *Host[T], from, n int) error {
	if n == 0 {
		return nil
	}
	part := src.Data[from : from+n]
	return s.dev.d.check("cuMemcpyHtoDAsync", s.dev.d.copyToDeviceAsync(uint64(dst), unsafe.Pointer(&part[0]), bytesOf(part), s.h))
}

// An Event is a mark in a stream, with the time when the GPU came to it.
type Event struct {
	dev *Device
	h   uintptr
}

// NewEvent makes a mark.
func (dev *Device) NewEvent() (*Event, error) {
	e := &Event{dev: dev}
	if err := dev.d.check("cuEventCreate", dev.d.eventCreate(&e.h, 0)); err != nil {
		return nil, err
	}
	return e, nil
}

// Record queues the mark.
func (e *Event) Record(s *Stream) error {
	return e.dev.d.check("cuEventRecord", e.dev.d.eventRecord(e.h, s.h))
}

// Sync waits until the GPU has come to the mark.
func (e *Event) Sync() error {
	return e.dev.d.check("cuEventSynchronize", e.dev.d.eventSync(e.h))
}

// Since is the GPU's time from start to e; both must have been reached.
func (e *Event) Since(start *Event) (unit.Seconds, error) {
	var ms float32
	err := e.dev.d.check("cuEventElapsedTime", e.dev.d.eventElapsed(&ms, start.h, e.h))
	return unit.Seconds(float64(ms) / 1e3), err
}

// Close destroys the mark.
func (e *Event) Close() error {
	return e.dev.d.check("cuEventDestroy", e.dev.d.eventDestroy(e.h))
}

// Time does work once to warm up, then n times, and returns the GPU's mean time
// of one.
func (s *Stream) Time(n int, work func() error) (unit.Seconds, error) {
	if err := work(); err != nil {
		return 0, err
	}
	t, err := s.Once(func() error {
		for range n {
			if err := work(); err != nil {
				return err
			}
		}
		return nil
	})
	return t / unit.Seconds(n), err
}

// Once does work and returns the GPU's time of it.
func (s *Stream) Once(work func() error) (t unit.Seconds, err error) {
	w, err := s.NewStopwatch()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	if err := InTurn(func() error { return w.Around(work) }, w.end.Sync); err != nil {
		return 0, err
	}
	return w.Took()
}

// A Stopwatch is two marks around work on a stream.
type Stopwatch struct {
	s          *Stream
	begin, end *Event
}

// NewStopwatch makes the marks.
func (s *Stream) NewStopwatch() (*Stopwatch, error) {
	begin, err := s.dev.NewEvent()
	if err != nil {
		return nil, err
	}
	end, err := s.dev.NewEvent()
	if err != nil {
		return nil, errors.Join(err, begin.Close())
	}
	return &Stopwatch{s, begin, end}, nil
}

// Around queues the marks with work between them.
func (w *Stopwatch) Around(work func() error) error {
	return InTurn(func() error { return w.begin.Record(w.s) }, work, func() error { return w.end.Record(w.s) })
}

// Took is the GPU's time between the marks; both must have been reached.
func (w *Stopwatch) Took() (unit.Seconds, error) { return w.end.Since(w.begin) }

// Close destroys the marks.
func (w *Stopwatch) Close() error { return errors.Join(w.begin.Close(), w.end.Close()) }

// A Graph is work that was recorded from a stream and can be done again with
// one call.
type Graph struct {
	dev  *Device
	exec uintptr
}

// Record runs work, which must queue on s alone, without doing any of it, and
// makes a graph of what it queued.
func (s *Stream) Record(work func() error) (*Graph, error) {
	d := s.dev.d
	const threadLocal = 1 // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
	if err := d.check("cuStreamBeginCapture", d.captureBegin(s.h, threadLocal)); err != nil {
		return nil, err
	}
	werr := work()
	var g uintptr
	err := d.check("cuStreamEndCapture", d.captureEnd(s.h, &g))
	if err := errors.Join(werr, err); err != nil {
		if g != 0 {
			err = errors.Join(err, d.check("cuGraphDestroy", d.graphDestroy(g)))
		}
		return nil, err
	}
	out := &Graph{dev: s.dev}
	err = d.check("cuGraphInstantiate", d.graphInstantiate(&out.exec, g, 0))
	err = errors.Join(err, d.check("cuGraphDestroy", d.graphDestroy(g)))
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Launch queues the whole graph on s.
func (g *Graph) Launch(s *Stream) error {
	return g.dev.d.check("cuGraphLaunch", g.dev.d.graphLaunch(g.exec, s.h))
}

// Close destroys the graph.
func (g *Graph) Close() error {
	return g.dev.d.check("cuGraphExecDestroy", g.dev.d.graphExecDestroy(g.exec))
}
