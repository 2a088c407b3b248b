package traced

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"llmprof/internal/fileerror"
	"llmprof/internal/input"
	"llmprof/measure/tracefile"
)

// Limits of a trace that others wrote. One of a minute of vLLM has some hundreds of
// megabytes and a few million events.
const (
	mostTrace   = 16 << 30 // bytes, once unpacked
	mostEvent   = 16 << 20 // bytes of one event, or of what stands beside the events
	mostKernels = 1 << 21
	mostNames   = 64 << 20 // bytes of all names, each counted once
	mostMarks   = 1 << 20  // ranges, and launches of graphs
	mostDevices = 1 << 10
)

// A Launch is a kernel, copy or fill as it ran on a device.
type Launch struct {
	Name        string
	TS, Dur     float64 // microseconds
	Device      int
	Correlation int64 // number of the call that launched it; all kernels of a CUDA graph have that of the graph's launch
}

// A Mark is a range that a program annotated.
type Mark struct {
	Name    string
	TS, Dur float64
	Device  bool // on the device's time line
}

// A Timeline is what devices did, in order of time, and how it was launched.
type Timeline struct {
	Kernels []Launch
	Marks   []Mark
	Graphs  map[int64]bool  // correlations of launches of CUDA graphs
	Devices map[int]string  // names, where the trace has them
	Note    json.RawMessage // under the key "llmprof"; nil if there is none
}

// ScanFile reads the time line of a trace, event by event.
func ScanFile(path string) (*Timeline, error) {
	file, _, err := input.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	from, err := input.Unpack(file)
	var l *Timeline
	if err == nil {
		l, err = Scan(from)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return l, nil
}

// A meter lets so many bytes through until it is set anew, and so many in all.
type meter struct {
	from      io.Reader
	left, all int64
}

var errLong = fmt.Errorf("an event of more than %s", input.Size(mostEvent))

func (m *meter) Read(p []byte) (int, error) {
	switch {
	case m.all <= 0:
		return 0, fmt.Errorf("the trace has more than %s", input.Size(mostTrace))
	case m.left <= 0:
		return 0, errLong
	}
	n, err := m.from.Read(p[:min(int64(len(p)), m.left)])
	m.left, m.all = m.left-int64(n), m.all-int64(n)
	return n, err
}

// A scanner reads one trace.
type scanner struct {
	*Timeline
	meter *meter
	d     *json.Decoder
	names map[string]string
	bytes int  // bytes of all names
	found bool // the list of events
}

// Scan reads a trace of which it keeps what ran on devices, ranges, and launches of graphs.
func Scan(from io.Reader) (*Timeline, error) {
	s := &scanner{
		Timeline: &Timeline{Graphs: map[int64]bool{}, Devices: map[int]string{}},
		meter:    &meter{from: from, left: mostEvent, all: mostTrace}, names: map[string]string{},
	}
	s.d = json.NewDecoder(s.meter)
	if err := s.top(); err != nil {
		return nil, fmt.Errorf("not a trace: %w", err)
	}
	if !s.found {
		return nil, errors.New("not a trace: it has no traceEvents")
	}
	slices.SortStableFunc(s.Kernels, func(a, b Launch) int { return cmp.Compare(a.TS, b.TS) })
	return s.Timeline, nil
}

// top reads the object with traceEvents, or a list of events.
func (s *scanner) top() error {
	token, err := s.d.Token()
	if err != nil {
		return err
	}
	switch token {
	case json.Delim('['):
		return s.events()
	case json.Delim('{'):
	default:
		return fmt.Errorf("it begins with %v: want an object or a list", token)
	}
	for s.d.More() {
		s.meter.left = mostEvent
		key, err := s.d.Token()
		if err == nil {
			err = s.key(key)
		}
		if err != nil {
			return err
		}
	}
	_, err = s.d.Token()
	return err
}

// key reads the value of a key beside the events.
func (s *scanner) key(key json.Token) error {
	if key == "traceEvents" {
		open, err := s.d.Token()
		if err != nil {
			return err
		}
		if open != json.Delim('[') {
			return fmt.Errorf("traceEvents begins with %v: want a list", open)
		}
		return s.events()
	}
	var value json.RawMessage
	if err := s.d.Decode(&value); err != nil {
		return err
	}
	switch key {
	case "llmprof":
		s.Note = value
	case "deviceProperties":
		var devices []struct {
			ID   int    `json:"id"`
			Name string `json:"name"`
		}
		limits := input.Limits{Bytes: mostEvent, Depth: 8, Values: 100 * mostDevices}
		if limits.JSON(string(value)) == nil && json.Unmarshal(value, &devices) == nil { // who it was is no figure
			for _, d := range devices[:min(len(devices), mostDevices)] {
				s.Devices[d.ID] = fileerror.Short(d.Name)
			}
		}
	}
	return nil
}

// A scanned is the fields of an event that are read.
type scanned struct {
	Name string  `json:"name"`
	TS   float64 `json:"ts"`
	Dur  float64 `json:"dur"`
	Args struct {
		Device      *int   `json:"device"`
		Correlation *int64 `json:"correlation"`
	} `json:"args"`
}

// events reads the list that was opened.
func (s *scanner) events() error {
	s.found = true
	for n := 0; s.d.More(); n++ {
		s.meter.left = mostEvent
		var raw json.RawMessage
		err := s.d.Decode(&raw)
		if err == nil {
			err = s.event(raw)
		}
		if err != nil {
			return fmt.Errorf("event %d: %w", n, err)
		}
	}
	_, err := s.d.Token()
	return err
}

// event keeps an event of use. Arguments of other events may have any form.
func (s *scanner) event(raw json.RawMessage) error {
	var head struct {
		Phase    string `json:"ph"`
		Category string `json:"cat"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return err
	}
	device, called := tracefile.OnDevice(head.Category), head.Category == "cuda_runtime" || head.Category == "cuda_driver"
	marked := head.Category == "user_annotation" || head.Category == "gpu_user_annotation"
	if head.Phase != "X" || !device && !called && !marked {
		return nil
	}
	var e scanned
	if err := json.Unmarshal(raw, &e); err != nil {
		return err
	}
	if e.Dur < 0 || math.IsInf(e.TS+e.Dur, 0) {
		return fmt.Errorf("%.60q lasts %v us from %v", e.Name, e.Dur, e.TS)
	}
	switch {
	case device:
		return s.kernel(&e)
	case called:
		if e.Args.Correlation != nil && strings.Contains(e.Name, "GraphLaunch") {
			s.Graphs[*e.Args.Correlation] = true
		}
		if len(s.Graphs) > mostMarks {
			return fmt.Errorf("more than %d launches of graphs: trace fewer steps", mostMarks)
		}
	case len(s.Marks) < mostMarks:
		name, err := s.name(e.Name)
		s.Marks = append(s.Marks, Mark{Name: name, TS: e.TS, Dur: e.Dur, Device: head.Category == "gpu_user_annotation"})
		return err
	}
	return nil
}

func (s *scanner) kernel(e *scanned) error {
	if len(s.Kernels) == mostKernels {
		return fmt.Errorf("more than %d kernels: trace fewer steps", mostKernels)
	}
	name, err := s.name(e.Name)
	k := Launch{Name: name, TS: e.TS, Dur: e.Dur}
	if e.Args.Device != nil {
		k.Device = *e.Args.Device
	}
	if e.Args.Correlation != nil {
		k.Correlation = *e.Args.Correlation
	}
	s.Kernels = append(s.Kernels, k)
	return err
}

// name keeps each name once: a trace repeats long ones millions of times.
func (s *scanner) name(text string) (string, error) {
	if kept, ok := s.names[text]; ok {
		return kept, nil
	}
	if s.bytes += len(text) + nameOverhead; s.bytes > mostNames {
		return "", fmt.Errorf("names of kernels and ranges have more than %s: trace fewer steps", input.Size(mostNames))
	}
	text = strings.Clone(text)
	s.names[text] = text
	return text, nil
}

// nameOverhead is about what a name takes beside its bytes.
const nameOverhead = 64
