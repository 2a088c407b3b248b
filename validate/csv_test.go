package validate

import (
	"bytes"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// columns are all that a file of observations may have.
var columns = names(new(Observation).cells())

// TestRoundTrip writes the embedded observations and reads them back.
func TestRoundTrip(t *testing.T) {
	all := embedded(t)
	got, err := Parse("again", []byte(text(t, all)))
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		if len(all[i].Marks) == 0 {
			all[i].Marks, got[i].Marks = nil, nil
		}
	}
	if d := cmp.Diff(all, got); d != "" {
		t.Error(d)
	}
}

// record is a line of a file whose fields can be changed.
func record(change map[string]string) string {
	fields := map[string]string{
		"source": "lab", "id": "a", "model": "llama3.1-8b", "gpu": "h200", "engine": "native", "tp": "1", "batch": "8", "prompt_len": "128",
		"gen_len": "32", "weights": "bf16", "load": "static", "metric": "tpot_s", "value": "0.005", "low": "0.0049", "high": "0.0051",
		"samples": "10",
	}
	maps.Copy(fields, change)
	list := make([]string, len(columns))
	for i, c := range columns {
		list[i] = fields[c]
	}
	return strings.Join(columns, ",") + "\n" + strings.Join(list, ",") + "\n"
}

// TestParseOdd checks that each mistake is named with its line.
func TestParseOdd(t *testing.T) {
	for _, c := range []struct {
		change map[string]string
		want   string // of the error; empty for none
	}{
		{nil, ""},
		{map[string]string{"low": "", "high": "", "samples": "", "id": "", "kv": "fp8", "all_logits": "true", "mode": "graph"}, ""},
		{map[string]string{"engine": "vllm", "release": "0.12.0"}, ""},
		{map[string]string{"value": ""}, "file.csv:2: value is not given"},
		{map[string]string{"value": "fast"}, "file.csv:2: value is \"fast\": want a number"},
		{map[string]string{"value": "0"}, "value is 0: want a number from"},
		{map[string]string{"value": "-1"}, "value is -1"},
		{map[string]string{"value": "NaN"}, "value is NaN"},
		{map[string]string{"value": "1e300"}, "value is 1e+300"},
		{map[string]string{"low": ""}, "only one end of the interval"},
		{map[string]string{"low": "0.006"}, "is not between low"},
		{map[string]string{"batch": "0"}, "batch is 0"},
		{map[string]string{"batch": "1.5"}, "batch is \"1.5\": want a whole number"},
		{map[string]string{"tp": "99999999999"}, "tp is 99999999999"},
		{map[string]string{"metric": "speed"}, "unknown metric \"speed\""},
		{map[string]string{"gen_len": "1"}, "tpot_s with one generated token"},
		{map[string]string{"load": "open"}, "load \"open\""},
		{map[string]string{"mode": "fast"}, "mode \"fast\""},
		{map[string]string{"model": ""}, "model is not given"},
		{map[string]string{"source": ""}, "source is not given"},
		{map[string]string{"all_logits": "yes"}, "all_logits is \"yes\""},
		{map[string]string{"samples": "-3"}, "samples are -3"},
		{map[string]string{"metric": "energy_per_token_j", "device": "0.004"}, "device is 0.004"},
		{map[string]string{"note": "a,b"}, "wrong number of fields"},
	} {
		got, err := Parse("file.csv", []byte(record(c.change)))
		switch {
		case c.want == "" && (err != nil || len(got) != 1):
			t.Errorf("%v: %d observations, %v", c.change, len(got), err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%v: error %v, want %q", c.change, err, c.want)
		}
	}
	for text, want := range map[string]string{
		"":          "it is empty",
		"a,b\n1,2":  "columns: want source,id,",
		"\x00\n":    "columns: want source,id,",
		"\"open\n,": "extraneous or missing",
	} {
		if _, err := Parse("file.csv", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
	head := strings.Replace(record(nil), "source,id", "id,source", 1)
	if _, err := Parse("file.csv", []byte(head)); err == nil || !strings.Contains(err.Error(), `file.csv:1: column 1 is "id": want "source"`) {
		t.Errorf("columns swapped: %v", err)
	}
}

// FuzzParse checks that any text is observations that check and survive being
// written, or an error.
func FuzzParse(f *testing.F) {
	f.Add(record(nil))
	f.Add(record(map[string]string{"value": "1e-400"}))
	f.Add(record(map[string]string{"note": "\"a\nb, \"\"c\"\"\""}))
	f.Add(strings.Join(columns, ","))
	f.Fuzz(func(t *testing.T, s string) {
		all, err := Parse("fuzz", []byte(s))
		if err != nil {
			return
		}
		for i := range all {
			if err := all[i].Check(); err != nil {
				t.Fatal(err)
			}
		}
		again, err := Parse("again", []byte(text(t, all)))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(text(t, all), text(t, again)); d != "" {
			t.Fatal(d)
		}
	})
}

// Columns that few files need are written where an observation has them, and read where they stand; comments may stand ahead.
func TestColumnsOfFewFiles(t *testing.T) {
	plain, err := Parse("file.csv", []byte(record(nil)))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ ep, budget int }{{0, 0}, {8, 0}, {0, 2048}, {4, 8192}} {
		o := plain[0]
		o.EP, o.Budget, o.Graphs = c.ep, c.budget, 2*c.budget
		var b bytes.Buffer
		if err := WriteCSV(&b, []Observation{o}); err != nil {
			t.Fatal(err)
		}
		head, _, _ := strings.Cut(b.String(), "\n")
		if strings.Contains(head, ",ep,") != (c.ep > 0) || strings.Contains(head, ",max_batched_tokens,") != (c.budget > 0) {
			t.Errorf("%+v: header %s", c, head)
		}
		got, err := Parse("file.csv", append([]byte("# left out: none\n"), b.Bytes()...))
		if err != nil || len(got) != 1 || got[0].EP != c.ep || got[0].Budget != c.budget || got[0].Graphs != 2*c.budget ||
			got[0].Batch != o.Batch {
			t.Errorf("%+v was read as %+v, %v", c, got, err)
		}
	}
}
