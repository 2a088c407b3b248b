package openai

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"llmprof/measure/stats"
)

// One event, from bytes that lie ready to a look at what it holds. The rest of
// the client's cost is the kernel's and net/http's.
func BenchmarkChunk(b *testing.B) {
	const text = `data: {"id":"cmpl-5b0f3a","object":"chat.completion.chunk","created":1795236489,"model":"meta-llama/Llama-3.1-8B-Instruct",` +
		`"choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null,"token_ids":null}],"usage":null}` + "\n\n"
	begun := time.Now()
	events := newEvents(&ready{text: text}, func() time.Duration { return time.Since(begun) })
	var c chunk
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		events.total = 0
		data, _, err := events.next()
		if err != nil {
			b.Fatal(err)
		}
		if err := c.parse(data); err != nil {
			b.Fatal(err)
		}
		if !c.look().output {
			b.Fatal("no token")
		}
	}
}

// ready gives one event with each read, as a server does.
type ready struct {
	text string
	at   int
}

func (r *ready) Read(to []byte) (int, error) {
	n := copy(to, r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	return n, nil
}

// The whole of a client's and a server's work for one chunk, over a connection of
// this machine.
func BenchmarkRequest(b *testing.B) {
	const chunks = 256
	text := content("token")
	o := options(serve(b, func(w http.ResponseWriter, _ *http.Request) {
		stream(w, role)
		for range chunks {
			stream(w, text)
		}
		stream(w, stop+counts+done)
	}))
	o.Concurrency, o.Requests = 1, 1
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Run(context.Background(), o, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/chunks, "ns/chunk")
}

// How much later than the server sent it a first token is seen, with as many
// streams under way as the name says, each of a chunk every 20 ms. The server's
// clock is the client's, and it takes its share of the same cores.
func BenchmarkDelay(b *testing.B) {
	for _, users := range []int{1, 16, 128} {
		b.Run(fmt.Sprint(users), func(b *testing.B) {
			epoch := time.Now()
			o := options(serve(b, func(w http.ResponseWriter, _ *http.Request) {
				for range 10 {
					time.Sleep(20 * time.Millisecond)
					stream(w, content(strconv.FormatInt(int64(time.Since(epoch)), 10)+" "))
				}
				stream(w, stop+counts+done)
			}))
			o.Concurrency, o.Requests, o.Warmup, o.SaveOutputs = users, 4*users, users, true
			var begun time.Duration
			o.Begin = func() { begun = time.Since(epoch) }
			var delays []float64
			for b.Loop() {
				s, err := Run(context.Background(), o, nil)
				if err != nil {
					b.Fatal(err)
				}
				for i := range s.Records {
					first, _, _ := strings.Cut(s.Records[i].Output, " ")
					sent, _ := strconv.ParseInt(first, 10, 64)
					seen := begun.Seconds() + s.Records[i].SentS + *s.Records[i].FirstTokenS
					delays = append(delays, 1e6*(seen-float64(sent)/1e9))
				}
			}
			sum, err := stats.Summarize(delays)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(sum.Median, "median-µs")
			b.ReportMetric(sum.P99, "p99-µs")
		})
	}
}

// TTFT of 200 requests a second, each of 1024 tokens, at a server that answers at once: all of it is the
// client, the connection and the server's reading, on the same cores.
func BenchmarkRate200(b *testing.B) {
	o := options(serve(b, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		stream(w, role+content("x")+content("y")+content("z")+stop+counts+done)
	}))
	o.API, o.Concurrency, o.RequestRate, o.Requests = Completions, 0, 200, 400
	o.Prompts = RandomTokens(o.Requests, 1024, 1000, 128000, 1)
	var all []float64
	for b.Loop() {
		s, err := Run(context.Background(), o, nil)
		if err != nil {
			b.Fatal(err)
		}
		for i := range s.Records {
			all = append(all, 1e6**s.Records[i].FirstTokenS)
		}
	}
	sum, err := stats.Summarize(all)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(sum.Median, "median-µs")
	b.ReportMetric(sum.P99, "p99-µs")
}
