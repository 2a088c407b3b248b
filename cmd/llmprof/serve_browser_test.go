//go:build browser

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	devtools "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"llmprof/cmd/llmprof/internal/page"
	"llmprof/internal/testkit"
	"llmprof/web"
)

// servedPage are the files of the page that "llmprof serve" answers.
var servedPage = sync.OnceValues((&app{env: os.Getenv}).servedFiles)

// staticPage are the files of the page with its program, which is compiled if "make web"
// has not done so.
var staticPage = sync.OnceValues(func() (map[string][]byte, error) {
	a := &app{env: os.Getenv}
	files, err := a.staticFiles()
	if err == nil {
		return files, nil
	}
	dir, err := os.MkdirTemp("", "page")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "page.wasm")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "./internal/page/wasm")
	build.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	text, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	start, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "lib/wasm/wasm_exec.js"))
	if err != nil {
		return nil, err
	}
	all, err := web.Static()
	if err != nil {
		return nil, err
	}
	all[web.Program], all["wasm_exec.js"] = zipped(text), start
	return all, a.derive(all)
})

func zipped(text []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	_, _ = w.Write(text)
	_ = w.Close()
	return b.Bytes()
}

// browseStatic opens the page of a static folder in Chromium, at a fragment.
func browseStatic(t *testing.T, fragment string) *tab {
	t.Helper()
	files, err := staticPage()
	testkit.Must(t, err)
	folder := t.TempDir()
	testkit.Must(t, writePage(folder, files))
	s := httptest.NewServer(http.FileServer(http.Dir(folder)))
	t.Cleanup(s.Close)
	return newTab(t, s.URL+"/"+fragment, s.URL+"/")
}

// browse opens the page of "llmprof serve" in Chromium, at a fragment.
func browse(t *testing.T, fragment string, order *serveOrder) *tab {
	t.Helper()
	files, err := servedPage()
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := newPageServer(&app{env: func(string) string { return "" }, stderr: io.Discard}, order, files, listener.Addr().String())
	server := s.server(context.Background())
	go func() { _ = s.answer(context.Background(), server, listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return newTab(t, s.address()+fragment, "http://"+listener.Addr().String()+"/")
}

// sharedBrowser is a headless Chromium in which all pages are opened, each in a tab of its own, since it takes as long to start
// one as a short test takes. closeBrowser ends it, where it was started.
var sharedBrowser = sync.OnceValues(func() (context.Context, error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromiumPath()), chromedp.NoSandbox,
		chromedp.WindowSize(1400, 1000))
	ctx, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, _ = chromedp.NewContext(ctx)
	closeBrowser = func() {
		_ = chromedp.Cancel(ctx) // asks the browser to end its processes, which a kill would leave behind
		end()
	}
	return ctx, chromedp.Run(ctx)
})

// newTab opens an address in the shared browser; requests to anywhere else are complaints.
func newTab(t *testing.T, address, own string) *tab {
	t.Helper()
	chromium(t)
	browser, err := sharedBrowser()
	testkit.Must(t, err)
	ctx, end := chromedp.NewContext(browser)
	t.Cleanup(end)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	t.Cleanup(cancel)
	p := &tab{Context: ctx}
	chromedp.ListenTarget(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventConsoleAPICalled:
			p.complain("console: %s %s", e.Type, e.Args[0].Value)
		case *cdplog.EventEntryAdded:
			if e.Entry.Level == cdplog.LevelError {
				p.complain("log: %s %s", e.Entry.Text, e.Entry.URL)
			}
		case *runtime.EventExceptionThrown:
			p.complain("%s", e.ExceptionDetails.Error())
		case *devtools.EventJavascriptDialogOpening:
			p.complain("a script ran: %s", e.Message)
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(e.Request.URL, own) && !strings.HasPrefix(e.Request.URL, "data:") && !strings.HasPrefix(e.Request.URL, "blob:") {
				p.complain("request: %s", e.Request.URL)
			}
		}
	})
	p.do(t, network.Enable(), runtime.Enable(), cdplog.Enable(), devtools.Enable(), chromedp.Navigate(address))
	p.wait(t, `document.querySelector("#verdict .value") && !document.querySelector("#verdict .verdict").textContent.includes("is loading")`)
	return p
}

// wait waits until an expression is true.
func (p *tab) wait(t *testing.T, expression string) {
	t.Helper()
	const most = 2 * time.Minute
	ctx, cancel := context.WithTimeout(p, most)
	defer cancel()
	often, last := chromedp.WithPollingInterval(20*time.Millisecond), chromedp.WithPollingTimeout(most) // By default it gives up after 30 s.
	poll := chromedp.Poll(expression, nil, often, last)
	if err := chromedp.Run(ctx, poll); err != nil {
		var text string
		p.eval(t, `document.getElementById("verdict")?.innerText ?? document.body.innerText`, &text)
		t.Fatalf("waiting for %s: %v; the page says %.300s; note %q; complaints %v", expression, err, text, p.text(t, "header .note"),
			p.complaints)
	}
}

// followed waits until all views have followed the latest change, and are painted.
func (p *tab) followed(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(p, 2*time.Minute)
	defer cancel()
	if err := chromedp.Run(ctx, chromedp.Evaluate(`new Promise((done) => { let quiet = 0; const look = () => {
		quiet = llmprofTimes.idle() ? quiet + 1 : 0; if (quiet > 4) done(0); else requestAnimationFrame(look); }; look(); })`, nil,
		func(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) })); err != nil {
		t.Fatalf("waiting for all views: %v; note %q", err, p.text(t, "header .note"))
	}
}

// text is that of the first element of a selector.
func (p *tab) text(t *testing.T, selector string) (s string) {
	t.Helper()
	p.eval(t, fmt.Sprintf(`document.querySelector(%q)?.textContent ?? ""`, selector), &s)
	return s
}

// content waits for a promise.
func (p *tab) content(t *testing.T, script string, out any) {
	t.Helper()
	p.do(t, chromedp.Evaluate(script, out, func(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) }))
}

// quiet fails where the browser complained.
func (p *tab) quiet(t *testing.T) {
	t.Helper()
	if len(p.complaints) > 0 {
		t.Errorf("the browser complains: %v", p.complaints)
	}
}

const settled = `!document.querySelector("main.failed") && document.querySelectorAll("main .chart svg").length >= 7`

// The first view has a verdict, all views and their figures, and its transfer is small.
func TestPageFirstView(t *testing.T) {
	p := browseStatic(t, "")
	p.wait(t, settled+` && llmprofTimes.answered.cards && document.querySelectorAll("#accuracy svg .crowd[d^=M]").length > 1`)
	var views []string
	p.eval(t, `[...document.querySelectorAll("main section")].map((s) => s.id)`, &views)
	if want := []string{"verdict", "memory", "roofline", "operators", "graph", "latency", "rates", "pareto", "accuracy",
		"plan"}; !slices.Equal(views, want) {
		t.Errorf("views %v, want %v", views, want)
	}
	if got := p.text(t, "#verdict .verdict"); !strings.HasPrefix(strings.TrimSpace(got), "Fits") {
		t.Errorf("verdict %q", got)
	}
	for selector, least := range map[string]int{"#verdict .tile": 6, "#operators tbody tr": 10, "#graph .node": 12,
		"#roofline svg [data-mark=dot] *": 5, "#pareto svg .crowd": 1} {
		var n int
		p.eval(t, fmt.Sprintf(`document.querySelectorAll(%q).length`, selector), &n)
		if n < least {
			t.Errorf("%d of %s, want %d at least", n, selector, least)
		}
	}
	files, err := staticPage()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for name, text := range files {
		if name == web.Program {
			sum += len(text)
		} else if name != "LICENSES.txt" {
			sum += len(zipped(text))
		}
	}
	t.Logf("transfer %.2f MB with gzip", float64(sum)/1e6)
	if _, err := (&app{env: os.Getenv}).staticFiles(); err == nil && sum > 3e6 { // otherwise the program is larger than that of "make web"
		t.Errorf("%d bytes are transferred, want 3 MB at most", sum)
	}
	var first float64
	p.eval(t, `llmprofTimes.first`, &first)
	t.Logf("first figures after %.0f ms", first)
	p.warm(t)
	p.quiet(t)
}

// warm waits until the page has asked ahead what changes ask, of which nothing is refused. It gives the milliseconds that took, by lengths.
func (p *tab) warm(t *testing.T) []float64 {
	t.Helper()
	p.wait(t, `llmprofTimes.warm`)
	var warm struct {
		Refused []string
		Took    []float64
	}
	p.eval(t, `llmprofTimes.warm`, &warm)
	if len(warm.Refused) > 0 {
		t.Errorf("what the page asks ahead is refused: %q", warm.Refused)
	}
	return warm.Took
}

// Every control changes the command line, and the figures follow.
func TestPageControls(t *testing.T) {
	p := browse(t, "#model=deepseek-v3&gpu=h200-sxm-141gb&tp=8&batch=4", &serveOrder{})
	p.wait(t, settled)
	for _, c := range []struct{ id, value, want string }{
		{"expert-skew", "0.5", "--expert-skew 0.5"}, {"model", "llama3.1-70b", "--model llama3.1-70b"},
		{"gpu", "b200-sxm-180gb", "--gpu b200-sxm-180gb"}, {"engine", "sglang", "--engine sglang"},
		{"tp", "4", "--tp 4"}, {"dp", "2", "--dp 2"}, {"pp", "2", "--pp 2"},
		{"micro-batches", "2", "--micro-batches 2"}, {"gpus-per-node", "16", "--gpus-per-node 16"}, {"sp", "", "--sp"}, {"sp", "", "--pp 2"},
		{"micro-batches", "", "--pp 2"}, {"gpus-per-node", "", "--pp 2"}, {"weights", "fp8", "--weights fp8"}, {"kv", "fp8", "--kv fp8"},
		{"batch", "32", "--batch 32"}, {"prompt-len", "2000", "--prompt-len 2000"}, {"gen-len", "300", "--gen-len 300"},
		{"cached-prefix", "500", "--cached-prefix 500"},
		{"max-num-batched-tokens", "4096", "--max-num-batched-tokens 4096"}, {"memory-utilization", "0.85", "--memory-utilization 0.85"},
		{"power-limit", "500", "--power-limit 500"}, {"clock", "1500", "--clock 1500"},
		{"price", "4.5", "--price 4.5"},
		{"cached-prefix", "", "--batch 32"}, {"max-num-batched-tokens", "", "--batch 32"}, {"calibration", "", "--calibration default"},
		{"load=rate", "", "--rate 1"}, {"rate", "3", "--rate 3"}, {"prefix-hit-rate", "0.5", "--prefix-hit-rate 0.5"},
		{"prefill-replicas", "1", "--prefill-replicas 1"}, {"prefill-replicas", "", "--rate 3"}, {"load=concurrency", "", "--concurrency 8"},
		{"concurrency", "20", "--concurrency 20"},
	} {
		before := p.text(t, "#verdict .command")
		p.set(t, c.id, c.value)
		p.wait(t, fmt.Sprintf(`document.querySelector("#verdict .command").textContent.includes(%q)`, c.want))
		if c.value != "" && before == p.text(t, "#verdict .command") {
			t.Errorf("%s: the command stays %s", c.id, before)
		}
		p.wait(t, settled)
	}
	p.agrees(t)
	for id, v := range map[string]string{"target-ttft": "500", "target-tpot": "50", "target-tps": "10", "target-usd": "1000"} {
		p.set(t, id, v)
	}
	p.wait(t, `document.querySelectorAll("#verdict .tile .ok:not(.none), #verdict .tile .no").length === 4`)
	p.quiet(t)
}

// set gives a control a value as a user does, by events.
func (p *tab) set(t *testing.T, id, value string) {
	t.Helper()
	var ok bool
	p.eval(t, fmt.Sprintf(`(() => {
		const [id, value] = [%q, %q];
		const e = id.includes("=") ? document.querySelector('input[name="' + id.split("=")[0] + '"][value="' + id.split("=")[1] + '"]') :
			document.getElementById(id);
		if (!e || e.disabled) return false;
		if (e.type === "radio" || e.type === "checkbox" || e.tagName === "BUTTON") { e.click(); return true; }
		Object.getOwnPropertyDescriptor(Object.getPrototypeOf(e), "value").set.call(e, value);
		e.dispatchEvent(new Event("input", { bubbles: true }));
		e.dispatchEvent(new Event("change", { bubbles: true }));
		return true;
	})()`, id, value), &ok)
	if !ok {
		t.Fatalf("no control %s", id)
	}
}

// agrees holds the figures that are shown to those that the command line gives for the
// command that is shown.
func (p *tab) agrees(t *testing.T) {
	t.Helper()
	args := strings.Fields(p.text(t, "#verdict .command"))[1:]
	got := try(t, append(args, "--format", "json")...)
	var document string
	p.content(t, workerAsked(t, map[string]any{"do": "json", "flags": flagsOf(args[1:])})+`.then((a) => a.text)`, &document)
	if !sameFigures(t, document, got.stdout) {
		t.Errorf("%v: the page and the command line differ: %s", args, firstDifference(document, got.stdout))
	}
}

// workerAsked is a script that asks a worker of its own.
func workerAsked(t *testing.T, request any) string {
	t.Helper()
	text, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`(async () => { const m = await import("/client.js"); globalThis.testClient ??= new m.Client(20000);
		return testClient.ask(String(Math.random()), %s); })()`, text)
}

func flagsOf(args []string) map[string]string {
	flags := map[string]string{}
	for i := 0; i < len(args); i++ {
		name := strings.TrimPrefix(args[i], "--")
		if flags[name] = "true"; i+1 < len(args) && !strings.HasPrefix(args[i+1], "--") {
			i++
			flags[name] = args[i]
		}
	}
	return flags
}

// The figures of the page's worker are those of the command line to the last digit, for 200 states that can be.
func TestPageFiguresInBrowser(t *testing.T) {
	p := browseStatic(t, "")
	r := rand.New(rand.NewPCG(25, 200))
	refused, answered, kinds := 0, 0, map[string]int{}
	// Whose experts have groups of tokens.
	flags := map[string]string{"model": "mixtral-8x7b", "gpu": "h100", "engine": "native", "batch": "200"}
	for ; answered < 200 && refused < 600; flags = randomFlags(r) {
		if !sameAsCommand(t, flags, func(do string) (a page.Answer) {
			p.content(t, workerAsked(t, map[string]any{"do": do, "flags": flags})+`.catch((e) => ({ error: e.message }))`, &a)
			return a
		}) {
			refused++
			continue
		}
		answered++
		for name := range flags {
			kinds[name]++
		}
	}
	if t.Logf("%d states, with %v; %d others cannot be, by either", answered, kinds, refused); answered < 200 {
		t.Errorf("%d states can be, want 200", answered)
	}
	for _, name := range []string{"rate", "concurrency", "prefix-hit-rate", "speculative-tokens", "cached-prefix", "max-num-batched-tokens"} {
		if kinds[name] < 3 {
			t.Errorf("%d states with --%s can be: too few say something", kinds[name], name)
		}
	}
}

// Shared links bring back the whole state.
func TestPageLink(t *testing.T) {
	const link = "#model=qwen3-30b-a3b&gpu=h100-sxm-80gb&tp=2&weights=fp8&batch=16&prompt-len=2048" +
		"&target.tpot=30&view.phase=prefill&pin.model=qwen3-30b-a3b&pin.gpu=a100-sxm-80gb&pin.tp=4"
	p := browse(t, link, &serveOrder{})
	p.wait(t, settled+` && document.querySelectorAll("#verdict .diff").length > 3`)
	var hash string
	p.eval(t, `location.hash`, &hash)
	if hash != link {
		t.Errorf("the link becomes %s", hash)
	}
	p.set(t, "batch", "20")
	p.wait(t, `location.hash.includes("batch=20")`)
	p.eval(t, `location.hash`, &hash)
	var here string
	p.eval(t, `location.href`, &here)
	p.do(t, chromedp.Navigate("about:blank"), chromedp.Navigate(here))
	p.wait(t, settled+` && document.querySelectorAll("#verdict .diff").length > 3`)
	var again string
	p.eval(t, `location.hash`, &again)
	if again != hash || p.text(t, "#prefill") != "" {
		t.Errorf("%s comes back as %s", hash, again)
	}
	if p.text(t, "#roof-prefill[aria-pressed=true]") != "prefill" {
		t.Error("the phase of the link is not shown")
	}
	p.quiet(t)
}

// Pinning sets what is shown beside what changes, in every view.
func TestPageCompares(t *testing.T) {
	p := browse(t, "#model=llama3.1-8b&gpu=h100-sxm-80gb&batch=16", &serveOrder{})
	p.wait(t, settled)
	p.click(t, "Pin as A")
	p.set(t, "gpu", "a100-sxm-80gb")
	p.wait(t, `document.querySelector("#compare tbody tr th")?.textContent === "--gpu" &&
		document.querySelectorAll("#verdict .diff").length >= 5`)
	p.wait(t, `document.querySelector("#memory .legend small") && [...document.querySelectorAll("#operators thead th")].some((h) =>
		h.textContent === "× A")`)
	p.wait(t, `[...document.querySelectorAll("#graph .node text")].some((x) => x.textContent.startsWith("A "))`)
	p.wait(t, `document.querySelectorAll('#latency svg [stroke-dasharray="6,3"]').length === 2 &&
		document.querySelectorAll('#rates svg [stroke-dasharray="6,3"]').length === 2`)
	p.wait(t, `document.querySelectorAll("#pareto svg .marked path").length === 2 &&
		[...document.querySelectorAll("#accuracy .about")].some((x) => x.textContent.startsWith("A:"))`)
	p.set(t, "prompt-len", "4000")
	p.wait(t, `document.querySelectorAll('#pareto svg [stroke-dasharray="6,3"]').length === 1`)
	p.click(t, "Unpin A")
	p.wait(t, `!document.getElementById("compare")`)
	p.eval(t, `location.hash = "#model=qwen3-next-80b-a3b&gpu=h200-sxm-141gb&tp=2&pin.model=qwen3-30b-a3b&pin.gpu=h200-sxm-141gb"; 0`, nil)
	p.wait(t, `document.querySelector("#compare .about")?.textContent.includes("experts_gate_up (")`)
	var twice []string
	p.eval(t, `document.querySelector("#compare .about").textContent.split(/: |, /).map((one) => one.split(/ [+−]/)[0]).filter((name, i,
		all) => all.indexOf(name) < i)`, &twice)
	if len(twice) > 0 {
		t.Errorf("operators that differ have one name: %q", twice)
	}
	p.set(t, "gen-len", "1") // nothing is decoded: the prefill stands beside that of A
	p.wait(t, `document.querySelector("#roof-decode").disabled && document.querySelector("#roof-prefill").ariaPressed === "true" &&
		!document.querySelector("#compare .about")`)
	p.wait(t, `[...document.querySelectorAll("#operators td:last-child")].filter((e) => e.textContent > 0).length > 10 &&
		![...document.querySelectorAll("#graph .node title")].every((e) => e.textContent.endsWith("not in this phase"))`)
	p.quiet(t)
}

func (p *tab) click(t *testing.T, name string) {
	t.Helper()
	button := fmt.Sprintf(`[...document.querySelectorAll("button")].find((b) => b.textContent.trim() === %q)`, name)
	p.wait(t, button)
	p.eval(t, fmt.Sprintf(`(() => { const b = %s; b.scrollIntoView({ block: "center" }); b.click(); return 0; })()`, button), nil)
}

// Choices that cannot be are grey and say why.
func TestPageRefusesChoices(t *testing.T) {
	p := browse(t, "#model=llama3.1-8b&gpu=h100-sxm-80gb", &serveOrder{})
	p.wait(t, `document.querySelector("#ep option[value='8']")?.disabled`)
	var reason string
	p.eval(t, `document.querySelector("#ep option[value='8']").textContent`, &reason)
	if !strings.Contains(reason, "expert") {
		t.Errorf("EP 8 of a dense model: %q", reason)
	}
	p.quiet(t)
}

// Operators are linked: chosen in the table, they are marked in the graph and the roofline.
// The keyboard does what the pointer does.
func TestPageKeyboard(t *testing.T) {
	p := browse(t, "#model=llama3.1-8b&gpu=h100-sxm-80gb&batch=16", &serveOrder{})
	p.wait(t, settled)
	p.do(t, chromedp.Focus(`#operators tbody tr:nth-child(3)`, chromedp.ByQuery), chromedp.KeyEvent(kb.Enter))
	p.wait(t, `document.querySelectorAll("#operators tr[aria-selected=true]").length === 1 &&
		[...document.querySelectorAll("#graph .node rect")].some((r) => r.getAttribute("stroke-width") === "3")`)
	var scale [2]string
	p.eval(t, `document.querySelector("#graph svg > g").getAttribute("transform")`, &scale[0])
	p.do(t, chromedp.Focus(`#graph svg`, chromedp.ByQuery), chromedp.KeyEvent("+"))
	p.wait(t, fmt.Sprintf(`document.querySelector("#graph svg > g").getAttribute("transform") !== %q`, scale[0]))
	// Every control can be reached, in order, and the first ones are those of the head.
	var reached []string
	p.eval(t, `document.activeElement.blur(); window.scrollTo(0, 0); 0`, nil)
	seen := map[string]bool{}
	for range 70 {
		var id string
		p.do(t, chromedp.KeyEvent(kb.Tab))
		p.eval(t, `document.activeElement.id || document.activeElement.name || ""`, &id)
		if seen[id] = true; id != "" {
			reached = append(reached, id)
		}
	}
	for _, id := range []string{"model", "gpu", "engine", "tp", "weights", "batch", "prompt-len", "gen-len", "price", "target-ttft"} {
		if !seen[id] {
			t.Errorf("the Tab key does not reach %s; it reaches %v", id, reached)
		}
	}
	p.quiet(t)
}

// An operator that the graph has in a node of several is marked there, and A's shares are those of the layer.
func TestPageGraphLinks(t *testing.T) {
	p := browse(t, "#model=deepseek-v3&gpu=h200-sxm-141gb&tp=8&batch=16&pin.model=deepseek-v3&pin.gpu=b200-sxm-180gb&pin.tp=8&pin.batch=16",
		&serveOrder{})
	p.wait(t, settled+` && [...document.querySelectorAll("#graph .node text")].some((x) => x.textContent.startsWith("A "))`)
	p.eval(t, `[...document.querySelectorAll("#operators tbody tr")].find((r) => r.textContent.startsWith("experts_gate_up")).click(); 0`, nil)
	p.wait(t, `document.querySelectorAll("#graph .chosen").length === 1 &&
		document.querySelector("#graph .chosen").textContent.includes("mixture of experts")`)
	var shares []string
	p.eval(t, `[...document.querySelectorAll("#graph .node")].filter((n) => n.textContent.startsWith("kv_b_proj")).map((n) =>
		[...n.querySelectorAll("text")].find((x) => x.textContent.startsWith("A ")).textContent.split(",")[0])`, &shares)
	if len(shares) != 2 || shares[0] == shares[1] {
		t.Errorf("kv_b_proj of 3 layers and of 58 has the shares %q in A", shares)
	}
	p.quiet(t)
}

// What cannot be says why beside what can: a setting that is pinned, and charts without any point.
func TestPageSaysWhatCannotBe(t *testing.T) {
	p := browse(t, "#model=deepseek-v3&gpu=h200-sxm-141gb&tp=2&pin.model=deepseek-v3&pin.gpu=h200-sxm-141gb&pin.batch=-5", &serveOrder{})
	p.wait(t, `document.querySelector("#verdict .verdict").textContent.includes("Does not run")`)
	p.wait(t, `/A is not possible: batch is -5/.test(document.querySelector("#compare").textContent)`)
	p.eval(t, `document.getElementById("rates").scrollIntoView(); 0`, nil)
	p.wait(t, `document.querySelector("#rates .about").textContent.startsWith("No steady state: nothing is left") &&
		document.querySelectorAll("#rates .chart svg").length === 2`)
	p.followed(t)
	p.quiet(t)
}

// A load without a steady state leaves the views of a request alone, and a point of least cost is adopted by keyboard.
func TestPageWithoutSteadyState(t *testing.T) {
	p := browse(t, "#model=llama3.1-8b&gpu=l4-24gb&view.load=rate&rate=50", &serveOrder{})
	p.wait(t, settled+` && document.querySelector("#verdict .verdict").textContent.includes("No steady state")`)
	p.wait(t, `/ms$/.test(document.querySelector("#verdict .tile .value").textContent) &&
		document.querySelectorAll("#pareto select option").length > 3`)
	p.do(t, chromedp.Focus(`#pareto select`, chromedp.ByQuery), chromedp.KeyEvent(kb.ArrowDown))
	p.wait(t, `!location.hash.includes("gpu=l4-24gb") && document.querySelector("#verdict .verdict").textContent.includes("Fits")`)
	p.quiet(t)
}

// Files that are dropped are models, results or an error in words, and never run script.
func TestPageTakesFiles(t *testing.T) {
	for name, p := range map[string]*tab{"served": browse(t, "", &serveOrder{}), "static": browseStatic(t, "")} {
		t.Run(name, func(t *testing.T) { p.takesFiles(t) })
	}
}

func (p *tab) takesFiles(t *testing.T) {
	p.wait(t, settled)
	const config = `{"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":2048,"intermediate_size":8192,` +
		`"num_hidden_layers":16,"num_attention_heads":32,"num_key_value_heads":8,"vocab_size":128256,"max_position_embeddings":131072,` +
		`"rms_norm_eps":1e-5,"rope_theta":500000.0,"tie_word_embeddings":true,"hidden_act":"silu","torch_dtype":"bfloat16","head_dim":64}`
	p.drop(t, "config.json", config)
	p.wait(t, `document.querySelector("#verdict .verdict").textContent.includes("config on 1")`)
	p.drop(t, "small.json", config)
	p.wait(t, `document.querySelector("#verdict .command").textContent.includes("--model ./small.json") &&
		document.querySelector("#verdict .verdict").textContent.includes("small on 1")`)
	results, err := filepath.Glob("../../experiments/h200-native/h200-native-short-*.json")
	if err != nil || len(results) == 0 {
		t.Fatal(results, err)
	}
	text, err := os.ReadFile(results[0])
	if err != nil {
		t.Fatal(err)
	}
	p.drop(t, "result.json", string(text))
	p.wait(t, `/\d+ measured figures/.test(document.querySelector("header .note").textContent)`)
	for name, hostile := range map[string]string{
		`<img src=x onerror=alert(1)>.json`: strings.Replace(config, `"llama"`, `"<img src=x onerror=alert(2)>"`, 1),
		"deep.json":                         strings.Repeat("[", 1e6) + strings.Repeat("]", 1e6),
		"deeper.json":                       strings.Repeat(`{"a":`, 1e6) + "1" + strings.Repeat("}", 1e6),
		"shallow.json":                      strings.Repeat("[", 900) + strings.Repeat("]", 900),
		"sized.json":                        strings.Replace(config, `"hidden_size":2048`, `"hidden_size":9223372036854775807`, 1),
		"cut.json":                          `{"schema": "llmprof.measure/v1", "times": [1, 2`,
		"wrong.json":                        `{"schema": "llmprof.measure/v1", "model": [1], "workload": "x", "ttft_s": -1}`,
		"header.gguf":                       "GGUF\x03\x00\x00\x00" + bytesOf(0) + bytesOf(2),
		"key.gguf":                          "GGUF\x03\x00\x00\x00" + bytesOf(0) + bytesOf(1) + bytesOf(1<<62),
		"huge.json":                         strings.Replace(config, `"num_hidden_layers":16`, `"num_hidden_layers":1e300`, 1),
		"many.json":                         strings.Replace(config, `"num_hidden_layers":16`, `"num_hidden_layers":2000000000`, 1),
		"no.json":                           `{"schema": "llmprof.measure/v1"}`,
		"not.json":                          "\x00\xff",
		"counts.gguf":                       "GGUF\x03\x00\x00\x00" + strings.Repeat("\xff\xff\xff\xff\xff\xff\xff\x3f", 2),
		"nested.gguf": "GGUF\x03\x00\x00\x00" + bytesOf(0) + bytesOf(1) + bytesOf(1) + "a\x09\x00\x00\x00" + strings.Repeat(
			"\x09\x00\x00\x00"+bytesOf(1), 100000),
		"marked.toml":   `name = "<img src=x onerror=alert(3)>"` + "\ngpu = \"<script>alert(4)</script>\"",
		"values.json":   strings.Replace(config, `"llama"`, `"llama",`+strings.Repeat(`"<b>":[0],`, 100000)+`"x":0`, 1),
		"weights.gguf":  "GGUF\x03\x00\x00\x00" + strings.Repeat("\xff", 64),
		"bad.toml":      "x = [[[[",
		"estimate.json": `{"schema": "llmprof.estimate/v1"}`,
	} {
		p.drop(t, name, hostile)
		said, _ := json.Marshal(name)
		p.wait(t, fmt.Sprintf(`document.querySelector("header .note").textContent.startsWith(%s)`, said))
		if name == "estimate.json" && !strings.Contains(p.text(t, "header .note"), "it is a document llmprof.estimate/v1: want a config.json") {
			t.Errorf("%s: %s", name, p.text(t, "header .note"))
		}
		p.eval(t, `location.hash = "#model=llama3.1-8b&gpu=h100-sxm-80gb&batch=2"`, nil)
		p.wait(t, settled+` && document.querySelector("#verdict .verdict").textContent.includes("llama3.1-8b on 1")`)
	}
	p.quiet(t)
}

// The header of a GGUF is a model with the figures that the command line has for the file.
func TestPageTakesGGUF(t *testing.T) {
	packed, err := os.Open("../../models/testdata/gguf/tiny-llama.q4_k_m.gguf.gz")
	testkit.Must(t, err)
	defer packed.Close()
	unpacked, err := gzip.NewReader(packed)
	testkit.Must(t, err)
	text, err := io.ReadAll(unpacked)
	testkit.Must(t, err)
	sizes, err := os.ReadFile("../../models/testdata/gguf/sizes.json")
	testkit.Must(t, err)
	var size map[string]int
	testkit.Must(t, json.Unmarshal(sizes, &size))
	weights := size["tiny-llama.q4_k_m"] - len(text) // bytes, which nobody reads
	p := browse(t, "#model=llama3.1-8b&gpu=h100-sxm-80gb&batch=16", &serveOrder{})
	p.wait(t, settled)
	p.eval(t, fmt.Sprintf(`(() => { const d = new DataTransfer(); d.items.add(new File([Uint8Array.from(atob(%q), (c) => c.charCodeAt(0)),
		new Uint8Array(%d)], "some.gguf"));
		document.body.dispatchEvent(new DragEvent("drop", { bubbles: true, cancelable: true, dataTransfer: d })); return 0;
			})()`, base64.StdEncoding.EncodeToString(text), weights), nil)
	p.wait(t, `document.querySelector("#verdict .command").textContent.includes("--model ./some.gguf") &&
		document.querySelector("#verdict .verdict").textContent.includes("Fits")`)
	t.Chdir(t.TempDir())
	testkit.Must(t, os.WriteFile("some.gguf", append(text, make([]byte, weights)...), 0o600))
	p.agrees(t)
	p.quiet(t)
}

// bytesOf is a number of eight bytes as GGUF has it.
func bytesOf(n uint64) string { return string(binary.LittleEndian.AppendUint64(nil, n)) }

// A result whose names are markup is drawn as text.
func TestPageTakesMarkedResult(t *testing.T) {
	results, err := filepath.Glob("../../experiments/h200-native/h200-native-short-*.json")
	if err != nil || len(results) == 0 {
		t.Fatal(results, err)
	}
	text, err := os.ReadFile(results[0])
	if err != nil {
		t.Fatal(err)
	}
	const mark = `<img src=x onerror=alert(5)>`
	var r map[string]any
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	r["model"].(map[string]any)["name"] = mark
	r["engine"].(map[string]any)["name"] = mark
	if text, err = json.Marshal(r); err != nil {
		t.Fatal(err)
	}
	p := browse(t, "", &serveOrder{})
	p.wait(t, settled)
	p.drop(t, mark+".json", string(text))
	p.wait(t, `document.querySelector("header .note").textContent.startsWith("<img src=x")`)
	var images int
	p.eval(t, `document.querySelectorAll("img").length`, &images)
	if images > 0 {
		t.Errorf("%d images", images)
	}
	p.quiet(t)
}

// drop drops a file of a text onto the page.
func (p *tab) drop(t *testing.T, name, text string) {
	t.Helper()
	quoted, _ := json.Marshal([]string{name, text})
	p.eval(t, fmt.Sprintf(`(() => { const [name, text] = %s, d = new DataTransfer(); d.items.add(new File([text], name));
		document.body.dispatchEvent(new DragEvent("drop", { bubbles: true, cancelable: true, dataTransfer: d })); return 0; })()`, quoted), nil)
}

// A hostile link shows what is wrong with it and runs nothing.
func TestPageHostileLinks(t *testing.T) {
	p := browse(t, "", &serveOrder{})
	for _, fragment := range []string{
		"#model=<img src=x onerror=alert(1)>&gpu=<script>alert(2)</script>", "#model=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E&gpu=h100",
		"#model=llama3.1-8b&gpu=h100&gen-len=999999999999&prompt-len=999999999999", "#model=llama3.1-8b&gpu=h100&batch=1e400&price=NaN&tp=-1",
		"#__proto__=x&constructor=y&pin.__proto__=z&view.__proto__=q&model=llama3.1-8b", "#" + strings.Repeat("model=a&", 5000),
		"#model=llama3.1-8b&gpu=h100&calibration=/etc/passwd&hardware=/etc/passwd",
		"#model=llama3.1-8b&gpu=h100&view.load=rate&rate=1e-320&target.usd=1e-320", "#%", "#view.theme=javascript:alert(1)&view.cards=x",
	} {
		p.do(t, chromedp.Evaluate(fmt.Sprintf(`location.hash = %q`, fragment), nil))
		p.wait(t, `!document.querySelector("#verdict .verdict").textContent.includes("is loading")`)
		p.eval(t, `location.hash = "#model=llama3.1-8b&gpu=h100-sxm-80gb&batch=2"`, nil)
		p.wait(t, settled+` && document.querySelector("#verdict .verdict").textContent.includes("llama3.1-8b on 1")`)
	}
	p.quiet(t)
}

// A worker that takes too long is ended, and the next request is answered.
func TestPageEndsWorkers(t *testing.T) {
	p := browseStatic(t, "")
	var said []string
	p.content(t, `(async () => {
		const m = await import("/client.js"), c = new m.Client(400);
		const flags = { model: "llama3.1-8b", gpu: "h100" };
		await c.ask("warm", { do: "estimate", flags });
		const slow = await c.ask("slow", { do: "sweep", flags: { model: "deepseek-v3", gpu: "h200,h100,b200,mi300x", tp: "8", batch:
			"1..1000" } }).catch((e) => e.message);
		c.limit = 20000;
		const next = await c.ask("next", { do: "estimate", flags });
		return [String(slow), next.data.figures.schema];
	})()`, &said)
	if len(said) != 2 || !strings.Contains(said[0], "no answer within") || !strings.Contains(said[1], "llmprof.estimate") {
		t.Errorf("said %q", said)
	}
}

// A worker that fails is replaced, and a file that cannot be read any more is an error in words.
func TestPageReplacesWorkers(t *testing.T) {
	for name, p := range map[string]*tab{"served": browse(t, "", &serveOrder{}), "static": browseStatic(t, "")} {
		t.Run(name, func(t *testing.T) { p.replacesWorkers(t) })
	}
}

func (p *tab) replacesWorkers(t *testing.T) {
	var said []string
	p.content(t, `(async () => {
		const m = await import("/client.js"), c = new m.Client(20000), flags = { model: "llama3.1-8b", gpu: "h100" };
		await c.ask("warm", { do: "estimate", flags });
		c.file("./gone.json", { blob: null, size: 10 });
		const gone = await c.ask("gone", { do: "estimate", flags: { ...flags, model: "./gone.json" } }).catch((e) => e.message);
		const after = await c.ask("after", { do: "estimate", flags });
		const failed = await c.ask("failed", { do: 1n }).catch((e) => e.message);
		const next = await c.ask("next", { do: "estimate", flags });
		return [gone, after.data.figures.schema, failed, next.data.figures.schema];
	})()`, &said)
	for i, want := range []string{"gone.json", "llmprof.estimate", "BigInt", "llmprof.estimate"} {
		if i >= len(said) || !strings.Contains(said[i], want) {
			t.Errorf("said %q, want %q at place %d", said, want, i)
		}
	}
}

// Nothing is wider than the window, texts stand out and controls have names: by axe-core.
func TestPageFitsAndReads(t *testing.T) {
	axe := axeCore(t)
	p := browse(t,
		"#model=deepseek-v3&gpu=h200-sxm-141gb&tp=8&batch=16&target.tpot=5&target.ttft=900&pin.model=deepseek-v3&pin.gpu=b200-sxm-180gb&pin.tp=8",
		&serveOrder{})
	p.wait(t, settled)
	p.do(t, chromedp.Evaluate(axe+";0", nil))
	for _, width := range []int64{390, 1000, 2560} {
		for _, scheme := range []string{"light", "dark"} {
			p.do(t, emulation.SetDeviceMetricsOverride(width, 1000, 1, false),
				emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}))
			p.followed(t)
			var over int
			p.eval(t, `document.documentElement.scrollWidth - innerWidth`, &over)
			if over > 0 {
				t.Errorf("%d %s: %d px wider than the window", width, scheme, over)
			}
			var wrong []string
			rules := map[string]string{"light": "", "dark": `, runOnly: ["color-contrast"]`}[scheme] // dark, only colours are others
			p.content(t, `axe.run(document, { resultTypes: ["violations"]`+rules+` }).then((r) => r.violations.map((v) =>
				v.id + ": " + v.nodes.slice(0, 4).map((n) => n.html.slice(0, 160) + " " + (n.any[0]?.message ?? "")).join(" | ")))`, &wrong)
			for _, w := range wrong {
				t.Errorf("%d %s: %s", width, scheme, w)
			}
		}
	}
	p.quiet(t)
}

// The page of a static folder goes on where the network is gone.
func TestPageOffline(t *testing.T) {
	p := browseStatic(t, "#model=llama3.1-8b&gpu=h100-sxm-80gb&batch=16")
	p.wait(t, settled+` && document.querySelectorAll("#accuracy svg .crowd[d^=M]").length > 1`)
	p.do(t, network.EmulateNetworkConditions(true, 0, 0, 0))
	before := p.text(t, "#verdict .tile .value")
	p.set(t, "batch", "200")
	p.wait(t, fmt.Sprintf(`document.querySelector("#verdict .tile .value").textContent !== %q`, before))
	p.quiet(t)
}
