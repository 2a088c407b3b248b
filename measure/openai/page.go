package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// visit is a runner for pages that are asked for rarely.
func (o Options) visit() (*runner, error) {
	at, err := newEndpoint(o.BaseURL, o.API)
	if err != nil {
		return nil, err
	}
	return &runner{options: o, endpoint: at, clients: o.visitor()}, nil
}

// visitor makes the client for pages that are asked for rarely, as /metrics is.
func (o *Options) visitor() *clients {
	alone := *o
	alone.Concurrency, alone.Connections = 1, Pooled
	return alone.clients()
}

// side is the URL of a page beside the API: below what comes before /v1.
func (at *endpoint) side(path string) *url.URL {
	u := *at.base
	u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/v1"), ""
	return u.JoinPath(path)
}

// page gets a page beside the API.
func (r *runner) page(ctx context.Context, path string) ([]byte, error) {
	return r.call(ctx, http.MethodGet, path, nil)
}

// call asks for a page beside the API, or posts to it.
func (r *runner) call(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	_, said, err := r.fetch(ctx, r.clients.of(0), method, r.endpoint.side(path), body)
	return said, err
}

// fetch is call for any URL, with the status of what was answered. An error of the connection, or a status that is none of
// success, is a *Failure.
func (r *runner) fetch(ctx context.Context, by *http.Client, method string, at *url.URL, body []byte) (status int, said []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, at.String(), bytes.NewReader(body))
	if err != nil {
		return 0, nil, fmt.Errorf("nothing can be asked of %s", bare(at))
	}
	r.head(req.Header)
	req.Header.Set("Accept", "*/*")
	resp, err := by.Do(req)
	if err != nil {
		return 0, nil, broken(ctx, err, false)
	}
	defer resp.Body.Close()
	if host := r.endpoint.away(resp); host != "" {
		r.away.Store(host, true)
	}
	if said, err = io.ReadAll(io.LimitReader(resp.Body, 4<<20)); err != nil {
		return 0, nil, broken(ctx, err, true)
	}
	if resp.StatusCode < 200 || resp.StatusCode >= 300 {
		f := refused(resp.StatusCode, resp.Status, said)
		r.options.redact(f)
		err = f
	}
	return resp.StatusCode, said, err
}

// post posts JSON to a page beside the API, and reads the answer.
func (r *runner) post(ctx context.Context, path string, ask, answer any) error {
	body, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	said, err := r.call(ctx, http.MethodPost, path, body)
	if err != nil {
		return err
	}
	return json.Unmarshal(said, answer)
}

// bare is a URL without user and query.
func bare(u *url.URL) string {
	b := *u
	b.User, b.RawQuery, b.Fragment = nil, "", ""
	return b.String()
}
