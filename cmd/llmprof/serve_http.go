package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"mime"
	"net/http"
	"os/exec"
	"path"
	"runtime"
	"strings"
	"sync"
	"time"

	"llmprof/web"
)

// policy is what the page may do: run its own scripts and its program, and ask this
// server.
const policy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data: blob:; " +
	"connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// A pageServer serves the page, and what it cannot know by itself.
type pageServer struct {
	a     *app
	order *serveOrder
	files map[string][]byte
	tags  map[string]string // the entity tag of each file, so that a browser fetches no file again that it has
	host  string
	token string // token of requests that do more than read
	mux   *http.ServeMux

	measuring sync.Mutex
}

// stopTime is how long a measurement may take to stop.
const stopTime = 10 * time.Second

func newPageServer(a *app, o *serveOrder, files map[string][]byte, host string) *pageServer {
	s := &pageServer{a: a, order: o, files: files, tags: map[string]string{}, host: host, token: rand.Text(), mux: http.NewServeMux()}
	for name, text := range files {
		s.tags[name] = fmt.Sprintf(`"%x"`, sha256.Sum256(text))
	}
	s.mux.HandleFunc("GET /", s.file)
	s.local()
	return s
}

func (s *pageServer) address() string { return "http://" + s.host + "/" }

// ServeHTTP refuses requests that other pages make by a name of their own for the loopback.
func (s *pageServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if own := strings.Replace(s.host, "127.0.0.1", "localhost", 1); r.Host != s.host && r.Host != own {
		http.Error(w, "this page is at http://"+s.host+"/", http.StatusMisdirectedRequest)
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")
	s.mux.ServeHTTP(w, r)
}

func (s *pageServer) file(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" {
		name = "index.html"
	}
	text, ok := s.files[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", contentType(name))
	if name == web.Program {
		w.Header().Set("Content-Encoding", "gzip")
	}
	w.Header().Set("ETag", s.tags[name])
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(text))
}

// contentType is that of a file of the page, whatever the system's table says.
func contentType(name string) string {
	switch ext := path.Ext(name); ext {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".gz":
		return "application/wasm" // the header Content-Encoding says that it is compressed
	case ".html", ".css", ".json":
		return mime.TypeByExtension(ext)
	}
	return "text/plain; charset=utf-8"
}

// openBrowser asks the desktop to open the page; where there is none, the address that
// was printed serves.
func openBrowser(ctx context.Context, address string) {
	name, args := "xdg-open", []string{address}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", address}
	}
	_ = exec.CommandContext(ctx, name, args...).Start()
}
