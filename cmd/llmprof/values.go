package main

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"llmprof/cmd/llmprof/internal/ask"
	"llmprof/internal/input"
	"llmprof/serving"
	"llmprof/serving/replay"
	"llmprof/unit"
)

// failuresFlag reads the share of requests that may fail, as "0.01" or "1%".
func failuresFlag(to **float64) pflag.Value {
	return ask.Flag(func() string {
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
	return ask.Flag(func() string { return cmp.Or(*drawn, strconv.Itoa(*fixed)) }, func(text string) error {
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

// drawnFlag is a whole number of tokens, as "1024" or "8k", in place of which a load takes a distribution, whose mean
// is the number then.
func drawnFlag(number pflag.Value, lengths *serving.Lengths, drawn pflag.Value) pflag.Value {
	return ask.Flag(number.String, func(text string) error {
		if !strings.Contains(text, "..") && !strings.Contains(text, ":") {
			n, err := unit.ParseCount(text)
			if err != nil {
				return err
			}
			*lengths = serving.Lengths{}
			return number.Set(strconv.Itoa(n))
		}
		if err := drawn.Set(text); err != nil {
			return err
		}
		return number.Set(strconv.Itoa(int(math.Round(lengths.MeanLength()))))
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
