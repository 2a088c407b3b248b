//go:build !js

package view

import (
	"bytes"
	"fmt"
	"sync"

	"llmprof/analytic"
	"llmprof/cmd/llmprof/internal/report"
	"llmprof/plots"
)

// pictures draws all pictures side by side. One that has nothing to show (TP of
// a GPU without a link) is not in the map; with files, each has its PNG.
func (e *Estimate) pictures(files bool) (map[string]report.Part, error) {
	draw := map[string]func() (*plots.Figure, error){
		"roofline":       func() (*plots.Figure, error) { return plots.Roofline(&e.Case, &e.Report) },
		"breakdown":      func() (*plots.Figure, error) { return plots.Breakdown(&e.Case, &e.Report) },
		"graph":          func() (*plots.Figure, error) { return plots.Graph(&e.Case, &e.Report) },
		"memory-batch":   func() (*plots.Figure, error) { return e.drawMemory(plots.ByBatch) },
		"memory-context": func() (*plots.Figure, error) { return e.drawMemory(plots.ByContext) },
		"sweep-batch":    func() (*plots.Figure, error) { return e.drawSweep(plots.ByBatch) },
		"sweep-context":  func() (*plots.Figure, error) { return e.drawSweep(plots.ByContext) },
	}
	if e.Machine.GPU.GPUsPerNode > 1 && e.Machine.GPU.LinkAmong(2) > 0 {
		draw["sweep-tp"] = func() (*plots.Figure, error) { return e.drawSweep(plots.ByTP) }
	}
	var mu sync.Mutex
	var first error
	parts := make(map[string]report.Part, len(draw))
	var all sync.WaitGroup
	for name, figure := range draw {
		all.Go(func() {
			picture, err := e.picture(name, figure, files)
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

// picture draws one picture of the estimate; the graph as a file is DOT too.
func (e *Estimate) picture(name string, draw func() (*plots.Figure, error), files bool) (*report.Picture, error) {
	picture, err := Picture(name, draw, files)
	if err != nil || !files || name != "graph" {
		return picture, err
	}
	text, err := plots.GraphDOT(&e.Case, &e.Report)
	if err != nil {
		return nil, err
	}
	picture.Files["dot"] = []byte(text)
	return picture, nil
}

// Picture draws a figure in the form that a page needs: PNG for one whose
// pictures are files, else SVG.
func Picture(name string, draw func() (*plots.Figure, error), files bool) (*report.Picture, error) {
	f, err := draw()
	if err != nil {
		return nil, err
	}
	picture := &report.Picture{Name: name, Title: f.Title, Caption: f.Caption, Files: map[string][]byte{}}
	if !files {
		picture.SVG, err = f.Adaptive()
		return picture, err
	}
	var b bytes.Buffer
	if err := f.Write(&b, "png"); err != nil {
		return nil, err
	}
	picture.Files["png"] = b.Bytes()
	return picture, nil
}

func (e *Estimate) drawMemory(v plots.Variable) (*plots.Figure, error) {
	curve, err := plots.MemorySweep(&e.Case, v)
	if err != nil {
		return nil, err
	}
	return plots.Memory(&e.Case, v, curve)
}

// drawSweep sweeps the doublings of a variable, less those that the model cannot
// be split into.
func (e *Estimate) drawSweep(v plots.Variable) (*plots.Figure, error) {
	curve := plots.Curve{Name: e.GPUName}
	for _, x := range SweepValues(v, &e.Case) {
		one, err := plots.Sweep(&e.Case, v, []int{x}, curve.Name)
		if err == nil {
			curve.Points = append(curve.Points, one.Points...)
		}
	}
	return plots.Latency(plots.SweepCaption(v, &e.Case), v, []plots.Curve{curve})
}

// mostContext is the longest context that a sweep goes to by default.
const mostContext = 1 << 17

// SweepValues are the values of a variable that a sweep tries by default:
// doublings up to what the model, or a node, allows.
func SweepValues(v plots.Variable, c *analytic.Case) []int {
	switch v {
	case plots.ByContext:
		most := c.Model.MaxContext
		if most <= 0 || most > mostContext {
			most = mostContext
		}
		return plots.Doublings(min(max(128, c.Workload.CachedPrefix+1), most), most)
	case plots.ByTP:
		return plots.Doublings(1, max(c.Machine.GPU.GPUsPerNode, 1))
	}
	least := max(c.Parallel.MicroBatches, 1)
	return plots.Doublings(least, 512*least)
}
