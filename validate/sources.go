package validate

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// observations are the files that come with the program.
//
//go:embed observations/*.csv
var observations embed.FS

// A Source is where embedded observations are from.
type Source struct {
	Key     string `json:"key"` // key of the source in observations
	Title   string `json:"title"`
	URL     string `json:"url"`
	Licence string `json:"licence"`
	How     string `json:"how"` // the run, and assumptions on what the source does not state
}

// Sources lists where the embedded observations are from.
func Sources() ([]Source, error) {
	data, err := observations.ReadFile(sourcesFile)
	if err != nil {
		return nil, err
	}
	return parse[Source](sourcesFile, data)
}

// sourcesFile holds no observations.
const sourcesFile = "observations/sources.csv"

func (s *Source) cells() []cell {
	return []cell{{name: "key", to: &s.Key}, {name: "title", to: &s.Title}, {name: "url", to: &s.URL}, {name: "licence", to: &s.Licence},
		{name: "how", to: &s.How}}
}

// Check says what the source lacks.
func (s *Source) Check() error {
	for _, c := range s.cells() {
		if c.text() == "" {
			return fmt.Errorf("%s is empty", c.name)
		}
	}
	return nil
}

// Embedded are the observations that come with the program.
func Embedded() ([]Observation, error) {
	sources, err := Sources()
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, s := range sources {
		known[s.Key] = true
	}
	names, err := fs.Glob(observations, "observations/*.csv")
	if err != nil {
		return nil, err
	}
	var all []Observation
	for _, name := range names {
		if name == sourcesFile {
			continue
		}
		data, err := observations.ReadFile(name)
		if err != nil {
			return nil, err
		}
		some, err := Parse(name, data)
		if err != nil {
			return nil, err
		}
		for i := range some {
			if key := some[i].Source; !known[key] || key != strings.TrimSuffix(path.Base(name), ".csv") {
				return nil, fmt.Errorf("%s: source %.40q: want that of the file's name, listed in %s", name, key, sourcesFile)
			}
		}
		all = append(all, some...)
	}
	return all, nil
}
