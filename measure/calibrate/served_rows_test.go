package calibrate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	serverLine = `{"schema":"llmprof.bench/v1","kind":"server","gpu":"h200-sxm-141gb","engine":"vllm","model":"llama3.2-1b","weights":"",` +
		`"kv":"","tp":1,` +
		`"kernels":"vllm","plan":{"seed":1,"most_tokens":504,"most_batch":2,"most_together":98304,"answer_tokens":48},"versions":{},` +
		`"llmprof":"dev","when":"2026-11-27T00:00:00Z"}`
	servedLine = `{"schema":"llmprof.bench/v1","kind":"served","index":3,"first":true,"batch":1,"context":120,"median_s":0.5,"held_out":false}`
)

// What no program wrote is refused with the line that has it; a torn last line is left out.
func TestParseServed(t *testing.T) {
	rows, err := parseRows[Server, ServedPoint]("r", []byte(serverLine+"\n"+servedLine+"\n"+servedLine[:20]))
	if err != nil || len(rows.Rows) != 1 || rows.Rows[0].Index != 3 || rows.Torn != 20 || rows.Rows[0].Seconds != 0.5 {
		t.Fatalf("%+v, %v", rows, err)
	}
	for want, text := range map[string]string{
		"r:3: point 3 comes a second time":          serverLine + "\n" + servedLine + "\n" + servedLine + "\n",
		"a row comes before the line of the server": servedLine + "\n",
		"no line says what was measured":            "",
		"a second line of the server":               serverLine + "\n" + serverLine + "\n",
		"took 0 s":                                  serverLine + "\n" + strings.Replace(servedLine, "0.5", "0", 1) + "\n",
		"took -1 s":                                 serverLine + "\n" + strings.Replace(servedLine, "0.5", "-1", 1) + "\n",
		"index 30: a plan has 30 points":            serverLine + "\n" + strings.Replace(servedLine, ":3,", ":30,", 1) + "\n",
		"prompts one at a time":                     serverLine + "\n" + strings.Replace(servedLine, `"batch":1`, `"batch":2`, 1) + "\n",
		"lacks gpu, engine":                         strings.Replace(serverLine, "llama3.2-1b", "", 1) + "\n",
		"a tp of 0":                                 strings.Replace(serverLine, `"tp":1`, `"tp":0`, 1) + "\n",
		"unknown field":                             serverLine + "\n" + strings.Replace(servedLine, "first", "last", 1) + "\n",
		`a line of kind "gemm" in a file of a serv`: serverLine + "\n" + strings.Replace(servedLine, `"served"`, `"gemm"`, 1) + "\n",
	} {
		if _, err := parseRows[Server, ServedPoint]("r", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// A file goes on after the points that it has, and keeps them apart from those of another server.
func TestOpenServed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	server := Server{
		Schema: RowSchema, Kind: ServerKind, GPU: "h200-sxm-141gb", Engine: "vllm", Model: "llama3.2-1b", TP: 1, Kernels: "vllm",
		Version: "dev", When: time.Unix(1e9, 0).UTC(),
		Plan: ServedPlan{Seed: 1, MostTokens: 504, MostBatch: 2, MostTogether: 98304, Answer: 48}, Tools: map[string]string{},
	}
	keep := func(index int) *ServedRows {
		t.Helper()
		file, err := OpenRows[Server, ServedPoint](path, server)
		if err != nil {
			t.Fatal(err)
		}
		if err := file.Add(ServedPoint{Schema: RowSchema, Kind: ServedKind, Index: index, Batch: 2, Context: 100, Seconds: 0.01}); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		return file
	}
	keep(1)
	torn, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := torn.WriteString(`{"schema":`); err != nil {
		t.Fatal(err)
	}
	torn.Close()
	if file := keep(5); len(file.Rows) != 2 || file.Rows[0].Index != 1 || file.Rows[1].Index != 5 {
		t.Errorf("%+v", file.Rows)
	}
	rows, err := ReadRows[Server, ServedPoint](path)
	if err != nil || len(rows.Rows) != 2 || rows.Torn != 0 || !IsServed(path) {
		t.Errorf("%+v, %v", rows, err)
	}
	server.TP = 2
	if _, err := OpenRows[Server, ServedPoint](path, server); err == nil || !strings.Contains(err.Error(), "rows with tp 1; these have 2") {
		t.Errorf("another server: %v", err)
	}
	if _, err := ReadRows[Machine, Row](path); err == nil || !strings.Contains(err.Error(), "the rows are of a server") {
		t.Errorf("as rows of operators: %v", err)
	}
}

func FuzzParseServed(f *testing.F) {
	f.Add([]byte(serverLine), []byte(servedLine))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		rows, err := parseRows[Server, ServedPoint]("r", append(append(append(append([]byte{}, first...), '\n'), second...), '\n'))
		if err != nil {
			return
		}
		for i := range rows.Rows {
			if p := &rows.Rows[i]; !(p.Seconds > 0 && p.Seconds < 1e4) || p.Batch < 1 || p.Context < 1 {
				t.Errorf("a point of %+v", *p)
			}
		}
	})
}
