package experiment

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/shlex"

	"llmprof/internal/input"
	"llmprof/measure/result"
	"llmprof/models"
)

// fileSettings are the settings of which each names files, and find those that are there: another content makes another
// point. Programs and libraries are not among them: a result has their versions.
var fileSettings = []struct {
	key   string
	files func(*Point) ([]string, error)
}{
	{"model", func(p *Point) ([]string, error) { return modelFiles(p.Model) }},
	{"weights_dir", func(p *Point) ([]string, error) { return filesIn(p.WeightsDir) }},
	{"prompts", func(p *Point) ([]string, error) {
		if p.Prompts == "random" {
			return nil, nil
		}
		return []string{p.Prompts}, nil
	}},
	{"load", func(p *Point) ([]string, error) { return []string{p.Load}, nil }},
	{"engine_cmd", func(p *Point) ([]string, error) { return commandFiles(p.EngineCmd), nil }},
}

// filesIn are the files of a folder; its own folders and what is hidden are tools' and caches'.
func filesIn(folder string) (files []string, err error) {
	if folder == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(folder)
	for _, e := range entries {
		path := filepath.Join(folder, e.Name())
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && !strings.HasPrefix(e.Name(), ".") { // a hub's snapshot has links
			files = append(files, path)
		}
	}
	return files, err
}

// modelFiles are the files of a model that is a folder, whose tokenizer and code are read too, or a file with those
// that are read beside it. A name of another kind has none.
func modelFiles(name string) ([]string, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, nil //nolint:nilerr // a name that is no path of this machine
	case info.IsDir():
		if _, err := os.Stat(filepath.Join(name, "config.json")); err != nil {
			return nil, nil //nolint:nilerr // a folder that happens to be called as a model
		}
		return filesIn(name)
	}
	read := input.Begin()
	_, _ = models.ReadFile(name, true) // what is wrong with it is found where it is measured
	read.End()
	contents, err := read.Contents()
	files := make([]string, len(contents))
	for i := range contents {
		files[i] = contents[i].Name
	}
	return files, err
}

// commandFiles are the files that a command names. Its program counts where it is a script of the experiment's.
func commandFiles(command string) (files []string) {
	words, _ := shlex.Split(command) // a command that cannot be split is refused elsewhere
	for i, w := range words {
		if i == 0 && !strings.HasPrefix(w, ".") {
			continue
		}
		if _, value, ok := strings.Cut(w, "="); ok {
			w = value
		}
		if info, err := os.Stat(w); err == nil && info.Mode().IsRegular() {
			files = append(files, w)
		}
	}
	return files
}

// unreadable is the content of a file that is there and cannot be read: the measurement says why.
const unreadable = "unreadable"

// pin notes what the files that the settings name have in them, for the hash. A file that is not there, as one that
// a server alone has, counts by its name.
func (p *Point) pin() {
	p.Contents = map[string]string{}
	for _, s := range fileSettings {
		files, err := s.files(p)
		h, n := sha256.New(), 0
		for _, file := range files {
			text := ""
			if file == "" || err != nil {
				continue
			}
			if text, err = input.Sum(file); err == nil {
				fmt.Fprintln(h, filepath.Base(file), text)
				n++
			}
		}
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			p.Contents[s.key] = unreadable
		case n > 0:
			p.Contents[s.key] = hex.EncodeToString(h.Sum(nil))
		}
	}
}

// pinAll pins points, of which most name the same files.
func pinAll(points []Point) {
	known := map[[5]string]map[string]string{}
	for i := range points {
		p := &points[i]
		key := [5]string{p.Model, p.WeightsDir, p.Prompts, p.Load, p.EngineCmd}
		if known[key] == nil {
			p.pin()
			known[key] = p.Contents
		}
		p.Contents = known[key]
	}
}

// unchanged sees that the files of a pinned point still have in them what its hash says.
func (p *Point) unchanged() error {
	if p.Contents == nil {
		return nil
	}
	again, shown := *p, p.Shown()
	again.pin()
	for _, s := range fileSettings {
		if again.Contents[s.key] != p.Contents[s.key] {
			return fmt.Errorf("%s: the contents of %v changed since the experiment was read: run it again", s.key, shown.Value(s.key))
		}
	}
	return nil
}

// pinned measures a point whose files do not change meanwhile.
func (measure Measure) pinned(ctx context.Context, p Point) ([]*result.Result, error) {
	if err := p.unchanged(); err != nil {
		return nil, err
	}
	results, err := measure(ctx, p)
	if err == nil {
		err = p.unchanged()
	}
	return results, err
}
