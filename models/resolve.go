package models

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"llmprof/internal/input"
	"llmprof/models/gguf"
	"llmprof/unit"
)

// A Resolver finds the model that a user names.
type Resolver struct {
	Table   *Table
	Hub     Hub
	Lenient bool // fields of a config.json that are not understood are noted instead of refused
	NoFiles bool // a name is that of a built-in model or a hub id, whatever files there are
}

// Resolve reads the model that name stands for. A name without a slash is a
// built-in model's, so that what it means does not depend on the directory the
// command runs in; "./name" is a path whatever the table holds. Anything else
// that exists is a path: of a config.json or of a directory that has one. What
// is left with one slash, org/name or org/name@revision, is a hub id.
func (r Resolver) Resolve(ctx context.Context, name string) (*Model, error) {
	if name == "" {
		return nil, errors.New("no model given: want a built-in name, a hub id (org/name), a directory or a config.json")
	}
	if !strings.ContainsAny(name, `/\`) && r.Table.Has(name) {
		return r.Table.Model(name)
	}
	if r.NoFiles {
		if strings.Contains(name, "/") {
			return r.fromHub(ctx, name)
		}
		return r.Table.Model(name)
	}
	if info, err := os.Stat(name); err == nil {
		if info.IsDir() {
			return fromDir(name, r.Lenient)
		}
		return ReadFile(name, r.Lenient)
	}
	if isPath(name) {
		return nil, fmt.Errorf("%s: no such file or directory; want a built-in name, a hub id (org/name), "+
			"a directory or a config.json", name)
	}
	if strings.Contains(name, "/") {
		return r.fromHub(ctx, name)
	}
	return r.Table.Model(name)
}

// isPath distinguishes a path that does not exist from a hub id or a name.
func isPath(name string) bool {
	repo, _, _ := strings.Cut(name, ":")
	repo, _, _ = strings.Cut(repo, "@") // a revision may hold slashes of its own
	return filepath.IsAbs(name) || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "~") ||
		strings.Contains(name, `\`) || strings.Count(repo, "/") > 1 ||
		slices.Contains([]string{".json", ".gguf", ".safetensors", ".bin"}, strings.ToLower(filepath.Ext(repo)))
}

// ReadFile reads a config.json, whatever its name, or the header of a GGUF file. If
// lenient, it notes what of a config.json is not understood instead of refusing it.
func ReadFile(path string, lenient bool) (*Model, error) {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".gguf":
		return fromGGUF(path)
	case ".safetensors", ".bin", ".pt", ".pth":
		return nil, fmt.Errorf("%s is a file of weights: a config.json is needed, the one of the model's original repository", path)
	}
	config, err := input.Read(path, maxConfig)
	if err != nil {
		return nil, fmt.Errorf("reading a model's config.json: %w", err)
	}
	if bytes.HasPrefix(config, []byte("GGUF")) {
		return nil, fmt.Errorf("%s is a GGUF file and is not called so: give it the ending .gguf", path)
	}
	return readBeside(nameOf(path), path, config, lenient)
}

// readBeside reads a config.json with what lies beside it.
func readBeside(name, path string, config []byte, lenient bool) (*Model, error) {
	c := Checkpoint{Config: config, Lenient: lenient}
	var err error
	if prefix, ok := strings.CutSuffix(path, configFile); ok {
		c.Quant, err = input.Read(prefix+quantFile, maxConfig)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("reading %s: %w", prefix+quantFile, err)
		}
	}
	dir := dirOf(path)
	if dir == "" {
		return read(name, path, c)
	}
	var index tensorIndex
	if c.Tensors, index, err = localTensors(dir); err != nil {
		return nil, err
	}
	m, err := read(name, path, c)
	if err == nil && c.Tensors == nil && m.Stored.Plain != unit.NoFormat && index.decoderAlone(m) { // it counts all tensors together
		m.Stored.Bytes = index.Metadata.Total
		if err = m.heldAgainst(float64(m.Stored.Bytes)); err != nil && lenient {
			m.Notes, err = append(m.Notes, err.Error()), nil
		}
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// fromGGUF reads the header of a GGUF file and, if it is split, of its other parts.
func fromGGUF(path string) (*Model, error) {
	headers, err := gguf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the header of a GGUF file: %w", err)
	}
	m, err := ReadGGUF(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), headers...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	m.Source = path
	return m, nil
}

// nameOf is what to call the model of a file: its directory's name if the file
// has the usual one, and its own otherwise, as in a root, which has no name.
func nameOf(path string) string {
	base := filepath.Base(path)
	own := strings.TrimSuffix(base, filepath.Ext(base))
	if base != configFile {
		return own
	}
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	dir := filepath.Dir(path)
	if dir == filepath.Dir(dir) {
		return own
	}
	return filepath.Base(dir)
}

func fromDir(dir string, lenient bool) (*Model, error) {
	path := filepath.Join(dir, configFile)
	config, err := input.Read(path, maxConfig)
	if err == nil {
		return readBeside(nameOf(path), path, config, lenient)
	}
	if !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("reading a model's config.json: %w", err)
	}
	found, err := configLike(dir)
	if err != nil {
		return nil, fmt.Errorf("%s has no config.json: %w", dir, err)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no config.json, nor anything like one: want the directory of a Hugging Face checkpoint", dir)
	}
	return nil, fmt.Errorf("%s has no config.json (it has %s): a config.json in the format of Hugging Face is needed",
		dir, strings.Join(found, ", "))
}

// configLike lists what in dir may be what the user meant: at most eight files.
func configLike(dir string) ([]string, error) {
	const most = 8
	var found []string
	for _, pattern := range []string{"*/config.json", "snapshots/*/config.json", "*.json", "*.gguf", "*.safetensors"} {
		paths, err := input.Files(dir, pattern)
		if err != nil {
			return nil, err
		}
		for _, p := range paths {
			if rel, err := filepath.Rel(dir, p); err == nil {
				found = append(found, rel)
			}
		}
	}
	if n := len(found) - most; n > 0 {
		found = append(found[:most], fmt.Sprintf("%d more", n))
	}
	return found, nil
}

// read makes a model of a config.json and notes where it came from.
func read(name, source string, c Checkpoint) (*Model, error) {
	m, err := c.Read(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	m.Source = source
	return m, nil
}
