package calibrate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"llmprof/analytic"
	"llmprof/hardware"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// Served is points of one server, and what it runs.
type Served struct {
	Server   Server // Its notes go into the calibration.
	Points   []ServedPoint
	Engine   analytic.Engine
	Model    *models.Model
	Scheme   models.Scheme
	Parallel analytic.Parallelism
	Base     *hardware.CalibrationFile // start of the fit; nil for the defaults of the GPU's generation
	Name     string                    // name of the calibration
}

// servedKeys are the constants that a server's times can determine. The points decide which of them they do.
var servedKeys = []roofline.Constant{
	roofline.HostStep, roofline.HostAsync, roofline.HostSequence, roofline.HostRequest, roofline.HostLaunch, roofline.HostDispatch,
	roofline.GEMMMemory, roofline.GEMMCompute, roofline.AttentionMemory, roofline.AttentionCompute,
	roofline.GEMMFixed,
	roofline.MoEPrefillMemory, roofline.MoEPrefillCompute, roofline.MoEDecodeMemory,
}

// leastServed is how many points of the server a fit needs.
const leastServed = 2 * least

// FitServed fits the constants of an engine and its GPU to what a server's client saw. The
// points that are held out take no part in it.
func FitServed(s *Served, g *hardware.GPU) (*hardware.CalibrationFile, error) {
	v, err := s.evaluator(g)
	if err != nil {
		return nil, err
	}
	if err := v.possible(); err != nil {
		return nil, err
	}
	var samples []sample
	for i := range s.Points {
		if p := &s.Points[i]; !p.HeldOut {
			samples = append(samples, sample{time: p.Seconds, point: p})
		}
	}
	if len(samples) < leastServed {
		return nil, fmt.Errorf("%d points of the server were measured: a fit needs %d", len(samples), leastServed)
	}
	keys, err := v.keys()
	if err != nil {
		return nil, err
	}
	start := make([]float64, len(keys))
	for i, k := range keys {
		start[i] = v.base.Constants[k]
	}
	f, refused := solvePossible(v.equation(keys, start), samples, start)
	f.leaveOut()
	return s.file(g, v, f, refused)
}

// solvePossible holds constants at their start that come out as none that there can be, one after the other, and returns what they came
// out as. Prompts whose time differs from one to the next, as those that wait for the host, may ask for any share of the peak.
func solvePossible(e equation, samples []sample, start []float64) (f *fit, refused map[roofline.Constant]float64) {
	refused = map[roofline.Constant]float64{}
	for {
		f = solve(e, samples, start, slices.Collect(maps.Keys(refused))...)
		i := slices.IndexFunc(f.free(), func(k int) bool { return !f.keys[k].Valid(f.value[k]) })
		if i < 0 {
			return f, refused
		}
		k := f.free()[i]
		refused[f.keys[k]] = f.value[k]
	}
}

// hostScales are how many times slower than at the start the host is where a fit begins again. A step takes the
// longer of host and kernels, so that a fit that begins with the kernels ahead of the host may end there.
var hostScales = []float64{2, 4, 16}

// slowHosts are starts with slower hosts.
func slowHosts(keys []roofline.Constant, start []float64) (all [][]float64) {
	for _, scale := range hostScales {
		slow := slices.Clone(start)
		for i, k := range keys {
			if k.Info().Engine {
				slow[i] *= scale
			}
		}
		all = append(all, slow)
	}
	return all
}

// file puts the constants into a calibration. Refused are the values of those that came out as none that there can be.
func (s *Served) file(g *hardware.GPU, v *evaluator, f *fit, refused map[roofline.Constant]float64) (*hardware.CalibrationFile, error) {
	file, err := s.begun(g)
	if err != nil {
		return nil, err
	}
	base, byDefault := &v.base.Constants, "default of "+s.Engine.Profile().Engine()
	(&builder{file: file}).put(f, fmt.Sprintf("%d points of the server", len(f.samples)), f, bearing)
	for i, k := range f.keys {
		key := k.String()
		if !f.held[i] {
			continue
		}
		why := f.why(i, "points of the server")
		if x, ok := refused[k]; ok {
			why = fmt.Sprintf("%d points of the server ask for %.4g, which cannot be (want %s)", len(f.samples), x, k.Info().Quantity.Want())
		}
		file.Notes = append(file.Notes, fmt.Sprintf("%s stays at %s: %s", key, valueText(k, base[k]), why))
		if x, ok := file.Values[key]; ok && x.N == 0 {
			file.Values[key] = hardware.Value{Value: base[k], From: byDefault}
		}
	}
	for _, t := range tied(f.keys) {
		if i := slices.Index(f.keys, t.to); !f.held[i] && base[t.constant] > 0 {
			file.Values[t.constant.String()] = hardware.Value{Value: t.in(base, f.value[i]), From: "default: in proportion to " + t.to.String()}
			delete(file.HeldOut, t.constant.String())
		}
	}
	s.completeSchemes(file, base, byDefault)
	return file, nil
}

// completeSchemes adds the constants of a number format of which others were fitted: a calibration file has all of a format or none.
func (s *Served) completeSchemes(file *hardware.CalibrationFile, base *roofline.Constants, from string) {
	begun := map[string]bool{}
	for key := range file.Values {
		section, _, _ := strings.Cut(key, ".")
		begun[section] = true
	}
	for _, k := range roofline.All() {
		key := k.String()
		section, _, _ := strings.Cut(key, ".")
		if _, has := file.Values[key]; k.OfScheme() && begun[section] && !has {
			file.Values[key] = hardware.Value{Value: base[k], From: from}
		}
	}
}

func valueText(k roofline.Constant, v float64) string {
	if k.Info().Quantity.Timed() {
		return unit.Seconds(v).String()
	}
	return fmt.Sprintf("%.4g", v)
}

func (s *Served) begun(g *hardware.GPU) (*hardware.CalibrationFile, error) {
	if g.Key == "" {
		return nil, errors.New("the GPU has no key in the table")
	}
	file, err := hardware.NewCalibrationFile(g, s.Scheme.Stream())
	if err != nil {
		return nil, err
	}
	if b := s.Base; b != nil {
		file.Values, file.HeldOut, file.DType, file.Device = maps.Clone(b.Values), maps.Clone(b.HeldOut), b.DType, b.Device
		for key, x := range file.Values {
			x.From = strings.TrimSpace(x.From + " (" + b.Name + ")")
			file.Values[key] = x
		}
		file.Tables, file.Operators = b.Tables, b.Operators
		file.TP = slices.Clone(b.TP)
		file.Notes = append(file.Notes, fmt.Sprintf("constants that the server's points do not determine are of the calibration %s: %s", b.Name,
			b.Kernels))
	}
	if tp := max(s.Parallel.TP, 1); !slices.Contains(file.TP, tp) {
		file.TP = slices.Sorted(slices.Values(append(file.TP, tp)))
	}
	file.Device.Name = cmp.Or(file.Device.Name, g.Name)
	of := &s.Server
	file.Name, file.Engine, file.Kernels, file.Made, file.Version = s.Name, s.Engine.Profile().Name, of.Kernels, of.When, of.Version
	maps.Copy(file.Tools, of.Tools)
	file.Notes = append(file.Notes, of.Notes...)
	return file, nil
}

// A ServedError is how far predictions of points are off.
type ServedError struct {
	Point         *ServedPoint
	Before, After float64 // prediction over time less 1, without the calibration and with it
}

// Score predicts every point by what was known before, and by a calibration.
func (s *Served) Score(g *hardware.GPU, f *hardware.CalibrationFile) ([]ServedError, error) {
	v, err := s.evaluator(g)
	if err != nil {
		return nil, err
	}
	after, err := analytic.Constants(g, s.Engine, f)
	if err != nil {
		return nil, err
	}
	var all []ServedError
	for i := range s.Points {
		p := &s.Points[i]
		was, err := v.time(v.base.Constants, p, nil)
		if err != nil {
			return nil, err
		}
		is, err := v.time(after.Constants, p, nil)
		if err != nil {
			return nil, err
		}
		all = append(all, ServedError{Point: p, Before: float64(was)/p.Seconds - 1, After: float64(is)/p.Seconds - 1})
	}
	return all, nil
}
