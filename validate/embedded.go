package validate

import (
	"bytes"
	"embed"
	"encoding/csv"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// observations are the files that come with the program.
//
//go:embed observations/*.csv
var observations embed.FS

// reduced is the list of the result files that some of them were reduced from.
//
//go:embed files.csv
var reduced []byte

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
	return parseSources(data)
}

// The files that hold no observations.
const (
	sourcesFile = "observations/sources.csv"
	filesFile   = "files.csv"
)

func parseSources(data []byte) ([]Source, error) {
	records, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", sourcesFile, err)
	}
	const head = "key,title,url,licence,how"
	if len(records) == 0 || strings.Join(records[0], ",") != head {
		return nil, fmt.Errorf("%s:1: want the columns %s", sourcesFile, head)
	}
	var all []Source
	for i, r := range records[1:] {
		for j, text := range r {
			if text == "" {
				return nil, fmt.Errorf("%s:%d: %s is empty", sourcesFile, i+2, records[0][j])
			}
		}
		all = append(all, Source{r[0], r[1], r[2], r[3], r[4]})
	}
	return all, nil
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
