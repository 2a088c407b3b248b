//go:build ignore

// Modules completes rows of tables of whole attention modules, model,gpu,engine,tp,weights,cache,batch,new,past,µs, by what the theory has of
// them: the time of the kernels that have constants, the ideal times of arithmetic and memory of the choice of keys and of sparse attention, all
// in µs, and the blocks of keys that a query reads. Its argument is the name of an operator that the layer has.
//
//	go run experiments/operators/modules.go indexer < rows.csv
package main

import (
	"encoding/csv"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"

	"llmprof"
	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/analytic/operator"
	"llmprof/hardware"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

func number(s string) float64 { return must(strconv.ParseFloat(s, 64)) }

// predictor is of a row without its batch and lengths.
func predictor(table *models.Table, gpus *hardware.Table, f []string) *analytic.Predictor {
	m, g, e := must(table.Model(f[0])), must(gpus.GPU(f[1])), must(engine.Parse(f[2]))
	file := must(hardware.BuiltIn(llmprof.Calibrations, &g, e.Profile().Engine()))
	s := must(models.NamedScheme(m, f[4])).For(&g)
	if s.KV = unit.BF16; f[5] == "fp8" {
		s.KV = unit.FP8
	}
	return must(analytic.NewPredictor(&analytic.Case{Model: m, Machine: must(analytic.Calibrated(&g, e, file)), Scheme: s,
		Workload: analytic.Workload{Batch: 1, PromptLen: 8, GenLen: 2},
		Parallel: analytic.Parallelism{TP: must(strconv.Atoi(f[3])), GPUsPerNode: 8}}))
}

// A module is what the theory has of one.
type module struct {
	known          float64    // time of kernels with constants
	choice, attend [2]float64 // ideal times of arithmetic and memory
	blocks         float64
}

// add adds a kernel of the module.
func (m *module) add(l *analytic.Lowering, k *analytic.Kernel, c *roofline.Cost) {
	at := &m.attend
	switch k.Class {
	case roofline.Index, roofline.IndexEntries, roofline.IndexBlocks:
		at = &m.choice
	case roofline.SparseAttention, roofline.SparseEntries, roofline.SparseBlocks:
		m.blocks += k.Shape.Tiles
	default:
		m.known += 1e6 * float64(c.Time) / k.Count
		return
	}
	_, peak := l.GPU.Runs(k.Format)
	at[0] += 1e6 * float64(k.Work.FLOPs) / float64(peak)
	at[1] += 1e6 * float64(k.Work.Traffic()) / float64(l.GPU.Bandwidth)
}

func main() {
	table, gpus := must(models.Load(llmprof.ModelsJSON)), must(hardware.Load(llmprof.HardwareTOML))
	predictors := map[string]*analytic.Predictor{}
	for _, f := range must(csv.NewReader(os.Stdin).ReadAll()) {
		key := strings.Join(f[:6], ",")
		if predictors[key] == nil {
			predictors[key] = predictor(table, gpus, f)
		}
		p := predictors[key]
		var m module
		done := false
		step := p.Step(number(f[6]), number(f[7]), number(f[8]), 0)
		p.Walk(&step, func(l *analytic.Lowering, costs []roofline.Cost) {
			has := false
			for i := range l.Ops {
				has = has || l.Ops[i].Name == os.Args[1]
			}
			if !has || done {
				return
			}
			done = true
			for i := range l.Kernels {
				if o := &l.Ops[l.Kernels[i].Main]; o.At == 0 && o.Type != operator.Reduce && o.Name != "input_layernorm" &&
					!strings.HasPrefix(o.Name, "hyper") {
					m.add(l, &l.Kernels[i], &costs[i])
				}
			}
		})
		fmt.Printf("%s,%.3f,%.4f,%.4f,%.4f,%.4f,%g\n", strings.Join(f, ","), m.known, m.choice[0], m.choice[1], m.attend[0], m.attend[1], m.blocks)
	}
}
