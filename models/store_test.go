package models

import (
	"bytes"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzStore checks that whatever a hub answers of a file lands in the repository's
// own folder, and that what the cache gives back is what was put in.
func FuzzStore(f *testing.F) {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	f.Add("main", commit, "89abcdef0123456789abcdef0123456789abcdef", []byte("{}"))
	f.Add("refs/pr/1", commit, "../../../x", []byte("{}"))
	f.Add("v1", "../"+commit, `W/"a"`, []byte("x"))
	f.Add(commit, commit, "con", []byte{})
	f.Fuzz(func(t *testing.T, revision, commit, etag string, config []byte) {
		id, err := ParseHubID("org/name@" + revision)
		if err != nil {
			return
		}
		outer := t.TempDir()
		h := Hub{CacheDir: filepath.Join(outer, "cache")}
		if err := h.store(id, fetched{config: config, commit: commit, etag: etag}); err != nil {
			return
		}
		repo := h.folder(id)
		err = filepath.WalkDir(outer, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && !strings.HasPrefix(path, repo+string(filepath.Separator)) {
				t.Errorf("%s is beside the repository", path)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		if !commitID().MatchString(commit) {
			return // and nothing was kept
		}
		known, err := h.commit(id)
		if err != nil || known != commit && known != id.Revision {
			t.Errorf("commit %q, %v, want %q", known, err, commit)
		}
		got, _, err := h.cached(id, commit)
		if err != nil || !bytes.Equal(got, config) || got == nil && len(config) > 0 {
			t.Errorf("%q, %v, want %q", got, err, config)
		}
	})
}
