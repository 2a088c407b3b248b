package validate

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"llmprof/internal/printable"
)

// A cell is a value of a record in CSV, under the name of its column.
type cell struct {
	name string
	to   any  // *string, *[]string, *time.Time, *bool, *int, *int64, *float64 or **float64; empty for zero and nil
	rare bool // Files whose observations have none lack the column.
}

// The columns of numbers that files may lack.
const (
	columnEP           = "ep"
	columnBudget       = "max_batched_tokens"
	columnGraphs       = "graph_tokens"
	columnRecvInterval = "recv_interval"
)

// cells are the values of an observation in their order. Times are seconds, energies joules.
func (o *Observation) cells() []cell {
	return []cell{
		{name: "source", to: &o.Source}, {name: "id", to: &o.ID}, {name: "model", to: &o.Model}, {name: "gpu", to: &o.GPU},
		{name: "engine", to: &o.Engine}, {name: "mode", to: &o.Mode},
		{"release", &o.Release, true}, {name: "tp", to: &o.TP}, {columnEP, &o.EP, true}, {columnBudget, &o.Budget, true},
		{columnGraphs, &o.Graphs, true}, {columnRecvInterval, &o.RecvInterval, true}, {"option", &o.Option, true},
		{"expert_skew", &o.Skew, true}, {"host", &o.Host, true}, {"placement", &o.Placement, true},
		{name: "batch", to: &o.Batch}, {name: "prompt_len", to: &o.Prompt}, {name: "gen_len", to: &o.Gen}, {name: "weights", to: &o.Weights},
		{name: "kv", to: &o.KV},
		{name: "load", to: (*string)(&o.Load)}, {name: "all_logits", to: &o.Logits}, {name: "params", to: &o.Params},
		{name: "metric", to: (*string)(&o.Metric)},
		{name: "value", to: &o.Value}, {name: "low", to: &o.Low}, {name: "high", to: &o.High}, {name: "device", to: &o.Device},
		{name: "samples", to: &o.Samples},
		{name: "marks", to: &o.Marks}, {name: "note", to: &o.Note},
	}
}

func names(cells []cell) (all []string) {
	for _, c := range cells {
		all = append(all, c.name)
	}
	return all
}

// Parse reads observations from CSV, ahead of which may stand lines of comment that begin
// with #. It is strict: the header is one that WriteCSV writes, and the first line with a
// mistake is an error that names it.
func Parse(name string, data []byte) ([]Observation, error) {
	return parse[Observation](name, data)
}

// A tabular is a pointer to what a line of a table holds: an observation, or where some are from.
type tabular[T any] interface {
	*T
	cells() []cell
	Check() error
}

func parse[T any, R tabular[T]](name string, data []byte) ([]T, error) {
	r := csv.NewReader(bytes.NewReader(data))
	r.ReuseRecord, r.Comment = true, '#'
	head, err := r.Read()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: it is empty: want a header and observations", name)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	line, _ := r.FieldPos(0)
	head = slices.Clone(head)
	absent := func(c cell) bool { return c.rare && !slices.Contains(head, c.name) }
	known := names(slices.DeleteFunc(R(new(T)).cells(), absent))
	if len(head) != len(known) {
		return nil, fmt.Errorf("%s:%d: %d columns: want %s", name, line, len(head), strings.Join(known, ","))
	}
	for i, want := range known {
		if head[i] != want {
			return nil, fmt.Errorf("%s:%d: column %d is %.40q: want %q", name, line, i+1, head[i], want)
		}
	}
	var all []T
	for {
		fields, err := r.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		var one T
		for i, c := range slices.DeleteFunc(R(&one).cells(), absent) {
			if err = c.read(strings.Clone(printable.FromCell(fields[i]))); err != nil {
				break
			}
		}
		if err == nil {
			err = R(&one).Check()
		}
		if err != nil {
			line, _ := r.FieldPos(0)
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
		all = append(all, one)
	}
}

// read sets the value by its text.
func (c *cell) read(text string) (err error) {
	want := "a whole number"
	switch to := c.to.(type) {
	case *string:
		*to = text
	case *[]string:
		*to = strings.Fields(text)
	case *time.Time:
		*to, err = time.Parse(time.RFC3339, text)
		want = "a time"
	case *bool:
		if *to = text == "true"; !*to && text != "false" && text != "" {
			err, want = strconv.ErrSyntax, "true, false or nothing"
		}
	case *int:
		if text != "" {
			*to, err = strconv.Atoi(text)
		}
	case *int64:
		if text != "" {
			*to, err = strconv.ParseInt(text, 10, 64)
		}
	case *float64:
		if text == "" {
			return fmt.Errorf("%s is not given", c.name)
		}
		*to, err = strconv.ParseFloat(text, 64)
		want = "a number"
	case **float64:
		if text != "" {
			*to = new(float64)
			**to, err = strconv.ParseFloat(text, 64)
		}
		want = "a number"
	}
	if err != nil {
		return fmt.Errorf("%s is %.40q: want %s", c.name, text, want)
	}
	return nil
}

// text is the value as read takes it.
func (c *cell) text() string {
	switch v := c.to.(type) {
	case *string:
		return *v
	case *[]string:
		return strings.Join(*v, " ")
	case *time.Time:
		return v.Format(time.RFC3339)
	case *bool:
		if *v {
			return "true"
		}
	case *int:
		if *v != 0 {
			return strconv.Itoa(*v)
		}
	case *int64:
		if *v != 0 {
			return strconv.FormatInt(*v, 10)
		}
	case *float64:
		return decimal(v)
	case **float64:
		return decimal(*v)
	}
	return ""
}

// WriteCSV writes observations in the form that Parse reads.
func WriteCSV(w io.Writer, all []Observation) error { return write(w, all) }

func write[T any, R tabular[T]](w io.Writer, all []T) error {
	given := map[string]bool{}
	for i := range all {
		for _, c := range R(&all[i]).cells() {
			given[c.name] = given[c.name] || c.text() != ""
		}
	}
	absent := func(c cell) bool { return c.rare && !given[c.name] }
	lines := [][]string{names(slices.DeleteFunc(R(new(T)).cells(), absent))}
	for i := range all {
		var line []string
		for _, c := range slices.DeleteFunc(R(&all[i]).cells(), absent) {
			line = append(line, printable.Cell(c.text()))
		}
		lines = append(lines, line)
	}
	return csv.NewWriter(w).WriteAll(lines)
}

// decimal is the shortest text that reads back as *v.
func decimal(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'g', -1, 64)
}
