package models_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"llmprof/internal/testkit"
	"llmprof/models"
)

// refuse answers as the hub does when it has not got or does not give the file,
// and repeats the token as a hostile server might.
func refuse(status int, code string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Error-Code", code)
		w.Header().Set("X-Error-Message", r.Header.Get("Authorization"))
		w.WriteHeader(status)
		_, _ = w.Write([]byte(r.Header.Get("Authorization")))
	}
}

// say answers 200 with text.
func say(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }
}

// cut promises more than it sends.
func cut(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "1000")
	_, _ = w.Write([]byte(`{"model_type": "llama"`))
}

// endless sends without end.
func endless(w http.ResponseWriter, r *http.Request) {
	chunk := []byte("{" + strings.Repeat(" ", 1<<16))
	for r.Context().Err() == nil {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

// around redirects to itself.
func around(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
}

func TestHubRefuses(t *testing.T) {
	tests := []struct {
		name   string
		answer http.HandlerFunc
		token  models.Secret
		want   string // each of its "|" parts is in the error
	}{
		{"gated", refuse(401, "GatedRepo"), "", "o/n is gated|accept its terms|HF_TOKEN"},
		{"gated to the token", refuse(403, "GatedRepo"), token, "o/n is gated|the token has no access|accept its terms"},
		{"missing", refuse(404, "RepoNotFound"), token, "no model o/n|private|spelling"},
		{"missing, not logged in", refuse(401, "RepoNotFound"), "", "no model o/n|HF_TOKEN"},
		{"missing, unsaid", refuse(404, ""), "", "no model o/n"},
		{"no config", refuse(404, "EntryNotFound"), "", "o/n has no config.json|GGUF"},
		{"no revision", refuse(404, "RevisionNotFound"), "", `no revision "main"`},
		{"bad token", refuse(401, ""), token, "refused access|HTTP 401|HF_TOKEN"},
		{"forbidden", refuse(403, ""), token, "refused access|HTTP 403"},
		{"too many", refuse(429, ""), "", "HTTP 429|try again"},
		{"down", refuse(503, ""), "", "HTTP 503|later|--offline"},
		{"teapot", refuse(418, ""), "", "HTTP 418|HF_ENDPOINT"},
		{"not modified", refuse(304, ""), "", "HTTP 304"},
		{"login page", say("\n<!DOCTYPE html><html>"), "", "web page|HF_ENDPOINT|login"},
		{"text", say("hello"), "", "something else than a JSON object"},
		{"list", say("[1]"), "", "something else than a JSON object"},
		{"nothing", say(""), "", "something else than a JSON object"},
		{"pointer", say("version https://git-lfs.github.com/spec/v1"), "", "something else than a JSON object"},
		{"half", say(`{"model_type": "lla`), "", "broke off|try again"},
		{"cut", cut, "", "broke off after 22 bytes|try again"},
		{"endless", endless, "", "more than 8.4 MB"},
		{"around", around, token, "redirected more than"},
		{"nowhere", refuse(302, ""), token, "redirect to nowhere"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			hub := serve(t, test.answer)
			r := at(t, hub.URL)
			r.Hub.Token = test.token
			_, err := r.Resolve(t.Context(), "o/n")
			checkError(t, err, "fetching o/n|"+test.want)
			left, errRead := os.ReadDir(r.Hub.CacheDir)
			if errRead != nil || len(left) > 0 {
				t.Errorf("a failed fetch left %v in the cache (%v)", left, errRead)
			}
		})
	}
}

// checkError wants an error of one line with each part, and no token.
func checkError(t *testing.T, err error, parts string) {
	t.Helper()
	if err == nil {
		t.Fatalf("got no error, want one with %s", parts)
	}
	for part := range strings.SplitSeq(parts, "|") {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("got error %q, want %q in it", err, part)
		}
	}
	if strings.Contains(err.Error(), token) || strings.Contains(err.Error(), "\n") {
		t.Errorf("the error holds the token or a line break: %q", err)
	}
}

func TestHubIsSlow(t *testing.T) {
	release := make(chan struct{})
	for name, answer := range map[string]http.HandlerFunc{
		"silent": func(_ http.ResponseWriter, r *http.Request) { wait(r, release) },
		"stalls": func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte("{"))
			_ = http.NewResponseController(w).Flush()
			wait(r, release)
		},
	} {
		hub := serve(t, answer)
		r := at(t, hub.URL)
		r.Hub.Timeout = 50 * time.Millisecond
		_, err := r.Resolve(t.Context(), "o/n")
		checkError(t, err, "took longer than 50ms|--offline")

		ctx, cancel := context.WithCancel(t.Context())
		r.Hub.Timeout = time.Minute
		time.AfterFunc(50*time.Millisecond, cancel)
		_, err = r.Resolve(ctx, "o/n")
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: interrupted, got error %v", name, err)
		}
		checkError(t, err, "fetching o/n")
	}
	close(release)
}

// wait returns when the client has gone or the test is over.
func wait(r *http.Request, release <-chan struct{}) {
	select {
	case <-r.Context().Done():
	case <-release:
	}
}

func TestHubIsNotThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	endpoint := "http://" + l.Addr().String()
	_ = l.Close()
	_, err = at(t, endpoint).Resolve(t.Context(), "o/n")
	checkError(t, err, "cannot be reached|connection refused|HF_ENDPOINT|HTTPS_PROXY|--offline")
}

func TestHubTLS(t *testing.T) {
	hub := httptest.NewUnstartedServer(good(t))
	hub.Config.ErrorLog = log.New(io.Discard, "", 0) // it complains of the refused handshake
	hub.StartTLS()
	t.Cleanup(hub.Close)
	r := at(t, hub.URL)
	_, err := r.Resolve(t.Context(), "o/n")
	checkError(t, err, "no secure connection|certificate|SSL_CERT_FILE")

	r.Hub.Client = hub.Client() // which trusts the server
	if _, err := r.Resolve(t.Context(), "o/n"); err != nil {
		t.Error(err)
	}

	plain := serve(t, good(t))
	_, err = at(t, "https"+strings.TrimPrefix(plain.URL, "http")).Resolve(t.Context(), "o/n")
	checkError(t, err, "no secure connection")
}

func TestRedirectToPlain(t *testing.T) {
	plain := serve(t, good(t))
	hub := httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusFound))
	t.Cleanup(hub.Close)
	r := at(t, hub.URL)
	r.Hub.Client = hub.Client()
	_, err := r.Resolve(t.Context(), "o/n")
	checkError(t, err, "encrypted|refused")
}

func TestBadEndpoint(t *testing.T) {
	for _, endpoint := range []string{"huggingface.co", "ftp://h", "http://", "https://u:hf_donotprintthis@h", "https://h/?a=b",
		"http://%zz"} {
		_, err := at(t, endpoint).Resolve(t.Context(), "o/n")
		checkError(t, err, "HF_ENDPOINT")
	}
}

// TestOffline checks that offline no request is sent, and what is said instead.
func TestOffline(t *testing.T) {
	hub := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	r := at(t, hub.URL)
	r.Hub.Offline = true
	_, err := r.Resolve(t.Context(), "o/n")
	checkError(t, err, "not in the hub cache|"+r.Hub.CacheDir+"|--offline|config.json")

	r.Table, err = models.Load([]byte(tableOf(`"params":2900,"params_exact":false,"params_published":"0.0029M"`)))
	testkit.Must(t, err)
	m, err := r.Resolve(t.Context(), "org/Tiny")
	if err != nil || m.Name != "org/Tiny" || !strings.Contains(m.Source, "built-in model tiny") || !strings.Contains(m.Source, "offline") {
		t.Errorf("got %+v, %v, want the built-in model", m, err)
	}
	_, err = r.Resolve(t.Context(), "org/Tiny@v2") // of which the table knows nothing
	checkError(t, err, "org/Tiny@v2")
}

// TestBuiltInStandsIn checks when a built-in model serves for its hub id: if the
// hub does not answer, not if it answers no.
func TestBuiltInStandsIn(t *testing.T) {
	hub := serve(t, refuse(401, "GatedRepo"))
	r := at(t, hub.URL)
	var err error
	r.Table, err = models.Load([]byte(tableOf(`"params":2900,"params_exact":false,"params_published":"0.0029M"`)))
	testkit.Must(t, err)
	_, err = r.Resolve(t.Context(), "org/Tiny")
	checkError(t, err, "gated|built-in model tiny")

	hub.Close()
	m, err := r.Resolve(t.Context(), "org/Tiny")
	if err != nil || !strings.Contains(m.Source, "built-in model tiny") || !strings.Contains(m.Source, "did not answer") {
		t.Errorf("got %+v, %v, want the built-in model", m, err)
	}

	answers := serve(t, good(t)) // and the hub goes before the table
	r.Hub.Endpoint = answers.URL
	m, err = r.Resolve(t.Context(), "org/Tiny")
	if err != nil || !strings.HasPrefix(m.Source, answers.URL) {
		t.Errorf("got %+v, %v, want the hub's", m, err)
	}
}
