package openai

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"llmprof/measure/result"
)

// pipes listens for connections in memory. In a bubble of synctest, time passes
// only when client and server both wait, so every time is exact.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	gone  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.gone:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.gone) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// bubble runs f with a client whose server is h, on a clock of their own.
func bubble(t *testing.T, h http.HandlerFunc, f func(t *testing.T, o Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &pipes{conns: make(chan net.Conn), gone: make(chan struct{})}
		server := &http.Server{Handler: h}
		go server.Serve(p)
		tr := &http.Transport{MaxIdleConnsPerHost: 100, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			select {
			case p.conns <- theirs:
				return ours, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}}
		o := options("http://pipe")
		o.Client = &http.Client{Transport: tr}
		f(t, o)
		tr.CloseIdleConnections()
		server.Close()
	})
}

// answer is a handler that says each text after a pause.
func answer(pause time.Duration, texts ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for _, text := range texts {
			time.Sleep(pause)
			stream(w, text)
		}
	}
}

func near(t *testing.T, what string, got *float64, want time.Duration) {
	t.Helper()
	if got == nil || math.Abs(*got-want.Seconds()) > 1e-9 {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// Reasoning ends TTFT, output ends TTFO, a role ends neither, and TPOT is of the
// server's tokens.
func TestChannels(t *testing.T) {
	think := strings.ReplaceAll(content("hm"), `"content"`, `"reasoning_content"`)
	const ms = time.Millisecond
	bubble(t, answer(10*ms, role, think, think, content("a"), content("b"), stop, counts, done), func(t *testing.T, o Options) {
		o.Requests, o.Concurrency, o.SaveOutputs = 2, 1, true
		s, err := Run(t.Context(), o, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range s.Records {
			r := &s.Records[i]
			near(t, "sent", &r.SentS, time.Duration(i)*80*ms)
			near(t, "wrote", r.WroteS, 0)
			near(t, "headers", r.HeadersS, 10*ms)
			near(t, "first chunk", r.FirstChunkS, 10*ms)
			near(t, "first token", r.FirstTokenS, 20*ms)
			near(t, "first output", r.FirstOutputS, 40*ms)
			near(t, "last token", r.LastTokenS, 50*ms)
			near(t, "done", r.DoneS, 80*ms)
			if r.Chunks != 4 || r.Output != "hmhmab" {
				t.Errorf("%+v", r)
			}
		}
		ttft, tpot, ttlt := Times(s)
		near(t, "TTFT", &ttft.Mean, 20*ms)
		near(t, "TPOT", &tpot.Mean, 15*ms) // three tokens by usage, though in four chunks
		near(t, "TTLT", &ttlt.Mean, 50*ms)
		near(t, "TTFO", &s.TTFO.Mean, 40*ms)
		near(t, "first chunk", &s.FirstChunk.Mean, 10*ms)
		near(t, "chunk gap", &s.ChunkGap.Max, 10*ms)
		near(t, "duration", &s.Duration, 160*ms)
		if s.Usage.Chunks != 8 || *s.Usage.Tokens != 6 || *s.Usage.TokensPerChunk != 0.75 || s.ChunkGap.N != 6 || s.RequestRate != 12.5 {
			t.Errorf("%+v, %v a second", s.Usage, s.RequestRate)
		}
	})
}

// Arrivals are those of the seed, and of a Poisson process: times between them
// have a mean of 1/rate and a standard deviation as large.
func TestArrivals(t *testing.T) {
	o := Options{RequestRate: 4, Requests: 20_000, Seed: 7}
	at := o.arrivals()
	if at[0] != 0 || !slices.IsSorted(at) || !slices.Equal(at, o.arrivals()) {
		t.Error("arrivals are not sorted from 0, or not the same twice")
	}
	var gaps []float64
	for i := 1; i < len(at); i++ {
		gaps = append(gaps, (at[i] - at[i-1]).Seconds())
	}
	s := summary(gaps, 0)
	if math.Abs(s.Mean-0.25) > 4*0.25/math.Sqrt(20_000) || math.Abs(*s.CV-1) > 0.05 || math.Abs(s.Median-0.25*math.Ln2) > 0.01 {
		t.Errorf("mean %v, median %v, CV %v", s.Mean, s.Median, *s.CV)
	}
	if o.Seed++; slices.Equal(at, o.arrivals()) {
		t.Error("another seed, the same arrivals")
	}
}

// In an open loop requests go when they are due, whatever became of those before.
func TestOpenLoop(t *testing.T) {
	bubble(t, answer(10*time.Second, content("x"), counts+done), func(t *testing.T, o Options) {
		o.RequestRate, o.Concurrency, o.Requests, o.Seed, o.Timeout = 2, 0, 30, 3, time.Minute
		s, err := Run(t.Context(), o, nil)
		if err != nil || s.Completed != 30 {
			t.Fatalf("%+v, %v", s, err)
		}
		for i, due := range o.arrivals() {
			near(t, fmt.Sprintf("sent %d", i), &s.Records[i].SentS, due)
			near(t, fmt.Sprintf("first token of %d", i), s.Records[i].FirstTokenS, 10*time.Second)
		}
		if *s.RateHz != 2 || strings.Contains(strings.Join(s.Notes, ""), "behind") {
			t.Errorf("%v, %q", *s.RateHz, s.Notes)
		}
	})
}

// A server that takes one request at a time cannot hide the queue: where a bound
// on the concurrency makes requests wait, the wait is in their times, and noted.
func TestNoCoordinatedOmission(t *testing.T) {
	bubble(t, answer(time.Second, content("x")+stop+counts+done), func(t *testing.T, o Options) {
		o.RequestRate, o.Concurrency, o.Requests, o.Timeout = 10, 1, 20, 10*time.Second
		s, err := Run(t.Context(), o, nil)
		if err != nil || s.Completed != 20 {
			t.Fatalf("%+v, %v", s, err)
		}
		ends := make([]float64, 20)
		for i := range s.Records {
			ends[i] = s.Records[i].SentS + *s.Records[i].DoneS
		}
		slices.Sort(ends)
		for i, end := range ends { // one after the other, without a pause
			near(t, "end", &end, time.Duration(i+1)*time.Second)
		}
		ttft, _, _ := Times(s)
		if ttft.Max < 10 || ttft.Min < 1 {
			t.Errorf("TTFT from %v to %v s: the wait is missing", ttft.Min, ttft.Max)
		}
		if notes := strings.Join(s.Notes, "\n"); !strings.Contains(notes, "the client fell behind: 19 of 20 requests") {
			t.Errorf("notes %q", notes)
		}
	})
}

// A closed loop has as many requests under way as it says, and never more.
func TestClosedLoop(t *testing.T) {
	var mu sync.Mutex
	now, most := 0, 0
	count := func(by int) {
		mu.Lock()
		defer mu.Unlock()
		now += by
		most = max(most, now)
	}
	slow := answer(time.Second, whole())
	bubble(t, func(w http.ResponseWriter, r *http.Request) {
		count(1)
		defer count(-1)
		slow(w, r)
	}, func(t *testing.T, o Options) {
		o.Requests, o.Concurrency, o.Warmup = 20, 5, 10
		begun := time.Now()
		o.Begin = func() {
			if d := time.Since(begun); d != 2*time.Second {
				t.Errorf("the warm-up took %v", d)
			}
		}
		s, err := Run(t.Context(), o, nil)
		if err != nil || most != 5 || s.Requests != 20 || s.Warmups != 10 || s.FirstChunk.Warmups != 10 {
			t.Errorf("%d under way, %+v, %v", most, s, err)
		}
		near(t, "duration", &s.Duration, 4*time.Second)
	})
}

// The timeout is of each request, from when it is sent.
func TestTimeoutOfOne(t *testing.T) {
	var n atomic.Int64
	bubble(t, func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) == 2 {
			time.Sleep(time.Hour)
		}
		answer(time.Second, content("x"), stop+counts+done)(w, r)
	}, func(t *testing.T, o Options) {
		o.Concurrency, o.Timeout = 1, 10*time.Second
		s, err := Run(t.Context(), o, nil)
		if err != nil || s.Completed != 3 || s.Failures[Timeout] != 1 || s.Records[1].Error != "the server was silent for 10s, the timeout" {
			t.Errorf("%+v, %v", s, err)
		}
		near(t, "duration", &s.Duration, 16*time.Second)
		time.Sleep(2 * time.Hour) // for the server to find the client gone
	})
}

// A server that does not end its answer after [DONE] holds up neither the request
// nor the next.
func TestOpenEnd(t *testing.T) {
	bubble(t, func(w http.ResponseWriter, r *http.Request) {
		stream(w, whole())
		<-r.Context().Done()
	}, func(t *testing.T, o Options) {
		o.Concurrency = 1
		s, err := Run(t.Context(), o, nil)
		if err != nil || s.Completed != 4 {
			t.Fatalf("%+v, %v", s, err)
		}
		near(t, "done", s.Records[3].DoneS, 0)
		near(t, "sent", &s.Records[3].SentS, promptEnd)
	})
}

// Ctrl-C ends a run at once, and keeps what was finished. What was under way has
// not failed.
func TestCancel(t *testing.T) {
	for name, rate := range map[string]float64{"closed": 0, "open": 1} {
		bubble(t, answer(time.Second, content("x"), stop+counts+done), func(t *testing.T, o Options) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			time.AfterFunc(5500*time.Millisecond, func() { cancel(errors.New("enough")) })
			o.Requests, o.Concurrency, o.RequestRate = 100, 2, rate
			begun := time.Now()
			s, err := Run(ctx, o, nil)
			if took := time.Since(begun); took != 5500*time.Millisecond {
				t.Errorf("%s: it took %v", name, took)
			}
			if !says(err, "of 100 requests: enough") || s.Completed == 0 || s.Completed != s.Requests || len(s.Failures) != 0 {
				t.Errorf("%s: %+v, %v", name, s, err)
			}
			if ttft, _, _ := Times(s); ttft.N != s.Completed {
				t.Errorf("%s: %d TTFT", name, ttft.N)
			}
			o.Warmup = 100
			ctx, cancel = context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second/2, func() { cancel(errors.New("enough")) })
			if s, err := Run(ctx, o, nil); s != nil || !says(err, "the warm-up: enough") {
				t.Errorf("%s: in the warm-up: %v", name, err)
			}
			time.Sleep(time.Minute)
		})
	}
}

// What connecting takes is said, for it is in the times of those that had to.
func TestConnecting(t *testing.T) {
	bubble(t, answer(time.Second, whole()), func(t *testing.T, o Options) {
		tr := o.Client.Transport.(*http.Transport)
		dial := tr.DialContext
		tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			time.Sleep(50 * time.Millisecond)
			return dial(ctx, network, addr)
		}
		s, err := Run(t.Context(), o, nil)
		if err != nil || len(s.Notes) != 2 || !strings.Contains(s.Notes[0],
			"2 of 4 requests opened a connection, which took up to 0.05 s of their times") {
			t.Errorf("%q, %v", s.Notes, err)
		}
		near(t, "first token", s.Records[0].FirstTokenS, 1050*time.Millisecond)
		near(t, "first token", s.Records[3].FirstTokenS, time.Second)
		tr.CloseIdleConnections()
		o.Warmup = 2
		if s, err = Run(t.Context(), o, nil); err != nil || len(remarked(s)) != 0 {
			t.Errorf("after a warm-up: %q, %v", s.Notes, err)
		}
	})
}

// TestGapsAreInBins checks that gaps are summarized as they were seen, and take a histogram's room however many there are.
func TestGapsAreInBins(t *testing.T) {
	o := &outcome{gaps: make([]float64, 20_001)}
	for i := range o.gaps {
		o.gaps[i] = 0.0051234567
	}
	run := &collector{options: &Options{}, outcomes: []*outcome{o, {failure: &Failure{}, gaps: []float64{1}}}}
	got := run.gaps(&result.Serving{})
	if got.N != len(o.gaps) || got.Max != 0.0051234567 || got.Min != got.Max || len(got.Samples) > 0 ||
		!slices.Equal(got.Histogram.Counts, []int{got.N}) {
		t.Errorf("%d gaps up to %v, in %+v", got.N, got.Max, got.Histogram)
	}
	for x := range got.Values() {
		if math.Abs(x/got.Max-1) > 0.01 {
			t.Fatalf("a gap of %v, was %v", x, got.Max)
		}
	}
	if got := run.gaps(&result.Serving{Steady: &result.SteadyState{Begin: 1, End: 1}}); got != nil {
		t.Errorf("gaps of no request: %+v", got)
	}
	if _, tpot, _ := Times(&result.Serving{}); tpot != nil {
		t.Error("a time of nothing")
	}
}
