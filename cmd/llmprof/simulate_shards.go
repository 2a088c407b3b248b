package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"llmprof/cmd/llmprof/internal/submit"
	"llmprof/plots/render"
	"llmprof/serving"
)

// A savedPoint is a load that a shard simulated.
type savedPoint struct {
	Name   string          `json:"name"`
	Load   *serving.Load   `json:"load"`
	Result *serving.Result `json:"result"`
}

func (s *simulation) checkShards() error {
	split := s.machines.to != "" || s.machines.shard != ""
	switch {
	case split && s.trace != "":
		return usage("--shard and --submit split loads: a --trace is simulated as one")
	case split && s.span[1] > 0:
		return usage("--shard and --submit split loads: --rate %g..%g chooses each by those before it; give a list, as 1,2,4", s.span[0],
			s.span[1])
	case s.machines.shard != "" && s.machines.part == "" && s.output.format != "csv":
		return usage("--shard: rows of CSV can be put together, other forms cannot: give --format csv, or --submit")
	}
	return s.machines.check()
}

// shard runs the loads of one shard. A task of a cluster keeps them for the whole;
// elsewhere they are written as rows of which those of the first shard alone have a header.
func (s *simulator) shard(ctx context.Context) error {
	shard, err := s.machines.mine(s.app)
	if err != nil {
		return err
	}
	from, to := shard.Span(uint64(len(s.loads)))
	s.loads = s.loads[from:to]
	if s.machines.part != "" {
		part, done, err := s.machines.begin(s.app, shard, "")
		if err != nil || done {
			return err
		}
		defer part.Drop()
		return s.keep(ctx, part)
	}
	err = s.all(ctx)
	if err != nil && len(s.results.Points) == 0 {
		return err
	}
	return errors.Join(err, s.writeRows(shard.I == 1))
}

// keep runs the loads, and keeps their results and the records of their requests as a part of the whole.
func (s *simulator) keep(ctx context.Context, part *submit.Part) error {
	points, err := part.File("points")
	if err != nil {
		return err
	}
	if s.records != "" {
		file, err := part.File("records")
		if err != nil {
			return err
		}
		s.out = json.NewEncoder(file)
	}
	if err := s.run(ctx); err != nil {
		return err
	}
	out := json.NewEncoder(points)
	for _, p := range s.results.Points {
		if err := out.Encode(savedPoint{p.Name, p.Load, p.Result}); err != nil {
			return fmt.Errorf("keeping load %s: %w", p.Name, err)
		}
	}
	return part.Keep(nil)
}

func (s *simulator) writeRows(header bool) error {
	if header {
		return s.write()
	}
	var b bytes.Buffer
	if err := render.CSV(&b, s.results.Table()); err != nil {
		return err
	}
	_, rows, _ := bytes.Cut(b.Bytes(), []byte("\n"))
	return s.app.whole(s.output.file, func(w io.Writer) error {
		_, err := w.Write(rows)
		return err
	})
}

// submit has the loads simulated elsewhere, and writes them as one result.
func (s *simulator) submit(ctx context.Context) error {
	f, err := s.machines.folder(s.app, len(s.loads), "")
	if err != nil {
		return err
	}
	if ready, err := s.app.elsewhere(ctx, &s.machines, f, nil); err != nil || !ready {
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
		s.results.Add(ctx, p.Name, p.Load, p.Result)
	}
	if s.records != "" {
		if err := s.app.whole(s.records, func(w io.Writer) error { return f.Join(w, "records") }); err != nil {
			return err
		}
	}
	return s.write()
}
