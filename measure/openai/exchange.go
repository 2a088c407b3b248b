package openai

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"

	"llmprof/measure/result"
)

// An outcome is one request, ended.
type outcome struct {
	record  result.Record
	zero    time.Time     // origin of the record's times
	end     time.Duration // end since zero
	lag     time.Duration // delay between the due time and the start
	dialled time.Duration // time to open a connection; 0 where one was open
	gaps    []float64     // seconds between chunks with tokens
	failure *Failure      // nil if it was completed
	refusal string        // all that the server said with a status of 400 or 422
	output  strings.Builder
	asked   int    // tokens
	sent    int    // bytes of the request
	odd     string // what its usage says and cannot be, "" for nothing
	away    string // another host that answered, "" for none
	first   string // text of the first chunk with a token

	barren   *time.Timer   // ends an answer that goes on without tokens
	patience time.Duration // Every token sets barren to it.

	reconnected bool // The request was sent again over a new connection.
}

// A marker is a time from zero that another goroutine writes once or more.
type marker struct{ ns atomic.Int64 }

func (m *marker) set(d time.Duration) { m.ns.Store(int64(d) + 1) } // 0 means unset

func (m *marker) seconds() *float64 {
	ns := m.ns.Load()
	if ns == 0 {
		return nil
	}
	return seconds(time.Duration(ns - 1))
}

func seconds(d time.Duration) *float64 {
	return new(max(d, 0).Seconds())
}

// An attempt is what one way over a connection showed, written by other
// goroutines.
type attempt struct {
	wrote, headers, connected marker
	kept                      atomic.Bool // the connection had served a request before
}

// exchange sends a request and reads the answer to its end. Its times count from
// due, or from now if that is zero. The deadline moves on with every byte that
// comes, and a later one with every token.
func (r *runner) exchange(ctx context.Context, worker int, ask encoded, due time.Time) *outcome {
	ctx, cancel := context.WithCancelCause(ctx)
	silence := time.AfterFunc(r.options.timeout(), func() { cancel(errTimeout) })
	defer silence.Stop()
	o := &outcome{asked: ask.tokens, sent: len(ask.body), patience: barrenTimeouts * r.options.timeout()}
	o.barren = time.AfterFunc(o.patience, func() { cancel(errBarren) })
	defer o.barren.Stop()
	if o.zero = due; due.IsZero() {
		o.zero = time.Now()
	}
	whole := time.AfterFunc(r.options.longest(ask.tokens), func() { cancel(errEndless) })
	defer whole.Stop()
	o.lag = o.since()
	var a attempt
	resp, err := r.send(ctx, r.clients.of(worker), ask.body, o, &a)
	if err != nil && ctx.Err() == nil && a.kept.Load() && a.headers.ns.Load() == 0 {
		// The server had closed the connection, or did so as the request came: the
		// request was not answered, and a new connection reports whether it can be.
		o.reconnected, a = true, attempt{}
		resp, err = r.send(ctx, r.clients.fresh, ask.body, o, &a)
	}
	if err != nil {
		o.failure = r.options.timedOut(ctx, broken(ctx, err, false), o.since())
		cancel(nil)
	} else {
		o.record.Status = resp.StatusCode
		o.away = r.endpoint.away(resp)
		from := &watched{resp.Body, silence, r.options.timeout()}
		o.failure = r.options.timedOut(ctx, o.answer(ctx, resp, from, r.options.SaveOutputs), o.since())
		o.mark()
		r.finish(resp.Body, o.failure == nil, func() { cancel(nil) })
	}
	o.mark()
	o.record.WroteS, o.record.HeadersS = a.wrote.seconds(), a.headers.seconds()
	if at := a.connected.ns.Load(); at > 0 {
		o.dialled = time.Duration(at) - o.lag
	}
	return o
}

func (r *runner) send(ctx context.Context, over *http.Client, body []byte, o *outcome, a *attempt) (*http.Response, error) {
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(c httptrace.GotConnInfo) {
			a.kept.Store(c.Reused)
			if !c.Reused {
				a.connected.set(o.since())
			}
		},
		WroteRequest: func(w httptrace.WroteRequestInfo) {
			if w.Err == nil {
				a.wrote.set(o.since())
			}
		},
		GotFirstResponseByte: func() { a.headers.set(o.since()) },
	}), http.MethodPost, r.endpoint.post, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the request cannot be made of this base URL")
	}
	r.head(req.Header)
	return over.Do(req)
}

// A watched body puts off the deadline with every byte that comes.
type watched struct {
	io.Reader
	silence *time.Timer
	timeout time.Duration
}

// Read reads what has come.
func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if n > 0 {
		w.silence.Reset(w.timeout)
	}
	return n, err
}

func (o *outcome) since() time.Duration { return time.Since(o.zero) }

// mark notes when the request had ended, once.
func (o *outcome) mark() {
	if o.end == 0 {
		o.end = o.since()
	}
}

func (r *runner) head(h http.Header) {
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "text/event-stream")
	h.Set("Accept-Encoding", "identity") // compression would hold events back
	h.Set("User-Agent", "llmprof")
	if r.options.Key != "" {
		h.Set("Authorization", "Bearer "+r.options.Key)
	}
}

// How long the end of an answer's body is waited for after [DONE].
const (
	promptEnd = 5 * time.Millisecond // the client that asked reads it, since the connection then serves its next request
	lateEnd   = 250 * time.Millisecond
)

// finish reads what is left of a whole answer: a connection whose answer was read to
// its end serves the next request. A server that does not end its answer after
// [DONE] is waited for beside the next request, over another connection.
func (r *runner) finish(body io.ReadCloser, whole bool, release func()) {
	if !whole {
		_ = body.Close() // an error is harmless: everything needed was read
		release()
		return
	}
	begun, ended := time.Now(), make(chan struct{})
	r.ends.Go(func() {
		defer close(ended)
		late := time.AfterFunc(lateEnd, release)
		_, _ = io.CopyN(io.Discard, body, 64<<10)
		late.Stop()
		_ = body.Close()
		release()
		r.lingers.Store(time.Since(begun) > promptEnd)
	})
	wait := promptEnd
	if r.options.Connections == Worker { // A worker has no other connection.
		wait = lateEnd
	} else if r.lingers.Load() {
		return
	}
	patience := time.NewTimer(wait)
	defer patience.Stop()
	select {
	case <-ended:
	case <-patience.C:
		r.lingers.Store(true)
	}
}

func (o *outcome) answer(ctx context.Context, resp *http.Response, from io.Reader, save bool) *Failure {
	if resp.StatusCode != http.StatusOK {
		said := limited(from)
		f := refused(resp.StatusCode, resp.Status, said)
		if resp.StatusCode == http.StatusBadRequest || resp.StatusCode == http.StatusUnprocessableEntity {
			o.refusal = string(said)
		}
		if to, err := resp.Location(); err == nil && f.Kind == Redirect {
			f.Words = fmt.Sprintf("%s: to %s, where a POST cannot follow; is that the base URL?", resp.Status, bare(to))
		}
		return f
	}
	kind := resp.Header.Get("Content-Type")
	if media, _, err := mime.ParseMediaType(kind); err != nil || media != "text/event-stream" {
		return &Failure{Kind: ContentType, Words: fmt.Sprintf("the answer is %q, not text/event-stream: %s", kind, wordsOf(limited(from)))}
	}
	if coding := resp.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return &Failure{Kind: ContentType, Words: fmt.Sprintf("the answer is compressed with %q, unasked", coding)}
	}
	return o.stream(ctx, newEvents(from, o.since), save)
}

// limited reads as much of an error as anybody wants to know.
func limited(body io.Reader) []byte {
	said, _ := io.ReadAll(io.LimitReader(body, 64<<10)) // the part that came before an error is enough
	return said
}

// stream reads events until [DONE], the end or a failure.
func (o *outcome) stream(ctx context.Context, from *events, save bool) *Failure {
	var c chunk
	var last time.Duration
	finished := false
	for {
		data, at, err := from.next()
		o.end = at
		if errors.Is(err, io.EOF) {
			return o.ended(at, finished, "the stream ended without [DONE] and without finish_reason")
		}
		if err != nil {
			return broken(ctx, err, true)
		}
		if bytes.Equal(bytes.TrimSpace(data), doneMark) {
			return o.ended(at, true, "")
		}
		if o.record.FirstChunkS == nil {
			o.record.FirstChunkS = seconds(at)
		}
		if err := c.parse(data); err != nil {
			return &Failure{Kind: MalformedEvent, Words: fmt.Sprintf("%v: %s", err, data)} // cut later, without the key
		}
		if words, is := c.failure(); is {
			return &Failure{Kind: ErrorEvent, Words: words}
		}
		o.count(c.Usage, from.total)
		l := c.look()
		finished = finished || l.finished
		if l.output || l.reasoning {
			if o.record.Chunks == 0 {
				o.opening(&c)
			}
			o.token(at, last, l.output)
			last = at
			if most := mostChunks * (o.asked + 1); o.record.Chunks > most {
				return &Failure{Kind: TooLarge,
					Words: fmt.Sprintf("more than %d chunks with tokens came where %d tokens were asked for: the server does not heed max_tokens", most,
						o.asked)}
			}
		}
		if save {
			c.appendText(&o.output)
		}
	}
}

// ended sorts a stream that the server ended.
func (o *outcome) ended(at time.Duration, whole bool, why string) *Failure {
	switch {
	case !whole:
		return &Failure{Kind: CutStream, Words: why}
	case o.record.Chunks == 0:
		return &Failure{Kind: Empty, Words: "the stream ended as it should, and there was no token in it"}
	}
	if g := o.record.Generated; g != nil && *g == 0 { // tokens came: it was not counted
		o.record.Prompt, o.record.Generated, o.record.Cached = nil, nil, nil
	}
	if n, p := o.record.Cached, o.record.Prompt; n != nil && p != nil && *n > *p {
		o.odd = fmt.Sprintf("%d cached tokens of a prompt of %d", *n, *p)
		o.record.Cached = nil
	}
	o.record.DoneS = seconds(at)
	return nil
}

// mostOpening is the most bytes of a first chunk's text that are kept, of some thousands of tokens.
const mostOpening = 16 << 10

// opening keeps what says how many tokens the first chunk with a token has: the usage in it, or its text.
func (o *outcome) opening(c *chunk) {
	if c.Usage != nil && c.Usage.Generated != nil {
		o.record.FirstTokens = c.Usage.Generated
		return
	}
	var text strings.Builder
	if c.appendText(&text); text.Len() <= mostOpening {
		o.first = text.String()
	}
}

// mostChunks is how many chunks with tokens an answer may have for each token that was asked for. A token whose
// bytes are several characters may be sent in parts.
const mostChunks = 8

func (o *outcome) token(at, last time.Duration, output bool) {
	o.barren.Reset(o.patience)
	s := seconds(at)
	if o.record.Chunks == 0 {
		o.record.FirstTokenS = s
	} else {
		o.gaps = append(o.gaps, (at - last).Seconds())
	}
	if output && o.record.FirstOutputS == nil {
		o.record.FirstOutputS = s
	}
	o.record.LastTokenS = s
	o.record.Chunks++
}

// mostTemplate is the most tokens that a server is believed to put around a prompt.
const mostTemplate = 1 << 20

// count keeps the latest usage: some servers give it with every chunk. A token has a byte of text at least, unless it
// is one of hidden reasoning, which the tokens asked for bound. Counts beyond that are dropped; came is the bytes of
// the answer so far.
func (o *outcome) count(u *usage, came int) {
	if u == nil {
		return
	}
	for _, n := range []struct {
		what string
		said *int
		most int
		to   **int
	}{
		{"prompt", u.Prompt, o.sent + mostTemplate, &o.record.Prompt},
		{"generated", u.Generated, max(o.asked, came), &o.record.Generated},
		{"cached", u.Cached, maxTokens, &o.record.Cached},
	} {
		switch {
		case n.said == nil:
		case *n.said > n.most:
			o.odd = cmp.Or(o.odd, fmt.Sprintf("%d %s tokens, where there can be no more than %d", *n.said, n.what, n.most))
		default:
			*n.to = n.said
		}
	}
}
