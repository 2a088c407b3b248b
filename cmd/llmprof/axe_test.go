//go:build browser

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"llmprof/internal/testkit"
)

// axeCore is the program of axe-core, which npm fetches once into the user's cache, at the version and with the hash of the
// page's lock file. Where it cannot be had, the test is skipped, and fails where LLMPROF_BROWSER is "required", as in CI.
func axeCore(t *testing.T) string {
	t.Helper()
	var lock struct {
		Packages map[string]struct{ Version, Integrity string }
	}
	text, err := os.ReadFile("../../web/vendor/package-lock.json")
	testkit.Must(t, err)
	testkit.Must(t, json.Unmarshal(text, &lock))
	want := lock.Packages["node_modules/axe-core"]
	archive, err := npmPackage("axe-core", want.Version)
	if sum := sha512.Sum512(archive); err == nil && "sha512-"+base64.StdEncoding.EncodeToString(sum[:]) != want.Integrity {
		err = fmt.Errorf("axe-core %s is not what web/vendor/package-lock.json has the hash of", want.Version)
	}
	switch {
	case err != nil && os.Getenv("LLMPROF_BROWSER") == "required":
		t.Fatal(err)
	case err != nil:
		t.Skip("axe-core is not here: ", err)
	}
	program, err := fileOf(archive, "package/axe.min.js")
	testkit.Must(t, err)
	return program
}

// npmPackage is the archive of a package, from the cache or by npm.
func npmPackage(name, version string) ([]byte, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(cache, "llmprof-tests")
	file := filepath.Join(folder, name+"-"+version+".tgz")
	if archive, err := os.ReadFile(file); err == nil {
		return archive, nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	if out, err := exec.Command("npm", "pack", name+"@"+version, "--silent", "--pack-destination", folder).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("npm pack: %w: %.300s", err, out)
	}
	return os.ReadFile(file)
}

// fileOf is a file of an archive.
func fileOf(archive []byte, name string) (string, error) {
	unpacked, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return "", err
	}
	for files := tar.NewReader(unpacked); ; {
		switch head, err := files.Next(); {
		case errors.Is(err, io.EOF):
			return "", fmt.Errorf("the package has no %s", name)
		case err != nil:
			return "", err
		case head.Name == name:
			text, err := io.ReadAll(files)
			return string(text), err
		}
	}
}

// TestAxeCore fetches axe-core.
func TestAxeCore(t *testing.T) {
	if program := axeCore(t); len(program) < 100_000 {
		t.Errorf("axe-core has only %d bytes", len(program))
	}
}
