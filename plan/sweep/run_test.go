package sweep_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"llmprof/analytic"
	"llmprof/internal/testkit/casetest"
	"llmprof/plan/sweep"
)

// fixed has one setting.
type fixed struct{ setup *sweep.Setup }

func (f fixed) Prepare([]sweep.Value) (*sweep.Setup, error) { return f.setup, nil }

// settingOf prepares a case of the built-in tables.
func settingOf(t testing.TB, model, gpu, engine string, tp int) func() (sweep.Source, error) {
	t.Helper()
	c := casetest.Case(t, model, gpu, 1, tp)
	all, err := analytic.Calibrated(c.Machine.GPU, casetest.Engine(t, engine), nil)
	if err != nil {
		t.Fatal(err)
	}
	return func() (sweep.Source, error) {
		c.Machine = all
		p, err := analytic.NewPredictor(c)
		return fixed{&sweep.Setup{Case: p, Setting: sweep.Setting{
			Model: model, GPU: gpu, Engine: engine, TP: tp, PP: 1, EP: 1, DP: 1, MicroBatches: 1, GPUs: tp}}}, err
	}
}

func count(from, to int) (all []int) {
	for n := from; n <= to; n++ {
		all = append(all, n)
	}
	return all
}

// write sweeps a grid to a text.
func write(t *testing.T, g *sweep.Grid, o sweep.Options) (string, sweep.Summary) {
	t.Helper()
	var out bytes.Buffer
	o.Out = &out
	if o.Source == nil {
		o.Source = settingOf(t, "llama3.1-8b", "a100", "vllm", 1)
	}
	s, err := sweep.Run(t.Context(), g, o)
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), s
}

func batches(n int) *sweep.Grid {
	return &sweep.Grid{Axes: []sweep.Axis{{Key: "gpu", Name: "gpu", Values: []sweep.Value{{Text: "a"}, {Text: "b"}}}},
		Workload: [sweep.NumNumbers][]int{count(1, n), {1024}, {0}, {0}, {1, 2, 300}}}
}

// The shards of a grid put together are the grid, byte for byte, for any number of workers.
func TestShards(t *testing.T) {
	for _, f := range []sweep.Format{sweep.CSV, sweep.JSONL} {
		whole, _ := write(t, batches(1000), sweep.Options{Format: f, Workers: 1})
		for _, n := range []int{1, 2, 7} {
			parts := ""
			for i := range n {
				part, _ := write(t, batches(1000), sweep.Options{Format: f, Workers: 3, Shard: sweep.Shard{I: i + 1, N: n}})
				parts += part
			}
			if parts != whole {
				t.Errorf("%s: %d shards are %d bytes, the whole is %d", f, n, len(parts), len(whole))
			}
		}
	}
}

// Every point is written or counted, and --keep writes all of them.
func TestSummary(t *testing.T) {
	text, s := write(t, batches(1000), sweep.Options{Format: sweep.CSV})
	if lines := uint64(strings.Count(text, "\n")) - 1; lines != s.Written || s.Points != 6000 || s.Possible() != s.Written {
		t.Errorf("%d lines, %+v", lines, s)
	}
	if r := s.Reasons(); len(r) != 1 || r[0].Example != "does not fit in memory" || s.Written+r[0].Points != s.Points {
		t.Errorf("%+v", r)
	}
	kept, k := write(t, batches(1000), sweep.Options{Format: sweep.CSV, Keep: true})
	if uint64(strings.Count(kept, "\n")) != 6001 || k.Possible() != s.Possible() {
		t.Errorf("%d lines are kept, %+v", strings.Count(kept, "\n"), k)
	}
}

// The progress grows to the whole, and counts the points that were answered before.
func TestProgress(t *testing.T) {
	var told []uint64
	_, s := write(t, batches(1000), sweep.Options{Format: sweep.CSV, Skip: 100, Progress: func(done, all uint64) {
		if told = append(told, done); all != 6000 {
			t.Errorf("%d of %d points", done, all)
		}
	}})
	if !slices.IsSorted(told) || told[0] != 100+2048 || told[len(told)-1] != s.Points {
		t.Errorf("told %v of %d points", told, s.Points)
	}
}

// A list of JSON has the rows of JSON Lines, in blocks of any number, and none is a list too.
func TestList(t *testing.T) {
	for _, n := range []int{0, 1, 1000} {
		var rows []json.RawMessage
		list, s := write(t, batches(n), sweep.Options{Format: sweep.JSON, Workers: 2})
		if err := json.Unmarshal([]byte(list), &rows); err != nil || uint64(len(rows)) != s.Written {
			t.Fatalf("%d batches: %d rows of %d: %v", n, len(rows), s.Written, err)
		}
		lines, _ := write(t, batches(n), sweep.Options{Format: sweep.JSONL})
		together := ""
		for _, row := range rows {
			together += string(row) + "\n"
		}
		if together != lines {
			t.Errorf("%d batches: the list is not the lines", n)
		}
	}
}

// The three formats have the same rows, a figure that does not exist being null.
func TestFormats(t *testing.T) {
	g := batches(3)
	text, _ := write(t, g, sweep.Options{Format: sweep.CSV})
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	lines, _ := write(t, g, sweep.Options{Format: sweep.JSONL})
	d := json.NewDecoder(strings.NewReader(lines))
	var seen []sweep.Row
	file, _ := write(t, g, sweep.Options{Format: sweep.Parquet, See: func(rows []sweep.Row) { seen = append(seen, rows...) }})
	rows, err := parquet.Read[sweep.Row](strings.NewReader(file), int64(len(file)))
	if err != nil || len(rows) != len(records)-1 || !slices.Equal(rows, seen) {
		t.Fatal(len(rows), err)
	}
	for i, row := range records[1:] {
		var line map[string]any
		if err := d.Decode(&line); err != nil {
			t.Fatal(err)
		}
		for j, name := range records[0] {
			want := row[j]
			got := fmt.Sprint(line[name])
			if line[name] == nil {
				got = ""
			}
			x, err1 := strconv.ParseFloat(want, 64)
			y, err2 := strconv.ParseFloat(got, 64)
			if got != want && (err1 != nil || err2 != nil || x != y) {
				t.Errorf("row %d, %s: jsonl has %q, csv %q", i, name, got, want)
			}
		}
		if (row[slices.Index(records[0], "tpot_s")] == "") != (row[slices.Index(records[0], "gen_len")] == "1") {
			t.Errorf("row %d: %v", i, row)
		}
	}
}

// A disk is a writer that is full after some bytes.
type disk struct{ left int }

func (d *disk) Write(p []byte) (int, error) {
	n := min(len(p), d.left)
	if d.left -= n; n < len(p) {
		return n, errors.New("no space left")
	}
	return n, nil
}

// On a full disk text keeps whole rows, and what is left of a Parquet file has none.
func TestFullDisk(t *testing.T) {
	// The text of 2048 points and more.
	for form, size := range map[sweep.Format]int{sweep.CSV: 1 << 20, sweep.JSONL: 2 << 20, sweep.Parquet: 1 << 10} {
		kept := form != sweep.Parquet
		s, err := sweep.Run(t.Context(), batches(1500), sweep.Options{
			Format: form, Out: &disk{size}, Source: settingOf(t, "llama3.1-8b", "a100", "vllm", 1)})
		if err == nil || !strings.Contains(err.Error(), "writing the rows: ") || (s.Done > 0) != kept || (s.Written > 0) != kept {
			t.Errorf("%s: %d points done, %d written, %v", form, s.Done, s.Written, err)
		}
	}
}

// The columns are named alike in every format.
func TestColumns(t *testing.T) {
	var names []string
	for _, f := range parquet.SchemaOf(sweep.Row{}).Fields() {
		names = append(names, f.Name())
	}
	slices.Sort(names)
	if want := slices.Sorted(slices.Values(sweep.Columns(true))); !slices.Equal(names, want) {
		t.Errorf("parquet has %v, csv %v", names, want)
	}
}

func TestRange(t *testing.T) {
	for text, want := range map[string]string{
		"1..4": "1 2 3 4", "1..16x2": "1 2 4 8 16", "1..20x2": "1 2 4 8 16", "0..256+128": "0 128 256", "7": "7", "3,1..2": "3 1 2", "0..0x2": "",
		"4..1": "", "1..8x1": "", "1..": "", "..3": "",
		"a": "", "": "", "1,,2": "", "1..9999999999": "", "1..99999999": "",
	} {
		got, err := sweep.Range(text, strconv.Atoi)
		if (err != nil) != (want == "") || err == nil && strings.Join(got, " ") != want {
			t.Errorf("%q: %v, %v, want %q", text, got, err, want)
		}
	}
}

// Numbers that are not whole have ranges as well, spelt without what their sums have beyond the decimals.
func TestValues(t *testing.T) {
	for text, want := range map[string]string{
		"0.5..0.9+0.1": "0.5 0.6 0.7 0.8 0.9", "0.25..4x4": "0.25 1 4", "1..3": "1 2 3", "fp8,bf16": "fp8 bf16", "../a,b..c": "../a b..c",
		"1e-3..1e+3x1000": "0.001 1 1000", "-1..1": "-1 0 1",
		"0..1x2": "", "1..0": "", "0.5..0.9+0": "", "1..NaN": "", "1..1e9": "", "1,,2": "", "0.5..x": "",
	} {
		got, err := sweep.Values(text)
		if (err != nil) != (want == "") || err == nil && strings.Join(got, " ") != want {
			t.Errorf("%q: %v, %v, want %q", text, got, err, want)
		}
	}
}

func FuzzRange(f *testing.F) {
	for _, s := range []string{"1..256x2", "0..1024+128", "1,2,3", "-5..5", "1..9x9223372036854775807"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := sweep.Range(text, strconv.Atoi)
		if err == nil && len(got) == 0 {
			t.Errorf("%q: no values and no error", text)
		}
		if got, err = sweep.Values(text); err == nil && len(got) == 0 {
			t.Errorf("%q: no values and no error", text)
		}
	})
}

func TestParseShard(t *testing.T) {
	for text, ok := range map[string]bool{"1/1": true, "2/8": true, "0/2": false, "3/2": false, "1/": false, "a/b": false, "1/2x": false,
		"-1/2": false} {
		if _, err := sweep.ParseShard(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}
