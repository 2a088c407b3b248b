package models_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"llmprof/internal/testkit"
	"llmprof/models"
)

const (
	commit = "0123456789abcdef0123456789abcdef01234567"
	etag   = "89abcdef0123456789abcdef0123456789abcdef"
	token  = "hf_donotprintthis"
)

// config is the config.json that the test's hubs serve.
func config(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/hub/config.json")
	testkit.Must(t, err)
	return data
}

// serve starts a hub that answers with f.
func serve(t testing.TB, f http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s
}

// good answers as the hub does for a file that it has.
func good(t testing.TB) http.HandlerFunc {
	data := config(t)
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Repo-Commit", commit)
		w.Header().Set("ETag", `"`+etag+`"`)
		_, _ = w.Write(data)
	}
}

// unquantized answers for a checkpoint that has no file but its config.json.
func unquantized(w http.ResponseWriter, r *http.Request) bool {
	if strings.HasSuffix(r.URL.Path, "/config.json") || strings.HasSuffix(r.URL.Path, "/blob") {
		return false
	}
	w.WriteHeader(http.StatusNotFound)
	return true
}

// at returns a resolver for the hub without a table, with a cache that no other test uses.
func at(t testing.TB, endpoint string) models.Resolver {
	t.Helper()
	table, err := models.Load([]byte("[]"))
	testkit.Must(t, err)
	return models.Resolver{Table: table, Hub: models.Hub{
		Endpoint: endpoint, CacheDir: t.TempDir(), Token: token, Timeout: 10 * time.Second,
	}}
}

func TestFetchAndCache(t *testing.T) {
	var asked []string
	answer := good(t)
	hub := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.EscapedPath()+" "+r.Header.Get("Authorization"))
		if !unquantized(w, r) {
			answer(w, r)
		}
	})
	r := at(t, hub.URL)
	m, err := r.Resolve(t.Context(), "Org/Some-Model")
	testkit.Must(t, err)
	if m.Name != "Org/Some-Model" || m.Source != hub.URL+"/Org/Some-Model/blob/"+commit+"/config.json" || m.Params() != tinyParams {
		t.Errorf("got %q of %q with %d parameters", m.Name, m.Source, m.Params())
	}
	var want []string // the second file, since the first names no quantization, and the tensors of that commit
	for _, file := range []string{"main/config.json", "main/hf_quant_config.json",
		commit + "/model.safetensors.index.json", commit + "/model.safetensors"} {
		want = append(want, "/Org/Some-Model/resolve/"+file+" Bearer "+token)
	}
	if !slices.Equal(asked, want) {
		t.Errorf("asked for %q, want %q", asked, want)
	}
	checkLayout(t, filepath.Join(r.Hub.CacheDir, "models--Org--Some-Model"))

	// From now on the cache serves, with a network or without.
	hub.Close()
	for _, r.Hub.Offline = range []bool{false, true} {
		for _, name := range []string{"Org/Some-Model", "Org/Some-Model@main", "Org/Some-Model@" + commit} {
			m, err := r.Resolve(t.Context(), name)
			if err != nil || !strings.Contains(m.Source, filepath.Join("snapshots", commit)) {
				t.Errorf("offline %v: got %v, %v from the cache", r.Hub.Offline, m, err)
			}
		}
	}
}

// checkLayout compares a repository's cache with that of the official client.
func checkLayout(t *testing.T, repo string) {
	t.Helper()
	want := map[string]string{
		"refs/main":                            commit,
		"blobs/" + etag:                        string(config(t)),
		"snapshots/" + commit + "/config.json": string(config(t)),
	}
	err := filepath.WalkDir(repo, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(repo, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if text, ok := want[filepath.ToSlash(rel)]; !ok || err != nil || string(data) != text {
			t.Errorf("the cache has %s with %q (%v), want %q", rel, data, err, text)
		}
		delete(want, filepath.ToSlash(rel))
		return nil
	})
	if err != nil || len(want) > 0 {
		t.Errorf("the cache lacks %v (%v)", want, err)
	}
	link, err := os.Readlink(filepath.Join(repo, "snapshots", commit, "config.json"))
	if runtime.GOOS != "windows" && (err != nil || filepath.ToSlash(link) != "../../blobs/"+etag) {
		t.Errorf("the snapshot is a link to %q (%v)", link, err)
	}
}

func TestRevisions(t *testing.T) {
	var path string
	answer := good(t)
	hub := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if unquantized(w, r) {
			return
		}
		path = r.URL.EscapedPath()
		answer(w, r)
	})
	for name, want := range map[string]string{
		"o/n@v1.0":      "/o/n/resolve/v1.0/config.json",
		"o/n@refs/pr/1": "/o/n/resolve/refs%2Fpr%2F1/config.json",
		"o/n@" + commit: "/o/n/resolve/" + commit + "/config.json",
	} {
		r := at(t, hub.URL)
		_, err := r.Resolve(t.Context(), name)
		if err != nil || path != want {
			t.Errorf("%s: asked for %s (%v), want %s", name, path, err, want)
		}
		_, rev, _ := strings.Cut(name, "@")
		ref, err := os.ReadFile(filepath.Join(r.Hub.CacheDir, "models--o--n", "refs", filepath.FromSlash(rev)))
		if rev != commit && (err != nil || string(ref) != commit) {
			t.Errorf("%s: its ref holds %q (%v)", name, ref, err)
		}
		if rev == commit && err == nil {
			t.Errorf("a commit has a ref")
		}
	}
}

// TestKnownRefStays checks that a revision whose weights are cached without a
// config.json is not moved to a newer commit.
func TestKnownRefStays(t *testing.T) {
	const old = "ffffffffffffffffffffffffffffffffffffffff"
	var path string
	data := config(t)
	hub := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if unquantized(w, r) {
			return
		}
		path = r.URL.Path
		_, _ = w.Write(data)
	})
	r := at(t, hub.URL)
	ref := filepath.Join(r.Hub.CacheDir, "models--o--n", "refs", "main")
	write(t, ref, old+"\n")
	if _, err := r.Resolve(t.Context(), "o/n"); err != nil || path != "/o/n/resolve/"+old+"/config.json" {
		t.Errorf("asked for %s (%v), want the cached commit", path, err)
	}
	if got, err := os.ReadFile(ref); err != nil || string(got) != old+"\n" {
		t.Errorf("the ref holds %q (%v), want it untouched", got, err)
	}
	r.Hub.Offline = true
	if _, err := r.Resolve(t.Context(), "o/n"); err != nil {
		t.Errorf("not cached: %v", err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o777))
	testkit.Must(t, os.WriteFile(path, []byte(text), 0o666))
}

// TestTokenStaysHome checks that the token reaches the endpoint alone, not the
// host, nor the port, that a redirect leads to.
func TestTokenStaysHome(t *testing.T) {
	data := config(t)
	var seen []string
	content := serve(t, func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Header.Get("Authorization"))
		w.Header().Set("X-Repo-Commit", strings.Repeat("b", 40)) // not for it to say
		_, _ = w.Write(data)
	})
	var hops int
	hub := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if unquantized(w, r) {
			return
		}
		if r.Header.Get("Authorization") != "Bearer "+token {
			t.Errorf("the endpoint got no token for %s", r.URL)
		}
		w.Header().Set("X-Repo-Commit", commit)
		if hops++; hops == 1 { // as the hub does for small files
			http.Redirect(w, r, "/api/resolve-cache/models/o/n/"+commit+"/config.json", http.StatusTemporaryRedirect)
			return
		}
		w.Header().Set("X-Linked-Etag", `"`+etag+`"`)
		http.Redirect(w, r, content.URL+"/blob?signature="+url.QueryEscape("sig+nature"), http.StatusFound)
	})
	for _, other := range []string{content.URL, strings.Replace(content.URL, "127.0.0.1", "localhost", 1)} {
		content.URL, hops = other, 0
		r := at(t, hub.URL)
		if _, err := r.Resolve(t.Context(), "o/n"); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(r.Hub.CacheDir, "models--o--n", "blobs", etag)
		if _, err := os.Stat(path); err != nil {
			t.Errorf("the blob is not named by the linked ETag: %v", err)
		}
	}
	if strings.Join(seen, "") != "" || len(seen) != 2 {
		t.Errorf("the redirect's target got %q, want no token twice", seen)
	}
}

func TestTokenFile(t *testing.T) {
	var seen string
	answer := good(t)
	hub := serve(t, func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Get("Authorization")
		answer(w, r)
	})
	r := at(t, hub.URL)
	r.Hub.Token = ""
	r.Hub.TokenFile = filepath.Join(t.TempDir(), "token")
	if _, err := r.Resolve(t.Context(), "o/a"); err != nil || seen != "" {
		t.Errorf("without a token %q was sent (%v)", seen, err)
	}
	write(t, r.Hub.TokenFile, "hf_fromfile\n")
	if _, err := r.Resolve(t.Context(), "o/b"); err != nil || seen != "Bearer hf_fromfile" {
		t.Errorf("from a file %q was sent (%v)", seen, err)
	}
	write(t, r.Hub.TokenFile, "hf_two\nlines")
	_, err := r.Resolve(t.Context(), "o/c")
	if err == nil || !strings.Contains(err.Error(), r.Hub.TokenFile) || strings.Contains(err.Error(), "hf_two") {
		t.Errorf("a bad token: got error %v", err)
	}
}

func TestSecretIsNotPrinted(t *testing.T) {
	h := models.Hub{Token: token}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		for _, v := range []any{h, &h, h.Token} {
			if got := fmt.Sprintf(verb, v); strings.Contains(got, token) || strings.Contains(got, fmt.Sprintf("%x", token)) {
				t.Errorf("%s prints %s", verb, got)
			}
		}
	}
}

// NVIDIA's checkpoints state their formats in a second file, which the cache keeps too.
func TestHubQuantization(t *testing.T) {
	hub := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/hf_quant_config.json") {
			_, _ = w.Write([]byte(`{"producer":{"name":"modelopt"},"quantization":{"quant_algo":"FP8","kv_cache_quant_algo":"FP8",` +
				`"exclude_modules":["lm_head"]}}`))
			return
		}
		good(t)(w, r)
	})
	r := at(t, hub.URL)
	for _, offline := range []bool{false, true} {
		r.Hub.Offline = offline
		m, err := r.Resolve(t.Context(), "nvidia/FP8")
		testkit.Must(t, err)
		if m.Stored.Weights.String() != "fp8" || m.Stored.KV.String() != "fp8" || m.Head.Stored != nil {
			t.Errorf("offline %v: stored %+v", offline, m.Stored)
		}
	}
}
