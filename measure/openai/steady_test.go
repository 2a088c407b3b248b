package openai

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// A server that answers within 4 s fills for 4 s, and empties as long when no more requests come: neither is
// among the times, the gaps or the goodput, and every record stays.
func TestSteadyState(t *testing.T) {
	const rate, n = 10, 800
	limit := 5 * time.Second
	bubble(t, answer(time.Second, content("x"), content("y"), content("z"), stop+counts+done), func(t *testing.T, o Options) {
		o.Concurrency, o.RequestRate, o.Requests, o.Seed, o.SLO = 0, rate, n, 3, SLO{TTLT: &limit}
		s, err := Run(t.Context(), o, nil)
		if err != nil {
			t.Fatal(err)
		}
		x := s.Steady
		if x == nil || !x.Reached || x.Method != "MSER-5" || x.Begin < 20 || x.Begin > n/2 || x.End > n-20 || x.End < n-60 {
			t.Fatalf("%+v, want about 40 requests of %d left out at each end", x, n)
		}
		if at := s.Records[x.Begin].SentS; at < 2.5 {
			t.Errorf("the first request that counts comes after %g s", at)
		}
		ttft, _, ttlt := Times(s)
		count := x.End - x.Begin
		if len(s.Records) != n || ttft.N != count || ttft.Warmups != x.Begin || ttlt.N != count || s.ChunkGap.N != 2*count ||
			s.PromptTokens.N != n {
			t.Errorf("%d records, %d TTFTs after %d, %d gaps; want %d times", len(s.Records), ttft.N, ttft.Warmups, s.ChunkGap.N, count)
		}
		if g := s.Goodput; g.Good != count || g.Share != 1 || g.PerSecond != n/s.Duration {
			t.Errorf("goodput %+v", g)
		}
		o.Requests = 49
		if s, err = Run(t.Context(), o, nil); err != nil || s.Steady != nil {
			t.Errorf("of 49 requests: %+v, %v", s.Steady, err)
		}
		o.Requests, o.RequestRate, o.Concurrency = 100, 0, 10
		if s, err = Run(t.Context(), o, nil); err != nil || s.Steady != nil {
			t.Errorf("in a closed loop: %+v, %v", s.Steady, err)
		}
	})
}

// A server that answers 10 requests a second of 12 that come is overloaded, which a note says; all requests
// count.
func TestNoSteadyState(t *testing.T) {
	var lock sync.Mutex
	var free time.Time // when the requests before are answered
	slow := func(w http.ResponseWriter, r *http.Request) {
		lock.Lock()
		if now := time.Now(); free.Before(now) {
			free = now
		}
		free = free.Add(100 * time.Millisecond)
		wait := time.Until(free)
		lock.Unlock()
		answer(wait, whole())(w, r)
	}
	bubble(t, slow, func(t *testing.T, o Options) {
		o.Concurrency, o.RequestRate, o.Requests, o.Seed, o.Timeout = 0, 12, 800, 3, time.Hour
		s, err := Run(t.Context(), o, nil)
		if err != nil {
			t.Fatal(err)
		}
		if x := s.Steady; x == nil || x.Reached || x.Begin != 0 || x.End != 800 ||
			!strings.Contains(strings.Join(s.Notes, "\n"), "it is overloaded") {
			t.Errorf("%+v, %q", x, s.Notes)
		}
	})
}
