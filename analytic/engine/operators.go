package engine

import (
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
	constant                roofline.Constant
	value                   float64 // 0 if the value of the generation serves
	p90                     float64 // 90th percentile of the error on shapes that the fit did not see; 0 if there are none
}

// operators reads the rows of an engine that may be those of a GPU or of its generation. A mistake in the table is a mistake of the
// program.
func operators(engine string, g *hardware.GPU) []operatorConstant {
	var rows strings.Builder
	for line := range strings.Lines(operatorsCSV) {
		if strings.HasPrefix(line, engine+",") && (strings.Contains(line, ","+g.Key+",") || strings.Contains(line, ","+g.Generation+",")) {
			rows.WriteString(line)
		}
	}
	all, err := parseOperators(rows.String())
	if err != nil {
		panic(err)
	}
	return all
}

// parseOperators reads rows without the header.
func parseOperators(rows string) (all []operatorConstant, err error) {
	for line := range strings.Lines(rows) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), ",")
		if len(f) != 6 {
			return nil, fmt.Errorf("operators.csv: %d fields in %q, want 6", len(f), line)
		}
		o := operatorConstant{engine: f[0], gpu: f[1], generation: f[2], constant: roofline.ConstantOf(f[3])}
		if o.value, err = number(f[4]); err == nil {
			o.p90, err = number(f[5])
		}
		if o.constant == roofline.None || err != nil || o.value != 0 && !o.constant.Valid(o.value) {
			return nil, fmt.Errorf("operators.csv: %s of %s on %s is %q ± %q: want a constant of a calibration and what it can be", f[3], f[0], f[1],
				f[4], f[5])
		}
		all = append(all, o)
	}
	return all, nil
}

func number(text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	return strconv.ParseFloat(text, 64)
}

// tables remembers the constants of an engine on a GPU.
var tables sync.Map

// tabled sets the constants of an engine's kernels that published tables give for the GPU, or else
// for its generation, if no calibration has them.
func tabled(engine string) func(*hardware.GPU, *hardware.Calibration) {
	return func(g *hardware.GPU, c *hardware.Calibration) {
		key := [3]string{engine, g.Key, g.Generation}
		list, ok := tables.Load(key)
		if !ok {
			list, _ = tables.LoadOrStore(key, operatorsOf(engine, g))
		}
		given := c.Constants
		for _, o := range list.([]operatorConstant) {
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
	own, all := map[string]bool{}, operators(engine, g)
	section := func(o *operatorConstant) string {
		s, _, _ := strings.Cut(o.constant.String(), ".")
		return s
	}
	for _, o := range all {
		if o.engine == engine && o.gpu == g.Key {
			list, own[section(&o)] = append(list, o), true
		}
	}
	for _, o := range all {
		if o.engine == engine && o.generation == g.Generation && !own[section(&o)] {
			list = append(list, o)
		}
	}
	return list
}

// setDefault sets a constant that has no value.
func setDefault(c *roofline.Constants, k roofline.Constant, v float64) {
	if c[k] == 0 {
		c[k] = v
	}
}

// defaults sets constants that have no value.
type defaults map[roofline.Constant]float64

func (d defaults) set(c *roofline.Constants) {
	for k, v := range d {
		setDefault(c, k, v)
	}
}
