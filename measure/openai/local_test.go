package openai

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"llmprof/measure/result"
)

// serve starts a server on a real connection.
func serve(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.CloseClientConnections)
	t.Cleanup(s.Close)
	return s.URL
}

// options ask for a few short answers.
func options(url string) Options {
	return Options{
		BaseURL: url, API: Chat, Model: "m", Concurrency: 2, Requests: 4, GenLen: 3,
		Prompts: []Prompt{{Text: "a"}, {Text: "b"}, {Text: "c"}, {Text: "d"}, {Text: "e"}, {Text: "f"}}, Timeout: 20 * time.Second,
	}
}

// stream answers with text as it is.
func stream(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	fmt.Fprint(w, text)
	w.(http.Flusher).Flush()
}

// paced answers with an event at a time.
func paced(w http.ResponseWriter, text string) {
	for i, event := range strings.SplitAfter(strings.TrimSuffix(text, "\n\n"), "\n\n") {
		if i > 0 {
			time.Sleep(time.Millisecond)
		}
		stream(w, event)
	}
	stream(w, "\n\n")
}

const (
	role   = `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}` + "\n\n"
	stop   = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}` + "\n\n"
	counts = `data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":3,"total_tokens":8}}` + "\n\n"
	done   = "data: [DONE]\n\n"
)

func content(text string) string {
	return fmt.Sprintf(`data: {"choices":[{"index":0,"delta":{"content":%q}}]}`+"\n\n", text)
}

// whole is an answer of three tokens, as vLLM gives it.
func whole() string {
	return role + content("x") + content("y") + content("z") + stop + counts + done
}

// hijack takes the connection, writes text to it and closes it; reset makes the
// end an RST.
func hijack(t testing.TB, w http.ResponseWriter, text string, reset bool) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	fmt.Fprint(conn, text)
	if tcp, ok := conn.(*net.TCPConn); ok && reset {
		tcp.SetLinger(0)
	}
	conn.Close()
}

const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

// chunked is text as one chunk of HTTP.
func chunked(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }

func says(err error, parts ...string) bool {
	for _, p := range parts {
		if err == nil || !strings.Contains(err.Error(), p) {
			return false
		}
	}
	return true
}

// remarked gives the notes that are not of this machine's load, nor of servers that
// say all they have at once.
func remarked(s *result.Serving) []string {
	return slices.DeleteFunc(slices.Clone(s.Notes), func(n string) bool {
		return strings.Contains(n, "opened a connection") || strings.Contains(n, "came all at once")
	})
}
