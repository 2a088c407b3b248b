package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"llmprof/cmd/llmprof/internal/page"
)

// The most that a request and a file of the page may have in bytes, the most that a file may be said to have, and how many workers' pages
// are kept: a page in the browser has four workers, and ends those that take too long.
const (
	mostAsked = 32 << 20
	mostFile  = 48 << 20
	mostSaid  = 1 << 40
	mostPages = 16
)

// An estimator answers a worker of the page, one request at a time. It keeps what the worker has asked.
type estimator struct {
	*page.Page
	sync.Mutex
	worker string
	files  int // how many files there were when it began to keep
}

// estimators are those of the page's workers, and the folder of files that were dropped on the page.
type estimators struct {
	mu     sync.Mutex
	all    []*estimator // the one that was asked last is the last
	folder string       // "" before it is needed
	files  int
}

// open makes the folder.
func (e *estimators) open() (err error) {
	if e.folder == "" {
		e.folder, err = os.MkdirTemp("", "llmprof-")
	}
	return err
}

// of is the estimator of a worker.
func (e *estimators) of(worker string) (*estimator, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.open(); err != nil {
		return nil, err
	}
	one := &estimator{Page: page.In(filepath.ToSlash(e.folder) + "/"), worker: worker, files: e.files}
	if i := slices.IndexFunc(e.all, func(o *estimator) bool { return o.worker == worker && o.files == e.files }); i >= 0 {
		one = e.all[i]
		e.all = slices.Delete(e.all, i, i+1)
	}
	e.all = append(e.all, one)
	e.all = e.all[max(0, len(e.all)-mostPages):]
	return one, nil
}

// put keeps a file, of which text may be the beginning only; size is that of the whole.
func (e *estimators) put(name string, text []byte, size int64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.open(); err != nil {
		return err
	}
	path := filepath.Join(e.folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return err
	}
	e.files++ // what was kept may be of the file as it was
	return os.Truncate(path, size)
}

// forget removes the folder.
func (e *estimators) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.folder != "" {
		_ = os.RemoveAll(e.folder)
	}
}

// ask answers a request of a worker: a line of JSON, after lines that say how far a search is. It ends when the worker goes away.
func (s *pageServer) ask(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	request, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostAsked))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_ = control.SetReadDeadline(time.Time{}) // what is read from here on is that the worker goes away
	e, err := s.estimators.of(r.URL.Query().Get("worker"))
	if err != nil {
		s.fail(w, http.StatusInternalServerError, err)
		return
	}
	e.Lock()
	defer e.Unlock()
	send := func(line []byte) {
		_ = control.SetWriteDeadline(time.Now().Add(orderTime))
		_, _ = w.Write(append(line, '\n'))
		_ = control.Flush()
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	e.Progress = func(done, of int) { send(fmt.Appendf(nil, `{"progress":[%d,%d]}`, done, of)) }
	send(e.Handle(r.Context(), request))
}

// take keeps a file that was dropped on the page, or the config.json of a hub id.
func (s *pageServer) take(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	size, err := strconv.ParseInt(r.URL.Query().Get("size"), 10, 64)
	if name = strings.TrimPrefix(name, "./"); err != nil || size < 0 || size > mostSaid || !filepath.IsLocal(name) || name == "." ||
		strings.Contains(strings.TrimPrefix(name, "hub/"), "/") {
		http.Error(w, "want the name of a file and its size", http.StatusBadRequest)
		return
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostFile))
	if err == nil {
		err = s.estimators.put(name, text, size)
	}
	if err != nil {
		s.fail(w, http.StatusBadRequest, err)
	}
}
