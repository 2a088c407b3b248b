package openai

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// dropping is a server that closes a connection after an answer, although it said
// that it would keep it. It counts connections and requests.
func dropping(t *testing.T, after time.Duration) (url string, dialled, asked *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dialled, asked = new(atomic.Int64), new(atomic.Int64)
	var open sync.WaitGroup
	t.Cleanup(open.Wait)
	t.Cleanup(func() { l.Close() })
	open.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			dialled.Add(1)
			open.Go(func() {
				defer conn.Close()
				r, err := http.ReadRequest(bufio.NewReader(conn))
				if err != nil {
					return
				}
				io.Copy(io.Discard, r.Body)
				asked.Add(1)
				fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
				for _, event := range strings.SplitAfter(whole(), "\n\n") {
					if event != "" {
						fmt.Fprint(conn, chunked(event))
						time.Sleep(200 * time.Microsecond)
					}
				}
				fmt.Fprint(conn, "0\r\n\r\n")
				time.Sleep(after)
			})
		}
	})
	return "http://" + l.Addr().String(), dialled, asked
}

// A kept connection that the server had closed costs no request, whether the client
// sees the end before it writes, while it does, or when it waits for the answer.
func TestDroppedConnections(t *testing.T) {
	for _, after := range []time.Duration{0, 50 * time.Microsecond, 300 * time.Microsecond, time.Millisecond} {
		url, _, asked := dropping(t, after)
		for _, how := range []string{"", Pooled, Worker, New} {
			o := options(url)
			o.Requests, o.Concurrency, o.Connections = 100, 4, how
			asked.Store(0)
			s, err := Run(t.Context(), o, nil)
			if err != nil || s.Completed != 100 || asked.Load() != 100 {
				t.Fatalf("%v, %q: %d completed of %d that came, %v, %v", after, how, s.Completed, asked.Load(), s.Failures, err)
			}
			if noted := strings.Contains(strings.Join(s.Notes, "\n"), "had closed the connection"); noted != (s.Reconnects > 0) ||
				how == New && noted {
				t.Errorf("%v, %q: %d reconnects, %q", after, how, s.Reconnects, s.Notes)
			}
			if want := map[string]string{"": Pooled}[how]; s.Connections != how+want {
				t.Errorf("%q is recorded as %q", how, s.Connections)
			}
		}
	}
}

// A server that dies is no connection to try again for ever.
func TestDroppedForGood(t *testing.T) {
	var n atomic.Int64
	o := options(serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1) == 1 {
			paced(w, whole())
			return
		}
		hijack(t, w, "", true)
	}))
	o.Concurrency, o.Requests = 1, 5
	s, err := Run(t.Context(), o, nil)
	if err != nil || s.Completed != 1 || s.Failures[Connection] != 4 {
		t.Errorf("%+v, %v", s, err)
	}
	if got := n.Load(); got != 6 { // the second once more, for its connection had been kept
		t.Errorf("%d requests came, want 6", got)
	}
}

// Connections are used as is asked.
func TestConnections(t *testing.T) {
	for how, want := range map[string][2]int64{Pooled: {1, 4}, Worker: {3, 3}, New: {24, 24}} {
		var dialled atomic.Int64
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { paced(w, whole()) }))
		server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				dialled.Add(1)
			}
		}
		server.Start()
		o := options(server.URL)
		o.Requests, o.Concurrency, o.Connections = 24, 3, how
		s, err := Run(t.Context(), o, nil)
		server.Close()
		if n := dialled.Load(); err != nil || s.Completed != 24 || n < want[0] || n > want[1] {
			t.Errorf("%s: %d connections, want %v, %v", how, n, want, err)
		}
	}
	o := options("http://127.0.0.1:1")
	o.Connections = "pool"
	if _, err := Run(t.Context(), o, nil); !says(err, `connections "pool"`) {
		t.Error(err)
	}
	o.Connections, o.RequestRate = Worker, 3
	if _, err := Run(t.Context(), o, nil); !says(err, "no worker of their own") {
		t.Error(err)
	}
}
