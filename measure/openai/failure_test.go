package openai

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"llmprof/measure/result"
)

// A server may go wrong in each of these ways; the words are what the user reads.
func TestFailures(t *testing.T) {
	answer := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { stream(w, text) }
	}
	status := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			fmt.Fprint(w, body)
		}
	}
	cut := func(text string, reset bool) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { hijack(t, w, text, reset) }
	}
	tests := map[string]struct {
		handler http.HandlerFunc
		kind    string
		words   string
	}{
		"429":       {status(429, `{"error":{"message":"slow down","type":"rate"}}`), Status429, "429 Too Many Requests: slow down"},
		"503 plain": {status(503, "loading\n model"), Status5xx, "503 Service Unavailable: loading model"},
		"500 empty": {status(500, ""), Status5xx, "500 Internal Server Error"},
		"404 vLLM": {status(404, `{"object":"error","message":"The model x does not exist.","code":404}`), Status4xx,
			"The model x does not exist."},
		"422 FastAPI": {status(422, `{"detail":[{"loc":["body"],"msg":"bad"}]}`), Status4xx, `[{"loc":["body"],"msg":"bad"}]`},
		"418 nested":  {status(418, `{"error":{"error":{"message":"tea"}}}`), Status4xx, "tea"},
		"204":         {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, StatusOther, "204"},
		"303": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/x?key=secret", http.StatusSeeOther)
		}, Redirect, "/x, where a POST cannot follow"},
		"json": {status(200, `{"choices":[{"message":{"content":"x"}}]}`), ContentType, `the answer is "application/json"`},
		"html": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, ContentType, "text/html"},
		"gzip": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			stream(w, "\x1f\x8b")
		}, ContentType, `compressed with "gzip", unasked`},
		"no events":     {answer(""), CutStream, "without [DONE]"},
		"no end":        {answer(role + content("x")), CutStream, "without finish_reason"},
		"half an event": {answer(role + `data: {"choices"`), CutStream, "without [DONE]"},
		"only done":     {answer(done), Empty, "no token"},
		"only role":     {answer(role + stop + counts + done), Empty, "no token"},
		"comments":      {answer(": ping\n\n: ping\n\n" + done), Empty, "no token"},
		"no JSON":       {answer(role + "data: oops\n\n" + done), MalformedEvent, "not a JSON object: oops"},
		"many choices": {answer("data: {\"choices\":[" + strings.Repeat(`{"text":"x"},`, 500_000) + "{}]}\n\n" + done), MalformedEvent,
			"more than 131072 values"},
		"torn JSON":  {answer("data: {\"choices\":[\n\n" + done), MalformedEvent, "unexpected end of JSON input"},
		"wrong type": {answer("data: {\"choices\":{}}\n\n"), MalformedEvent, "cannot unmarshal"},
		"no tokens":  {answer("data: {\"usage\":{\"completion_tokens\":-1}}\n\n"), MalformedEvent, "usage counts -1 tokens"},
		"empty data": {answer("data:\n\n"), MalformedEvent, "not a JSON object"},
		"error event": {answer(content("x") + `data: {"error":{"message":"CUDA out of memory","code":500}}` + "\n\n" + done), ErrorEvent,
			"CUDA out of memory"},
		"error text":        {answer("event: error\ndata: {\"error\":\"bad\",\"error_type\":\"generation\"}\n\n"), ErrorEvent, "bad"},
		"error, older vLLM": {answer(`data: {"object":"error","message":"too long","code":400}` + "\n\n" + done), ErrorEvent, "too long"},
		"error, FastAPI":    {answer("data: {\"detail\":\"gone\"}\n\n"), ErrorEvent, "gone"},
		"hung up":           {cut("", false), Connection, "closed the connection without an answer"},
		"reset":             {cut("", true), Connection, "reset by peer"},
		"cut in a chunk":    {cut(head+"40\r\n"+role[:20], false), CutStream, "unexpected EOF"},
		"cut after tokens":  {cut(head+chunked(role+content("x")), false), CutStream, "unexpected EOF"},
		"not HTTP":          {cut("SSH-2.0-OpenSSH_9.2\r\n", false), Connection, "malformed HTTP"},
		"big event": {func(w http.ResponseWriter, _ *http.Request) { stream(w, "data: "+strings.Repeat("x", maxEvent+100)) }, TooLarge,
			"a line is longer than 8.4 MB"},
		"more than asked": {func(w http.ResponseWriter, r *http.Request) {
			stream(w, role)
			for r.Context().Err() == nil {
				fmt.Fprint(w, content("x"))
			}
		}, TooLarge, "chunks with tokens came where 3 tokens were asked for"},
		"big lines": {func(w http.ResponseWriter, _ *http.Request) {
			stream(w, strings.Repeat("data: "+strings.Repeat("x", 1<<20)+"\n", 9))
		}, TooLarge, "an event is longer than 8.4 MB"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(serve(t, test.handler))
			o.Requests = 2
			s, err := Run(t.Context(), o, nil)
			if !says(err, "all 2 requests to http://127.0.0.1", test.words) {
				t.Errorf("got %v, want %q", err, test.words)
			}
			if s.Failures[test.kind] != 2 || len(s.Failures) != 1 || s.Completed != 0 || s.Requests != 2 {
				t.Errorf("got %v of %d, want 2 of %s", s.Failures, s.Requests, test.kind)
			}
			for _, r := range s.Records {
				if r.Failure != test.kind || !strings.Contains(r.Error, test.words) || r.DoneS != nil {
					t.Errorf("got %+v", r)
				}
			}
			if strings.Contains(fmt.Sprint(err, s), "secret") {
				t.Error("the query of a redirect is repeated")
			}
			if s.FirstChunk != nil || s.ChunkGap != nil || s.Usage != nil {
				t.Error("times of requests that failed are in the statistics")
			}
		})
	}
}

func TestRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	o := options("http://" + l.Addr().String())
	s, err := Run(t.Context(), o, nil)
	if !says(err, "all 4 requests", "connection refused") || s.Failures[Refused] != 4 {
		t.Errorf("got %v, %v", s.Failures, err)
	}
	o.Warmup = 1
	if s, err = Run(t.Context(), o, nil); !says(err, "the warm-up: the only request", "connection refused") || s != nil {
		t.Errorf("got %v", err)
	}
}

// A server that holds back its headers, its first event or the rest is not waited
// for beyond the timeout.
func TestTimeout(t *testing.T) {
	for name, before := range map[string]string{"headers": "", "first event": ": wait\n\n", "rest": role + content("x")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(serve(t, func(w http.ResponseWriter, r *http.Request) {
				var body bytes.Buffer
				body.ReadFrom(r.Body) // or the server does not see the client go
				if before != "" {
					stream(w, before)
				}
				<-r.Context().Done()
			}))
			o.Timeout = 500 * time.Millisecond // long enough for what comes before
			s, err := Run(t.Context(), o, nil)
			if s.Failures[Timeout] != 2 ||
				!says(err, "the server stopped answering, for 2 requests in a row: the server was silent for 500ms, the timeout") {
				t.Errorf("got %v, %v", s.Failures, err)
			}
			if kept := s.Records[0].FirstTokenS != nil; kept != (name == "rest") {
				t.Errorf("what came before the timeout: %+v", s.Records[0])
			}
		})
	}
}

// A server that goes on to send what is no token is not waited for without end.
func TestBarren(t *testing.T) {
	for name, sent := range map[string]string{"comments": ": wait\n\n", "roles": role} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(serve(t, func(w http.ResponseWriter, r *http.Request) {
				var body bytes.Buffer
				body.ReadFrom(r.Body) // or the server does not see the client go
				for tick := time.NewTicker(20 * time.Millisecond); r.Context().Err() == nil; <-tick.C {
					stream(w, sent)
				}
			}))
			o.Timeout, o.Requests = 200*time.Millisecond, 2
			begun := time.Now()
			s, err := Run(t.Context(), o, nil)
			if s.Failures[Timeout] != 2 || err == nil || !strings.Contains(s.Records[0].Error,
				"the server sent no token for 2s, 10 times the timeout") {
				t.Errorf("got %v, %v, %q", s.Failures, err, s.Records[0].Error)
			}
			if took := time.Since(begun); took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// A server that trickles bytes is never silent, and not waited for without end.
func TestTrickle(t *testing.T) {
	trickle := func(w http.ResponseWriter, r *http.Request) {
		for text := strings.Repeat(content("x"), 50); text != "" && r.Context().Err() == nil; text = text[1:] {
			stream(w, text[:1])
			time.Sleep(200 * time.Millisecond)
		}
	}
	bubble(t, trickle, func(t *testing.T, o Options) {
		o.Timeout, o.Requests = 3*time.Second, 2
		begun := time.Now()
		s, err := Run(t.Context(), o, nil)
		if s.Failures[Timeout] != 2 || err == nil || !strings.Contains(s.Records[0].Error,
			"the answer had not ended after 39s: the timeout of 3s for each token") {
			t.Errorf("got %v, %v, %q", s.Failures, err, s.Records[0].Error)
		}
		if took := time.Since(begun); took > 40*time.Second {
			t.Errorf("it took %v", took)
		}
		time.Sleep(time.Hour)
	})
	if o := (Options{Timeout: time.Hour}); o.longest(1<<30) != maxAnswer {
		t.Errorf("an answer of many tokens may take %v", o.longest(1<<30))
	}
}

// Usage of no tokens is none where tokens came.
func TestUsageOfNothing(t *testing.T) {
	o := options(serve(t, answer(0, role+content("x")+stop+
		"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":0,\"completion_tokens\":0}}\n\n"+done)))
	s, err := Run(t.Context(), o, nil)
	if err != nil || s.GeneratedTokens != nil || s.PromptTokens != nil || s.Records[0].Generated != nil {
		t.Errorf("%+v, %v", s, err)
	}
}

// Of a mixture each kind is counted, and what was completed stands by itself.
func TestMixture(t *testing.T) {
	o := options(serve(t, func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		body.ReadFrom(r.Body)
		switch text := body.String(); {
		case strings.Contains(text, `"content":"a"`):
			http.Error(w, "busy", http.StatusTooManyRequests)
		case strings.Contains(text, `"content":"b"`):
			stream(w, content("x"))
		default:
			paced(w, whole())
		}
	}))
	o.Requests, o.Concurrency = 12, 3
	calls, lastDone, lastFailed := 0, 0, 0
	s, err := Run(t.Context(), o, func(done, failed int) { calls++; lastDone, lastFailed = done, failed })
	if err != nil {
		t.Fatal(err)
	}
	if s.Completed != 8 || s.Failures[Status429] != 2 || s.Failures[CutStream] != 2 || len(s.Failures) != 2 {
		t.Errorf("completed %d, failed %v", s.Completed, s.Failures)
	}
	if calls != 12 || lastDone != 12 || lastFailed != 4 {
		t.Errorf("%d calls, the last with %d done and %d failed", calls, lastDone, lastFailed)
	}
	ttft, tpot, ttlt := Times(s)
	if ttft.N != 8 || ttlt.N != 8 || tpot.N != 8 || s.FirstChunk.N != 8 || s.ChunkGap.N != 16 {
		t.Errorf("%d TTFT, %d TPOT, %d TTLT, %d first chunks, %d gaps", ttft.N, tpot.N, ttlt.N, s.FirstChunk.N, s.ChunkGap.N)
	}
	holds(t, s)
	if *s.Usage.Tokens != 24 || s.Usage.Chunks != 24 || *s.Usage.TokensPerChunk != 1 || s.Usage.Missing != 0 || s.Usage.Discrepant != 0 {
		t.Errorf("usage %+v", s.Usage)
	}
}

// holds checks what a result would be refused for.
func holds(t *testing.T, s *result.Serving) {
	t.Helper()
	err := result.Check(&result.Result{Serving: s})
	for line := range strings.SplitSeq(fmt.Sprint(err), "\n") {
		if strings.HasPrefix(line, "serving") && !strings.Contains(line, "reasons") {
			t.Error(line)
		}
	}
}

// Where all fail, and not all alike, the error says how many failed so. A
// warm-up that fails in part is noted.
func TestSomeFailures(t *testing.T) {
	var n atomic.Int64
	codes := []int{500, 429, 500, 500}
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no", codes[(n.Add(1)-1)%4])
	})
	o := options(url)
	if _, err := Run(t.Context(), o, nil); !says(err, "all 4 requests to "+url+
		"/v1 failed, 3 of them with status 5xx: 500 Internal Server Error: no") {
		t.Error(err)
	}
	n.Store(0)
	o = options(serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1) == 1 {
			http.Error(w, "cold", http.StatusServiceUnavailable)
			return
		}
		stream(w, whole())
	}))
	o.Warmup = 2
	s, err := Run(t.Context(), o, nil)
	if err != nil || len(remarked(s)) != 1 ||
		remarked(s)[0] != "1 of 2 requests of the warm-up failed, 1 with status 5xx: 503 Service Unavailable: cold" {
		t.Errorf("%q, %v", s.Notes, err)
	}
}
