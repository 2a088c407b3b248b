package experiment

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"llmprof/internal/fileerror"
	"llmprof/internal/input"
	"llmprof/internal/spelling"
	"llmprof/internal/tree"
	"llmprof/measure/experiment/internal/compat"
)

// A reader reads the files of one experiment.
type reader struct {
	open     func(name string) ([]byte, error)
	checks   []func(*Point) []Problem
	warnings []*fileerror.Error
	errs     tree.Errors
	files    int
}

// mostFiles bounds what one experiment starts from.
const mostFiles = 64

// mostErrors is enough to see what is wrong; as many warnings are kept.
const mostErrors = 20

// full reports whether there are so many mistakes that one more is of no use.
func (r *reader) full() bool { return len(r.errs) > mostErrors }

func (r *reader) wrong(m *fileerror.Error) {
	switch {
	case m == nil || r.full():
	case len(r.errs) == mostErrors:
		r.errs = append(r.errs, &fileerror.Error{File: m.File, Problem: fmt.Sprintf(
			"there are more mistakes; the first %d that were found are listed", mostErrors)})
	default:
		r.errs = append(r.errs, m)
	}
}

// warn notes what does not stop the experiment.
func (r *reader) warn(at tree.Place, format string, args ...any) {
	if len(r.warnings) < mostErrors {
		r.warnings = append(r.warnings, at.Errorf(format, args...))
	}
}

// other reads the names that other tools use.
func (r *reader) other() *compat.Translator { return &compat.Translator{Wrong: r.wrong, Warn: r.warn} }

// file reads a file with all that it extends. The chain is of the files that
// led to it.
func (r *reader) file(name string, from tree.Place, chain []string) (*tree.Node, error) {
	name = filepath.Clean(name)
	if i := slices.Index(chain, name); i >= 0 {
		return nil, from.Errorf("a circle of extends: %s", strings.Join(append(slices.Clone(chain[i:]), name), " → "))
	}
	if r.files++; r.files > mostFiles {
		return nil, from.Errorf("more than %d files are extended", mostFiles)
	}
	n, err := r.parse(name, from)
	if err != nil {
		return nil, err
	}
	if n.Kind != tree.TableKind {
		return nil, n.At.Errorf("%s: want settings, as model = \"llama3.1-8b\"", n.What())
	}
	r.other().File(n)
	bases, err := extended(n)
	if err != nil {
		return nil, err
	}
	var base *tree.Node
	for _, b := range bases {
		path, _ := b.Scalar.(string)
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(name), path)
		}
		next, err := r.file(path, b.At, append(slices.Clone(chain), name))
		if err != nil {
			return nil, err
		}
		base = next.Over(base)
	}
	return n.Over(base), nil
}

// extended removes from n the files that it extends, in the order in which they
// are joined.
func extended(n *tree.Node) ([]*tree.Node, error) {
	e := n.Take("extends")
	if e == nil {
		return nil, nil
	}
	list := []*tree.Node{e}
	if e.Kind == tree.ListKind {
		list = e.Items
	}
	for _, b := range list {
		if s, ok := b.Scalar.(string); !ok || s == "" {
			return nil, b.At.Errorf("extends: %s: want the name of a file, or a list of them", b.What())
		}
	}
	return list, nil
}

// parse reads one file by the form that its name ends with.
func (r *reader) parse(name string, from tree.Place) (*tree.Node, error) {
	parsers := map[string]func(*tree.Source) (*tree.Node, error){
		".toml": tree.ParseTOML, ".json": tree.ParseJSON, ".yaml": tree.ParseYAML, ".yml": tree.ParseYAML,
	}
	if from.Source == nil {
		from = tree.Place{Source: &tree.Source{Name: name}}
	}
	parse := parsers[strings.ToLower(filepath.Ext(name))]
	if parse == nil {
		ext := filepath.Ext(name)
		if ext == "" {
			return nil, from.Errorf("the name has no ending that says which form it has: want .toml, .yaml, .yml or .json")
		}
		return nil, from.Errorf("no form of experiment files ends in %q; %s", ext,
			spelling.Hint(ext, []string{".toml", ".yaml", ".yml", ".json"}))
	}
	data, err := r.open(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && from.Source.Name == name:
		return nil, from.Errorf("no such file")
	case errors.Is(err, fs.ErrNotExist):
		return nil, from.Errorf("%s: no such file", name)
	case err != nil:
		return nil, from.Errorf("%v", err)
	}
	text := strings.TrimPrefix(string(data), "\ufeff") // some editors begin a file with a mark
	return parse(&tree.Source{Name: name, Text: text})
}

func readFile(name string) ([]byte, error) { return input.Read(name, tree.MostText) }

// longAnswer is the generated length above which a slip is more likely than intent.
const longAnswer = 2048

// advise warns of points that run but show less than they seem to.
func (r *reader) advise(p *Point, from *plan) {
	warn := func(bad bool, key, format string, args ...any) {
		if !bad || len(r.warnings) >= mostErrors {
			return
		}
		at := from.base.At
		for _, n := range []*tree.Node{from.base, from.grid} {
			if n != nil && n.Get(key) != nil {
				at = n.Get(key).At
			}
		}
		m := at.Errorf(format, args...)
		if !slices.ContainsFunc(r.warnings, func(w *fileerror.Error) bool { return *w == *m }) {
			r.warnings = append(r.warnings, m)
		}
	}
	warn(p.Replicas > 1 && len(p.GPUs) == 0, "replicas",
		"replicas: %d processes without gpus: on a machine with fewer GPUs they share one, and each one's energy is that of all", p.Replicas)
	warn(len(p.GPUs) > 0 && p.TP == 1 && p.Replicas > len(p.GPUs), "replicas",
		"replicas: %d processes on %d GPUs: those that share one slow each other down, and its energy cannot be attributed to one of them",
		p.Replicas, len(p.GPUs))
	warn(p.GenLen > longAnswer, "gen_len", "gen_len: %d tokens take long, and much memory for the cache", p.GenLen)
	warn(p.Quantization != "" && p.DType == "fp32", "quantization",
		"quantization: %s weights with fp32 activations: products run in fp32, which saves memory and no time; dtype = \"bf16\" is usual",
		p.Quantization)
	warn(p.Energy && p.Engine == OpenAI && p.EngineCmd == "" && len(p.GPUs) == 0, "energy",
		"energy: of a server that was started elsewhere nothing ties GPUs to it but their names (gpus), or that there is one; engine_cmd "+
			"starts one around the run")
	warn(p.Elana && p.Batch > 1, "elana", "elana: ELANA's figures per token of a batch are of the whole step; here they are of one sequence")
}
