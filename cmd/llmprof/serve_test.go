package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"llmprof/cmd/llmprof/internal/page"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/internal/testkit"
	"llmprof/models"
	"llmprof/unit"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return x[i] + " and " + y[i]
		}
	}
	return fmt.Sprintf("%d and %d lines", len(x), len(y))
}

// randomFlags are a random state of the page; some cannot be.
func randomFlags(r *rand.Rand) map[string]string {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	flags := map[string]string{
		"model": pick("llama3.1-8b", "llama3.1-70b", "qwen3-30b-a3b", "deepseek-v3", "mixtral-8x7b", "nemotron-h-8b", "gemma3-27b", "qwen3-32b"),
		"gpu":   pick("h100", "h200", "a100", "b200", "mi300x", "l40s", "rtx-4090", "agx-thor"),
	}
	lists := map[string][]string{
		"engine": {"vllm", "sglang", "native", "llama.cpp", "transformers"}, "tp": {"2", "4", "8"}, "weights": {"fp8", "awq", "w8a8", "q4_k_m"},
		"kv":    {"fp8", "bf16"},
		"batch": {"3", "16", "64", "200"}, "prompt-len": {"77", "500", "8192"}, "gen-len": {"1", "2", "700"},
		"memory-utilization": {"0.5", "0.95"}, "price": {"1.23"}, "power-limit": {"90", "400"}, "clock": {"1200"},
		"dp": {"2"}, "pp": {"2"}, "ep": {"2", "8"}, "calibration": {"default"}, "chunk": {"256"}, "cached-prefix": {"64", "400"},
		"max-num-batched-tokens": {"2048"},
		"gpus-per-node":          {"4"}, "micro-batches": {"2"}, "expert-skew": {"0.8"}, "act": {"bf16"},
	}
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		if r.IntN(6) == 0 {
			flags[name] = pick(lists[name]...)
		}
	}
	if r.IntN(3) == 0 {
		loadFlags(r, flags, pick)
	}
	return flags
}

// loadFlags make a state one of a server under a load.
func loadFlags(r *rand.Rand, flags map[string]string, pick func(...string) string) {
	for _, name := range []string{"batch", "chunk", "cached-prefix"} {
		delete(flags, name)
	}
	if r.IntN(2) == 0 {
		flags["rate"] = pick("0.5", "4", "20")
		if r.IntN(4) == 0 {
			flags["prefill-replicas"] = pick("1", "2")
		}
	} else {
		flags["concurrency"] = pick("1", "7", "32", "100")
	}
	if r.IntN(2) == 0 {
		flags["prefix-hit-rate"] = pick("0.3", "0.8")
	}
	if r.IntN(3) == 0 {
		flags["speculative-tokens"], flags["acceptance"] = pick("1", "3"), pick("0.5", "0.9")
	}
}

// sameAsCommand holds what a page says to what the command line says to the same flags: its JSON, and the figures
// that its views show.
func sameAsCommand(t *testing.T, flags map[string]string, answer func(do string) page.Answer) (answered bool) {
	t.Helper()
	args := []string{"estimate", "--format", "json"}
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		args = append(args, "--"+name, flags[name])
	}
	got, said := try(t, args...), answer("json")
	if said.Error != "" {
		if got.stdout != "" {
			t.Errorf("%v: the page refuses what the command line answers: %s", flags, said.Error)
		}
		return false
	}
	if !sameFigures(t, said.Text, got.stdout) {
		t.Errorf("%v: the page and the command line differ: %s; %s", flags, firstDifference(said.Text, got.stdout), got.stderr)
	}
	if shown := shownFigures(t, flags, answer); !sameFigures(t, shown, without(t, got.stdout, "sensitivity")) {
		t.Errorf("%v: the views show %s, the command line says %s", flags, shown, got.stdout)
	}
	return true
}

// shownFigures are those that the views show, as the command line writes them.
func shownFigures(t *testing.T, flags map[string]string, answer func(do string) page.Answer) string {
	t.Helper()
	figures := answer("estimate").Data.(map[string]any)["figures"].(map[string]any)
	if flags["rate"] != "" || flags["concurrency"] != "" {
		under := answer("under").Data.(map[string]any)
		figures["load"] = under["load"]
		if said := under["warning"]; said != "" {
			figures["warnings"] = append(figures["warnings"].([]any), said)
			figures["warnings_coded"] = append(figures["warnings_coded"].([]any), under["coded"])
		}
	}
	text, err := json.Marshal(figures)
	testkit.Must(t, err)
	return without(t, string(text), "sensitivity")
}

// without is a JSON object without one of its members.
func without(t *testing.T, text, name string) string {
	t.Helper()
	var all map[string]any
	testkit.Must(t, json.Unmarshal([]byte(text), &all))
	delete(all, name)
	rest, err := json.Marshal(all)
	testkit.Must(t, err)
	return string(rest)
}

// pageAnswers asks the page's program for the state of flags.
func pageAnswers(t *testing.T, p *page.Page, flags map[string]string) func(do string) page.Answer {
	return func(do string) (a page.Answer) {
		request, err := json.Marshal(page.Request{Do: do, Flags: flags})
		testkit.Must(t, err)
		testkit.Must(t, json.Unmarshal(p.Handle(t.Context(), request), &a))
		return a
	}
}

// The page's answers are those of the command line to the last digit.
func TestPageFigures(t *testing.T) {
	p := page.New()
	r := rand.New(rand.NewPCG(25, 25))
	answered := 0
	states := testkit.Cases(16, 40)
	for range states {
		flags := randomFlags(r)
		if sameAsCommand(t, flags, pageAnswers(t, p, flags)) {
			answered++
		}
	}
	if 4*answered < states {
		t.Errorf("%d of %d states can be: too few say something", answered, states)
	}
}

// A row of a search on the page opens as the deployment that it is: with the figures of the row.
func TestPageRowsOpen(t *testing.T) {
	p := page.New()
	for _, flags := range []map[string]string{
		{"model": "llama3.1-8b", "gpus": "l4,a10", "tpot": "60ms"},
		{"model": "qwen3-32b", "gpus": "h100,h200", "rate": "4", "in": "mean=2000,p95=6000", "out": "300",
			"prefix-hit-rate": "0.5", "ttft": "p95=1s"},
		{"model": "qwen3-8b", "gpus": "l40s,h100,a100", "rate": "12", "ttft": "400ms", "tpot": "20ms", "headroom": "1.5", "price": "h100=1.10"},
		{"model": "qwen3-30b-a3b", "gpus": "l40s,b200", "concurrency": "40", "ttft": "1s", "tpot": "30ms"},
	}[:testkit.Cases(2, 4)] {
		var found struct {
			Rows []struct {
				Args []string `json:"estimate_args"`
				TTFT float64  `json:"ttft_s"`
				TPOT float64  `json:"tpot_s"`
			}
		}
		answer := pageAnswers(t, p, flags)("plan")
		testkit.Must(t, json.Unmarshal([]byte(answer.Text), &found))
		for _, row := range found.Rows {
			opened := map[string]string{}
			for i := 0; i+1 < len(row.Args); i += 2 {
				opened[strings.TrimPrefix(row.Args[i], "--")] = row.Args[i+1]
			}
			var e view.EstimateDocument
			shown := pageAnswers(t, p, opened)("json")
			if shown.Error != "" {
				t.Errorf("%v: %s", row.Args, shown.Error)
				continue
			}
			testkit.Must(t, json.Unmarshal([]byte(shown.Text), &e))
			ttft, tpot := e.TTFT.High, e.TPOT.High
			if e.Load != nil {
				ttft, tpot = unit.Seconds(e.Load.High.TTFT), unit.Seconds(*e.Load.High.TPOT)
			}
			if math.Abs(float64(ttft)/row.TTFT-1) > 1e-3 || math.Abs(float64(tpot)/row.TPOT-1) > 1e-3 {
				t.Errorf("%v: TTFT %v and TPOT %v, the row has %v s and %v s", row.Args, ttft, tpot, row.TTFT, row.TPOT)
			}
		}
		if len(found.Rows) < 2 {
			t.Errorf("%v: %d rows: %s", flags, len(found.Rows), answer.Error)
		}
	}
}

// The notes of a load near saturation are among those that the page shows, as the command line says them.
func TestPageLoadWarnings(t *testing.T) {
	flags := map[string]string{"model": "llama3.1-70b", "gpu": "h200", "weights": "fp8", "rate": "0.45", "prompt-len": "1024",
		"gen-len": "3000"}
	answers := pageAnswers(t, page.New(), flags)
	said, _ := answers("under").Data.(map[string]any)["warning"].(string)
	if !sameAsCommand(t, flags, answers) || said == "" {
		t.Errorf("the load warns of %q", said)
	}
}

// sameFigures compares two estimates: to the last digit, but for the steady state under a
// load, whose exponentials Go computes by other instructions on each kind of processor.
func sameFigures(t *testing.T, a, b string) bool {
	t.Helper()
	if a == b {
		return true
	}
	var x, y map[string]any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	one, ok1 := x["load"].(map[string]any)
	two, ok2 := y["load"].(map[string]any)
	delete(x, "load")
	delete(y, "load")
	return ok1 && ok2 && cmp.Equal(x, y) && cmp.Equal(one, two, cmpopts.EquateApprox(1e-12, 0))
}

// local is a server of the page, without a browser.
func local(t *testing.T, folder string) *pageServer {
	t.Helper()
	s := newPageServer(&app{env: func(string) string { return "" }, stderr: io.Discard}, &serveOrder{results: folder, offline: true},
		map[string][]byte{"index.html": []byte("<!doctype html>")}, "127.0.0.1:1")
	s.program = "false" // what a test measures with it says itself
	return s
}

// answered is what a server answers.
func answered(s *pageServer, method, target, host, token, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Host = host
	if token != "" {
		r.Header.Set("X-Llmprof-Token", token)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// The server answers its own name alone, with headers that let nothing else in, and what it knows of the machine only to who has
// the token, which no answer holds. It measures what the page lists, and says nothing of files.
func TestServeIsGuarded(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "one.json"), []byte(`{"schema":"x"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(folder), "outside.json"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" { // where links need a right that few have
		testkit.Must(t, os.Symlink(filepath.Join(filepath.Dir(folder), "outside.json"), filepath.Join(folder, "link.json")))
		testkit.Must(t, os.Symlink("../outside.json", filepath.Join(folder, "relative.toml")))
		testkit.Must(t, os.Symlink("one.json", filepath.Join(folder, "inside.json")))
	}
	s := local(t, folder)
	const own = "127.0.0.1:1"
	here := answered(s, "GET", "/here.json", own, s.token, "").Body.String()
	if strings.Contains(here, "link.json") || strings.Contains(here, "relative.toml") {
		t.Errorf("links that lead out of the folder are listed: %s", here)
	}
	for _, c := range []struct {
		method, target, host, token, body string
		code                              int
		holds                             string
	}{
		{"GET", "/", own, "", "", 200, "doctype"},
		{"GET", "/", "localhost:1", "", "", 200, "doctype"},
		{"GET", "/", "evil.example", "", "", 421, "this page is at"},
		{"GET", "/nothing", own, "", "", 404, ""},
		{"GET", "/here.json", own, "", "", 403, "needs the token"},
		{"GET", "/here.json?token=" + s.token[:5], own, "", "", 403, "needs the token"},
		{"GET", "/here.json", own, s.token + "x", "", 403, "needs the token"},
		{"GET", "/here.json", "evil.example", s.token, "", 421, "this page is at"},
		{"GET", "/here.json", own, s.token, "", 200, "one.json"},
		{"POST", "/here.json", own, s.token, "", 405, ""},
		{"GET", "/hub?id=org/name", own, "", "", 403, "token"},
		{"GET", "/results/none.json", own, "", "", 403, "token"},
		{"GET", "/results/one.json", own, "", "", 403, "token"},
		{"GET", "/results/one.json", own, s.token, "", 200, "schema"},
		{"GET", "/results/..%2foutside.json", own, s.token, "", 404, ""},
		{"GET", "/results/link.json", own, s.token, "", 404, ""},
		{"GET", "/results/relative.toml", own, s.token, "", 404, ""},
		{"GET", "/hub?id=org/name", own, s.token, "", 404, "not in the hub cache"},
		{"GET", "/hub?id=../../etc/passwd", own, s.token, "", 404, ""},
		{"POST", "/ask", own, "", "{}", 403, "token"},
		{"POST", "/ask?token=" + s.token, own, "", "{}", 403, "token"},
		{"POST", "/ask", "evil.example", s.token, "{}", 421, "this page is at"},
		{"GET", "/ask", own, s.token, "", 404, ""},
		{"POST", "/ask", own, s.token, "{", 200, `{"error":"reading a request`},
		{"POST", "/ask", own, s.token, `{"do": "estimate", "flags": {"model": "llama3.1-8b", "gpu": "h100"}}`, 200, `"llmprof.estimate/v1"`},
		{"POST", "/file?name=./x.json&size=1", own, "", "{}", 403, "token"},
		{"POST", "/file?name=./../x.json&size=2", own, s.token, "{}", 400, "want the name of a file"},
		{"POST", "/file?name=/x.json&size=2", own, s.token, "{}", 400, "want the name of a file"},
		{"POST", "/file?name=hub/../../x.json&size=2", own, s.token, "{}", 400, "want the name of a file"},
		{"POST", "/file?name=./x.json&size=-2", own, s.token, "{}", 400, "want the name of a file"},
		{"POST", "/measure", own, "", "{}", 403, "token"},
		{"POST", "/measure", own, s.token, "{", 400, "this is no measurement: want a JSON object"},
		{"POST", "/measure", own, s.token, `{} {}`, 400, "this is no measurement: want a JSON object"},
		{"POST", "/measure", own, s.token, `{"of": 1}`, 400, "this is no measurement: want a JSON object"},
		{"POST", "/measure", own, s.token, strings.Repeat("[", 1<<15), 400, "this is no measurement: want a JSON object"},
		{"POST", "/measure", own, s.token, `{"model": "` + strings.Repeat("a", 1<<20), 400, "this is no measurement: want a JSON object"},
		{"POST", "/measure", own, s.token, "[1]", 400, "this is no measurement: want a JSON object"},
		{"POST", "/measure", own, s.token, `{"tp": "two"}`, 400, "tp is a string: want a whole number"},
		{"POST", "/measure", own, s.token, `{"batch": 1.5}`, 400, "batch is a number 1.5: want a whole number"},
		{"POST", "/measure", own, s.token, `{"model": 8}`, 400, "model is a number: want a string"},
		{"POST", "/measure", own, s.token, `{"model": "--help"}`, 400, "built-in model"},
		{"POST", "/measure", own, s.token, `{"model": "llama3.1-8b", "engine": "vllm", "tp": 1}`, 400, "native or transformers"},
	} {
		w := answered(s, c.method, c.target, c.host, c.token, c.body)
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.holds) {
			t.Errorf("%s %s of %s: %d %.200s, want %d with %q", c.method, c.target, c.host, w.Code, w.Body, c.code, c.holds)
		}
		if strings.Contains(w.Body.String(), s.token) || strings.Contains(w.Body.String(), folder) {
			t.Errorf("%s %s tells %.300s", c.method, c.target, w.Body)
		}
		if c.host == own && !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s %s: headers %v", c.method, c.target, w.Header())
		}
	}
}

// Models that the page does not list are refused alike, whether there is such a file or not.
func TestServeMeasuresListed(t *testing.T) {
	folder := t.TempDir()
	t.Chdir(folder)
	testkit.Must(t, os.MkdirAll("org", 0o700))
	testkit.Must(t, os.WriteFile("org/name", []byte("secret"), 0o600))
	testkit.Must(t, os.WriteFile("name", []byte("secret"), 0o600))
	s := local(t, folder)
	answers := map[string]bool{}
	for _, model := range []string{"", "/etc/hostname", "/etc/none", "name", "none", "./name", "./none", "../x/y", "~/x", "a/b/c", `org\name`,
		"-m", "org/name.json/x", "org/..", "file:///etc/hostname"} {
		body, err := json.Marshal(measureOrder{model, "native", 1, 1, 8, 2})
		testkit.Must(t, err)
		w := answered(s, "POST", "/measure", "127.0.0.1:1", s.token, string(body))
		answers[fmt.Sprint(w.Code, w.Body)] = true
	}
	if len(answers) != 1 || !answers["400 measuring needs a built-in model or a hub id\n"] {
		t.Errorf("answers differ: %q", slices.Collect(maps.Keys(answers)))
	}
	for _, model := range []string{"llama3.1-8b", "meta-llama/Llama-3.1-8B", "org/name", "org/name@main"} {
		if args, err := (&measureOrder{model, "native", 1, 1, 8, 2}).args(s.order, 0); err != nil || !slices.Contains(args, "--named-model") ||
			!slices.Contains(args, "--offline") {
			t.Errorf("%s: %v, %v", model, args, err)
		}
	}
	if _, err := (models.Resolver{Table: &models.Table{}, Hub: models.Hub{Offline: true}, NoFiles: true}).Resolve(t.Context(),
		"org/name"); err == nil || !strings.Contains(err.Error(), "hub cache") {
		t.Errorf("a hub id that is a file's name too: %v", err)
	}
}

// Paths of the machine stay on its terminal, and the rest of what went wrong reaches the page.
func TestServeSaysNoPaths(t *testing.T) {
	s := local(t, t.TempDir())
	for text, want := range map[string]string{
		"reading the hub cache: open /home/some user/x: permission denied": "reading the hub cache: open (file): permission denied",
		`writing "/r/x.json": no space`:                                    `writing "(file)": no space`,
		`C:\Users\x is no directory`:                                       "(file)",
		"~/.cache/x: no such file":                                         "(file): no such file",
		"meta-llama/Llama-3.1-8B at 3 tok/s, 4 / 5":                        "meta-llama/Llama-3.1-8B at 3 tok/s, 4 / 5",
		"see https://huggingface.co/org/name":                              "see https://huggingface.co/org/name",
	} {
		if got := s.said(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

// A binary without the page's program says what makes it where a static page is asked for.
func TestServeWithoutProgram(t *testing.T) {
	if _, err := (&app{env: os.Getenv}).staticFiles(); err == nil {
		t.Skip("this one has the program")
	}
	if got := try(t, "serve", "--static", t.TempDir()); got.code != 1 || !strings.Contains(got.stderr, "make web") {
		t.Errorf("exit %d: %s", got.code, got.stderr)
	}
}

// Numbers are read as the command line reads them, and what is none is refused in its words.
func TestPageReadsNumbers(t *testing.T) {
	p := page.New()
	answer := func(prompt string) (a page.Answer) {
		request, err := json.Marshal(page.Request{Do: "json", Flags: map[string]string{
			"model": "llama3.1-8b", "gpu": "h100", "prompt-len": prompt}})
		testkit.Must(t, err)
		testkit.Must(t, json.Unmarshal(p.Handle(t.Context(), request), &a))
		return a
	}
	if a := answer("2e3"); a.Text == "" || a.Text != answer("2000").Text {
		t.Errorf("2e3 is not 2000: %s", a.Error)
	}
	for prompt, want := range map[string]string{"1e12": "at most 2147483647", "2.5": "want a whole number, as 3",
		"many": "want a whole number, as 512", "0": "prompt length"} {
		if a := answer(prompt); !strings.Contains(a.Error, want) || strings.Contains(a.Error, "strconv") {
			t.Errorf("a prompt of %s tokens: %q, want %q", prompt, a.Error, want)
		}
	}
}

// A page that is served reads the files that were dropped on it, the latest of a name, and no other of this machine. No answer names
// their folder, which ends with the server.
func TestServeReadsDropped(t *testing.T) {
	s := local(t, t.TempDir())
	const own = "127.0.0.1:1"
	outside := filepath.Join(t.TempDir(), "tiny.json")
	testkit.Must(t, os.WriteFile(outside, []byte(tinyLlama), 0o600))
	ask := func(flags map[string]string) string {
		flags["gpu"] = "h100"
		request, err := json.Marshal(page.Request{Do: "json", Flags: flags})
		testkit.Must(t, err)
		text := answered(s, "POST", "/ask?worker=a", own, s.token, string(request)).Body.String()
		if folder := s.estimators.folder; folder == "" || strings.Contains(text, folder) {
			t.Errorf("%v: the answer names the folder %q: %.300s", flags, folder, text)
		}
		return text
	}
	if text := ask(map[string]string{"model": "./tiny.json"}); !strings.Contains(text, `{"error":`) || !strings.Contains(text, "./tiny.json") {
		t.Errorf("a file that was not dropped: %.300s", text)
	}
	for _, hidden := range []string{strings.Replace(tinyLlama, `"hidden_size": 64`, `"hidden_size": 32`, 1), tinyLlama} {
		if w := answered(s, "POST", "/file?name=./tiny.json&size="+fmt.Sprint(len(hidden)), own, s.token, hidden); w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		t.Chdir(t.TempDir())
		testkit.Must(t, os.WriteFile("tiny.json", []byte(hidden), 0o600))
		var a page.Answer
		testkit.Must(t, json.Unmarshal([]byte(ask(map[string]string{"model": "./tiny.json"})), &a))
		if want := try(t, "estimate", "./tiny.json", "h100", "--format", "json").stdout; a.Text != want {
			t.Errorf("a file that was dropped: %s", firstDifference(a.Text, want))
		}
	}
	answered(s, "POST", "/file?name=./config.json&size="+fmt.Sprint(len(tinyLlama)), own, s.token, tinyLlama)
	if text := ask(map[string]string{"model": "./config.json"}); !strings.Contains(text, `\"name\": \"config\"`) {
		t.Errorf("a config.json: %.300s", text)
	}
	up := "./" + strings.Repeat("../", 20)
	for flag, values := range map[string][]string{"model": {outside, up + outside, ".//" + outside}, "hardware": {outside, "tiny.json", up},
		"calibration": {outside, "tiny.json"}, "expert-skew": {outside, "tiny.json"}, "draft-model": {outside}} {
		for _, value := range values {
			flags := map[string]string{"model": "qwen3-30b-a3b", "speculative-tokens": "1", "acceptance": "0.5", "rate": "1"}
			flags[flag] = value
			if text := ask(flags); !strings.Contains(text, `{"error":`) || strings.Contains(text, "vocab") {
				t.Errorf("--%s %s: %.300s", flag, value, text)
			}
		}
	}
	folder := s.estimators.folder
	s.estimators.forget()
	if _, err := os.Stat(folder); err == nil {
		t.Error("the folder of dropped files is left")
	}
}
