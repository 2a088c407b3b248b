package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"llmprof/cmd/llmprof/internal/submit"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/serving"
)

// A savedPoint is a load that a shard simulated.
type savedPoint struct {
	Name   string          `json:"name"`
	Load   *serving.Load   `json:"load"`
	Result *serving.Result `json:"result"`
}

// checkShards refuses what cannot be split.
func (s *simulation) checkShards() error {
	split := s.machines.to != "" || s.machines.shard != ""
	switch {
	case split && s.trace != "":
		return usage("--shard and --submit split loads: a --trace is simulated as one")
	case split && s.span[1] > 0:
		return usage("--shard and --submit split loads: --rate %g..%g chooses each by those before it; give a list, as 1,2,4", s.span[0], s.span[1])
	case s.machines.shard != "" && s.machines.part == "" && s.output.format != "csv":
		return usage("--shard: rows of CSV can be put together, other forms cannot: give --format csv, or --submit")
	}
	return s.machines.check()
}

// simulateShard runs the loads of one shard. A task of a cluster keeps them for the whole;
// elsewhere they are written as rows of which those of the first shard alone have a header.
func (a *app) simulateShard(ctx context.Context, s *simulation, server *serving.Server, loads []serving.Load, o serving.Options, v *view.Simulation) error {
	shard, err := s.machines.mine(a)
	if err != nil {
		return err
	}
	from, to := shard.Span(uint64(len(loads)))
	loads = loads[from:to]
	if s.machines.part != "" {
		part, done, err := s.machines.begin(shard)
		if err != nil || done {
			return err
		}
		defer part.Drop()
		return a.simulatePart(ctx, s, server, loads, o, v, part)
	}
	err = a.simulateAll(ctx, s, server, loads, o, v)
	if err != nil && len(v.Points) == 0 {
		return err
	}
	return errors.Join(err, a.writeRows(s, v, shard.I == 1))
}

// simulatePart keeps the results of some loads, and the records of their requests.
func (a *app) simulatePart(ctx context.Context, s *simulation, server *serving.Server, loads []serving.Load, o serving.Options, v *view.Simulation, part *submit.Part) error {
	points, err := part.File("points")
	if err != nil {
		return err
	}
	var records *json.Encoder
	if s.records != "" {
		file, err := part.File("records")
		if err != nil {
			return err
		}
		records = json.NewEncoder(file)
	}
	if err := a.simulateTo(ctx, s, server, loads, o, v, records); err != nil {
		return err
	}
	out := json.NewEncoder(points)
	for _, p := range v.Points {
		if err := out.Encode(savedPoint{p.Name, p.Load, p.Result}); err != nil {
			return fmt.Errorf("keeping load %s: %w", p.Name, err)
		}
	}
	return part.Keep(nil)
}

// writeRows writes the rows of a shard.
func (a *app) writeRows(s *simulation, v *view.Simulation, header bool) error {
	if header {
		return a.writeSimulation(s, v)
	}
	inner := *a
	var b bytes.Buffer
	inner.stdout = &b
	out := s.output
	out.file = ""
	if err := out.write(&inner, forms{page: v.Page, table: v.Table, data: func() any { return v.Document() }}); err != nil {
		return err
	}
	_, rows, _ := bytes.Cut(b.Bytes(), []byte("\n"))
	return a.whole(s.output.file, func(w io.Writer) error {
		_, err := w.Write(rows)
		return err
	})
}

// submitSimulation has the loads simulated elsewhere, and writes them as one result.
func (a *app) submitSimulation(ctx context.Context, s *simulation, v *view.Simulation, loads []serving.Load) error {
	f, err := s.machines.folder(len(loads), "")
	if err != nil {
		return err
	}
	if ready, err := a.elsewhere(ctx, &s.machines, f, nil); err != nil || !ready {
		return err
	}
	var points bytes.Buffer
	if err := f.Join(&points, "points"); err != nil {
		return err
	}
	for d := json.NewDecoder(&points); ; {
		var p savedPoint
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading the shards in %s: %w", f.Dir, err)
		}
		v.Add(p.Name, p.Load, p.Result)
	}
	if s.records != "" {
		if err := a.whole(s.records, func(w io.Writer) error { return f.Join(w, "records") }); err != nil {
			return err
		}
	}
	return a.writeSimulation(s, v)
}
