package main

import (
	"bytes"
	"fmt"
	"sync"

	"llmprof/cmd/llmprof/internal/report"
	"llmprof/plots"
)

// pictures draws all pictures side by side. One that has nothing to show (TP of
// a GPU without a link) is not in the map; with files, each has its PNG.
func (p *paper) pictures(ans *answer, files bool) (map[string]report.Part, error) {
	draw := map[string]func() (*plots.Figure, error){
		"roofline":       func() (*plots.Figure, error) { return plots.Roofline(&ans.Case, &ans.Report) },
		"breakdown":      func() (*plots.Figure, error) { return plots.Breakdown(&ans.Case, &ans.Report) },
		"graph":          func() (*plots.Figure, error) { return plots.Graph(&ans.Case, &ans.Report) },
		"memory-batch":   func() (*plots.Figure, error) { return ans.drawMemory(plots.ByBatch) },
		"memory-context": func() (*plots.Figure, error) { return ans.drawMemory(plots.ByContext) },
		"sweep-batch":    func() (*plots.Figure, error) { return ans.drawSweep(plots.ByBatch) },
		"sweep-context":  func() (*plots.Figure, error) { return ans.drawSweep(plots.ByContext) },
	}
	if ans.gpu.GPUsPerNode > 1 && ans.gpu.LinkAmong(2) > 0 {
		draw["sweep-tp"] = func() (*plots.Figure, error) { return ans.drawSweep(plots.ByTP) }
	}
	var mu sync.Mutex
	var first error
	parts := make(map[string]report.Part, len(draw))
	var all sync.WaitGroup
	for name, figure := range draw {
		all.Go(func() {
			picture, err := ans.picture(name, figure, files)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				first = fmt.Errorf("picture %s: %w", name, err)
				return
			}
			parts[name] = report.Part{Picture: picture}
		})
	}
	all.Wait()
	return parts, first
}

// picture draws one picture in the forms that the page needs.
func (ans *answer) picture(name string, draw func() (*plots.Figure, error), files bool) (*report.Picture, error) {
	f, err := draw()
	if err != nil {
		return nil, err
	}
	picture := &report.Picture{Name: name, Title: f.Title, Caption: f.Caption, Files: map[string][]byte{}}
	if !files {
		picture.SVG, err = f.SVG()
		return picture, err
	}
	var b bytes.Buffer
	if err := f.Write(&b, "png"); err != nil {
		return nil, err
	}
	picture.Files["png"] = b.Bytes()
	if name == "graph" {
		text, err := plots.GraphDOT(&ans.Case, &ans.Report)
		if err != nil {
			return nil, err
		}
		picture.Files["dot"] = []byte(text)
	}
	return picture, nil
}

func (ans *answer) drawMemory(v plots.Variable) (*plots.Figure, error) {
	curve, err := plots.MemorySweep(&ans.Case, v)
	if err != nil {
		return nil, err
	}
	return plots.Memory(&ans.Case, v, curve)
}

// drawSweep sweeps the doublings of a variable, less those that the model cannot
// be split into.
func (ans *answer) drawSweep(v plots.Variable) (*plots.Figure, error) {
	curve := plots.Curve{Name: ans.q.gpu}
	for _, x := range (&drawing{}).steps(v, &ans.Case) {
		one, err := plots.Sweep(&ans.Case, v, []int{x}, curve.Name)
		if err == nil {
			curve.Points = append(curve.Points, one.Points...)
		}
	}
	return plots.Latency(plots.SweepCaption(v, &ans.Case), v, []plots.Curve{curve})
}
