package serving

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"llmprof/unit"
)

// TestWaitingRequests holds the memory of requests that came at one time, straight to the scheduler or by the API server.
func TestWaitingRequests(t *testing.T) {
	const n = 100_000
	load := Load{Arrival: Arrival{Kind: "constant", Rate: MostRate}, Prompt: Fixed(100), Gen: Fixed(10), Requests: n}
	for _, engine := range []bool{false, true} {
		source, err := load.Source()
		if err != nil {
			t.Fatal(err)
		}
		s := engineServer(t, "llama3.1-8b", "h100", 1, "vllm", "vllm")
		c := newCluster(s, source, &Options{InEngine: engine})
		before := heap()
		for c.arrivals.any || len(c.mixed[0].front.entering) > 0 {
			c.step()
		}
		if waiting := c.mixed[0].waiting.len(); waiting < n/2 {
			t.Fatalf("%d requests wait, want most of %d", waiting, n)
		}
		if each := float64(heap()-before) / n; each > 50 {
			t.Errorf("in the engine %t: a request that waits takes %.0f bytes, want at most 50", engine, each)
		}
	}
}

// TestAnswersBehindTheAPIServer holds the memory of answers that the engine is done with and the API server is not.
func TestAnswersBehindTheAPIServer(t *testing.T) {
	const n = 100_000
	load := Load{Arrival: Arrival{Kind: "constant", Rate: MostRate}, Prompt: Fixed(1), Gen: Fixed(1), Requests: n}
	source, err := load.Source()
	if err != nil {
		t.Fatal(err)
	}
	c := newCluster(engineServer(t, "llama3.1-8b", "h100", 1, "vllm", "vllm"), source, &Options{})
	one := c.mixed[0]
	before := heap()
	for c.arrivals.any || len(one.front.entering)+one.waiting.len() > 0 {
		c.step()
	}
	behind := n - c.result.Completed
	if behind < n/2 {
		t.Fatalf("%d answers are behind, want most of %d", behind, n)
	}
	if each := float64(heap()-before) / float64(behind); each > 110 {
		t.Errorf("an answer that is behind takes %.0f bytes, want at most 110", each)
	}
}

// heap is the memory that is in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestQueue holds the order of a queue to that of a list.
func TestQueue(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var w queue
	var want []int
	for i := range 20_000 {
		switch kind := random.IntN(7); {
		case kind < 3:
			r := Request{At: unit.Seconds(i), Prompt: i + 1, Gen: 2, HashTokens: 16}
			if kind == 1 {
				r.Hashes = []uint64{uint64(i)}
			}
			w.fresh.push(arrival{packed: pack(i, &r)})
			want = append(want, i)
		case len(want) > 0 && i%5000 > 2500 || kind == 3 && len(want) > 0:
			q := w.front()
			if w.popFront(); q.index != want[0] || q.goal != want[0]+1 || len(q.Request.Hashes) > 0 && q.Request.Hashes[0] != uint64(want[0]) {
				t.Fatalf("%d leaves with %+v, want %d", q.index, q.Request, want[0])
			}
			if want = want[1:]; kind == 4 { // It is preempted.
				w.again = append(w.again, q)
				want = append([]int{q.index}, want...)
			}
		}
		if w.len() != len(want) {
			t.Fatalf("%d wait, want %d", w.len(), len(want))
		}
	}
}
