//go:build unix

package openai

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"llmprof/internal/stats"
)

// One event, from bytes that lie ready to a look at what it holds. The rest of
// the client's cost is the kernel's and net/http's.
func BenchmarkChunk(b *testing.B) {
	const text = `data: {"id":"cmpl-5b0f3a","object":"chat.completion.chunk","created":1795236489,` +
		`"model":"meta-llama/Llama-3.1-8B-Instruct",` +
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
	o.Concurrency, o.Requests, o.GenLen = 1, 1, chunks
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

// BenchmarkRate200 is TTFT of 200 requests a second, each of 1024 tokens, at a server in another process that
// answers at once. What the client adds is what its median exceeds bare's by: sockets that have the same bytes
// ready, written when they are due, with a look at the clock when the first byte comes.
func BenchmarkRate200(b *testing.B) {
	const rate, requests = 200, 400
	url := another(b)
	o := options(url + "/v1")
	o.API, o.Concurrency, o.RequestRate, o.Requests = Completions, 0, rate, requests
	o.Prompts = RandomTokens(o.Requests, 1024, 1000, 128000, 1)
	var all, bareAll []float64
	var took float64
	for b.Loop() {
		begun := processorTime()
		s, err := Run(context.Background(), o, nil)
		if err != nil {
			b.Fatal(err)
		}
		took += processorTime() - begun
		for i := range s.Records {
			all = append(all, 1e6**s.Records[i].FirstTokenS)
		}
		bareAll = append(bareAll, bare200(b, url, &o)...)
	}
	sum, err := stats.Summarize(all)
	if err != nil {
		b.Fatal(err)
	}
	least, err := stats.Summarize(bareAll)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(sum.Median, "median-µs")
	b.ReportMetric(sum.P99, "p99-µs")
	b.ReportMetric(least.Median, "bare-median-µs")
	b.ReportMetric(least.P99, "bare-p99-µs")
	b.ReportMetric(1e6*took/float64(b.N*requests), "cpu-µs/request")
}

// bare200 sends the requests of o when they are due over sockets of its own, and gives the times to the first byte.
func bare200(b *testing.B, at string, o *Options) []float64 {
	b.Helper()
	host := strings.TrimPrefix(at, "http://")
	idle := make(chan net.Conn, o.Requests)
	for range 16 {
		idle <- dial(b, host)
	}
	requests := make([][]byte, o.Requests)
	for i := range requests {
		body := o.body(i, &dialect{})
		requests[i] = append(fmt.Appendf(nil, "POST /v1/completions HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: "+
			"%d\r\n\r\n", host, len(body)), body...)
	}
	times := make([]float64, o.Requests)
	var users sync.WaitGroup
	start := time.Now()
	for i, after := range o.arrivals() {
		due := start.Add(after)
		time.Sleep(time.Until(due))
		users.Go(func() {
			var c net.Conn
			select {
			case c = <-idle:
			default:
				c = dial(b, host)
			}
			answer := make([]byte, 16<<10)
			_, err := c.Write(requests[i])
			n := 0
			for n == 0 && err == nil {
				n, err = c.Read(answer)
			}
			times[i] = 1e6 * time.Since(due).Seconds()
			for err == nil && !bytes.HasSuffix(answer[:n], []byte("0\r\n\r\n")) {
				var more int
				more, err = c.Read(answer[n:])
				n += more
			}
			if err != nil {
				b.Error(err)
				return
			}
			idle <- c
		})
	}
	users.Wait()
	close(idle)
	for c := range idle {
		_ = c.Close()
	}
	return times
}

func dial(b *testing.B, host string) net.Conn {
	b.Helper()
	c, err := net.Dial("tcp", host)
	if err != nil {
		b.Fatal(err)
	}
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		b.Fatal(err)
	}
	return c
}

// another starts this test as a server in a process of its own, and gives its URL.
func another(b *testing.B) string {
	b.Helper()
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	c := exec.Command(exe, "-test.run", "^TestAnotherProcess$")
	c.Env = append(os.Environ(), anotherProcess+"=1")
	stdin, err := c.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := c.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = stdin.Close() // it ends then
		_ = c.Wait()
	})
	url, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(url)
}

const anotherProcess = "LLMPROF_TEST_ANOTHER_PROCESS"

// TestAnotherProcess is the server of another until its input is closed.
func TestAnotherProcess(t *testing.T) {
	if os.Getenv(anotherProcess) == "" {
		t.Skip("a benchmark starts it in a process of its own")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("http://%s\n", l.Addr())
	server := http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		stream(w, role+content("x")+content("y")+content("z")+stop+counts+done)
	})}
	go func() { _ = server.Serve(l) }()
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = server.Close()
}

// processorTime is what this process has taken of processors, in seconds.
func processorTime() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return math.NaN()
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}
