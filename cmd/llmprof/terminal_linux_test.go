package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"llmprof/internal/testkit"
)

// terminal is a pseudo terminal: the end that the program writes to, and what was written once that is closed.
func terminal(t *testing.T) (end *os.File, shown func() string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo terminals: ", err)
	}
	t.Cleanup(func() { _ = master.Close() })
	testkit.Must(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	testkit.Must(t, err)
	end, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	testkit.Must(t, err)
	said := make(chan string)
	go func() {
		var all bytes.Buffer
		_, _ = all.ReadFrom(master) // the system's error is the end
		said <- all.String()
	}()
	return end, func() string {
		_ = end.Close()
		return strings.ReplaceAll(<-said, "\r\n", "\n")
	}
}

// On a terminal no text of a file is a command, whatever the form; the program's own colours are. A file or a pipe has the bytes as they
// are.
func TestTerminal(t *testing.T) {
	dir := t.TempDir()
	evil := "evil\x1b[31m\u009b2J\u202e"
	config := filepath.Join(dir, evil, "config.json")
	testkit.Must(t, os.MkdirAll(filepath.Dir(config), 0o700))
	testkit.Must(t, os.WriteFile(config, []byte(`{"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":64,`+
		`"intermediate_size":128,"num_attention_heads":4,"num_hidden_layers":2,"vocab_size":256,"hidden_act":"silu",`+
		`"max_position_embeddings":64,"rms_norm_eps":1e-6,"rope_theta":10000,"tie_word_embeddings":false,"torch_dtype":"bfloat16"}`), 0o600))
	hw := filepath.Join(dir, "evil.toml")
	testkit.Must(t, os.WriteFile(hw, []byte(evilGPU), 0o600))
	raw := 0
	for _, args := range [][]string{
		{"estimate", filepath.Dir(config), "evil", "--hardware", hw, "--prompt-len", "8", "--gen-len", "8"}, {"models", "check", config},
		{"gpus", "list", "--hardware", hw},
		{"sweep", "--model", filepath.Dir(config), "--gpu", "h100", "--batch", "1,2", "--prompt-len", "8", "--gen-len", "8"},
	} {
		for _, format := range []string{"", "csv", "json", "markdown", "jsonl"} {
			all := slices.Clone(args)
			if format != "" {
				all = append(all, "--format", format)
			}
			var errs bytes.Buffer
			end, shown := terminal(t)
			code := run(all, strings.NewReader(""), end, &errs, func(string) string { return "" })
			text := shown()
			for _, own := range []string{"0", "1", "2", "31", "32", "33", "34", "36"} {
				if format == "" {
					text = strings.ReplaceAll(text, "\x1b["+own+"m", "")
				}
			}
			if strings.ContainsAny(text+errs.String(), "\x1b\a\u009b\u202e") || strings.Contains(text+errs.String(), "evil\n") {
				t.Errorf("%q: %q", all, text)
			}
			var piped bytes.Buffer
			if run(all, strings.NewReader(""), &piped, &errs, func(string) string { return "" }) != code {
				t.Errorf("%q ends differently on a terminal: %d", all, code)
			}
			if strings.ContainsAny(piped.String(), "\u009b\u202e") {
				raw++
			}
		}
	}
	if raw == 0 {
		t.Error("no pipe had the bytes as they are")
	}
}

// A table that a terminal shows has colours and its width.
func TestTerminalColours(t *testing.T) {
	end, shown := terminal(t)
	testkit.Must(t, unix.IoctlSetWinsize(int(end.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 72}))
	if code := run([]string{"estimate", "llama3.1-8b", "h100"}, strings.NewReader(""), end, &bytes.Buffer{},
		func(string) string { return "" }); code != 0 {
		t.Error("exit ", code)
	}
	text := shown()
	if !strings.Contains(text, "\x1b[1m") || !strings.Contains(text, "\x1b[0m") || strings.Contains(text, `\x1b`) {
		t.Errorf("%q", text)
	}
	for line := range strings.Lines(text) {
		for i := range 8 {
			line = strings.ReplaceAll(line, fmt.Sprintf("\x1b[%dm", i), "")
			line = strings.ReplaceAll(line, fmt.Sprintf("\x1b[3%dm", i), "")
		}
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 72 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
}
