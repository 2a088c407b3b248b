package models_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestTwoAtOnce fetches one repository many times at once into one cache, each
// with its own resolver as two processes would, and reads it meanwhile.
func TestTwoAtOnce(t *testing.T) {
	hub := serve(t, good(t))
	cache := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	var fetching, reading sync.WaitGroup
	for range 2 {
		reading.Go(func() {
			r := at(t, hub.URL)
			r.Hub.CacheDir, r.Hub.Offline = cache, true
			for ctx.Err() == nil {
				_, err := r.Resolve(t.Context(), "Org/Some-Model")
				if err != nil && !strings.Contains(err.Error(), "not in the hub cache") {
					t.Errorf("a reader saw %v", err)
				}
			}
		})
	}
	for i := range 8 {
		fetching.Go(func() {
			for j := range 8 {
				r := at(t, hub.URL)
				r.Hub.CacheDir = cache
				if (i+j)%4 == 0 { // a fetch for which the cache does not know the branch yet
					_ = os.Remove(filepath.Join(cache, "models--Org--Some-Model", "refs", "main"))
				}
				if _, err := r.Resolve(t.Context(), "Org/Some-Model"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	fetching.Wait()
	stop()
	reading.Wait()
	r := at(t, hub.URL)
	r.Hub.CacheDir = cache
	if _, err := r.Resolve(t.Context(), "Org/Some-Model"); err != nil {
		t.Error(err)
	}
	checkLayout(t, filepath.Join(cache, "models--Org--Some-Model"))
}

func TestCacheThatCannotBeWritten(t *testing.T) {
	hub := serve(t, good(t))
	r := at(t, hub.URL)
	r.Hub.CacheDir = filepath.Join(r.Hub.CacheDir, "file")
	write(t, r.Hub.CacheDir, "in the way")
	m, err := r.Resolve(t.Context(), "o/n")
	if err != nil || !strings.Contains(m.Source, "not cached") {
		t.Errorf("got %v, %v, want a model that is not cached", m, err)
	}
}

func TestCacheThatIsBroken(t *testing.T) {
	r := at(t, "http://127.0.0.1:0")
	write(t, filepath.Join(r.Hub.CacheDir, "models--o--n", "refs", "main"), "../../../etc")
	if _, err := r.Resolve(t.Context(), "o/n"); err == nil || !strings.Contains(err.Error(), "delete it") {
		t.Errorf("a ref that is no commit: got error %v", err)
	}
	write(t, filepath.Join(r.Hub.CacheDir, "models--o--m", "snapshots", commit, "config.json"), `{"model_type":`)
	if _, err := r.Resolve(t.Context(), "o/m@"+commit); err == nil || !strings.Contains(err.Error(), "snapshots") {
		t.Errorf("a cut config.json in the cache: got error %v", err)
	}
}

func TestOddETags(t *testing.T) {
	data := config(t)
	for _, tag := range []string{"", `"../../../../evil"`, `W/"x/y"`, `"a"`} {
		hub := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Repo-Commit", commit)
			w.Header().Set("ETag", tag)
			_, _ = w.Write(data)
		})
		r := at(t, hub.URL)
		if _, err := r.Resolve(t.Context(), "o/n"); err != nil {
			t.Errorf("ETag %s: %v", tag, err)
		}
		info, err := os.Lstat(filepath.Join(r.Hub.CacheDir, "models--o--n", "snapshots", commit, "config.json"))
		if err != nil || !info.Mode().IsRegular() {
			t.Errorf("ETag %s: the snapshot is not a plain file: %v, %v", tag, info, err)
		}
	}
}
