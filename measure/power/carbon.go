package power

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"

	"llmprof/internal/spelling"
)

//go:embed carbon.toml
var carbonTOML string

// A carbonTable is carbon.toml.
type carbonTable struct {
	Source string `toml:"source"`
	Region []struct {
		Name     string  `toml:"name"`
		Code     string  `toml:"code"` // ISO 3166-1, where it is a country
		Year     int     `toml:"year"`
		GramsKWh float64 `toml:"g_per_kwh"`
	} `toml:"region"`
}

// Region is the mean of a year of the CO2 equivalent of a kilowatt-hour in a
// region, by its name or the code of its country, in g, with its source.
func Region(name string) (gramsPerKWh float64, source string, err error) {
	var t carbonTable
	if _, err := toml.Decode(carbonTOML, &t); err != nil {
		return 0, "", fmt.Errorf("the table of carbon intensities: %w", err)
	}
	wanted := strings.ToLower(strings.ReplaceAll(strings.TrimSpace(name), " ", "-"))
	var names []string
	for _, r := range t.Region {
		if wanted == r.Name || wanted == r.Code {
			return r.GramsKWh, fmt.Sprintf("%s, mean of %d (%s)", r.Name, r.Year, t.Source), nil
		}
		names = append(names, r.Name)
	}
	return 0, "", fmt.Errorf("no carbon intensity of %q is known; %s, or give it in g/kWh", name, spelling.Hint(wanted, names))
}
