//go:build !js

package models

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"llmprof/internal/input"
)

const maxRedirects = 5

// client asks a hub.
type client = http.Client

// fetch asks the hub for the config.json of a revision.
func (h Hub) fetch(ctx context.Context, id HubID) (f fetched, err error) {
	err = h.asking(ctx, id, func(ctx context.Context, r request) error {
		if f, err = r.do(ctx); err == nil && !bytes.Contains(f.config, []byte(`"quantization_config"`)) {
			f.quant, err = r.quantization(ctx)
		}
		return err
	})
	return f, err
}

// asking lets do ask the hub for files of a repository, in the time that there is, and says what failed.
func (h Hub) asking(ctx context.Context, id HubID, do func(context.Context, request) error) error {
	base, err := h.base()
	if err != nil {
		return err
	}
	token, err := h.token()
	if err != nil {
		return err
	}
	timeout := h.Timeout
	if timeout <= 0 {
		timeout = hubTimeout
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r := request{client: h.client(), base: base, id: id, token: token, file: configFile, most: maxConfig}
	err = r.hide(do(limited, r))
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("fetching %s: %w", id, context.Cause(ctx))
	case limited.Err() != nil:
		return fmt.Errorf("fetching %s: %w: %s took longer than %v; try again, or use --offline", id, errUnreachable, base.Host, timeout)
	}
	return fmt.Errorf("fetching %s: %w", id, err)
}

func (h Hub) base() (*url.URL, error) {
	endpoint := cmp.Or(h.Endpoint, DefaultEndpoint)
	u, err := url.Parse(strings.TrimRight(endpoint, "/"))
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return nil, fmt.Errorf("HF_ENDPOINT is not the address of a hub: want one such as %s, without user and query", DefaultEndpoint)
	}
	return u, nil
}

// client is an HTTP client that follows no redirect by itself.
func (h Hub) client() *http.Client {
	c := &http.Client{Transport: &http.Transport{Proxy: proxy, ForceAttemptHTTP2: true, DisableKeepAlives: true}}
	if h.Client != nil {
		c = new(*h.Client)
	}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c
}

// proxy is the environment's proxy. The standard library's error would print
// its address, which may hold a password.
func proxy(r *http.Request) (*url.URL, error) {
	u, err := http.ProxyFromEnvironment(r)
	if err != nil {
		return nil, errors.New("HTTP_PROXY or HTTPS_PROXY is not the address of a proxy")
	}
	return u, nil
}

// A request is one fetch: the hops from the endpoint to where the file is.
type request struct {
	client *http.Client
	base   *url.URL
	id     HubID
	token  string
	file   string
	most   int64 // bytes that are read of it at most

	span     string // the range of bytes that is asked for, "" for the whole file
	optional bool   // A file that is not there is no error.
	listing  bool   // What is asked for is the list of the repository's files.
}

// quantization asks for the file in which NVIDIA's checkpoints state their formats; most have none.
func (r request) quantization(ctx context.Context) ([]byte, error) {
	r.file, r.optional = quantFile, true
	f, err := r.do(ctx)
	if err != nil || !bytes.Contains(f.config, []byte(`"quant_algo"`)) {
		return nil, err
	}
	return f.config, nil
}

// hide keeps the token out of an error that repeats what a server sent.
func (r request) hide(err error) error {
	if err == nil || r.token == "" || !strings.Contains(err.Error(), r.token) {
		return err
	}
	return errors.New(strings.ReplaceAll(err.Error(), r.token, "(secret)"))
}

// do fetches a JSON object.
func (r request) do(ctx context.Context) (fetched, error) {
	resp, f, err := r.open(ctx)
	if err != nil {
		return fetched{}, err
	}
	if resp.StatusCode == http.StatusNotFound && r.optional {
		_ = resp.Body.Close()
		return fetched{}, nil
	}
	f.config, err = r.body(resp)
	return f, err
}

// open follows the redirects by hand. The hub answers for a file with a redirect,
// to itself or to a content network; the token must not travel there, and the
// commit is known from the hub's own answers alone.
func (r request) open(ctx context.Context) (*http.Response, fetched, error) {
	to := r.base.JoinPath(r.id.Org, r.id.Name, "resolve", url.PathEscape(r.id.Revision), r.file)
	if r.listing {
		to = r.base.JoinPath("api", "models", r.id.Org, r.id.Name, "revision", url.PathEscape(r.id.Revision))
	}
	var f fetched
	for range maxRedirects {
		resp, err := r.get(ctx, to)
		if err != nil {
			return nil, f, err
		}
		if r.own(to) {
			f.note(resp.Header)
		}
		if !isRedirect(resp.StatusCode) {
			return resp, f, nil
		}
		_ = resp.Body.Close()
		next, err := resp.Location()
		if err != nil {
			return nil, f, fmt.Errorf("%s answered with a redirect to nowhere: check HF_ENDPOINT", to.Host)
		}
		if next.Scheme != "https" && next.Scheme != to.Scheme {
			return nil, f, fmt.Errorf("%s redirected from an encrypted connection to one that is not: refused", to.Host)
		}
		to = next
	}
	return nil, f, fmt.Errorf("%s redirected more than %d times: check HF_ENDPOINT", r.base.Host, maxRedirects)
}

// own reports whether u is at the endpoint: same scheme, host and port.
func (r request) own(u *url.URL) bool {
	return u.Scheme == r.base.Scheme && strings.EqualFold(u.Host, r.base.Host)
}

// get sends one request, with the token if it goes to the endpoint.
func (r request) get(ctx context.Context, u *url.URL) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("%s redirected to what is not an address", r.base.Host)
	}
	req.Header.Set("User-Agent", "llmprof")
	// The ETag of a compressed answer is not the blob's.
	req.Header.Set("Accept-Encoding", "identity")
	if r.span != "" {
		req.Header.Set("Range", r.span)
	}
	if r.token != "" && r.own(u) {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, unreachable(u.Host, err)
	}
	return resp, nil
}

// unreachable says why there was no answer. It leaves out the address, which
// after a redirect may be signed.
func unreachable(host string, err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	_, isCert := errors.AsType[*tls.CertificateVerificationError](err)
	_, isPlain := errors.AsType[tls.RecordHeaderError](err)
	if isCert || isPlain || errors.Is(err, http.ErrSchemeMismatch) {
		return fmt.Errorf("no secure connection to %s: %w; check the clock, HF_ENDPOINT and, behind a proxy "+
			"that opens TLS, SSL_CERT_FILE", host, err)
	}
	return fmt.Errorf("%w: %s: %w; check the connection, HF_ENDPOINT and HTTPS_PROXY, or use --offline",
		errUnreachable, host, err)
}

// isRedirect distinguishes a redirect that has a Location from the other answers of 3xx.
func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// note keeps what the hub says about the file. Of a file in large-file storage
// the ETag is X-Linked-Etag.
func (f *fetched) note(h http.Header) {
	if c := h.Get("X-Repo-Commit"); commitID().MatchString(c) {
		f.commit = c
	}
	etag := cmp.Or(h.Get("X-Linked-Etag"), h.Get("ETag"))
	if etag = strings.Trim(strings.TrimPrefix(etag, "W/"), `"`); etag != "" {
		f.etag = etag
	}
}

// body is the file that an answer brought, or why it is none.
func (r request) body(resp *http.Response) ([]byte, error) {
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, r.refused(resp)
	}
	host := resp.Request.URL.Host
	data, err := io.ReadAll(io.LimitReader(resp.Body, r.most+1))
	if err != nil {
		return nil, fmt.Errorf("the answer of %s broke off after %d bytes: %w; try again", host, len(data), err)
	}
	if int64(len(data)) > r.most {
		return nil, fmt.Errorf("%s sent more than %s for a %s: check HF_ENDPOINT", host, input.Size(r.most), r.what())
	}
	text := bytes.TrimSpace(data)
	switch {
	case bytes.HasPrefix(text, []byte("<")):
		return nil, fmt.Errorf("%s sent a web page instead of %s: check HF_ENDPOINT, and whether "+
			"the network asks for a login", host, r.what())
	case !bytes.HasPrefix(text, []byte("{")):
		return nil, fmt.Errorf("%s sent something else than a JSON object for %s: check HF_ENDPOINT", host, r.what())
	case !bytes.HasSuffix(text, []byte("}")):
		return nil, fmt.Errorf("the answer of %s broke off after %d bytes: try again", host, len(data))
	}
	return data, nil
}

// what is what was asked for.
func (r request) what() string {
	if r.listing {
		return "list of files"
	}
	return r.file
}

// refused says what an answer other than 200 means. The hub's X-Error-Code
// distinguishes the cases; nothing of its text is repeated, because it may be anything.
func (r request) refused(resp *http.Response) error {
	host, repo := r.base.Host, r.id.Repo()
	switch code := resp.Header.Get("X-Error-Code"); {
	case code == "GatedRepo" && r.token == "":
		return fmt.Errorf("%s is gated: accept its terms at %s/%s, and set HF_TOKEN to a token of that account", repo, r.base, repo)
	case code == "GatedRepo":
		return fmt.Errorf("%s is gated and the token has no access: accept its terms at %s/%s with the account "+
			"of the token, and let the token read gated repositories", repo, r.base, repo)
	case r.file == tensorFile && resp.StatusCode == http.StatusNotFound:
		return errNoTensors
	case code == "EntryNotFound" && r.file != configFile:
		return fmt.Errorf("%s has no %s at revision %s", repo, r.file, r.id.Revision)
	case code == "EntryNotFound":
		return fmt.Errorf("%s has no config.json at revision %s: name the repository of the original weights, "+
			"not of a GGUF conversion or an adapter", repo, r.id.Revision)
	case code == "RevisionNotFound":
		return fmt.Errorf("%s has no revision %q: check it, or leave out the '@' for %s", repo, r.id.Revision, mainBranch)
	case code == "RepoNotFound", resp.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%s has no model %s, or it is private: check the spelling, and set HF_TOKEN if it is private", host, repo)
	case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusForbidden:
		return fmt.Errorf("%s refused access to %s (HTTP %d): check the spelling and HF_TOKEN", host, repo, resp.StatusCode)
	case resp.StatusCode == http.StatusTooManyRequests:
		return fmt.Errorf("%s asks to wait (HTTP 429): try again in some minutes, or set HF_TOKEN", host)
	case resp.StatusCode >= http.StatusInternalServerError:
		return fmt.Errorf("%s has a fault of its own (HTTP %d): try again later, or use --offline", host, resp.StatusCode)
	}
	return fmt.Errorf("%s answered HTTP %d: check HF_ENDPOINT", host, resp.StatusCode)
}
