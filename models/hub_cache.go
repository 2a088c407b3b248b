package models

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"

	"llmprof/internal/atomicfile"
	"llmprof/internal/input"
	"llmprof/models/safetensors"
)

// blobID is what an ETag must look like to be a file's name.
var blobID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{7,127}$`) })

func (h Hub) folder(id HubID) string {
	return filepath.Join(h.CacheDir, "models--"+id.Org+"--"+id.Name)
}

// commit is what the cache knows of a revision: the commit that it is or was
// when last fetched, "" if the cache does not know it.
func (h Hub) commit(id HubID) (string, error) {
	if h.CacheDir == "" {
		return "", nil
	}
	if commitID().MatchString(id.Revision) {
		return id.Revision, nil
	}
	ref := filepath.Join(h.folder(id), "refs", filepath.FromSlash(id.Revision))
	data, err := input.ReadUnrecorded(ref, 256)
	if absent(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the hub cache: %w", err)
	}
	commit := strings.TrimSpace(string(data))
	if !commitID().MatchString(commit) {
		return "", fmt.Errorf("reading the hub cache: %s holds no commit: delete it to fetch %s anew", ref, id)
	}
	return commit, nil
}

// cached is the config.json of a commit in the cache and its path; it is nil if
// the cache does not have it.
func (h Hub) cached(id HubID, commit string) (config []byte, path string, err error) {
	if h.CacheDir == "" || commit == "" {
		return nil, "", nil
	}
	path = filepath.Join(h.folder(id), "snapshots", commit, configFile)
	config, err = input.Read(path, maxConfig)
	if absent(err) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading the hub cache: %w", err)
	}
	return config, path, nil
}

// absent distinguishes a file that does not exist from one that cannot be read. A path through
// something that is no directory does not exist either.
func absent(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// store puts a fetched config.json where the official client would: the bytes
// in blobs under their ETag, a relative link to them in the commit's snapshot,
// and the commit in refs under the revision's name. Each step is one rename,
// and what a step points to is there before it: whoever reads or writes the
// same repository meanwhile sees the whole file or none.
func (h Hub) store(id HubID, f fetched) error {
	if h.CacheDir == "" || !commitID().MatchString(f.commit) {
		return nil
	}
	repo := h.folder(id)
	snapshot := filepath.Join(repo, "snapshots", f.commit, configFile)
	if f.quant != nil { // first, so that whoever finds the config finds it too
		if err := writeAtomic(filepath.Join(filepath.Dir(snapshot), quantFile), f.quant); err != nil {
			return err
		}
	}
	if err := storeConfig(repo, snapshot, f); err != nil {
		return err
	}
	if err := storeTensors(filepath.Dir(snapshot), f.tensors); err != nil {
		return err
	}
	if id.Revision == f.commit {
		return nil
	}
	ref := filepath.Join(repo, "refs", filepath.FromSlash(id.Revision))
	return writeAtomic(ref, []byte(f.commit))
}

// storeConfig writes the snapshot's config.json: as a link to a blob, or as a
// plain file where there are no links or the server named no usable ETag.
func storeConfig(repo, snapshot string, f fetched) error {
	if !blobID().MatchString(f.etag) {
		return writeAtomic(snapshot, f.config)
	}
	if err := writeAtomic(filepath.Join(repo, "blobs", f.etag), f.config); err != nil {
		return err
	}
	if err := linkAtomic(filepath.Join("..", "..", "blobs", f.etag), snapshot); err != nil {
		return writeAtomic(snapshot, f.config)
	}
	return nil
}

// headersFile holds, beside a config.json in the hub's cache, the tensors of files that are not there.
const headersFile = "llmprof-tensors.json"

func storeTensors(dir string, all Tensors) error {
	if all == nil {
		return nil
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return writeAtomic(filepath.Join(dir, headersFile), text)
}

// storedTensors reads what storeTensors wrote; nil if there is none.
func storedTensors(dir string) (Tensors, error) {
	text, err := input.Read(filepath.Join(dir, headersFile), 2*maxHeaders)
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all, err := safetensors.ParseEntries(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: delete it to fetch it anew", filepath.Join(dir, headersFile), err)
	}
	return all, nil
}

// writeAtomic makes path hold data, and its folder where there is none.
func writeAtomic(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return atomicfile.WriteFile(path, data, 0o644)
}

// linkAtomic makes path a symbolic link to target. It makes the link in a new directory, which is
// the only name that is surely free, and moves it.
func linkAtomic(target, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".*.incomplete")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	link := filepath.Join(dir, filepath.Base(path))
	if err := os.Symlink(target, link); err != nil {
		return err
	}
	return os.Rename(link, path)
}
