package experiment

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"llmprof/input"
	"llmprof/measure/spelling"
)

// Limits of one file: more than anybody writes by hand. A grid of a few lines gives
// as many points as may be run.
const (
	mostText   = 1 << 20
	deepest    = 64
	mostValues = 30_000
)

// within holds the text to the limits, as hold counts its form.
func (s *source) within(hold func(input.Limits, string) error) error {
	err := hold(input.Limits{Bytes: mostText, Depth: deepest, Values: mostValues}, s.text)
	var excess *input.Excess
	if errors.As(err, &excess) {
		return place{s, excess.Line, excess.Column, 1}.mistake("%s", excess.Problem)
	}
	return err
}

// A reader reads the files of one experiment.
type reader struct {
	open     func(name string) ([]byte, error)
	checks   []func(*Point) []Problem
	warnings []*Mistake
	mistakes Mistakes
	files    int
}

// mostFiles bounds what one experiment starts from.
const mostFiles = 64

// mostMistakes is enough to see what is wrong; as many warnings are kept.
const mostMistakes = 20

// full reports whether there are so many mistakes that one more is of no use.
func (r *reader) full() bool { return len(r.mistakes) > mostMistakes }

// wrong notes a mistake and goes on.
func (r *reader) wrong(m *Mistake) {
	switch {
	case m == nil || r.full():
	case len(r.mistakes) == mostMistakes:
		r.mistakes = append(r.mistakes, &Mistake{File: m.File, Problem: fmt.Sprintf("there are more mistakes; the first %d that were found are listed", mostMistakes)})
	default:
		r.mistakes = append(r.mistakes, m)
	}
}

// warn notes what does not stop the experiment.
func (r *reader) warn(at place, format string, args ...any) {
	if len(r.warnings) < mostMistakes {
		r.warnings = append(r.warnings, at.mistake(format, args...))
	}
}

// file reads a file with all that it extends. The chain is of the files that
// led to it.
func (r *reader) file(name string, from place, chain []string) (*node, error) {
	name = filepath.Clean(name)
	if i := slices.Index(chain, name); i >= 0 {
		return nil, from.mistake("a circle of extends: %s", strings.Join(append(slices.Clone(chain[i:]), name), " → "))
	}
	if r.files++; r.files > mostFiles {
		return nil, from.mistake("more than %d files are extended", mostFiles)
	}
	n, err := r.parse(name, from)
	if err != nil {
		return nil, err
	}
	if n.kind != tableKind {
		return nil, n.at.mistake("%s: want settings, as model = \"llama3.1-8b\"", n.what())
	}
	r.translate(n)
	bases, err := extended(n)
	if err != nil {
		return nil, err
	}
	var base *node
	for _, b := range bases {
		path, _ := b.scalar.(string)
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(name), path)
		}
		next, err := r.file(path, b.at, append(slices.Clone(chain), name))
		if err != nil {
			return nil, err
		}
		base = next.over(base)
	}
	return n.over(base), nil
}

// extended takes the files that n starts from off it, in the order in which
// they are laid over each other.
func extended(n *node) ([]*node, error) {
	e := n.take("extends")
	if e == nil {
		return nil, nil
	}
	list := []*node{e}
	if e.kind == listKind {
		list = e.items
	}
	for _, b := range list {
		if s, ok := b.scalar.(string); !ok || s == "" {
			return nil, b.at.mistake("extends: %s: want the name of a file, or a list of them", b.what())
		}
	}
	return list, nil
}

// parse reads one file by the form that its name ends with.
func (r *reader) parse(name string, from place) (*node, error) {
	parsers := map[string]func(*source) (*node, error){
		".toml": parseTOML, ".json": parseJSON, ".yaml": parseYAML, ".yml": parseYAML,
	}
	if from.source == nil {
		from = place{source: &source{name: name}}
	}
	parse := parsers[strings.ToLower(filepath.Ext(name))]
	if parse == nil {
		ext := filepath.Ext(name)
		return nil, from.mistake("the form of %s cannot be told from its name (%q); %s", name, ext, spelling.Hint(ext, []string{".toml", ".yaml", ".yml", ".json"}))
	}
	data, err := r.open(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, from.mistake("%s: no such file", name)
	case err != nil:
		return nil, from.mistake("%v", err)
	}
	text := strings.TrimPrefix(string(data), "\ufeff") // some editors begin a file with a mark
	return parse(&source{name: name, text: text})
}

// readFile reads a file from disk.
func readFile(name string) ([]byte, error) { return input.Read(name, mostText) }
