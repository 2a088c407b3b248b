package native

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"llmprof/analytic/operator"
	"llmprof/internal/testkit"
	"llmprof/measure/native/cuda"
	"llmprof/measure/native/internal/emulate"
	"llmprof/models/safetensors"
)

// llama8BWidths has the widths of llama3.1-8b, and fewer layers and tokens.
const llama8BWidths = `{"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":4096,"intermediate_size":14336,
"num_hidden_layers":4,"num_attention_heads":32,"num_key_value_heads":8,"head_dim":128,"vocab_size":32000,"rms_norm_eps":1e-5,
"rope_theta":500000,"max_position_embeddings":8192,"tie_word_embeddings":false,"torch_dtype":"bfloat16"}`

// fileOf writes a checkpoint whose values are all about 1, and returns its bytes.
func fileOf(b *testing.B, opt Options, dtype string) (folder string, size int64) {
	b.Helper()
	opt.TP, opt.Quantization = 1, Unquantized
	e, err := newEngine(opt, 0)
	testkit.Must(b, err)
	value := map[string][]byte{"BF16": {0x80, 0x3f}, "F16": {0, 0x3c}, "F32": {1, 2, 0x80, 0x3f}}[dtype]
	header := map[string]any{}
	for _, t := range e.w.tensors {
		n := int64(t.elements() * len(value))
		header[t.name] = map[string]any{"dtype": dtype, "shape": t.shape, "data_offsets": []int64{size, size + n}}
		size += n
	}
	text, err := json.Marshal(header)
	testkit.Must(b, err)
	folder = b.TempDir()
	f, err := os.Create(filepath.Join(folder, "model.safetensors"))
	testkit.Must(b, err)
	_, err = f.Write(append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...))
	block := bytes.Repeat(value, 1<<20)
	for left := size; left > 0 && err == nil; left -= int64(len(block)) {
		_, err = f.Write(block[:min(left, int64(len(block)))])
	}
	testkit.Must(b, errors.Join(err, f.Close()))
	return folder, size
}

// BenchmarkLoad loads a checkpoint of 2.3 GB in 16 bits, and twice that in 32, to stand-ins, so it
// measures the host's part. TMPDIR=/dev/shm excludes disks.
func BenchmarkLoad(b *testing.B) {
	for _, c := range []struct {
		dtype string
		opt   Options
	}{
		{"BF16", Options{}}, {"BF16", Options{TP: 2}}, {"BF16", Options{FP16: true}}, {"F16", Options{}}, {"F32", Options{}},
		{"F32", Options{FP16: true}}, {"BF16", Options{Quantization: FP8}},
	} {
		b.Run(fmt.Sprintf("%s/fp16=%v/%v/tp%d", c.dtype, c.opt.FP16, c.opt.Quantization, c.opt.ranks()), func(b *testing.B) {
			opt := c.opt
			opt.Batch, opt.PromptLen, opt.GenLen = 1, 4, 2
			opt = modelOf(b, llama8BWidths, opt)
			var size int64
			opt.Weights, size = fileOf(b, opt, c.dtype)
			b.SetBytes(size)
			for b.Loop() {
				team, err := openTeam(opt, func(int) (*cuda.Device, error) { return cuda.NewStandIn().Device, nil }, (*Engine).compileNothing)
				testkit.Must(b, err)
				testkit.Must(b, team.Close())
			}
		})
	}
}

// BenchmarkGPULoad loads a checkpoint of 3.1 GB to a GPU. It also measures reading, copying and
// allocating the buffers separately; every case includes the allocation. TMPDIR=/dev/shm excludes
// disks. LLMPROF_TEST_STAGING names other staging buffers than the loader's, as
// bytes/number/readers.
func BenchmarkGPULoad(b *testing.B) {
	gpu(b)
	opt := modelOf(b, strings.Replace(llama8BWidths, `"num_hidden_layers":4`, `"num_hidden_layers":6`, 1),
		Options{Workload: operator.Workload{Batch: 1, PromptLen: 4, GenLen: 2}})
	var size int64
	opt.Weights, size = fileOf(b, opt, "BF16")
	usual := fmt.Sprintf("%d/%d/%d", stagedBytes, stagedChunks, (&loader{ranks: 1}).readers())
	for s := range strings.SplitSeq(cmp.Or(os.Getenv("LLMPROF_TEST_STAGING"), usual), ",") {
		var bytes, most, readers int
		if _, err := fmt.Sscanf(s, "%d/%d/%d", &bytes, &most, &readers); err != nil {
			b.Fatal(err)
		}
		for part, do := range map[string]func(*staging) error{
			"load": func(g *staging) error { return g.run(readers) }, "read": func(g *staging) error { return g.readAll(readers) },
			"copy": (*staging).sendAll,
			"pin":  func(*staging) error { return nil },
		} {
			b.Run(s+"/"+part, func(b *testing.B) {
				b.SetBytes(size)
				loadOnly(b, opt, bytes, most, do)
			})
		}
	}
}

// loadOnly does one part of loading into a GPU's memory.
func loadOnly(b *testing.B, opt Options, bytes, most int, do func(*staging) error) {
	b.Helper()
	must := func(err error) {
		b.Helper()
		testkit.Must(b, err)
	}
	ckpt, err := opt.open()
	must(err)
	defer ckpt.Close()
	e, err := newEngine(opt, 0)
	must(err)
	e.dev, err = cuda.Open(0, os.Getenv("LLMPROF_TEST_CUDA_LIBS"))
	must(err)
	defer func() { must(e.dev.Close()) }()
	e.s, err = e.dev.NewStream()
	must(err)
	must(e.w.allocate(e.dev))
	l := &loader{w: e.w, s: e.s, dev: e.dev, float: e.shape.float(), ranks: 1, staged: bytes}
	chunks, err := l.allChunks(ckpt)
	must(err)
	for b.Loop() {
		g, err := l.newStaging(chunks, most)
		must(err)
		must(do(g))
		must(e.s.Sync())
		must(g.close())
	}
}

// readAll reads all chunks, and copies none.
func (g *staging) readAll(readers int) error {
	var reading sync.WaitGroup
	var next atomic.Int64
	errs := make([]error, readers)
	for r := range readers {
		reading.Go(func() {
			for errs[r] == nil {
				i := int(next.Add(1)) - 1
				if i >= len(g.chunks) {
					return
				}
				errs[r] = g.chunks[i].read(g.buffer.Data[i%len(g.copied)*g.each:][:g.chunks[i].n])
			}
		})
	}
	reading.Wait()
	return errors.Join(errs...)
}

// sendAll copies all chunks, and reads none.
func (g *staging) sendAll() error {
	for i := range g.chunks {
		c := &g.chunks[i]
		if err := cuda.SendPart(g.s, c.to, g.buffer, i%len(g.copied)*g.each, c.n); err != nil {
			return err
		}
	}
	return nil
}

// Weights do not depend on how many bytes of a checkpoint are read at a time.
func TestChunks(t *testing.T) {
	for _, c := range []struct {
		stored safetensors.Format
		fp8    bool
		opt    Options
	}{
		{safetensors.BFloat16, false, Options{}}, {safetensors.BFloat16, false, Options{TP: 2, FP16: true}},
		{safetensors.BFloat16, true, Options{TP: 2, Quantization: FP8}}, {safetensors.Float16, false, Options{TP: 2, Quantization: FP8}},
		{safetensors.BFloat16, false, Options{Quantization: INT4}},
	} {
		t.Run(fmt.Sprintf("%d %v in %v %v of %d", c.stored, c.fp8, c.opt.FP16, c.opt.Quantization, c.opt.ranks()), func(t *testing.T) {
			if c.opt.Quantization != Unquantized || c.opt.FP16 {
				emulate.Long(t)
			}
			config := shareable()["multi_query"]
			s, _ := storeOf(t, config, c.stored, c.fp8)
			c.opt.Weights, c.opt.Batch, c.opt.PromptLen, c.opt.GenLen = s.write(t), 1, 4, 2
			var before [][]byte
			for _, staged := range []int{0, 5004} {
				c.opt.staged = staged
				var now [][]byte
				team := openShared(t, config, c.opt)
				for rank := range team.Ranks() {
					now = append(now, weightsOf(t, team, rank))
				}
				if before != nil && !slices.EqualFunc(now, before, bytes.Equal) {
					t.Errorf("%d bytes at a time: other weights", staged)
				}
				before = now
			}
		})
	}
}

// weightsOf returns all bytes of a rank's weights, without the gaps.
func weightsOf(t *testing.T, team *Team, rank int) (out []byte) {
	t.Helper()
	err := team.Each(func(r int, e *Engine) error {
		if r != rank {
			return nil
		}
		part := func(at cuda.Ptr, n int) error {
			if n == 0 {
				return nil
			}
			bytes := make([]byte, n)
			err := cuda.Download(e.dev, bytes, at)
			out = append(out, bytes...)
			return err
		}
		for _, ts := range e.w.tensors {
			data, _, _ := ts.quant.bytes(ts.rows.N, ts.cols.N)
			_, scales, zeros := ts.quant.bytes(ts.among, ts.cols.N)
			err := errors.Join(part(e.w.base.Add(ts.offset), data), part(e.w.base+ts.scales, scales), part(e.w.base+ts.zeros, zeros))
			if err != nil {
				return err
			}
		}
		return nil
	})
	testkit.Must(t, err)
	return out
}

// A file that becomes shorter while it is read is an error that names it.
func TestLoadTruncated(t *testing.T) {
	config := shareable()["llama"]
	for _, tp := range []int{1, 2} {
		opt := modelOf(t, config, Options{TP: tp, Weights: checkpointOf(t, config, 7), Workload: operator.Workload{
			Batch: 1, PromptLen: 4, GenLen: 2}, staged: 5000})
		_, err := openTeam(opt, func(int) (*cuda.Device, error) {
			return cuda.NewStandIn().Device, os.Truncate(filepath.Join(opt.Weights, "model.safetensors"), 100_000)
		}, (*Engine).compileNothing)
		var unfit *WeightsError
		if !errors.As(err, &unfit) || !strings.Contains(err.Error(), "model.safetensors: tensor ") || !strings.Contains(err.Error(), "EOF") {
			t.Errorf("tp %d: %v", tp, err)
		}
	}
}

// The loader finds the first e4m3 value that is NaN, wherever it is.
func TestNoNumber(t *testing.T) {
	for n := range 40 {
		values := bytes.Repeat([]byte{0x7e, 0xfe, 0x80, 0}, 10)[:n]
		if at := noNumber(values); at != -1 {
			t.Fatalf("%d values: %d", n, at)
		}
		for i := range values {
			for _, v := range []byte{0x7f, 0xff} {
				bad := bytes.Clone(values)
				bad[i], bad[n-1] = v, v
				if at := noNumber(bad); at != i {
					t.Fatalf("%d values: %d, want %d", n, at, i)
				}
			}
		}
	}
}
