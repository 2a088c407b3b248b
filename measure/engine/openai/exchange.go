package openai

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"llmprof/measure/result"
)

// An outcome is one request, ended.
type outcome struct {
	record  result.Record
	zero    time.Time     // of the record's times
	end     time.Duration // from zero
	lag     time.Duration // from when it was due until it was begun
	dialled time.Duration // what a connection of its own took it; 0 where it found one open
	cached  int           // tokens of the prompt that the server had in a cache
	gaps    []float64     // seconds between chunks with tokens
	failure *Failure      // nil if it was completed
	refusal string        // all that the server said with a status of 400 or 422
	output  strings.Builder
}

// A marker is a time from zero that another goroutine writes once or more.
type marker struct{ ns atomic.Int64 }

func (m *marker) set(d time.Duration) { m.ns.Store(int64(d) + 1) } // so that 0 is unset

func (m *marker) seconds() *float64 {
	ns := m.ns.Load()
	if ns == 0 {
		return nil
	}
	return seconds(time.Duration(ns - 1))
}

func seconds(d time.Duration) *float64 {
	s := max(d, 0).Seconds()
	return &s
}

// exchange sends a request and reads the answer to its end. Its times count from
// due, or from now if that is zero.
func (r *runner) exchange(ctx context.Context, body []byte, due time.Time) *outcome {
	ctx, cancel := context.WithTimeoutCause(ctx, r.options.timeout(), errTimeout)
	defer cancel()
	o := &outcome{}
	var wrote, headers, connected marker
	since := func() time.Duration { return time.Since(o.zero) }
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(c httptrace.GotConnInfo) {
			if !c.Reused {
				connected.set(since())
			}
		},
		WroteRequest: func(w httptrace.WroteRequestInfo) {
			if w.Err == nil {
				wrote.set(since())
			}
		},
		GotFirstResponseByte: func() { headers.set(since()) },
	}), http.MethodPost, r.endpoint.post, bytes.NewReader(body))
	if err != nil {
		o.failure = &Failure{Kind: Connection, Words: "the request cannot be made of this base URL"}
		return o
	}
	r.head(req.Header)
	if o.zero = due; due.IsZero() {
		o.zero = time.Now()
	}
	o.lag = since()
	resp, err := r.client.Do(req)
	if err != nil {
		o.failure = broken(ctx, err, false)
	} else {
		o.record.Status = resp.StatusCode
		o.failure = o.answer(ctx, resp, since, r.options.SaveOutputs)
		o.mark(since)
		if o.failure == nil {
			drain(resp.Body, cancel)
		}
		_ = resp.Body.Close() // it may break: all that was wanted is read
	}
	o.mark(since)
	o.record.WroteS, o.record.HeadersS = wrote.seconds(), headers.seconds()
	if at := connected.ns.Load(); at > 0 {
		o.dialled = time.Duration(at) - o.lag
	}
	return o
}

// mark notes when the request had ended, once.
func (o *outcome) mark(since func() time.Duration) {
	if o.end == 0 {
		o.end = since()
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

// drain reads what is left of an answer: a connection whose answer was read to
// its end serves the next request. A server that does not end its answer after
// [DONE] is not waited for.
func drain(body io.Reader, cancel context.CancelFunc) {
	late := time.AfterFunc(250*time.Millisecond, cancel)
	_, _ = io.CopyN(io.Discard, body, 64<<10)
	late.Stop()
}

// answer reads what the server said.
func (o *outcome) answer(ctx context.Context, resp *http.Response, since func() time.Duration, save bool) *Failure {
	if resp.StatusCode != http.StatusOK {
		said := limited(resp.Body)
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
		return &Failure{
			Kind: ContentType, Status: resp.StatusCode,
			Words: fmt.Sprintf("the answer is %q, not text/event-stream: %s", kind, wordsOf(limited(resp.Body))),
		}
	}
	if coding := resp.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return &Failure{Kind: ContentType, Status: resp.StatusCode, Words: fmt.Sprintf("the answer is compressed with %q, unasked", coding)}
	}
	f := o.stream(ctx, newEvents(resp.Body, since), save)
	if f != nil {
		f.Status = resp.StatusCode
	}
	return f
}

// bare is a URL without user and query.
func bare(u *url.URL) string {
	b := *u
	b.User, b.RawQuery, b.Fragment = nil, "", ""
	return b.String()
}

// limited reads as much of an error as anybody wants to know.
func limited(body io.Reader) []byte {
	said, _ := io.ReadAll(io.LimitReader(body, 64<<10)) // what had come before it broke is good enough
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
		o.count(c.Usage)
		l := c.look()
		finished = finished || l.finished
		if l.output || l.reasoning {
			o.token(at, last, l.output)
			last = at
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
	o.record.DoneS = seconds(at)
	return nil
}

// token notes a chunk with a token in it.
func (o *outcome) token(at, last time.Duration, output bool) {
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

// count keeps the latest usage: some servers give it with every chunk.
func (o *outcome) count(u *usage) {
	if u == nil {
		return
	}
	if u.Prompt != nil {
		o.record.Prompt = u.Prompt
	}
	if u.Generated != nil {
		o.record.Generated = u.Generated
	}
	o.cached = max(o.cached, u.Details.Cached)
}
