package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"llmprof/internal/testkit"
)

// openaiServer is a server of the OpenAI API that tells its log all its secrets:
// what it was started with, and what it is asked. With "fail" it ends at once.
func openaiServer() {
	fmt.Printf("args: %q, key %s\n", os.Args[1:], os.Getenv("SERVER_PASSWORD"))
	if os.Args[1] == "fail" {
		os.Exit(3)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/v1/", func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.URL, r.Header)
		w.Header().Set("Content-Type", "text/event-stream")
		for range 4 {
			fmt.Fprint(w, `data: {"choices":[{"index":0,"text":"x"}]}`+"\n\n")
			w.(http.Flusher).Flush()
		}
		fmt.Fprint(w, `data: {"choices":[{"index":0,"text":"","finish_reason":"length"}]}`+"\n\ndata: [DONE]\n\n")
	})
	_ = http.ListenAndServe(os.Args[1], mux)
}

// secrets are what TestNoSecretIsKept puts wherever a user may.
var secrets = []string{"hunter22", "topsecret", "swordfish", "opensesame", "envsecret"}

// TestNoSecretIsKept searches every file and stream of measurements of a server,
// whether they succeed or fail, for secrets of its URL and its command.
func TestNoSecretIsKept(t *testing.T) {
	self, err := os.Executable()
	testkit.Must(t, err)
	dir := t.TempDir()
	program := filepath.Join(dir, "openai-server")
	if err := os.Symlink(self, program); err != nil {
		t.Skip(err)
	}
	at := freePort(t)
	url := "http://user:hunter22@" + at + "/v1?sig=topsecret"
	command := func(arg string) string {
		return "SERVER_PASSWORD=opensesame " + program + " " + arg + " --api-key swordfish"
	}
	t.Setenv("OPENAI_API_KEY", "envsecret")
	t.Setenv("HOME", dir)
	results := filepath.Join(dir, "results")
	common := []string{"measure", "--model", "llama3.2-1b", "--engine", "openai", "--base-url", url, "--concurrency", "1", "--requests", "3",
		"--prompt-len", "8",
		"--gen-len", "4", "--ttft", "--results", results, "--format"}
	file := func(name, command string) string {
		path := filepath.Join(dir, name)
		unknown := ""
		if strings.HasPrefix(name, "broken") {
			unknown = fmt.Sprintf("engine_cmds = %q\nbase_urls = %q\n", command, url)
		}
		text := fmt.Sprintf("engine = \"openai\"\nmodel = \"llama3.2-1b\"\nbase_url = %q\nengine_cmd = %q\nconcurrency = 1\nrequests = "+
			"2\nprompt_len = 8\ngen_len = 4\n"+
			"energy = false\nsize = false\n", url, command) + unknown
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	good, bad := file("good.toml", command(at)), file("bad.toml", command("fail"))
	broken := file("broken.toml", command(at))
	for name, c := range map[string]struct {
		args []string
		code int
	}{
		"json":     {append(common, "json", "--engine-cmd", command(at)), 0},
		"failure":  {append(common, "json", "--engine-cmd", command("fail")), 1},
		"pipe":     {append(common, "json", "--engine-cmd", command(at)+" | tee"), 1},
		"refused":  {append(common, "table"), 1},
		"run":      {[]string{"run", good, "--results", results}, 0},
		"run bad":  {[]string{"run", bad, "--results", results}, 1},
		"show":     {[]string{"config", "show", good}, 0},
		"show all": {[]string{"config", "show", good, "--format", "json"}, 0},
		"validate": {[]string{"config", "validate", broken}, 1},
	} {
		var out, errs bytes.Buffer
		if code := run(c.args, nil, &out, &errs, os.Getenv); code != c.code {
			t.Errorf("%s: exit %d: %s", name, code, errs.String())
		}
		search(t, name+": standard output", out.String())
		search(t, name+": standard error", errs.String())
	}
	n := 0
	err = filepath.WalkDir(results, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		n++
		text, err := os.ReadFile(path)
		search(t, path, string(text))
		return err
	})
	if err != nil || n < 3 {
		t.Errorf("%d files, %v: want two results and a failure", n, err)
	}
}

func search(t *testing.T, where, text string) {
	t.Helper()
	for _, s := range secrets {
		if i := strings.Index(text, s); i >= 0 {
			t.Errorf("%s has %q: ...%s...", where, s, text[max(i-80, 0):min(i+80, len(text))])
		}
	}
}

// freePort is an address on which nothing listens.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer l.Close()
	return l.Addr().String()
}
