package replay

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"llmprof/input"
)

// lineLimits bound a line of a JSONL trace: Mooncake's have a hash for every 512 tokens of a prompt.
var lineLimits = input.Limits{Bytes: mostLine, Depth: 8, Values: 1 << 18}

// documentLimits bound the results of a benchmark.
var documentLimits = input.Limits{Bytes: mostDocument, Depth: 64, Values: 1 << 26}

func (t *Trace) lines(b *bufio.Reader) error {
	number := 0
	read := func() (row, bool, error) {
		text, err := filled(b, &number)
		if err != nil {
			return row{}, false, err
		}
		w, mooncake, err := object(text)
		if err != nil && !errors.Is(err, errSkip) {
			return row{}, false, wrong(number, text, "%v", err)
		}
		return w, mooncake, err
	}
	if head, _ := b.Peek(recordHead); recordLine(head) {
		return t.records(read)
	}
	first, mooncake, err := read()
	if err != nil && !errors.Is(err, errSkip) {
		return err
	}
	t.Format = "jsonl"
	if mooncake {
		t.Format = "mooncake"
	}
	t.Hashed = len(first.hashes) > 0
	begun := false
	t.next = func() (row, error) {
		if !begun {
			begun = true
			return first, err
		}
		w, _, err := read()
		return w, err
	}
	return nil
}

// recordHead is how much of a record suffices to distinguish its format from others.
const recordHead = 4096

// recordLine reports whether a file begins with a record that llmprof wrote. It writes them as requests
// end, so that they have to be sorted.
func recordLine(head []byte) bool {
	line, _, _ := bytes.Cut(head, []byte("\n"))
	return bytes.Contains(line, []byte(`"index"`)) && (bytes.Contains(line, []byte(`"sent_s"`)) || bytes.Contains(line, []byte(`"arrival_s"`)))
}

// mostRecords bounds how many records are sorted.
const mostRecords = 1 << 24

// records reads those of llmprof measure and llmprof simulate, with --records.
func (t *Trace) records(read func() (row, bool, error)) error {
	t.Format = "records"
	var rows []row
	for {
		w, _, err := read()
		switch {
		case errors.Is(err, io.EOF):
			t.sorted(rows)
			return nil
		case errors.Is(err, errSkip):
			t.Skipped++
			continue
		case err != nil:
			return err
		case len(rows) == mostRecords:
			return fmt.Errorf("more than %d records: they are sorted by time, and no more are kept", mostRecords)
		}
		rows = append(rows, w)
	}
}

// sorted yields rows in the order of their arrival.
func (t *Trace) sorted(rows []row) {
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.at, b.at) })
	t.next = func() (row, error) {
		if len(rows) == 0 {
			return row{}, io.EOF
		}
		w := rows[0]
		rows = rows[1:]
		if w.prompt < 1 || w.gen < 1 {
			return w, errSkip
		}
		return w, nil
	}
}

// object reads a request. Mooncake's have milliseconds and hashes.
func object(text string) (w row, mooncake bool, err error) {
	if err := lineLimits.JSON(text); err != nil {
		return w, false, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		return w, false, fmt.Errorf("not a JSON object: %s", input.Short(err.Error()))
	}
	if f := field(fields, []string{"failure"}); f != "" && f != "null" {
		return w, false, errSkip
	}
	at, prompt, gen := field(fields, timeNames), field(fields, promptNames), field(fields, genNames)
	if prompt == "" || gen == "" {
		return w, false, fmt.Errorf("no fields for prompt and generated tokens, as in {\"time\": 0.5, \"prompt\": 1024, \"generated\": 128}")
	}
	if at == "" {
		return w, false, fmt.Errorf("no field for the time of arrival: a trace without them cannot be replayed")
	}
	w, err = parse(at, prompt, gen)
	if raw, ok := fields["hash_ids"]; ok && err == nil {
		if json.Unmarshal(raw, &w.hashes) != nil {
			return w, true, fmt.Errorf("hash_ids are no list of whole numbers")
		}
	}
	if _, ok := fields["input_length"]; ok {
		mooncake = true
		w.at /= 1000
	}
	return w, mooncake, err
}

func field(fields map[string]json.RawMessage, names []string) string {
	for _, name := range names {
		for key, raw := range fields {
			if plain(key) == name {
				return strings.Trim(string(raw), `"`)
			}
		}
	}
	return ""
}

// results are those of llmprof measure, or of vLLM's benchmark.
type results struct {
	Serving *struct {
		Records []struct {
			Sent    float64 `json:"sent_s"`
			Prompt  int     `json:"prompt_tokens"`
			Gen     int     `json:"generated_tokens"`
			Failure string  `json:"failure"`
		} `json:"records"`
	} `json:"serving"`
	Inputs  []int     `json:"input_lens"`
	Outputs []int     `json:"output_lens"`
	Starts  []float64 `json:"start_times"`
}

// document reads the results of a benchmark: of llmprof measure, or of vLLM's with
// --save-detailed.
func (t *Trace) document(r io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(r, mostDocument+1))
	if err != nil {
		return err
	}
	if err := documentLimits.JSON(string(data)); err != nil {
		return err
	}
	var d results
	if err := json.Unmarshal(data, &d); err != nil {
		return fmt.Errorf("neither a line for each request nor the results of a benchmark: %s", input.Short(err.Error()))
	}
	var rows []row
	switch {
	case d.Serving != nil:
		t.Format = "llmprof"
		for _, r := range d.Serving.Records {
			if r.Failure != "" {
				r.Gen = 0
			}
			rows = append(rows, row{at: r.Sent, prompt: r.Prompt, gen: r.Gen})
		}
	case len(d.Starts) > 0 && len(d.Starts) == len(d.Inputs) && len(d.Starts) == len(d.Outputs):
		t.Format = "vllm"
		for i := range d.Starts {
			rows = append(rows, row{at: d.Starts[i], prompt: d.Inputs[i], gen: d.Outputs[i]})
		}
	default:
		return fmt.Errorf("a JSON document without records of requests: want those of llmprof measure --engine openai, or of vllm bench serve --save-result --save-detailed")
	}
	t.sorted(rows)
	return nil
}
