package redact

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"http://user:hunter22@host:8000/v1":                 "http://***@host:8000/v1",
		"http://hunter22@host/v1":                           "http://***@host/v1",
		"http://user:hun/ter@host/v1":                       "http://***@host/v1",
		"get http://h/v1?api-version=2&sig=abc%2F: refused": "get http://h/v1?api-version=2&sig=***: refused",
		"http://h/v1?hunter22":                              "http://h/v1?***",
		"vllm serve m --api-key hunter22 --tp 2":            "vllm serve m --api-key *** --tp 2",
		"vllm serve m --api-key=hunter22":                   "vllm serve m --api-key=***",
		"serve --api-key 'hunter 22' -x":                    "serve --api-key '***' -x",
		"VLLM_API_KEY=hunter22 vllm serve m":                "VLLM_API_KEY=*** vllm serve m",
		"args: {'api_key': ['hunter22'], 'tp': 2}":          "args: {'api_key': ['***'], 'tp': 2}",
		`{"password": "hunter22"}`:                          `{"password": "***"}`,
		`cmd = "A_PASSWORD=hunter22 x"`:                     `cmd = "A_PASSWORD=*** x"`,
		`--cmd "x --api-key hunter22"`:                      `--cmd "x --api-key ***"`,
		"--env A_PASSWORD=hunter22":                         "--env A_PASSWORD=***",
		"Authorization: Bearer hunter22.x":                  "Authorization: Bearer ***",
		"the key sk-abcdefgh1234 is not valid":              "the key *** is not valid",

		"http://localhost:8000/v1":                           "",
		"https://h/org/name@main/config.json":                "",
		"--max-num-batched-tokens 8192 --tokenizer org/name": "",
		"2.5 J/token, tokens=3, token=3":                     "",
		"set HF_TOKEN: the repository is gated":              "",
		"a key: value":                                       "",
	} {
		if want == "" {
			want = text
		}
		if got := Text(text); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
		if again := Text(Text(text)); again != Text(text) {
			t.Errorf("%s is redacted further to %s", Text(text), again)
		}
	}
}

func TestOfFindsSecretsElsewhere(t *testing.T) {
	r := Of("http://user:hunter%2022@host/v1", "KEY_TOKEN=opensesame serve --api-key swordfish --name serve")
	got := r.Text("log: hunter 22, opensesame and swordfish, user, serve")
	if got != "log: ***, *** and ***, user, serve" {
		t.Error(got)
	}
	words := r.Words([]string{"x", "--api-key", "swordfish", "--token=a", "A_KEY=b", "--engine-cmd", "s --api-key c4", "opensesame"})
	want := []string{"x", "--api-key", "***", "--token=***", "A_KEY=***", "--engine-cmd", "s --api-key ***", "***"}
	if !slices.Equal(words, want) {
		t.Errorf("%q", words)
	}
	err := r.Error(&fs.PathError{Op: "open", Path: "swordfish", Err: fs.ErrNotExist})
	if err.Error() != "open ***: file does not exist" || !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestStructCopies(t *testing.T) {
	type inner struct{ Text string }
	type outer struct {
		List    []string
		Map     map[string]inner
		Pointer *inner
		Samples []float64
	}
	before := outer{[]string{"--api-key x1"}, map[string]inner{"a": {"--api-key x1"}}, &inner{"--api-key x1"}, []float64{1}}
	after := before
	Redactor{}.Struct(&after)
	const want = "--api-key ***"
	if after.List[0] != want || after.Map["a"].Text != want || after.Pointer.Text != want {
		t.Errorf("%+v %+v", after, after.Pointer)
	}
	if before.List[0] == want || before.Map["a"].Text == want || before.Pointer.Text == want {
		t.Errorf("the original was changed: %+v", before)
	}
}

// TestResultsStay checks that nothing of the project's own results is taken for a
// secret.
func TestResultsStay(t *testing.T) {
	files, err := filepath.Glob("../../experiments/*/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			if got := Text(line); got != line {
				t.Errorf("%s: %s became %s", file, line, got)
			}
		}
	}
}

// FuzzText checks that a URL's password never stays, wherever it stands.
func FuzzText(f *testing.F) {
	f.Add("a ", " b")
	f.Add("--base-url=", "/v1?x=y")
	f.Add("http://", "@@")
	f.Fuzz(func(t *testing.T, head, tail string) {
		const secret = "hunter22XYZ"
		got := Text(head + " http://user:" + secret + "@host" + tail)
		if strings.Contains(got, secret) {
			t.Errorf("%q", got)
		}
	})
}
