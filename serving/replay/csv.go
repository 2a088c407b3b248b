package replay

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Names that columns and fields go by, without case, spaces and underscores.
var (
	timeNames   = []string{"timestamp", "time", "times", "arrival", "arrivals", "arrivaltime", "arrivaltimes", "at", "ats", "sents"}
	promptNames = []string{"contexttokens", "requesttokens", "inputtokens", "inputlength", "prompttokens", "promptlen", "inputtoks", "prompt", "prompts", "input"}
	genNames    = []string{"generatedtokens", "responsetokens", "outputtokens", "outputlength", "completiontokens", "genlen", "outputtoks", "generated", "output"}
)

func plain(name string) string {
	return strings.NewReplacer("_", "", " ", "", "-", "", "\ufeff", "").Replace(strings.ToLower(name))
}

func column(header, names []string) int {
	for _, name := range names {
		if i := slices.IndexFunc(header, func(h string) bool { return plain(h) == name }); i >= 0 {
			return i
		}
	}
	return -1
}

func (t *Trace) csv(b *bufio.Reader) error {
	number := 0
	first, err := filled(b, &number)
	if err != nil {
		return err
	}
	header, err := csv.NewReader(strings.NewReader(first)).Read()
	if err != nil {
		return wrong(number, first, "no header of a table, and no JSON")
	}
	at, prompt, gen := column(header, timeNames), column(header, promptNames), column(header, genNames)
	if at < 0 || prompt < 0 || gen < 0 {
		return wrong(number, first, "the header has no columns for time, prompt and generated tokens, as in time,prompt,generated")
	}
	switch {
	case column(header, []string{"contexttokens"}) >= 0:
		t.Format = "azure"
	case column(header, []string{"responsetokens"}) >= 0:
		t.Format = "burstgpt"
	case column(header, []string{"requestid"}) >= 0 && column(header, []string{"inputtokens"}) >= 0:
		t.Format = "servegen"
	default:
		t.Format = "csv"
	}
	t.next = func() (row, error) {
		text, err := filled(b, &number)
		if err != nil {
			return row{}, err
		}
		fields := strings.Split(text, ",")
		if strings.Contains(text, `"`) {
			if fields, err = csv.NewReader(strings.NewReader(text)).Read(); err != nil {
				return row{}, wrong(number, text, "not a line of CSV")
			}
		}
		if len(fields) != len(header) {
			return row{}, wrong(number, text, "%d columns where the header has %d", len(fields), len(header))
		}
		w, err := parse(fields[at], fields[prompt], fields[gen])
		if err != nil && !errors.Is(err, errSkip) {
			return row{}, wrong(number, text, "%v", err)
		}
		return w, err
	}
	return nil
}

// parse reads the fields of a request.
func parse(at, prompt, gen string) (w row, err error) {
	if w.at, err = seconds(strings.TrimSpace(at)); err != nil {
		return w, err
	}
	if w.prompt, err = tokens(prompt); err != nil {
		return w, err
	}
	if w.gen, err = tokens(gen); err != nil {
		return w, err
	}
	if w.prompt == 0 || w.gen == 0 {
		return w, errSkip
	}
	return w, nil
}

func tokens(text string) (int, error) {
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(v >= 0 && v <= 1<<26) || v != math.Trunc(v) {
		return 0, fmt.Errorf("%.40q is no number of tokens", text)
	}
	return int(v), nil
}

// seconds reads a time: seconds, or a date with a time.
func seconds(text string) (float64, error) {
	if v, err := strconv.ParseFloat(text, 64); err == nil {
		if !(math.Abs(v) < 1e12) {
			return 0, fmt.Errorf("%.40q is no time in seconds", text)
		}
		return v, nil
	}
	for _, layout := range []string{"2006-01-02 15:04:05.999999999", "2006-01-02 15:04:05.999999999-07:00", time.RFC3339Nano} {
		if when, err := time.Parse(layout, text); err == nil {
			return float64(when.Unix()) + float64(when.Nanosecond())*1e-9, nil
		}
	}
	return 0, fmt.Errorf("%.40q is no time: want seconds, or a date as 2023-11-16 18:15:46.68", text)
}
