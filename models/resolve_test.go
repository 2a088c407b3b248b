package models_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/models"
)

func TestResolvePaths(t *testing.T) {
	text, dir := string(config(t)), t.TempDir()
	t.Chdir(dir)
	write(t, "my-model/config.json", text)
	write(t, "org/name/config.json", text)
	write(t, "llama2-7b/config.json", text)
	write(t, "odd.json", text)
	write(t, "[x]/sub/config.json", text)
	r := models.Resolver{Table: builtIn(t), Hub: models.Hub{Offline: true}}
	for _, test := range []struct{ arg, name string }{
		{"my-model", "my-model"},
		{"my-model/", "my-model"},
		{"./my-model", "my-model"},
		{"my-model/config.json", "my-model"},
		{filepath.Join(dir, "my-model"), "my-model"},
		{"odd.json", "odd"},
		{"org/name", "name"}, // a path that exists wins over a hub id
		{"./llama2-7b", "llama2-7b"},
	} {
		m, err := r.Resolve(t.Context(), test.arg)
		if err != nil || m.Name != test.name || m.Params() != tinyParams || !strings.HasSuffix(m.Source, ".json") {
			t.Errorf("%s: got %+v, %v, want %s", test.arg, m, err, test.name)
		}
	}
	m, err := r.Resolve(t.Context(), "llama2-7b") // a built-in name wins over a path without a slash
	if err != nil || m.Params() != 6_738_415_616 {
		t.Errorf("llama2-7b: got %+v, %v, want the built-in model", m, err)
	}
	t.Chdir("my-model")
	if m, err := r.Resolve(t.Context(), "."); err != nil || m.Name != "my-model" {
		t.Errorf(".: got %+v, %v", m, err)
	}
}

func TestResolveRefuses(t *testing.T) {
	data := config(t)
	t.Chdir(t.TempDir())
	write(t, "gguf/model.gguf", "GGUF")
	write(t, "mistral/params.json", "{}")
	write(t, "[x]/sub/config.json", string(data))
	write(t, "empty/readme.txt", "")
	write(t, "w/model.safetensors", "")
	write(t, "disguised.txt", "GGUF\x03\x00\x00\x00")
	write(t, "cut.json", `{"model_type":"llama"`)
	write(t, "loop/config.json/x", "")
	big, err := os.Create("big.json")
	testkit.Must(t, err)
	testkit.Must(t, big.Truncate(100<<20))
	_ = big.Close()
	r := models.Resolver{Table: builtIn(t), Hub: models.Hub{Offline: true}}
	for _, test := range []struct{ arg, want string }{
		{"", "no model given"},
		{"gguf", "gguf has no config.json|model.gguf"},
		{"gguf/model.gguf", "the header of a GGUF file|cut off"},
		{"mistral", "no config.json|params.json"},
		{"[x]", "no config.json|" + filepath.Join("sub", "config.json")},
		{"empty", "nor anything like one"},
		{"w/model.safetensors", "weights|a config.json is needed"},
		{"disguised.txt", "a GGUF file"},
		{"cut.json", "cut.json"},
		{"loop", "not a regular file"},
		{"big.json", "larger than"},
		{"./nothing", "no such file"},
		{"nothing.json", "no such file"},
		{"a/b/c", "no such file"},
		{"~/x", "no such file"},
		{"../../up", "no such file"},
		{"lama2-7b", "unknown model|llama2-7b"},
		{"o/n--m", "not a hub id"},
		{"o/n", "there is no hub cache|--offline"},
	} {
		_, err := r.Resolve(t.Context(), test.arg)
		checkError(t, err, test.want)
	}
}
