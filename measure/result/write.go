package result

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"

	"llmprof/internal/atomicfile"
	"llmprof/internal/input"
)

// Extension is what the name of a result's file ends with.
const Extension = ".json"

// FileName is the name of the file of one process of an experiment.
func FileName(id string, process int) string { return fmt.Sprintf("%s.p%d%s", id, process, Extension) }

// Write puts r into its file in dir, whole or not at all, and returns the
// file's path. A reader finds the old content or the new; a crash at any moment
// leaves at worst a hidden temporary file beside them.
func Write(dir string, r *Result) (string, error) {
	data, err := Encode(r)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, FileName(r.ID, r.Process))
	if err := atomicfile.WriteFile(path, data, 0o666); err != nil {
		return "", fmt.Errorf("writing result %s: %w", path, err)
	}
	return path, nil
}

// mostIndented is the size up to which a file is made for people to read.
const mostIndented = 1 << 20

// Encode is the content of r's file.
func Encode(r *Result) ([]byte, error) {
	whole := explained(r)
	if err := Check(whole); err != nil {
		return nil, fmt.Errorf("a result that cannot be: %w", err)
	}
	filled, err := Complete(whole)
	if err != nil {
		return nil, err
	}
	data, err := json.MarshalIndent(filled, "", "  ")
	if len(data) > mostIndented {
		data, err = json.Marshal(filled)
	}
	return append(data, '\n'), err
}

// explained is r with a reason for everything that is null.
func explained(r *Result) *Result {
	whole := *r
	whole.Schema = Schema
	whole.Reasons = complete(&whole)
	return &whole
}

// Complete is a copy of r as its file has it: what is null has a reason, and lists
// without elements are [], so that null has one meaning alone: not measured. Of what
// would make the file larger than is read, only summaries are in it.
func Complete(r *Result) (*Result, error) {
	for _, lessen := range []func(*Result){withoutTexts, withoutSamples, nil} {
		filled, err := filledOf(r)
		if err != nil {
			return nil, fmt.Errorf("encoding result %s: %w", r.ID, err)
		}
		text, err := json.Marshal(filled)
		if err == nil {
			err = limits.JSON(string(text) + "\n")
		}
		if err == nil || lessen == nil {
			return filled, err
		}
		lessen(filled)
		r = filled
	}
	panic("unreachable")
}

// filledOf is a copy of r with reasons and without nil lists.
func filledOf(r *Result) (*Result, error) {
	text, err := json.Marshal(explained(r))
	if err != nil {
		return nil, err
	}
	var filled Result // a copy, since fill changes what it walks
	if err := json.Unmarshal(text, &filled); err != nil {
		return nil, err
	}
	fill(reflect.ValueOf(&filled))
	return &filled, nil
}

// withoutTexts leaves out what the model answered.
func withoutTexts(r *Result) {
	n := len(r.Outputs)
	r.Outputs = nil
	if r.Serving != nil {
		for i := range r.Serving.Records {
			if q := &r.Serving.Records[i]; q.Output != "" {
				q.Output = ""
				n++
			}
		}
	}
	if n > 0 {
		r.Warnings = append(r.Warnings,
			fmt.Sprintf("%d answers are left out: with them the file would be larger than is read (%s); --records writes each", n,
				input.Size(MaxBytes)))
	}
}

// mostSamples is how many pages of a server's metrics stay where samples are too many.
const mostSamples = 10_000

// withoutSamples leaves out the requests, and has histograms in place of samples.
func withoutSamples(r *Result) {
	for _, t := range []**Times{&r.TTFT, &r.TPOT, &r.TTLT, &r.StepTime} {
		*t = (*t).InBins()
	}
	s := r.Serving
	if s == nil {
		return
	}
	r.Warnings = append(r.Warnings,
		fmt.Sprintf("the records of %d requests are left out: with them the file would be larger than is read (%s); --records writes each",
			len(s.Records), input.Size(MaxBytes)))
	s.Records = nil
	for _, t := range []**Times{&s.FirstChunk, &s.TTFO, &s.ChunkGap} {
		*t = (*t).InBins()
	}
	if m := s.Metrics; m != nil {
		step := (len(m.Samples) + mostSamples - 1) / mostSamples
		kept := m.Samples[:0]
		for i := 0; i < len(m.Samples); i += step {
			kept = append(kept, m.Samples[i])
		}
		m.Samples = kept
	}
}

// unexplained stands for a reason that whoever measured did not give.
const unexplained = "no reason was recorded"

// complete is r's reasons with one for every figure that is null.
func complete(r *Result) map[string]string {
	reasons := map[string]string{}
	maps.Copy(reasons, r.Reasons)
	for key, measured := range figures(r) {
		if reasons[key] == "" && !measured {
			reasons[key] = unexplained
		}
	}
	return reasons
}

// figures says of each key that may be null whether it has a value.
func figures(r *Result) map[string]bool {
	known := map[string]bool{
		"ttft_s": r.TTFT != nil, "tpot_s": r.TPOT != nil, "ttlt_s": r.TTLT != nil, "step_s": r.StepTime != nil,
		"throughput_tok_s": r.Throughput != nil, "serving": r.Serving != nil, "sizes_bytes": r.Sizes != nil,
		"energy": r.Energy != nil, "meter": r.Meter != nil, "operators": r.Operators != nil,
	}
	if r.Serving != nil {
		known["workload.batch"], known["workload.weights"] = r.Workload.Batch != 0, r.Workload.Weights != ""
		known["workload.kv"], known["workload.act"] = r.Workload.KV != "", r.Workload.Act != ""
		known["parallelism.tp"] = r.Parallelism.TP != 0
	}
	return known
}

// fill makes the nil lists and maps of v empty ones.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			fill(v.Elem())
		}
	case reflect.Struct:
		if v.Type().PkgPath() == "time" {
			return
		}
		for _, field := range v.Fields() {
			fill(field)
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			return
		}
		if v.IsNil() {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.Map:
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
	}
}
