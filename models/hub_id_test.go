package models_test

import (
	"path/filepath"
	"strings"
	"testing"

	"llmprof/models"
)

func TestHubFromEnv(t *testing.T) {
	slash := filepath.FromSlash
	tests := []struct {
		env  map[string]string
		want models.Hub
	}{
		{map[string]string{}, models.Hub{}},
		{map[string]string{"HOME": "/u"}, models.Hub{CacheDir: slash("/u/.cache/huggingface/hub"), TokenFile: slash(
			"/u/.cache/huggingface/token")}},
		{map[string]string{"HOME": "/u", "XDG_CACHE_HOME": "/x"},
			models.Hub{CacheDir: slash("/x/huggingface/hub"), TokenFile: slash("/x/huggingface/token")}},
		{map[string]string{"HOME": "/u", "HF_HOME": "~/hf"}, models.Hub{CacheDir: slash("/u/hf/hub"), TokenFile: slash("/u/hf/token")}},
		{
			map[string]string{"HF_HOME": "/h", "HF_HUB_CACHE": "/c", "HF_TOKEN_PATH": "/t", "HF_TOKEN": " tok\n", "HF_ENDPOINT": "https://e",
				"HF_HUB_OFFLINE": "yes"},
			models.Hub{CacheDir: slash("/c"), TokenFile: slash("/t"), Token: "tok", Endpoint: "https://e", Offline: true},
		},
		{map[string]string{"HF_HUB_OFFLINE": "0"}, models.Hub{}},
		{map[string]string{"HF_TOKEN": "tok", "HF_TOKEN_PATH": "/t", "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}, models.Hub{}},
	}
	for _, test := range tests {
		got := models.HubFromEnv(func(name string) string { return test.env[name] })
		if got != test.want {
			t.Errorf("%v: got %+v, want %+v", test.env, got, test.want)
		}
	}
}

func TestParseHubID(t *testing.T) {
	for _, good := range []string{"Qwen/Qwen3-8B", "a/b", "01-ai/Yi-6B", "_o/x_", "o/n.v1", "o/n@main", "o/n@v1.0", "o/n@refs/pr/1",
		"o/n@" + commit} {
		id, err := models.ParseHubID(good)
		if err != nil || id.String() != strings.TrimSuffix(good, "@main") {
			t.Errorf("%s: got %v, %v", good, id, err)
		}
	}
	for _, bad := range []string{
		"", "a", "/", "a/", "/b", "a/b/c", "../b", "a/..", "a/.b", "a/b.", "-a/b", "a/b-", "a/b--c", "a/b..c", "a b/c", "a/b\n", "a/b\x00",
		"a/ü", "a/b.git", "a/b?x", "a/b#x", "a/%2e%2e", `a\b/c`, "a/b@", "a/b@..", "a/b@/x", "a/b@x/", "a/b@a//b", "a/b@-x", "a/b@x..y",
		"a/b@x@y", "a/b@x y",
		strings.Repeat("a", 96) + "/b", "a/b@" + strings.Repeat("a", 200),
	} {
		if id, err := models.ParseHubID(bad); err == nil {
			t.Errorf("%q is the id %v", bad, id)
		}
	}
}

// FuzzParseHubID checks that an id, where it is one, names a place within the
// cache and within the hub.
func FuzzParseHubID(f *testing.F) {
	for _, seed := range []string{"Qwen/Qwen3-8B", "o/n@refs/pr/1", "../x", "a/b@../../c", "a/b%2f", "a/..", "a\\b/c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := models.ParseHubID(s)
		if err != nil {
			return
		}
		for _, part := range []string{"models--" + id.Org + "--" + id.Name, id.Revision} {
			if !filepath.IsLocal(filepath.FromSlash(part)) || strings.ContainsAny(part, "\\%?# \n\x00") || strings.Contains(part, "..") {
				t.Errorf("%q names %q", s, part)
			}
		}
		again, err := models.ParseHubID(id.String())
		if err != nil || again != id {
			t.Errorf("%q is %v, which is read back as %v, %v", s, id, again, err)
		}
	})
}
