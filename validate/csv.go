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

	"llmprof/printable"
)

// columns are the header of a file of observations, in this order. Times are
// seconds, energies joules; what is not known is empty.
var columns = []string{
	"source", "id", "model", "gpu", "engine", "mode", "tp", columnEP, columnBudget, columnGraphs, columnRelease, "batch", "prompt_len", "gen_len", "weights", "kv", "load",
	"all_logits", "params", "metric", "value", "low", "high", "device", "samples", "marks", "note",
}

// Files whose observations have none of them lack these columns.
const (
	columnEP     = "ep"
	columnBudget = "max_batched_tokens"
	columnGraphs = "graph_tokens"

	columnRelease = "release"
)

// few are those columns, in their order, with what they hold.
func few(o *Observation) []struct {
	name string
	cell cell
} {
	return []struct {
		name string
		cell cell
	}{{columnEP, (*optional)(&o.EP)}, {columnBudget, (*optional)(&o.Budget)}, {columnGraphs, (*optional)(&o.Graphs)}, {columnRelease, (*named)(&o.Release)}}
}

// A cell is a value of a column that few have; it is empty where there is none.
type cell interface {
	read(f *fields)
	String() string
}

type (
	optional int
	named    string
)

func (n *optional) read(f *fields) { *n = optional(f.whole()) }
func (n *optional) String() string { return count(int(*n)) }
func (s *named) read(f *fields)    { *s = named(f.text()) }
func (s *named) String() string    { return string(*s) }

// without is columns without those of the given names.
func without(names ...string) []string {
	return slices.DeleteFunc(slices.Clone(columns), func(c string) bool { return slices.Contains(names, c) })
}

// Parse reads observations from CSV, ahead of which may stand lines of comment that begin
// with #. It is strict: the header is one that WriteCSV writes, and the first line with a
// mistake is an error that names it.
func Parse(name string, data []byte) ([]Observation, error) {
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
	var absent []string
	for _, c := range few(&Observation{}) {
		if !slices.Contains(head, c.name) {
			absent = append(absent, c.name)
		}
	}
	known := without(absent...)
	if len(head) != len(known) {
		return nil, fmt.Errorf("%s:%d: %d columns: want %s", name, line, len(head), strings.Join(known, ","))
	}
	for i, want := range known {
		if head[i] != want {
			return nil, fmt.Errorf("%s:%d: column %d is %.40q: want %q", name, line, i+1, head[i], want)
		}
	}
	var all []Observation
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		o, err := parseRecord(known, record)
		if err != nil {
			line, _ := r.FieldPos(0)
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
		all = append(all, o)
	}
}

// A fields reads the fields of a record one after the other and keeps the first
// error.
type fields struct {
	columns []string
	record  []string
	err     error
}

// has reports whether the next column is the one of that name.
func (f *fields) has(name string) bool { return f.columns[len(f.columns)-len(f.record)] == name }

func (f *fields) text() string {
	s := strings.Clone(printable.FromCell(f.record[0]))
	f.record = f.record[1:]
	return s
}

// key is the column that was read last.
func (f *fields) key() string { return f.columns[len(f.columns)-len(f.record)-1] }

func (f *fields) fail(text, want string) {
	if f.err == nil {
		f.err = fmt.Errorf("%s is %.40q: want %s", f.key(), text, want)
	}
}

// whole reads a whole number; empty is 0.
func (f *fields) whole() int64 {
	s := f.text()
	if s == "" {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		f.fail(s, "a whole number")
	}
	return n
}

// number reads a number; empty is nil.
func (f *fields) number() *float64 {
	s := f.text()
	if s == "" {
		return nil
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		f.fail(s, "a number")
	}
	return &v
}

func (f *fields) boolean() bool {
	s := f.text()
	switch s {
	case "true":
		return true
	case "", "false":
	default:
		f.fail(s, "true, false or nothing")
	}
	return false
}

func parseRecord(known, record []string) (Observation, error) {
	f := &fields{columns: known, record: record}
	o := Observation{Source: f.text(), ID: f.text()}
	o.Model, o.GPU, o.Engine, o.Mode = f.text(), f.text(), f.text(), f.text()
	o.TP = int(f.whole())
	for _, c := range few(&o) {
		if f.has(c.name) {
			c.cell.read(f)
		}
	}
	o.Batch, o.Prompt, o.Gen = int(f.whole()), int(f.whole()), int(f.whole())
	o.Weights, o.KV, o.Load = f.text(), f.text(), Load(f.text())
	o.Logits, o.Params = f.boolean(), f.whole()
	o.Metric = Metric(f.text())
	value := f.number()
	o.Low, o.High, o.Device = f.number(), f.number(), f.number()
	o.Samples = int(f.whole())
	o.Marks, o.Note = strings.Fields(f.text()), f.text()
	if f.err != nil {
		return o, f.err
	}
	if value == nil {
		return o, fmt.Errorf("value is not given")
	}
	o.Value = *value
	return o, o.Check()
}

// WriteCSV writes observations in the form that Parse reads.
func WriteCSV(w io.Writer, all []Observation) error {
	out := csv.NewWriter(w)
	var absent []string
	for i, c := range few(&Observation{}) {
		if !slices.ContainsFunc(all, func(o Observation) bool { return few(&o)[i].cell.String() != "" }) {
			absent = append(absent, c.name)
		}
	}
	if err := out.Write(without(absent...)); err != nil {
		return err
	}
	for i := range all {
		o := &all[i]
		logits := ""
		if o.Logits {
			logits = "true"
		}
		record := []string{o.Source, o.ID, o.Model, o.GPU, o.Engine, o.Mode, count(o.TP)}
		for _, c := range few(o) {
			if !slices.Contains(absent, c.name) {
				record = append(record, c.cell.String())
			}
		}
		record = append(record,
			count(o.Batch), count(o.Prompt), count(o.Gen), o.Weights, o.KV, string(o.Load), logits, count(int(o.Params)), string(o.Metric), decimal(&o.Value), decimal(o.Low),
			decimal(o.High), decimal(o.Device), count(o.Samples), strings.Join(o.Marks, " "), o.Note)
		for j := range record {
			record[j] = printable.Cell(record[j])
		}
		if err := out.Write(record); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// count is n, empty for 0.
func count(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// decimal is the shortest text that reads back as *v.
func decimal(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'g', -1, 64)
}
