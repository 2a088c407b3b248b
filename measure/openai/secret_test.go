package openai

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
)

const secret = "sk-0123456789/abc"

// seen collects what requests carried.
type seen struct {
	mu   sync.Mutex
	keys []string
}

func (s *seen) add(r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = append(s.keys, r.Header.Get("Authorization")+r.Header.Get("Referer"))
}

// The key goes to the server, and nowhere else: not into a result, not into an
// error, also where the server repeats it.
func TestKey(t *testing.T) {
	var got seen
	for name, h := range map[string]http.HandlerFunc{
		"good": func(w http.ResponseWriter, _ *http.Request) { stream(w, whole()) },
		"repeats": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, `{"error":{"message":"Incorrect API key provided: %s."}}`, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		},
		"repeats, escaped": func(w http.ResponseWriter, _ *http.Request) {
			stream(w, `data: {"error":"bad key `+strings.ReplaceAll(secret, "/", `\/`)+`"}`+"\n\n")
		},
		"repeats what is no event": func(w http.ResponseWriter, _ *http.Request) { stream(w, "data: bad key "+secret+"\n\n") },
		"repeats it across a cut": func(w http.ResponseWriter, _ *http.Request) {
			stream(w, "data: "+strings.Repeat("x", 190)+secret+"\n\n"+"data: "+strings.Repeat("x", 270)+secret+"\n\n")
		},
		"repeats, no stream": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, secret) },
		"repeats at the very end": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, strings.Repeat("x", 285)+secret, http.StatusForbidden)
		},
	} {
		url := serve(t, func(w http.ResponseWriter, r *http.Request) { got.add(r); h(w, r) })
		o := options(strings.Replace(url, "http://", "http://user:"+secret[:5]+"@", 1) + "/v1?code=" + secret + "#f")
		o.Key = secret
		s, err := Run(t.Context(), o, nil)
		text, _ := json.Marshal(s)
		if all := string(text) + fmt.Sprint(err); strings.Contains(all, secret[:5]) || strings.Contains(all, "user") ||
			strings.Contains(all, "code") {
			t.Errorf("%s: a secret in %v, %s", name, err, text)
		}
		if (err == nil) != (name == "good") || s.Endpoint != url+"/v1" {
			t.Errorf("%s: endpoint %q, %v", name, s.Endpoint, err)
		}
		ready, err := Answers(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := ready(t.Context()); err != nil && strings.Contains(err.Error(), secret[:5]) {
			t.Errorf("%s: a secret in %v", name, err)
		}
	}
	for _, key := range got.keys {
		if key != "Bearer "+secret {
			t.Fatalf("a request carried %q", key)
		}
	}
}

// A redirect to the same host is followed with the key, one to another without.
// Another port is another host.
func TestRedirects(t *testing.T) {
	var there seen
	other := serve(t, func(w http.ResponseWriter, r *http.Request) { there.add(r); stream(w, whole()) })
	var here seen
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/chat/completions", func(w http.ResponseWriter, r *http.Request) { here.add(r); stream(w, whole()) })
	mux.HandleFunc("/old/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/v1/chat/completions", http.StatusPermanentRedirect)
	})
	mux.HandleFunc("/away/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other+"/x", http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("/far/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/away/chat/completions", http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("/round/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/round/chat/completions", http.StatusTemporaryRedirect)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	for path, want := range map[string]string{
		"/old": "", "/away?code=" + secret: "", "/far": "", "/round": "redirects in a row",
	} {
		o := options(server.URL + path)
		o.Key, o.Requests, o.Concurrency = secret, 1, 1
		s, err := Run(t.Context(), o, nil)
		if want == "" && (err != nil || s.Completed != 1) || want != "" && !says(err, want) || strings.Contains(fmt.Sprint(err), secret) {
			t.Errorf("%s: %v", path, err)
		}
		away := strings.TrimPrefix(other, "http://")
		toOther := strings.HasPrefix(path, "/away") || path == "/far"
		if said := strings.Join(s.Notes, "\n"); (s.Redirected[away] == 1) != toOther || strings.Contains(said, "redirected to "+away) != toOther {
			t.Errorf("%s: redirected %v, notes %s", path, s.Redirected, said)
		}
	}
	if len(here.keys) != 1 || here.keys[0] != "Bearer "+secret+server.URL+"/old/chat/completions" {
		t.Errorf("the same host saw %q", here.keys)
	}
	if len(there.keys) != 2 || there.keys[0] != "" || there.keys[1] != "" {
		t.Errorf("another host saw %q", there.keys)
	}
}

// A redirect away from TLS would show the request to everybody.
func TestRedirectToPlain(t *testing.T) {
	plain := serve(t, func(w http.ResponseWriter, _ *http.Request) { stream(w, whole()) })
	safe := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, plain, http.StatusTemporaryRedirect)
	}))
	safe.Config.ErrorLog = log.New(io.Discard, "", 0) // it will not like the client's distrust
	safe.StartTLS()
	t.Cleanup(safe.Close)
	o := options(safe.URL)
	o.Client, o.Requests = safe.Client(), 1
	if _, err := Run(t.Context(), o, nil); !says(err, "a redirect from https to http is not followed") {
		t.Error(err)
	}
	o.Client = nil
	if s, err := Run(t.Context(), o, nil); !says(err, "certificate") || s.Failures[Connection] != 1 {
		t.Errorf("a certificate that nobody signed: %v", err)
	}
}

func TestEndpoint(t *testing.T) {
	tests := []struct{ base, api, post, public string }{
		{"http://h", Chat, "http://h/v1/chat/completions", "http://h/v1"},
		{" http://h:8000/ ", Completions, "http://h:8000/v1/completions", "http://h:8000/v1"},
		{"https://h/v1/", Chat, "https://h/v1/chat/completions", "https://h/v1"},
		{"https://h/api/openai/v1", Completions, "https://h/api/openai/v1/completions", "https://h/api/openai/v1"},
		{"http://h/v1/chat/completions", Chat, "http://h/v1/chat/completions", "http://h/v1"},
		{"http://h/v1/completions", Completions, "http://h/v1/completions", "http://h/v1"},
		{"https://u:p@h/d?api-version=1#x", Chat, "https://u:p@h/d/chat/completions?api-version=1", "https://h/d"},
		{"http://[::1]:80", Chat, "http://[::1]:80/v1/chat/completions", "http://[::1]:80/v1"},
		{"http://h/a%2Fb", Chat, "http://h/a%2Fb/chat/completions", "http://h/a%2Fb"},
	}
	for _, test := range tests {
		e, err := newEndpoint(test.base, test.api)
		if err != nil || e.post != test.post || e.public != test.public {
			t.Errorf("%s: %+v, %v; want %s and %s", test.base, e, err, test.post, test.public)
		}
	}
	for _, base := range []string{"", "h", "h:80", "ftp://h", "http:h", "http://", "http:///v1", "http://h:port", "http://a b",
		"http://h/%zz"} {
		if e, err := newEndpoint(base, Chat); err == nil {
			t.Errorf("%q is taken for %+v", base, e)
		}
	}
}

// No base URL shows its user or its query.
func FuzzEndpoint(f *testing.F) {
	for _, seed := range []string{"http://u:p@h/v1?k=v#f", "https://[::1]:8/a%2Fb/", "http://h/v1/chat/completions", "h:80", "http://u:p/@h"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, base string) {
		e, err := newEndpoint(base, Chat)
		if err != nil {
			return
		}
		u, err := url.Parse(e.public)
		if err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			t.Errorf("%q is shown as %q, %v", base, e.public, err)
		}
		if post, err := url.Parse(e.post); err != nil || post.Host != u.Host || !strings.HasSuffix(post.Path, "/chat/completions") {
			t.Errorf("%q is posted to %q, %v", base, e.post, err)
		}
	})
}
