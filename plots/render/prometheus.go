package render

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// bounds are keys of the figures of one estimate, which become a label.
var bounds = []string{"floor", "expected", "low", "high"}

// baseUnits are the ends of keys, and what Prometheus calls them. The first that fits counts.
var baseUnits = []struct{ end, name string }{
	{"_tok_s", "_tokens_per_second"}, {"_s", "_seconds"}, {"_j", "_joules"}, {"_w", "_watts"},
}

// Prometheus writes the numbers of a document in Prometheus's text form: gauges that are named by their keys. The model, the GPU and the
// engine are labels. Other texts, lists and what is null are left out.
func Prometheus(to io.Writer, document any) error {
	text, err := json.Marshal(document)
	if err != nil {
		return err
	}
	var root map[string]any
	if err := json.Unmarshal(text, &root); err != nil {
		return err
	}
	labels := map[string]string{}
	for label, path := range map[string][2]string{"model": {"model", "name"}, "gpu": {"gpu", "key"}, "engine": {"engine", ""}} {
		value := root[path[0]]
		if within, ok := value.(map[string]any); ok {
			value = within[path[1]]
		}
		if text, ok := value.(string); ok {
			labels[label] = text
		}
	}
	lines := map[string][]string{} // by name
	gauges(lines, "llmprof", root, labels)
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		if _, err := fmt.Fprintf(to, "# TYPE %s gauge\n%s\n", name, strings.Join(lines[name], "\n")); err != nil {
			return err
		}
	}
	return nil
}

// gauges adds the numbers below a path.
func gauges(lines map[string][]string, path string, within map[string]any, labels map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(within)) {
		value := math.NaN()
		switch v := within[key].(type) {
		case map[string]any:
			gauges(lines, path+"_"+key, v, labels)
		case float64:
			value = v
		case bool:
			value = map[bool]float64{true: 1}[v]
		}
		if math.IsNaN(value) {
			continue
		}
		name, own := path+"_"+key, labels
		if slices.Contains(bounds, key) {
			name, own = path, maps.Clone(labels)
			own["estimate"] = key
		}
		for _, unit := range baseUnits {
			if begin, ok := strings.CutSuffix(name, unit.end); ok {
				name = begin + unit.name
				break
			}
		}
		lines[name] = append(lines[name], name+labelled(own)+" "+strconv.FormatFloat(value, 'g', -1, 64))
	}
}

// labelled is labels as a line has them.
func labelled(labels map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, name+"="+strconv.Quote(labels[name]))
	}
	return "{" + strings.Join(parts, ",") + "}"
}
