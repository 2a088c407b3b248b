package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"llmprof/internal/testkit"
)

// listening is a server of the page on a port, whose measurements run a program; stop ends it as an interruption does.
func listening(t *testing.T, program string) (s *pageServer, stop func()) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	s = local(t, t.TempDir())
	s.host, s.program = listener.Addr().String(), program
	ctx, cancel := context.WithCancel(t.Context())
	server, ended := s.server(ctx), make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.answer(ctx, server, listener)
	}()
	stop = func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Error("the server does not end")
		}
	}
	t.Cleanup(stop)
	return s, stop
}

// askPage is a request with the token, and its answer or "".
func askPage(ctx context.Context, t *testing.T, s *pageServer, method, path string, body io.Reader) (code int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+s.host+path, body)
	testkit.Must(t, err)
	r.Header.Set(tokenHeader, s.token)
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, ""
	}
	defer w.Body.Close()
	all, _ := io.ReadAll(w.Body)
	return w.StatusCode, string(all)
}

// Clients that open many connections and say nothing, half of a header, too much or never read take little memory, and keep
// nobody else out.
func TestServeCrowd(t *testing.T) {
	s, _ := listening(t, "false")
	before := heap()
	for name, said := range map[string]string{
		"silent": "", "half a header": "GET /here.json HTTP/1.1\r\nHost: " + s.host + "\r\n",
		"no token":    "GET /here.json HTTP/1.1\r\nHost: " + s.host + "\r\n\r\n",
		"long header": "GET / HTTP/1.1\r\nX: " + strings.Repeat("a", 1<<20),
		"slow body":   "POST /measure HTTP/1.1\r\nHost: " + s.host + "\r\n" + tokenHeader + ": x\r\nContent-Length: 9000000\r\n\r\n{",
	} {
		var all []net.Conn
		for range 1100 {
			c, err := net.Dial("tcp", s.host)
			testkit.Must(t, err)
			testkit.Must(t, c.SetDeadline(time.Now().Add(20*time.Millisecond)))
			_, _ = io.WriteString(c, said) // one that was closed already takes nothing
			all = append(all, c)
		}
		begin := time.Now()
		if code, text := askPage(t.Context(), t, s, "GET", "/here.json", nil); code != 200 || time.Since(begin) > 15*time.Second {
			t.Errorf("%s: a good client gets %d %s after %v", name, code, text, time.Since(begin))
		}
		if now := heap(); now > before+256<<20 {
			t.Errorf("%s: %d MB of memory", name, (now-before)>>20)
		}
		for _, c := range all {
			_ = c.Close()
		}
	}
}

// heap is how much memory is in use.
func heap() uint64 {
	runtime.GC() // what is left of other tests counts with none
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// A connection that has shown the token stays when others come.
func TestServeKeepsKnown(t *testing.T) {
	c := &crowd{most: 2}
	first, second := c.take(&net.TCPConn{}), c.take(&net.TCPConn{})
	first.known = true
	third := c.take(&net.TCPConn{})
	if len(c.guests) != 2 || c.guests[0] != first || c.guests[1] != third {
		t.Errorf("%v stay of %v", c.guests, []*guest{first, second, third})
	}
	third.known = true
	if c.take(&net.TCPConn{}) != nil {
		t.Error("one more than all that are known")
	}
	_ = first.Close()
	if len(c.guests) != 1 || c.take(&net.TCPConn{}) == nil {
		t.Errorf("%v after one has left", c.guests)
	}
}

const order = `{"model": "llama3.2-1b", "engine": "native", "tp": 1, "batch": 1, "prompt": 8, "gen": 2}`

// script is a program that a test measures with. It notes where it ended.
func script(t *testing.T, body string) (program, end string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the script is one of a POSIX shell")
	}
	folder := t.TempDir()
	program, end = filepath.Join(folder, "measure"), filepath.Join(folder, "end")
	testkit.Must(t, os.WriteFile(program, []byte("#!/bin/sh\ntrap 'echo asked > "+end+"; exit 1' TERM INT\n"+body), 0o700))
	return program, end
}

// appears waits for a file.
func appears(t *testing.T, file string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(file); err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("no %s", filepath.Base(file))
		}
	}
}

// Whatever a client sends or leaves out, the server answers the next one.
func TestServeOddRequests(t *testing.T) {
	s, _ := listening(t, "false")
	for _, c := range []struct {
		method, path, body string
		code               int
	}{
		{"DELETE", "/", "", 405}, {"PUT", "/here.json", "{}", 405}, {"GET", "/measure", "", 404}, {"BREW", "/measure", order, 405},
		{"POST", "/measure", "", 400}, {"POST", "/measure", "null", 400}, {"POST", "/measure", "\x00\xff", 400},
		{"POST", "/measure", `"` + order + `"`, 400},
		{"POST", "/measure", strings.Repeat(`{"model":`, 7000), 400}, {"POST", "/measure", strings.Repeat("[", 1<<20), 400},
		{"POST", "/measure", strings.Repeat(" ", 64<<20) + order, 400},
		{"POST", "/measure", `{"model": "` + strings.Repeat("x", 1<<24) + `"}`, 400},
		{"POST", "/measure", strings.Replace(order, `"batch": 1`, `"batch": 1e99`, 1), 400},
		{"POST", "/measure", strings.Replace(order, `"tp": 1`, `"tp": -1`, 1), 400},
		{"POST", "/measure", strings.Replace(order, `"tp"`, `"of"`, 1), 400}, {"POST", "/measure", order + order, 400},
		{"GET", "/results/%00", "", 404}, {"GET", "/results/..%2f..%2fetc%2fpasswd", "", 404},
		{"GET", "/hub?id=" + strings.Repeat("a/", 4000), "", 404}, {"GET", "/hub?id=%zz", "", 404},
		{"GET", "/" + strings.Repeat("a", 1<<20), "", 431}, {"POST", "/measure", order, 200},
	} {
		before := heap()
		code, text := askPage(t.Context(), t, s, c.method, c.path, strings.NewReader(c.body))
		if code != c.code && (code != 0 || len(c.body) < 1<<20) { // a server that has read enough closes
			t.Errorf("%s %.40s with %.60s: %d %.200s, want %d", c.method, c.path, c.body, code, text, c.code)
		}
		if now := heap(); now > before+32<<20 {
			t.Errorf("%s %.40s with %.60s takes %d MB", c.method, c.path, c.body, (now-before)>>20)
		}
		if code, _ := askPage(t.Context(), t, s, "GET", "/here.json", nil); code != 200 {
			t.Fatalf("after %s %.40s with %.60s: %d", c.method, c.path, c.body, code)
		}
	}
}

// One measurement runs at a time. It is asked to end where its client goes away, and where the server is interrupted, which waits for it.
func TestServeEndsMeasurements(t *testing.T) {
	const waits = "echo 'in /some where/of this' >&2\necho begun > \"$0.begun\"\nwhile :; do sleep 0.05; done\n"
	for _, interrupted := range []bool{false, true} {
		program, end := script(t, waits)
		s, stop := listening(t, program)
		ctx, leave := context.WithCancel(t.Context())
		answer := make(chan string, 1)
		go func() {
			_, text := askPage(ctx, t, s, "POST", "/measure", strings.NewReader(order))
			answer <- text
		}()
		appears(t, program+".begun")
		if code, text := askPage(t.Context(), t, s, "POST", "/measure", strings.NewReader(order)); code != 409 ||
			text != "a measurement is running\n" {
			t.Errorf("a second measurement: %d %s", code, text)
		}
		if interrupted {
			stop()
			if _, err := os.Stat(end); err != nil {
				t.Error("the server has ended before what it measured with")
			}
		} else {
			leave()
			appears(t, end)
			if err := os.WriteFile(program, []byte("#!/bin/sh\necho '{}'\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			code, text := 409, ""
			for until := time.Now().Add(10 * time.Second); code == 409 && time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
				code, text = askPage(t.Context(), t, s, "POST", "/measure", strings.NewReader(order))
			}
			if text != "{\"result\":\"{}\\n\"}\n" {
				t.Errorf("the next measurement: %d %s", code, text)
			}
		}
		leave()
		<-answer
	}
}

// A measurement that says much, in long lines, and leaves a process behind that holds its output ends all the same. No path is told.
func TestServeOddMeasurements(t *testing.T) {
	for name, c := range map[string]struct{ body, holds string }{
		"fails":      {"echo 'llmprof: no /some where/x: none' >&2; exit 3\n", `{"error":"no (file): none (exit status 3)"}`},
		"long lines": {"head -c 3000000 /dev/zero | tr '\\0' x >&2; echo >&2; echo '{}'\n", `{"result":"{}\n"}`},
		"many lines": {"yes | head -c 100000 >&2; echo '{}'\n", `{"result":"{}\n"}`},
		"orphan":     {"setsid sleep 30 & echo '{}'\n", `{"result":"{}\n"}`},
		"dies":       {"kill -9 $$\n", "signal: killed"},
	} {
		program, _ := script(t, c.body)
		s, _ := listening(t, program)
		begin := time.Now()
		code, text := askPage(t.Context(), t, s, "POST", "/measure", strings.NewReader(order))
		if code != 200 || !strings.Contains(text, c.holds) || strings.Contains(text, "/some") || time.Since(begin) > 10*time.Second {
			t.Errorf("%s: %d %.300s after %v, want %s", name, code, text, time.Since(begin), c.holds)
		}
	}
}

// A measurement may take longer than a request may take to come, and than an answer.
func TestServeMeasuresLong(t *testing.T) {
	program, _ := script(t, "sleep 1; echo progress >&2; sleep 1; echo '{}'\n")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	s := local(t, t.TempDir())
	s.host, s.program = listener.Addr().String(), program
	server := s.server(t.Context())
	server.ReadTimeout, server.WriteTimeout = 300*time.Millisecond, 300*time.Millisecond
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	if code, text := askPage(t.Context(), t, s, "POST", "/measure",
		strings.NewReader(order)); text != "{\"progress\":\"progress\"}\n{\"result\":\"{}\\n\"}\n" {
		t.Errorf("%d %s", code, text)
	}
}

// The browser is told where the page is by a file that no other user reads, and no command line has the token.
func TestServeOpensByFile(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("another system opens files by another command")
	}
	folder := t.TempDir()
	seen := filepath.Join(folder, "seen")
	testkit.Must(t, os.WriteFile(filepath.Join(folder, "xdg-open"), []byte(
		"#!/bin/sh\necho \"$*\" > "+seen+".part\nstat -c %a \"$1\" \"${1%/*}\" >> "+seen+".part\ncat \"$1\" >> "+seen+".part\nmv "+seen+".part "+
			seen+"\n"), 0o700))
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	s := local(t, folder)
	forget := openBrowser(t.Context(), s.address())
	appears(t, seen)
	text, err := os.ReadFile(seen)
	testkit.Must(t, err)
	command, rest, _ := bytes.Cut(text, []byte("\n"))
	if bytes.Contains(command, []byte(s.token)) || !strings.HasPrefix(string(rest), "600\n700\n") ||
		!bytes.Contains(rest, []byte(s.address())) {
		t.Errorf("the desktop is asked %s", text)
	}
	forget()
	if _, err := os.Stat(string(command)); err == nil {
		t.Errorf("%s is left", command)
	}
	if !strings.HasSuffix(s.address(), "/?token="+s.token) || len(s.token) < 26 {
		t.Error(fmt.Sprint("the address is ", s.address()))
	}
}

// FuzzOrder reads what a page may send: what is taken is a measurement within bounds, of what the page lists.
func FuzzOrder(f *testing.F) {
	for _, text := range []string{order, "", "null", "{}", "[[[[", `{"model": "../x"}`, `{"model": "/etc/passwd"}`, `{"tp": 1e400}`,
		`{"of": {}}`, order + " x", strings.Replace(order, "llama3.2-1b", "org/name@main", 1)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o, err := readOrder(strings.NewReader(text))
		if err != nil {
			if strings.Contains(err.Error(), "\n") || len(err.Error()) > 300 {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		args, err := o.args(&serveOrder{results: "results"}, 1)
		if err != nil {
			return
		}
		if args[1] != o.Model || strings.HasPrefix(o.Model, "-") || filepath.IsAbs(o.Model) || strings.Contains(o.Model, "..") || o.TP < 1 ||
			o.Gen < 1 {
			t.Errorf("%q becomes %q", text, args)
		}
	})
}
