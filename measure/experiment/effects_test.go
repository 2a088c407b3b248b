package experiment

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each command, each interpreter and each destination is said once, without secrets of URLs.
func TestEffects(t *testing.T) {
	server := func(url, command string) Point {
		p := Default()
		p.Engine, p.BaseURL, p.EngineCmd = OpenAI, url, command
		return p
	}
	python := func(path string, trust bool) Point {
		p := Default()
		p.Engine, p.Python, p.Model, p.TrustRemoteCode = Transformers, path, "a/b", trust
		return p
	}
	native := Default()
	native.Engine = Native
	points := []Point{
		native, server("http://user:pw@127.0.0.1:8000/v1?key=s3cret", "sh -c 'rm x'\x1b[2J"), server("http://127.0.0.1:8000/v1", ""),
		server("http://example.org/v1", ""),
		server("https://example.org/v1", ""), server("nowhere", ""), python("", false), python("/opt/python", true), python("/opt/python", false),
	}
	const http = ", which others on the way can read: http is not encrypted"
	want := []string{
		`it will execute "sh -c 'rm x'\x1b[2J"`, `it will send the key of KEY to "http://127.0.0.1:8000"`,
		`it will send the key of KEY to "http://example.org"` + http,
		`it will send the key of KEY to "https://example.org"`, "it will send the key of KEY to a base_url that is no URL" + http,
		"it will execute python3, or python, of PATH", `it will execute "/opt/python"`,
		`it will execute the Python code that the model "a/b" brings (trust_remote_code)`,
	}
	if diff := cmp.Diff(want, Effects(points, "KEY", true)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, line := range Effects(points, "KEY", false) {
		if strings.Contains(line, "the key") {
			t.Errorf("without a key: %s", line)
		}
	}
	if got := Effects([]Point{native}, "KEY", true); len(got) > 0 {
		t.Errorf("the native engine: %q", got)
	}
}
