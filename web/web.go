// Package web holds the static files of the page: what is written by hand in static, the
// libraries in vendor and, where "make web" has run, the page's program in wasm.
package web

import (
	"bytes"
	"embed"
	"io/fs"
	"path"
	"slices"
	"strings"
)

//go:embed static/* vendor/libraries.js vendor/LICENSES.txt wasm/*
var files embed.FS

// backend is the script that a page asks the estimator by, whose name says who answers.
const backend = "backend.js"

// Static are the files of a page that computes by itself, by the names that the page knows them by, all in one folder.
func Static() (map[string][]byte, error) {
	return filesOf("program.js", "served.js")
}

// Served are the files of a page that a server answers.
func Served() (map[string][]byte, error) {
	return filesOf("served.js", "program.js", "worker.js", "files.js", "wasm_exec.js", Program)
}

// filesOf are the files with one script as the backend, and without others. Scripts written by hand have no
// comments there, which are a seventh of what a browser would fetch of them.
func filesOf(by string, but ...string) (map[string][]byte, error) {
	all := map[string][]byte{}
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) == ".md" || slices.Contains(but, path.Base(name)) {
			return err
		}
		text, err := files.ReadFile(name)
		if strings.HasPrefix(name, "static/") && path.Ext(name) == ".js" {
			text = withoutComments(text)
		}
		if name = path.Base(name); name == by {
			name = backend
		}
		all[name] = text
		return err
	})
	return all, err
}

// withoutComments leaves out the lines of a script that hold a comment alone.
func withoutComments(script []byte) (kept []byte) {
	for line := range bytes.Lines(script) {
		if !bytes.HasPrefix(bytes.TrimLeft(line, " \t"), []byte("// ")) {
			kept = append(kept, line...)
		}
	}
	return kept
}

// Program is the name of the page's program among the files, which is missing where it
// has not been built.
const Program = "llmprof.wasm.gz"
