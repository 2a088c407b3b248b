package replay

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"llmprof/internal/testkit"
	"llmprof/serving"
)

// all reads a trace to its end.
func all(t testing.TB, r io.Reader, o Options) (*Trace, []serving.Request) {
	t.Helper()
	tr, err := Read(r, o)
	testkit.Must(t, err)
	var list []serving.Request
	for {
		r, ok := tr.Next()
		if !ok {
			return tr, list
		}
		list = append(list, r)
	}
}

// Every format is known by its content, and its requests come at the time and with the
// tokens that it states.
func TestFormats(t *testing.T) {
	server, err := filepath.Glob("../../experiments/h200-vllm/server/*.json.gz")
	if err != nil || len(server) == 0 {
		t.Fatal("no results of a server", err)
	}
	for _, x := range []struct {
		file, format  string
		n, skipped    int
		last          float64
		prompts, gens int
	}{
		{"testdata/azure.csv", "azure", 8, 0, 8.251431, 3913, 550},
		{"testdata/mooncake.jsonl", "mooncake", 5, 0, 9, 7747, 1666},
		{"testdata/burstgpt.csv", "burstgpt", 2, 1, 113, 700, 170},
		{"testdata/servegen.csv", "servegen", 2, 0, 0.237, 1300, 180},
		{"testdata/plain.csv", "csv", 2, 0, 0.75, 1536, 192},
		{"testdata/plain.jsonl", "jsonl", 2, 0, 0.75, 1536, 192},
		{"testdata/records.jsonl", "records", 3, 1, 1.5, 700, 70},
		{"testdata/vllm.json", "vllm", 2, 0, 0.75, 1536, 192},
		{"testdata/vidur.csv", "vidur", 3, 0, 5.6, 9645, 343},
		{"testdata/splitwise.csv", "splitwise", 2, 0, 0.5, 770, 153},
		{"testdata/bailian.jsonl", "bailian", 4, 0, 1.5, 160, 32},
		{"testdata/aiperf.jsonl", "aiperf", 3, 1, 0.5, 3072, 192},
		{"testdata/guidellm.json", "guidellm", 2, 0, 0.5, 506, 256},
		{"testdata/inference-perf-0.7.json", "inference-perf", 2, 1, 1, 512, 66},
		{"testdata/inference-perf.json", "inference-perf", 2, 0, 0.5, 506, 248},
		{"testdata/weka.json", "weka", 4, 0, 8.25, 3700, 220}, // two of them a subagent's
		{"testdata/vllm_runs.json", "vllm", 4, 0, 2.75, 3072, 384},
		{server[0], "llmprof", 24, 0, 8.046, 24 * 1024, 24 * 64},
	} {
		f, err := os.Open(x.file)
		testkit.Must(t, err)
		tr, list := all(t, f, Options{})
		f.Close()
		prompts, gens, last := 0, 0, 0.0
		for _, r := range list {
			prompts, gens, last = prompts+r.Prompt, gens+r.Gen, float64(r.At)
		}
		if tr.Err() != nil || tr.Format != x.format || len(list) != x.n || tr.Skipped != x.skipped || prompts != x.prompts || gens != x.gens ||
			last < x.last-0.01 || last > x.last+0.01 {
			t.Errorf("%s: %q, %d requests and %d skipped, %d + %d tokens, the last at %g: %v", x.file, tr.Format, len(list), tr.Skipped, prompts,
				gens, last, tr.Err())
		}
	}
}

// Hashes stand for blocks of 512 tokens, and a speed makes arrivals come sooner.
func TestMooncake(t *testing.T) {
	data, err := os.ReadFile("testdata/mooncake.jsonl")
	testkit.Must(t, err)
	_, list := all(t, strings.NewReader(string(data)), Options{Speed: 2, Requests: 3})
	if len(list) != 3 || list[1].At != 1.5 || list[0].HashTokens != 512 || len(list[0].Hashes) != 5 || list[0].Hashes[1] != 42 {
		t.Errorf("%+v", list)
	}
}

// A trace compressed by gzip is the trace, and one that ends in the middle is an error.
func TestCompressed(t *testing.T) {
	data, err := os.ReadFile("testdata/azure.csv")
	testkit.Must(t, err)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err = z.Write(data)
	testkit.Must(t, errors.Join(err, z.Close()))
	tr, list := all(t, bytes.NewReader(packed.Bytes()), Options{})
	if tr.Format != "azure" || len(list) != 8 || tr.Err() != nil {
		t.Errorf("%q, %d requests: %v", tr.Format, len(list), tr.Err())
	}
	for _, n := range []int{2, packed.Len() / 2, packed.Len() - 4} {
		tr, err := Read(bytes.NewReader(packed.Bytes()[:n]), Options{})
		for err == nil {
			if _, ok := tr.Next(); !ok {
				err = tr.Err()
				break
			}
		}
		if err == nil {
			t.Errorf("%d of %d bytes are a whole trace", n, packed.Len())
		}
	}
}

// Blank lines end no trace, wherever they stand, and a trace that ends early says in which line.
func TestBlankLines(t *testing.T) {
	for text, want := range map[string]int{
		"\n\ntime,prompt,generated\n\n0,2,3\n\n \t\n\r\n1,2,3\n\n2,2,3\n\n":                                           3,
		"\n{\"time\": 0, \"prompt\": 2, \"generated\": 3}\n\n \r\n{\"time\": 1, \"prompt\": 2, \"generated\": 3}\n\n": 2,
		"{\"index\":0,\"sent_s\":0,\"prompt_tokens\":2,\"generated_tokens\":3}\n\n{\"index\":1,\"sent_s\":1,\"prompt_tokens\":2," +
			"\"generated_tokens\":3}": 2,
	} {
		if tr, list := all(t, strings.NewReader(text), Options{}); tr.Err() != nil || len(list) != want {
			t.Errorf("%q: %d requests, %v; want %d", text, len(list), tr.Err(), want)
		}
	}
	text := "time,prompt,generated\n" + strings.Repeat("0,2,3\n\n", 5000)
	for _, r := range []io.Reader{io.MultiReader(strings.NewReader(text), iotest.ErrReader(errors.New("broken"))),
		strings.NewReader(text + "1,2")} {
		if tr, _ := all(t, r, Options{}); tr.Err() == nil || !strings.Contains(tr.Err().Error(), "line 10002") {
			t.Errorf("%v, want an error in line 10002", tr.Err())
		}
	}
}

// failure is why a text is no trace, at once or later; "" if it is one.
func failure(text string, o Options) string {
	tr, err := Read(strings.NewReader(text), o)
	for err == nil {
		if _, ok := tr.Next(); !ok {
			if err = tr.Err(); err == nil {
				return ""
			}
		}
	}
	return err.Error()
}

// Records are found wherever JSON has them: in lines, over lines, in a list, and whole numbers are whole however they
// are written.
func TestForms(t *testing.T) {
	one := `{"time": 0.5, "prompt": 16.0, "generated": 4e0, "x": [NaN, "-Infinity \" NaN", -Infinity]}`
	two := `{"time": "0.75", "prompt": 1.6e1, "generated": 4, "note": "a \"NaN\" ` +
		`\\", "nested": {"prompt": 5}}`
	for _, text := range []string{
		one + "\n" + two, one + two, "[" + one + "," + two + "]", "[\n" + one + ",\n" + two + "\n]\n",
		"\ufeff\n" + strings.ReplaceAll(one+two, ",", ",\n"), "[" + one + "]\n[" + two + "]",
		"time,prompt,generated\n0.5,16.0,4e0\n,,\n\"0.75\",16,4",
	} {
		tr, list := all(t, strings.NewReader(text), Options{})
		if tr.Err() != nil || len(list) != 2 || list[1].At != 0.25 || list[1].Prompt != 16 || list[1].Gen != 4 {
			t.Errorf("%q: %v, %v", text, list, tr.Err())
		}
	}
}

// Two fields whose names differ in case or separators alone are a mistake that names both, in any place of the file.
func TestSameNames(t *testing.T) {
	good := `{"time": 0, "prompt": 10, "generated": 5}` + "\n"
	for text, want := range map[string]string{
		good + `{"time": 0, "prompt": 10, "Prompt": 100000, "generated": 5}`:                   `line 2: it has "prompt" and "Prompt"`,
		`{"time": 0, "prompt": 10, "prompt": 11, "generated": 5}`:                              `"prompt" and "prompt"`,
		`[{"time": 0, "prompt_tokens": 10, "promptTokens": 9, "generated": 5}]`:                `"prompt_tokens" and "promptTokens"`,
		"time,prompt,generated,Prompt\n0,1,2,3\n":                                              `"prompt" and "Prompt"`,
		"time,prompt,generated,time\n0,1,2,3\n":                                                `"time" and "time"`,
		`{"serving": {"records": []}, "Serving": {"records": []}}`:                             `"serving" and "Serving"`,
		`{"input_lens": [1], "Input_Lens": [2], "output_lens": [1], "start_times": [0]}`:       `"input_lens" and "Input_Lens"`,
		`{"benchmarks": [{"requests": {"successful": [{"start_time": 1, "Start_time": 2}]}}]}`: `"start_time" and "Start_time"`,
	} {
		for range 20 { // A map has its keys in another order each time.
			if got := failure(text, Options{}); !strings.Contains(got, want) {
				t.Fatalf("%s: %q, want %q", text, got, want)
			}
		}
	}
}

// The unit of times and the tokens of a hash follow from the names of fields, from fractions and from the number of
// hashes, or they are asked for.
func TestDecided(t *testing.T) {
	const mooncake, bailian = `{"timestamp": %v, "input_length": 1024, "output_length": 8, "hash_ids": [%s]}`,
		`{"chat_id": 1, "timestamp": %v, "input_length": 1024, "output_length": 8, "hash_ids": [%s]}`
	hashes := func(n int) string { return strings.TrimSuffix(strings.Repeat("7,", n), ",") }
	of := func(form string, blocks int, times ...any) string {
		var b strings.Builder
		for _, at := range times {
			fmt.Fprintf(&b, form+"\n", at, hashes(blocks))
		}
		return b.String()
	}
	bare := strings.ReplaceAll(`{"timestamp": 0, "input_length": 9, "output_length": 8};{"timestamp": 2000, "input_length": 9, `+
		`"output_length": 8}`, ";", "\n")
	for _, c := range []struct {
		text    string
		o       Options
		decided string
		last    float64
		wrong   string
	}{
		{of(mooncake, 2, 0, 2000), Options{}, "mooncake, times in milliseconds, hashes of 512 tokens", 2, ""},
		{of(bailian, 64, 0, 2000), Options{}, "bailian, times in seconds, hashes of 16 tokens", 2000, ""},
		{of(mooncake, 64, 0, 2000), Options{}, "", 0, "unit of the trace's times is not known"},
		{of(mooncake, 64, 0, 2.5), Options{},
			"mooncake, times in seconds, hashes of 16 tokens (hashes by their number, as 64 hashes of 1024 tokens; times since they are fractions)",
			2.5, ""},
		{of(mooncake, 64, 0, 2000), Options{Unit: "ms"},
			"mooncake, times in milliseconds, hashes of 16 tokens (hashes by their number, as 64 hashes of 1024 tokens; times as given)", 2, ""},
		{of(mooncake, 2, 0, 2.5), Options{}, "", 0, "unit of the trace's times is not known"},
		{of(bailian, 2, 0, 2000), Options{}, "", 0, "unit of the trace's times is not known"},
		{of(mooncake, 5, 0, 2000), Options{}, "", 0, "hashes of no one length, as 5 hashes of 1024 tokens"},
		{of(mooncake, 5, 0, 2000), Options{Block: 205, Unit: "us"},
			"mooncake, times in microseconds, hashes of 205 tokens (hashes as given; times as given)", 0.002, ""},
		{of(mooncake, 2, 0, 2000), Options{Block: 16}, "", 0,
			"hashes of 16 tokens are not what the trace has: its prompts have hashes of 512 tokens"},
		{bare, Options{}, "", 0, "unit of the trace's times is not known"},
		{bare, Options{Unit: "ms"}, "jsonl, times in milliseconds (times as given)", 2, ""},
		{strings.ReplaceAll(bare, "2000", "2000.5"), Options{}, "jsonl, times in seconds (times since they are fractions)", 2000.5, ""},
		{strings.ReplaceAll(bare, "timestamp", "arrival_time"), Options{}, "jsonl, times in seconds", 2000, ""},
		{strings.ReplaceAll(bare, "timestamp", "arrival_time_ms"), Options{}, "jsonl, times in milliseconds", 2, ""},
		{strings.ReplaceAll(bare, "timestamp", "arrival_ms"), Options{Unit: "s"}, "", 0, "its times are milliseconds, not seconds"},
		{bare, Options{Unit: "ms", Block: 16}, "", 0, "has no hashes"},
		{"timestamp,input_length,output_length\n0,9,8\n2000,9,8\n", Options{}, "", 0, "unit of the trace's times is not known"},
		{"time,prompt,generated\n2023-11-16 18:15:46,9,8\n2023-11-16 18:15:48,9,8\n", Options{}, "csv, times as dates", 2, ""},
		{"time,prompt,generated\n2023-11-16 18:15:46,9,8\n2023-11-16 18:15:48,9,8\n", Options{Unit: "ms"}, "", 0, "its times are dates"},
	} {
		if got := failure(c.text, c.o); got != "" || c.wrong != "" {
			if c.wrong == "" || !strings.Contains(got, c.wrong) {
				t.Errorf("%.80s %+v: %q, want %q", c.text, c.o, got, c.wrong)
			}
			continue
		}
		tr, list := all(t, strings.NewReader(c.text), c.o)
		if at := float64(list[1].At); tr.Decided() != c.decided || math.Abs(at-c.last) > 1e-9 || list[1].HashTokens != tr.Block {
			t.Errorf("%.80s %+v: %s, the second at %g; want %s and %g", c.text, c.o, tr.Decided(), at, c.decided, c.last)
		}
	}
}

// A file of a tool that is known and lacks something is refused by the tool's name and what is missing.
func TestKnownAndRefused(t *testing.T) {
	for text, want := range map[string]string{
		`[{"ttft_s":0.2,"number_output_tokens":128,"number_input_tokens":550}]`: "this is individual " +
			"responses of LLMPerf, which lacks the times of arrival",
		`{"task_id":0,"input_ids":[1,2,3,4],"output_tokens":128}`: "this is a dataset of " +
			"trtllm-bench, which lacks the times of arrival",
		`{"experiments":[{"requests":[{"timestamp":1,"response_timestamps":[2]}]}]}`: "GenAI-Perf's " +
			"profile_export.json, which lacks the prompt and generated tokens",
		`{"request_throughput":{"avg":1},"input_config":{}}`: "a summary by GenAI-Perf " +
			"or AIPerf",
		`{"aggregated_metrics":{"scenario":"D(64,32)"},"individual_request_metrics":[]}`: "a result of genai-bench, which lacks the times",
		`{"engine":{},"world_info":{"tp_size":1},"request_info":{"num_requests":1}}`:     "a report of trtllm-bench, which lacks requests",
		`{"results":{},"run":{},"scenario":{},"version":"0.2.1"}`:                        "a Benchmark Report of llm-d, which lacks requests",
		`{"build_commit":"x","n_prompt":512,"n_gen":0,"avg_ts":5}`:                       "the result of llama-bench, which lacks requests",
		`{"date":"x","total_input_tokens":5,"request_throughput":1.5}`:                   "--save-detailed",
		`{"input_lens":[5],"output_lens":[5]}`:                                           "0 start_times, 1 input_lens and 1 output_lens",
		`{"input_lens":[5,6],"output_lens":[5,6],"start_times":[0]}`:                     "1 start_times, 2 input_lens",
		`{"input_lens":[5],"output_lens":[5],"start_times":[NaN]}`:                       "is no time",
		"{\"time\": 0, \"prompt\": 5, \"generated\": 5}\n{\"time\": 0, \"prompt\": NaN, \"generated\": 5}": "line 2: prompt: \"NaN\" is no " +
			"number of tokens",
		"{\"time\": 0, \"prompt\": 5, \"generated\": 5}\n{\"time\": -Infinity, \"prompt\": 5, \"generated\": 5}": "line 2: time: \"-Infinity\" " +
			"is " +
			"no time",
		"{\"time\": 0, \"prompt\": 5, \"generated\": 5}\n\n{\"time\": 0, \"prompt\": -5, \"generated\": 5}": "line 3: prompt: \"-5\" is no " +
			"number " +
			"of tokens",
		"[{\"time\": 0, \"prompt\": 5, \"generated\": 5},\n{\"time\": 0, \"prompt\": 5.5, \"generated\": 5}]": "line 2: prompt: \"5.5\" is no " +
			"number " +
			"of tokens",
		"[{\"time\": 0, \"prompt\": 5, \"generated\": 5},\n{\"time\": 0, \"prompt\": 5, \"gen": "line 2: the file ends in the middle of a record",
		"[{\"time\": 0, \"prompt\": 5, \"generated\": 5}\n":                                    "line 2: the file ends in the middle of a record",
		"{\"time\": 0, \"prompt\": 5, \"generated\": 5}\n{\"time\": 0, \"prompt\": 5, \"gen":   "line 2: the file ends in the middle of a record",
		"{\"time\": 0, \"prompt\": 5, \"generated\": 5}\n\n{\"time\": x}":                      "line 3: not JSON",
		"{\"time\": 0, \"prompt\": \"x\", \"generated\": 5, \"l\": [1,2]}":                     "prompt: x, generated: 5, l: [1,2]",
		"{\"time\": 0, \"prompt\": 5, x,1,2}":                                                  "x,1,2}",
		"{\"time\": 0, \"prompt\": 5, \"generated\": 5}\n{\"time\": 0, \"prompt\": \"" + strings.Repeat("x",
			2*mostRecord): "line 2 is longer than",
		"{\"time\": 0, \"prompt\": 5, \"gen: 5}\n{\"time\": 1, \"prompt\": 5, \"gen: 5}":                             "line 1: not JSON",
		`{"benchmarks": [{"requests": {"successful": [{"start_time": 1, "prompt_tokens": 2 "output_tokens": 3}]}}]}`: "line 1: not JSON",
		"{\"serving\":\n{\"note\": 1 \"records\": []}}": "line 2: " +
			"not JSON: invalid character '\"' after object value (expecting ',' or '}')",
		`{"benchmarks": [{"args": [1}, "requests": {"successful": [{"start_time": 1, "prompt_tokens": 2, "output_tokens": 3}]}}]}`: "line 1: " +
			"not JSON",
		`{"input_lens":[5],"output_lens":[5],"start_times":[0],"duration":1x}`: "not JSON: invalid character 'x'",
		`[[0.5,1024,128]]`:             "[ where a request begins",
		`[]`:                           "no requests",
		"PAR1\x00\x00":                 "no text",
		`{"serving": {"records": 5}}`:  "5 where a list is wanted",
		`{"benchmarks": [`:             "ends in the middle",
		"  \n\n":                       "nothing but blank lines",
		"time,prompt,generated\n\"1,2": "line 2: not a line of CSV",
	} {
		if got := failure(text, Options{}); !strings.Contains(got, want) {
			t.Errorf("%.100s: %q, want %q", text, got, want)
		}
	}
}

// What is no trace is refused with the line and what would be right.
func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      "empty",
		"hello\n1\n":                            "line 1: the header has no column for time, prompt tokens, generated tokens: want",
		"hello,world\n1,2\n":                    "generated:\n    hello, world\n    ^",
		"time,prompt\n1,2\n":                    "column for generated tokens: want time, prompt and generated, as in time,prompt,generated",
		"time,generated\n1,2\n":                 "line 1: the header has no column for prompt tokens: want",
		"\ntime;prompt;generated\n1;2;3\n":      "line 2: its columns are parted by ';': want commas",
		"time\tprompt\tgenerated\n1\t2\t3\n":    `line 1: its columns are parted by '\t': want commas`,
		"time,prompt,generated\n1;2;3\n":        "1 columns where the header has 3",
		"{}":                                    "no field for time, prompt tokens, generated tokens",
		"{\"a\": 1}\n{\"a\": 2}\n":              "no field for time, prompt tokens, generated tokens",
		"time,prompt,generated\n1,2\n":          "2 columns where the header has 3",
		"time,prompt,generated\n1,x,3\n":        "no number of tokens",
		"time,prompt,generated\nnoon,2,3\n":     "no time",
		"time,prompt,generated\n5,2,3\n1,2,3\n": "sort the trace",
		"time,prompt,generated\n5,2,-3\n":       "no number of tokens",
		"time,prompt,generated\nNaN,2,3\n":      "no time in seconds",
		"time,prompt,generated\n1,2,0\n":        "no request that generated",
		"{\"prompt\": 5, \"generated\": 5}\n{\"prompt\": 5, \"generated\": 5}\n": "no field for time: want",
		"time,prompt,generated\n" + strings.Repeat("1", 2*mostRecord) + "\n":     "longer than",
	} {
		tr, err := Read(strings.NewReader(text), Options{})
		if err == nil {
			for {
				if _, ok := tr.Next(); !ok {
					break
				}
			}
			err = tr.Err()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}

// TestLongTextIsRefused holds that a text outside of records is refused by the limit of such texts.
func TestLongTextIsRefused(t *testing.T) {
	text := strings.NewReader(strings.Repeat("x", mostWord+1))
	_, err := Read(io.MultiReader(strings.NewReader(`{"input_lens": [1], "output_lens": [1], "text": "`), text), Options{})
	if want := "line 1 is longer than 67 MB, the most that is read of a text or a number"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// Errors name the line and the field, and say what is wrong with it: the length that is missing, is none or is too long, the unit of the
// times, and where they change.
func TestErrorsSayWhatIsWrong(t *testing.T) {
	record := func(at, prompt, gen any) string {
		return fmt.Sprintf(`{"time": %v, "prompt": %v, "generated": %v}`+"\n", at, prompt, gen)
	}
	good := record(0, 5, 5)
	mooncake := `{"timestamp": %v, "input_length": 1024, "output_length": 8, "hash_ids": [1, 2]}` + "\n"
	vidur := "arrived_at,num_prefill_tokens,num_decode_tokens\n0,5,5\n"
	for _, x := range [][2]string{
		{record(0, 0, 5) + record(1, 0, 5), "no request with a prompt: of all 2 the prompt has 0 tokens"},
		{record(0, 5, 0) + record(1, 0, 5), "no request that generated anything"},
		{`{"time": 0, "prompt": 5}`, "line 1: no field for generated tokens: want"},
		{`{"time": 0, "generated": 5}`, "line 1: no field for prompt tokens: want"},
		{good + `{"time": 0, "prompt": 5}`, "line 2: no field for generated tokens: want"},
		{`{"start_times": [0], "input_lens": [5]}`, "1 start_times, 1 input_lens and 0 output_lens"},
		{`{"start_times": [0], "output_lens": [5]}`,
			"line 1: the results of a benchmark by vLLM or SGLang with 1 start_times, 0 input_lens and 1 output_lens"},
		{`{"start_times": [0], "input_lens": [5], "output_lens": [1e8]}`, "line 1: output_lens: 1e8 tokens are more than"},
		{fmt.Sprintf(mooncake, 0) + `{"timestamp": 5, "input_length": 1024}`,
			"line 2: no field for generated tokens: a trace of Mooncake has outputlength in each"},
		{good + record(1, 100000000, 5),
			"line 2: prompt: 100000000 tokens are more than a prompt or an answer can have: want at most 67108864"},
		{good + record(1, 5, `"many"`), `line 2: generated: "many" is no number of tokens: want a whole number`},
		{record(1700000000000, 5, 5),
			"unit of the trace's times is not known: line 1: time: 1700000000000 is no time in seconds, and may be one in " +
				"milliseconds since 1970"},
		{record(1700000000000.5, 5, 5), "may be one in milliseconds since 1970"},
		{record(1700000000000000, 5, 5), "may be one in microseconds since 1970"},
		{good + strings.Repeat(record(1, 5, 5), 300) + record(1700000000000, 5, 5),
			"line 302: time: \"1700000000000\" is no time in seconds, and may be one in milliseconds"},
		{vidur + "1700000000000,5,5\n", "line 3: arrived_at: 1700000000000 is no time"},
		{fmt.Sprintf(mooncake, 0) + fmt.Sprintf(mooncake, 1700000000000000000),
			"is no time in milliseconds, and may be one in nanoseconds"},
		{good + record(`"2023-11-16 18:15:46"`, 5, 5),
			`line 2: time: "2023-11-16 18:15:46" is a date, and the times before it are each a number`},
		{record(`"2023-11-16 18:15:46"`, 5, 5) + record(1, 5, 5),
			"line 2: time: \"1\" is a number, and the times before it are each a date"},
		{record(`"2023-11-16 18:15:46"`, 5, 5) + record(`"2023-11-16T18:15:47Z"`, 5, 5),
			"is a date with a time zone, and the times before it are each a date"},
		{good + `{"time_ms": 5, "prompt": 5, "generated": 5}`, "line 2: time_ms: the name of the times before it says another unit"},
		{good + `{"timeMs": 5, "prompt": 5, "generated": 5}`, "line 2: timeMs: the name of the times before it says another unit"},
		{strings.Repeat(fmt.Sprintf(mooncake, 7), 300) + fmt.Sprintf(mooncake, 7.5),
			"line 301: timestamp: \"7.5\" is a fraction, and the times before it are whole milliseconds"},
		{record(5, 5, 5) + "\n" + record(1, 5, 5), "line 3: request 2 came 4 s before the one ahead of it"},
		{record(5, 5, 5) + record(5e11, 5, 5), "line 2: request 2 comes 5e+11 s after the first"},
	} {
		if got := failure(x[0], Options{}); !strings.Contains(got, x[1]) {
			t.Errorf("%.120s: %q, want %q", x[0], got, x[1])
		}
	}
	at := func(key string) string {
		return fmt.Sprintf(`{%q: 0, "prompt": 5, "generated": 5}`+"\n"+`{%q: 500, "prompt": 5, "generated": 5}`, key, key)
	}
	for key, want := range map[string]float64{"timeMs": 0.5, "timestamp_us": 500e-6, "arrival_time": 500, "times": 500} {
		tr, list := all(t, strings.NewReader(at(key)), Options{})
		if tr.Err() != nil || len(list) != 2 || math.Abs(float64(list[1].At)-want) > 1e-9 {
			t.Errorf("%s: %v, %v, want %g s", key, list, tr.Err(), want)
		}
	}
	tr, list := all(t, strings.NewReader(record(1700000000000, 5, 5)+record(1700000002500, 5, 5)), Options{Unit: "ms"})
	if tr.Err() != nil || len(list) != 2 || math.Abs(float64(list[1].At)-2.5) > 1e-6 {
		t.Errorf("milliseconds since 1970: %v, %v", list, tr.Err())
	}
}

// What follows the compressed text is said to do so, and a file that is cut off or damaged is said to be that.
func TestDamaged(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := io.WriteString(z, strings.Repeat("{\"time\": 0, \"prompt\": 5, \"generated\": 5}\n", 1000))
	testkit.Must(t, errors.Join(err, z.Close()))
	whole := packed.String()
	changed := []byte(whole)
	changed[len(changed)-6] ^= 1
	for text, want := range map[string]string{
		whole + "junk":               "line 1001: what follows the compressed text was not written by gzip: remove it",
		whole + "x":                  "line 1001: what follows the compressed text was not written by gzip",
		whole[:len(whole)-3]:         "the compressed file ends in the middle",
		whole + whole[:len(whole)/2]: "the compressed file ends in the middle",
		string(changed):              "line 1001: the compressed file is damaged",
		whole + whole:                "",
	} {
		if got := failure(text, Options{}); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Requests that come so late that the clock could not tell their steps apart are refused.
func TestSlowTrace(t *testing.T) {
	tr, err := Read(strings.NewReader("time,prompt,generated\n0,2,3\n2.5,2,3\n"), Options{Speed: 1e-12})
	testkit.Must(t, err)
	for ok := true; ok; {
		_, ok = tr.Next()
	}
	if err := tr.Err(); err == nil || !strings.Contains(err.Error(),
		"request 2 comes 2.5e+12 s after the first: at most 1e+10 s are replayed") {
		t.Error(err)
	}
}

// FuzzRead checks that no text panics, and that every request that comes out is possible.
func FuzzRead(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.[cj]s*")
	for _, name := range files {
		data, err := os.ReadFile(name)
		testkit.Must(f, err)
		f.Add(string(data))
	}
	f.Fuzz(func(t *testing.T, text string) {
		tr, err := Read(strings.NewReader(text), Options{})
		if err != nil {
			return
		}
		for last := 0.0; ; {
			r, ok := tr.Next()
			if !ok {
				return
			}
			if float64(r.At) < last || r.Prompt < 1 || r.Gen < 1 {
				t.Fatalf("%+v", r)
			}
			last = float64(r.At)
		}
	})
}
