package llmprof_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"llmprof/internal/testkit"
)

// TestNotices holds THIRD_PARTY_NOTICES to the modules that the program is linked
// from on any system, at their versions, with every licence that they bring.
// UPDATE_GOLDEN=1 writes it anew.
func TestNotices(t *testing.T) {
	const file = "THIRD_PARTY_NOTICES"
	want := notices(t)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		testkit.Must(t, os.WriteFile(file, []byte(want), 0o644))
	}
	got, err := os.ReadFile(file)
	testkit.Must(t, err)
	for _, known := range []string{"SIL OPEN FONT LICENSE", "Creative Commons", "github.com/ajstarks/svgo", "NVIDIA/go-nvml",
		"The Go programming language"} {
		if !strings.Contains(string(got), known) {
			t.Errorf("%s does not mention %q", file, known)
		}
	}
	have, need := headings(string(got)), headings(want)
	for _, h := range need {
		if !slices.Contains(have, h) {
			t.Errorf("%s lacks %s: UPDATE_GOLDEN=1 go test .", file, h)
		}
	}
	for _, h := range have {
		if !slices.Contains(need, h) {
			t.Errorf("%s has %s, which is not linked: UPDATE_GOLDEN=1 go test .", file, h)
		}
	}
	if !t.Failed() && string(got) != want {
		t.Errorf("%s has other texts than the modules: UPDATE_GOLDEN=1 go test .", file)
	}
}

// headings are the lines that name a module or one of its files.
func headings(text string) []string { return regexp.MustCompile(`(?m)^=+ .*$`).FindAllString(text, -1) }

// notices are the licences of all that is linked.
func notices(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("llmprof is linked from the modules below, and brings parts of them: code, and the fonts of its\n" +
		"pictures. These are their licences. The licence of llmprof itself is in LICENSE. SVGo, by Anthony Starks\n" +
		"(https://github.com/ajstarks/svgo), is used unchanged under CC BY 4.0, FreeType-Go under the FreeType Project\n" +
		"License, and the Liberation fonts unchanged under the SIL Open Font License.\n")
	root, err := exec.Command("go", "env", "GOROOT").Output()
	testkit.Must(t, err)
	section(t, &b, "The Go programming language, its runtime and standard library", strings.TrimSpace(string(root)))
	modules := linked(t)
	for _, name := range slices.Sorted(maps.Keys(modules)) {
		section(t, &b, name, modules[name])
	}
	// The libraries of the page, bundled from npm's registry by "make vendor".
	page, err := os.ReadFile(filepath.Join("web", "vendor", "LICENSES.txt"))
	testkit.Must(t, err)
	fmt.Fprintf(&b, "\n======== The libraries of the page (web/vendor/libraries.js)\n\n%s\n", plainText(string(page)))
	return b.String()
}

// linked is the folder of each module, by its name and version.
func linked(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, system := range []string{"linux CGO_ENABLED=1", "linux CGO_ENABLED=0", "darwin CGO_ENABLED=0", "windows CGO_ENABLED=0"} {
		cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}|{{.Dir}}{{end}}{{end}}",
			"./cmd/llmprof")
		cmd.Env = append(os.Environ(), strings.Fields("GOOS="+system)...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", system, err)
		}
		for line := range strings.Lines(string(out)) {
			if name, folder, ok := strings.Cut(strings.TrimSpace(line), "|"); ok {
				all[name] = folder
			}
		}
	}
	if len(all) == 0 {
		t.Fatal("nothing is linked")
	}
	return all
}

// legal is what files of licences are called.
var legal = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|third_party_licen[cs]es)`)

func section(t *testing.T, b *strings.Builder, name, folder string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	testkit.Must(t, err)
	fmt.Fprintf(b, "\n======== %s\n", name)
	found := 0
	for _, e := range entries {
		if !legal.MatchString(e.Name()) {
			continue
		}
		paths := []string{e.Name()}
		if e.IsDir() {
			inside, err := filepath.Glob(filepath.Join(folder, e.Name(), "*"))
			testkit.Must(t, err)
			paths = nil
			for _, p := range inside {
				paths = append(paths, filepath.ToSlash(filepath.Join(e.Name(), filepath.Base(p))))
			}
		}
		for _, p := range paths {
			text, err := os.ReadFile(filepath.Join(folder, p))
			testkit.Must(t, err)
			fmt.Fprintf(b, "\n==== %s\n\n%s\n", p, plainText(string(text)))
			found++
		}
	}
	if found == 0 {
		t.Errorf("%s has no licence in %s", name, folder)
	}
}

// plainText ends lines alike, and keeps none from being taken for a heading.
func plainText(s string) string {
	var lines []string
	for l := range strings.SplitSeq(strings.ReplaceAll(s, "\r\n", "\n"), "\n") {
		l = strings.TrimRight(l, " \t\f")
		if strings.HasPrefix(l, "=") {
			l = " " + l
		}
		lines = append(lines, l)
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}
