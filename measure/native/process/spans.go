package process

import (
	"fmt"
	"math"

	"llmprof/measure/tracefile"
)

// A span is something that lasted, on one of a trace's rows. Spans of a row lie
// one in another or apart.
type span struct {
	row        row
	name       string
	begin, end float64        // nanoseconds by the host's clock
	args       map[string]any // details that Perfetto shows; nil for none
}

// A row is where a span is shown.
type row int

// The rows of a trace: what the host did, in which layer and of which step the
// device was, and the operators that it ran.
const (
	hostRow row = iota + 1
	layerRow
	deviceRow
)

// rows are the names of the rows, and the categories of their spans: those of the
// device count as kernels.
var rows = map[row]struct{ name, category string }{
	hostRow: {"host: phases and steps", "user_annotation"}, layerRow: {"GPU: layers", "layer"}, deviceRow: {"GPU: operators", "kernel"},
}

// A drawing is a trace of spans of a process.
type drawing struct {
	*tracefile.Trace
	pid int
}

// newDrawing begins a trace with an annotation of the name anchor at ns of the host's clock, which ties its times to that clock.
func newDrawing(process string, pid int, anchor string, ns int64) (*drawing, error) {
	d := &drawing{tracefile.New(), pid}
	if err := d.named("process_name", 0, map[string]any{"name": process}); err != nil {
		return nil, err
	}
	for _, r := range []row{hostRow, layerRow, deviceRow} {
		for key, value := range map[string]map[string]any{"thread_name": {"name": rows[r].name}, "thread_sort_index": {"sort_index": int(r)}} {
			if err := d.named(key, r, value); err != nil {
				return nil, err
			}
		}
	}
	return d, d.add(span{row: hostRow, name: anchor, begin: float64(ns), end: float64(ns)})
}

// named says something of a row, or of the process.
func (d *drawing) named(key string, r row, args map[string]any) error {
	return d.Append(map[string]any{"ph": "M", "name": key, "pid": d.pid, "tid": int(r), "args": args})
}

// add adds spans.
func (d *drawing) add(spans ...span) error {
	for _, s := range spans {
		begin, end := math.Round(s.begin), math.Round(s.end) // For Perfetto too, a span then ends when the next begins.
		if !(begin <= end) || math.IsInf(begin, 0) || math.IsInf(end, 0) {
			return fmt.Errorf("%q begins at %v ns and ends at %v ns: want times", s.name, s.begin, s.end)
		}
		r, known := rows[s.row]
		if !known {
			return fmt.Errorf("%q: there is no row %d", s.name, s.row)
		}
		if s.row == deviceRow && tracefile.TypeOf(s.name) == tracefile.Memory {
			r.category = "gpu_memcpy"
		}
		e := map[string]any{"ph": "X", "cat": r.category, "name": s.name, "pid": d.pid, "tid": int(s.row), "ts": begin / 1e3,
			"dur": (end - begin) / 1e3}
		if s.args != nil {
			e["args"] = s.args
		}
		if err := d.Append(e); err != nil {
			return err
		}
	}
	return nil
}
