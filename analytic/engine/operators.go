package engine

import (
	"cmp"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"llmprof/hardware"
	"llmprof/roofline"
)

//go:embed operators.csv
var operatorsCSV string

// An operatorConstant is the value of a constant of an engine's kernels on a GPU that follows from
// published tables of operator times.
type operatorConstant struct {
	engine, gpu, generation string
	section                 string // section is the part of the constant's name ahead of the point.
	constant                roofline.Constant
	value                   float64 // 0 if the value of the generation serves
	p90                     float64 // 90th percentile of the error on shapes that the fit did not see; 0 if there are none
}

// operators has the rows of each engine. A mistake in the table is a mistake of the program.
var operators = sync.OnceValue(func() map[string][]operatorConstant {
	_, rows, _ := strings.Cut(operatorsCSV, "engine,gpu,generation,constant,value,p90\n")
	all := map[string][]operatorConstant{}
	for line := range strings.Lines(rows) {
		o, err := parseOperator(strings.TrimSuffix(line, "\n"))
		if err != nil {
			panic(err)
		}
		all[o.engine] = append(all[o.engine], o)
	}
	return all
})

// parseOperator reads a row.
func parseOperator(line string) (o operatorConstant, err error) {
	f := strings.Split(line, ",")
	if len(f) != 6 {
		return o, fmt.Errorf("operators.csv: %d fields in %q, want 6", len(f), line)
	}
	section, _, _ := strings.Cut(f[3], ".")
	o = operatorConstant{engine: f[0], gpu: f[1], generation: f[2], section: section, constant: roofline.ConstantOf(f[3])}
	value, err := strconv.ParseFloat(cmp.Or(f[4], "0"), 64)
	p90, also := strconv.ParseFloat(cmp.Or(f[5], "0"), 64)
	if o.value, o.p90 = value, p90; o.constant == roofline.None || err != nil || also != nil || value != 0 && !o.constant.Valid(value) {
		return o, fmt.Errorf("operators.csv: %q: want a constant of a calibration and what it can be", line)
	}
	return o, nil
}

// tabled sets the constants of an engine's kernels that published tables give for the GPU, or else
// for its generation, if no calibration has them.
func tabled(engine string) func(*hardware.GPU, *hardware.Calibration) {
	return func(g *hardware.GPU, c *hardware.Calibration) {
		given := c.Constants
		for _, o := range operatorsOf(engine, g) {
			if leader := o.constant.Info().Leader; o.value != 0 && given[leader] == 0 && !c.Fitted[o.constant] {
				if o.constant == roofline.GEMMCompute { // the power limit slows products by as much as before
					c.Constants[roofline.GEMMSustained] *= o.value / given[roofline.GEMMCompute]
				}
				c.Constants[o.constant] = o.value
				if o.constant == roofline.TileEmpty {
					c.Constants[o.constant] = emptyRow(g, o.value)
				}
				c.Fitted[o.constant] = o.gpu == g.Key
			}
			if o.p90 != 0 {
				c.Residuals[o.constant] = o.p90
			}
		}
	}
}

// over is the constants of an engine with those of other tables in place of theirs, but for those of a calibration. The other tables are of
// another release or another setting than was timed, so that none is of a user's board.
func over(operators func(*hardware.GPU, *hardware.Calibration), tables string) func(*hardware.GPU, *hardware.Calibration) {
	return func(g *hardware.GPU, c *hardware.Calibration) {
		file := c.Constants
		operators(g, c)
		for _, o := range operatorsOf(tables, g) {
			if file[o.constant.Info().Leader] != 0 {
				continue
			}
			c.Constants[o.constant], c.Fitted[o.constant] = o.value, false
			if o.p90 != 0 {
				c.Residuals[o.constant] = o.p90
			}
		}
	}
}

// operatorsOf lists the constants of an engine on a GPU: section by section those of the GPU, else those of its generation.
func operatorsOf(engine string, g *hardware.GPU) (list []operatorConstant) {
	own := map[string]bool{}
	for _, board := range []bool{true, false} {
		for _, o := range operators()[engine] {
			switch {
			case board && o.gpu == g.Key:
				list, own[o.section] = append(list, o), true
			case !board && o.generation == g.Generation && !own[o.section]:
				list = append(list, o)
			}
		}
	}
	return list
}

// defaults are constants for where there is no value.
type defaults []struct {
	constant roofline.Constant
	value    float64
}

func (d defaults) set(c *roofline.Constants) {
	for _, v := range d {
		if c[v.constant] == 0 {
			c[v.constant] = v.value
		}
	}
}
