//go:build unix

package atomicfile

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"llmprof/internal/testkit"
)

// A named pipe is written to and stays one, and so does a link.
func TestReplaceKeepsPipesAndLinks(t *testing.T) {
	dir := t.TempDir()
	pipe, link, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "link"), filepath.Join(dir, "file")
	for _, err := range []error{syscall.Mkfifo(pipe, 0o600), os.WriteFile(file, []byte("old"), 0o640), os.Chmod(file, 0o640),
		os.Symlink(file, link)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	read := make(chan string, 1)
	go func() {
		data, _ := os.ReadFile(pipe)
		read <- string(data)
	}()
	for _, path := range []string{pipe, link} {
		f, err := Replace(path, 0o666)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, "new"); err != nil {
			t.Fatal(err)
		}
		if err := f.Keep(); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(file)
	if got := <-read; err != nil || got != "new" || string(data) != "new" {
		t.Errorf("%q from the pipe, %q in the file, %v", got, data, err)
	}
	for path, want := range map[string]fs.FileMode{pipe: fs.ModeNamedPipe | 0o600, link: fs.ModeSymlink, file: 0o640} {
		if info, err := os.Lstat(path); err != nil || info.Mode()&(fs.ModeType|want.Perm()) != want {
			t.Errorf("%s: %v, %v, want %v", filepath.Base(path), info.Mode(), err, want)
		}
	}
	if _, err := Replace(dir, 0o666); err == nil {
		t.Error("a directory was replaced")
	}
}

// What a writer that was killed left beside a file goes when the file is written again. What another writer still writes stays, and so do
// other files.
func TestStale(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "[x].csv")
	others := []string{".[x].csv.1.tmp", ".[x].csv.note.2.tmp", ".[x].csv.1.2.tmp.gz", ".x.csv.1.2.tmp", "x.csv.1.2.tmp"}
	for _, name := range append(others, ".[x].csv.123.456.tmp", ".[x].csv.1.18446744073709551615.tmp") {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o600))
	}
	first, err := Create(path, 0o600)
	testkit.Must(t, err)
	_, err = io.WriteString(first, "first")
	testkit.Must(t, err)
	testkit.Must(t, WriteFile(path, []byte("second"), 0o600))
	testkit.Must(t, first.Keep())
	if text, err := os.ReadFile(path); err != nil || string(text) != "first" {
		t.Errorf("%q, %v: want what the writer wrote that ended last", text, err)
	}
	var names []string
	entries, err := os.ReadDir(dir)
	testkit.Must(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	want := append(others, "[x].csv")
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}
