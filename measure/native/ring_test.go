package native

import (
	"cmp"
	_ "embed"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"llmprof/measure/native/cuda"
)

// The test runs the rings of testdata/rings.cu and checks the sums of the correct ones. The wrong
// ones, which may give any sums, run only if LLMPROF_TEST_WRONG_RINGS is set: racecheck has to
// report them, which shows that it would report a race in the kernels. LLMPROF_TEST_RINGS is a
// pattern of the rings to run.
func TestKernelRings(t *testing.T) {
	gpu(t)
	dev, err := cuda.Open(0, os.Getenv("LLMPROF_TEST_CUDA_LIBS"))
	b := &bench{t: t, dev: dev}
	b.noError(err)
	t.Cleanup(func() { b.noError(dev.Close()) })
	b.s, err = dev.NewStream()
	b.noError(err)
	c, err := cuda.OpenCompiler(os.Getenv("LLMPROF_TEST_CUDA_LIBS"))
	b.noError(err)
	cubin, _, err := c.Compile("rings.cu", words+rings, dev.Code, nil)
	b.noError(err)
	m, err := dev.Load(cubin)
	b.noError(err)
	wanted := regexp.MustCompile(cmp.Or(os.Getenv("LLMPROF_TEST_RINGS"), "."))
	for _, name := range ringNames() {
		wrong := strings.HasPrefix(name, "wrong")
		if !wanted.MatchString(name) || wrong && os.Getenv("LLMPROF_TEST_WRONG_RINGS") == "" {
			continue
		}
		k, err := m.Kernel(name)
		b.noError(err)
		got, want := b.ring(k)
		if wrong {
			t.Logf("wrong by purpose: %s, %v", name, slices.Equal(got, want))
		} else if !slices.Equal(got, want) {
			t.Errorf("%s: sums %#x, want %#x", name, got, want)
		}
	}
}

//go:embed internal/kernels/ptx.cuh
var words string

//go:embed testdata/rings.cu
var rings string

// ringNames lists the kernels of the rings.
func ringNames() (names []string) {
	for _, m := range regexp.MustCompile(`(?m)^RING\((\w+)`).FindAllStringSubmatch(rings, -1) {
		names = append(names, m[1])
	}
	return names
}

// ring runs one ring on two blocks, and returns their sums and the correct ones.
func (b *bench) ring(k *cuda.Kernel) (got, want []uint32) {
	const blocks, threads, stages, words = 2, 64, 11, 4
	in := make([]uint32, blocks*stages*threads*words)
	for i := range in {
		in[i] = scrambled(i)
	}
	piece := func(block, stage, at int) (v uint32) {
		for _, w := range in[((block*stages+stage)*threads+at%threads)*words:][:words] {
			v ^= w
		}
		return v
	}
	for block := range blocks {
		for thread := range threads {
			sum := uint32(0)
			for s := range stages {
				sum = sum*3 + piece(block, s, thread*5+1) + 7*piece(block, s, thread+33)
			}
			want = append(want, sum)
		}
	}
	out := room[uint32](b, blocks*threads)
	b.run(k, cuda.Launch{Grid: cuda.Dim{X: blocks}, Block: cuda.Dim{X: 2 * threads}, Shared: 3 * threads * 16}, put(b, in), out, int32(stages))
	return get[uint32](b, out, blocks*threads), want
}

// scrambled returns a hash of i.
func scrambled(i int) uint32 { return uint32(i)*2654435761 ^ uint32(i)>>7 }
