package measure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"llmprof/internal/input"
	"llmprof/measure/experiment"
	"llmprof/measure/native/cuda"
	"llmprof/measure/native/process"
	"llmprof/models"
	"llmprof/models/safetensors"
)

// resolveNative completes the settings of the native engine, which reads nothing
// of the hub itself: the config.json goes with the load, and weights are those of
// a folder, else random. What the engine does not run is found out here, before
// anything is started.
func (l *Lab) resolveNative(ctx context.Context, set *Settings, m *models.Model, p *experiment.Point) error {
	load := &set.Load
	if load.Config == nil {
		var err error
		if load.Config, err = l.config(ctx, p.Model, m); err != nil {
			return err
		}
	}
	if !load.RandomWeights && load.Weights == "" {
		if folder := filepath.Dir(m.Source); isFile(m.Source) && safetensors.Has(folder) {
			load.Weights = folder
		} else {
			load.RandomWeights, set.Model.RandomWeights = true, true
		}
	}
	if load.Weights != "" {
		if !safetensors.Has(load.Weights) {
			return fmt.Errorf("weights: %s has no safetensors: %w", load.Weights, fs.ErrNotExist)
		}
		var err error
		if load.Weights, err = filepath.Abs(load.Weights); err != nil {
			return err
		}
	}
	return process.Check(load)
}

// sayWeights says that weights are random where nobody asked for that.
func (l *Lab) sayWeights(set *Settings, p *experiment.Point) {
	if p.Engine == experiment.Native && set.Load.RandomWeights && !p.RandomWeights {
		l.say("weights are random: neither --weights nor a folder with safetensors was given; times are the same")
	}
}

// Engine is what runs a point for which no engine was named: the native one
// where there are the GPUs and the libraries, it does all that is asked for, and what
// it would do has run on a GPU before; else transformers. A model of the hub, whose
// own weights are meant, is no reason for random ones.
func (l *Lab) Engine(ctx context.Context, p experiment.Point) string {
	p.Engine = experiment.Native
	if cuda.Ready(p.Libraries) != nil || p.TP > 1 && cuda.Together(p.Libraries, p.TP) != nil || p.Check() != nil {
		return experiment.Transformers
	}
	set, err := l.settings(ctx, &p)
	if err != nil || !p.RandomWeights && set.Load.RandomWeights && strings.ContainsAny(p.Model, `/\`) || !process.Tried(&set.Load) {
		return experiment.Transformers
	}
	return experiment.Native
}

// config is the config.json that the shape of a model was read from. One that
// was just fetched lies in the hub's cache now.
func (l *Lab) config(ctx context.Context, name string, m *models.Model) (json.RawMessage, error) {
	if !isFile(m.Source) && strings.Contains(name, "/") {
		again, err := l.Models.Resolve(ctx, name)
		if err != nil {
			return nil, err
		}
		m = again
	}
	if isFile(m.Source) {
		return input.Read(m.Source, mostConfig)
	}
	if known, ok := l.Models.Table.Lookup(strings.SplitN(name, "@", 2)[0]); ok {
		return l.Models.Table.Config(known)
	}
	return nil, errors.New("the native engine needs the config.json of " + name +
		" in a file, and it is not in the hub's cache: download it and name its folder")
}

// mostConfig bounds a config.json.
const mostConfig = 8 << 20

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
