//go:build !js

package validate

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// FalseAlarms is the share of comparisons between processes of one release that raise an alarm, at most.
const FalseAlarms = 0.05

// A Change is a figure of a workload before and after, a value for each process.
type Change struct {
	Config           // its release and flags are left out
	Metric           Metric
	Base, New        []float64
	Ratio, Low, High float64 // ratio of the geometric means; the interval holds for all changes of a comparison together
	Slower           bool    // the interval lies above 1, and the ratio above what is allowed
}

// A figureOf is what processes before and after have in common: all but the release and the flags.
type figureOf struct {
	Config
	Metric
}

func (o *Observation) figureOf() figureOf {
	c := o.Config
	c.Release, c.Mode, c.Option, c.Budget, c.Graphs, c.RecvInterval, c.Params = "", "", "", 0, 0, 0, 0
	return figureOf{c, o.Metric}
}

// Changes compares processes before and after: every observation is of one process, and a process differs from the next by more than
// its own repeats tell. The logarithms of a metric scatter alike at all workloads, so that their variance is pooled; since a process that
// is slow at one workload is slow at others, half of the degrees of freedom count. Intervals hold together (Bonferroni), so that of
// comparisons between processes of one release a share of FalseAlarms at most raises an alarm. Over is the rise that is allowed. Alone are
// workloads of which one of the two sides has less than two processes.
func Changes(base, next []Observation, over float64) (all []Change, alone []string, err error) {
	if err := errors.Join(oneSetting("before", base), oneSetting("after", next)); err != nil {
		return nil, nil, err
	}
	of := map[figureOf]int{}
	for side, some := range [][]Observation{base, next} {
		for _, o := range some {
			key := o.figureOf()
			if _, known := of[key]; !known {
				of[key] = len(all)
				all = append(all, Change{Config: key.Config, Metric: key.Metric})
			}
			to := &all[of[key]]
			values := []*[]float64{&to.Base, &to.New}[side]
			*values = append(*values, o.Value)
		}
	}
	all = slices.DeleteFunc(all, func(c Change) bool {
		few := len(c.Base) < 2 || len(c.New) < 2
		if few {
			alone = append(alone, fmt.Sprintf("%s of %s: %d processes before and %d after", c.Metric, c.String(), len(c.Base), len(c.New)))
		}
		return few
	})
	if len(all) == 0 {
		return nil, alone, errors.New("no workload has two processes before and two after: repeat the measurement in further processes, each " +
			"with a result of its own")
	}
	scatter := map[Metric]*pooled{}
	for i := range all {
		c := &all[i]
		if scatter[c.Metric] == nil {
			scatter[c.Metric] = &pooled{}
		}
		scatter[c.Metric].add(c.Base)
		scatter[c.Metric].add(c.New)
	}
	for i := range all {
		c := &all[i]
		p := scatter[c.Metric]
		t := distuv.StudentsT{Sigma: 1, Nu: max(p.freedom/2, 1)}.Quantile(1 - FalseAlarms/2/float64(len(all)))
		half := t * math.Sqrt(p.squares/p.freedom*(1/float64(len(c.Base))+1/float64(len(c.New))))
		middle := stat.Mean(logs(c.New), nil) - stat.Mean(logs(c.Base), nil)
		c.Ratio, c.Low, c.High = math.Exp(middle), math.Exp(middle-half), math.Exp(middle+half)
		c.Slower = c.Low > 1 && c.Ratio > 1+over
	}
	slices.SortStableFunc(all, func(a, b Change) int { return cmp.Compare(b.Ratio, a.Ratio) })
	return all, alone, nil
}

// Phase is the phase that a metric is of.
func (m Metric) Phase() string {
	switch m {
	case TTFT, EnergyPerPrompt:
		return "prefill"
	case TPOT, EnergyPerToken:
		return "decode"
	}
	return "both"
}

// pooled is the sum of squares within groups.
type pooled struct{ squares, freedom float64 }

func (p *pooled) add(values []float64) {
	x := logs(values)
	middle := stat.Mean(x, nil)
	for _, v := range x {
		p.squares += (v - middle) * (v - middle)
	}
	p.freedom += float64(len(x) - 1)
}

func logs(values []float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = math.Log(v)
	}
	return out
}

// oneSetting refuses processes of one workload that are of several releases or settings, which do not scatter but differ.
func oneSetting(side string, all []Observation) error {
	first := map[figureOf]*Observation{}
	for i := range all {
		o := &all[i]
		one := first[o.figureOf()]
		if one == nil {
			first[o.figureOf()] = o
			continue
		}
		a, b := one.Config, o.Config
		a.Params, b.Params = 0, 0
		if a != b {
			return fmt.Errorf("%s: %s and %s are of different settings: give results of one release and one set of flags", side, one.name(),
				o.name())
		}
	}
	return nil
}
