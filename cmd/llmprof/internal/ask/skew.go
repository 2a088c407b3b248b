package ask

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"llmprof/input"
	"llmprof/routing"
)

// SkewFlag says how unevenly experts are chosen.
func (q *Question) SkewFlag(f *pflag.FlagSet) {
	f.StringVar(&q.Skew, "expert-skew", "", "`exponent` of a Zipf law by which experts are chosen, \"text\" for the loads of a text, or a file of loads (default: evenly)")
}

// skewLimits bound a file of loads.
var skewLimits = input.Limits{Bytes: 1 << 20, Depth: 2, Values: 1 << 16}

// popularity is how unevenly experts are chosen: an exponent, "text", or a file with a JSON array, or with
// a number a line.
func popularity(text string) (*routing.Popularity, error) {
	switch text {
	case "":
		return nil, nil
	case "text":
		return &routing.Popularity{Text: true}, nil
	}
	if zipf, err := strconv.ParseFloat(text, 64); err == nil {
		return &routing.Popularity{Zipf: zipf}, nil
	}
	data, err := input.Read(text, int64(skewLimits.Bytes))
	if err != nil {
		return nil, fmt.Errorf("--expert-skew %.60q: want an exponent as 0.8, text, or a file of loads: %w", text, err)
	}
	p := &routing.Popularity{}
	if body := strings.TrimSpace(string(data)); strings.HasPrefix(body, "[") {
		if err = skewLimits.JSON(body); err == nil {
			err = json.Unmarshal([]byte(body), &p.Loads)
		}
	} else {
		for number, field := range strings.Fields(body) {
			v, failed := strconv.ParseFloat(field, 64)
			if failed != nil {
				err = fmt.Errorf("number %d is %.40q", number+1, field)
				break
			}
			p.Loads = append(p.Loads, v)
		}
	}
	if err == nil && len(p.Loads) == 0 {
		err = fmt.Errorf("it has no numbers")
	}
	if err != nil {
		return nil, fmt.Errorf("--expert-skew %s: want a JSON array of loads, or a number a line: %w", text, err)
	}
	return p, nil
}
