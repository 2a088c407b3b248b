package main

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/internal/input"
	"llmprof/serving"
	"llmprof/serving/replay"
)

// failuresFlag reads the share of requests that may fail, as "0.01" or "1%".
func failuresFlag(to **float64) pflag.Value {
	return settings.Own(func() string {
		if *to == nil {
			return ""
		}
		return strconv.FormatFloat(**to, 'g', -1, 64)
	}, func(s string) error {
		number, percent := strings.CutSuffix(strings.TrimSpace(s), "%")
		v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if percent {
			v /= 100
		}
		if err != nil || !(v >= 0 && v <= 1) {
			return fmt.Errorf("want a share of the requests, from 0 to 1, or percents, as 1%%")
		}
		*to = &v
		return nil
	})
}

// lensFlag reads a number of tokens, or how they are distributed: "1024", "512..2048" or "lognormal:1024,0.8".
func lensFlag(fixed *int, drawn *string) pflag.Value {
	return settings.Own(func() string { return cmp.Or(*drawn, strconv.Itoa(*fixed)) }, func(text string) error {
		if n, err := strconv.Atoi(strings.TrimSpace(text)); err == nil {
			*fixed, *drawn = n, "" // how many there may be depends on the engine
			return nil
		}
		l, err := serving.ParseLengths(text)
		if err == nil {
			*fixed, *drawn = int(math.Round(l.MeanLength())), l.String()
		}
		return err
	})
}

func traceLengths(file string) (prompt, gen serving.Lengths, err error) {
	f, _, err := input.Open(file)
	if err != nil {
		return prompt, gen, err
	}
	defer f.Close()
	return replay.Lengths(f, file)
}
