package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"llmprof/cmd/llmprof/internal/ask"
	"llmprof/input"
	"llmprof/serving"
	"llmprof/serving/replay"
	"llmprof/unit"
)

// A failuresFlag reads the share of requests that may fail.
type failuresFlag struct{ share **float64 }

// String is the share, empty if not given.
func (f failuresFlag) String() string {
	if f.share == nil || *f.share == nil {
		return ""
	}
	return strconv.FormatFloat(**f.share, 'g', -1, 64)
}

// Set reads "0.01" or "1%".
func (f failuresFlag) Set(s string) error {
	number, percent := strings.CutSuffix(strings.TrimSpace(s), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v <= 1) {
		return fmt.Errorf("want a share of the requests, from 0 to 1, or percents, as 1%%")
	}
	*f.share = &v
	return nil
}

// Type is the name that help shows.
func (f failuresFlag) Type() string { return "share" }

// A lensFlag reads a number of tokens, or how they are distributed.
type lensFlag struct {
	fixed *int
	drawn *string
}

// String is the lengths as they are given.
func (f lensFlag) String() string {
	switch {
	case f.fixed == nil:
		return ""
	case *f.drawn != "":
		return *f.drawn
	}
	return strconv.Itoa(*f.fixed)
}

// Set reads "1024", "512..2048" or "lognormal:1024,0.8".
func (f lensFlag) Set(text string) error {
	if n, err := strconv.Atoi(strings.TrimSpace(text)); err == nil {
		*f.fixed, *f.drawn = n, "" // how many there may be depends on the engine
		return nil
	}
	l, err := serving.ParseLengths(text)
	if err != nil {
		return err
	}
	*f.fixed, *f.drawn = int(math.Round(l.MeanLength())), l.String()
	return nil
}

// Type is the name that help shows.
func (f lensFlag) Type() string { return "tokens" }

// A drawnFlag is a whole number of tokens, in place of which a load takes a distribution.
type drawnFlag struct {
	pflag.Value                 // the number, or the mean
	lengths     ask.LengthsFlag // where a distribution is given
}

// Set reads "1024", "8k", "512..2048", "lognormal:1024,0.8" or "trace:FILE".
func (f drawnFlag) Set(text string) error {
	if !strings.Contains(text, "..") && !strings.Contains(text, ":") {
		n, err := unit.ParseCount(text)
		if err != nil {
			return err
		}
		*f.lengths.To = serving.Lengths{}
		return f.Value.Set(strconv.Itoa(n))
	}
	if err := f.lengths.Set(text); err != nil {
		return err
	}
	return f.Value.Set(strconv.Itoa(int(math.Round(f.lengths.To.MeanLength()))))
}

// Type is the name that help shows.
func (f drawnFlag) Type() string { return "tokens" }

// traceLengths reads the lengths of a recorded trace.
func traceLengths(file string) (prompt, gen serving.Lengths, err error) {
	f, _, err := input.Open(file)
	if err != nil {
		return prompt, gen, err
	}
	defer f.Close()
	return replay.Lengths(f, file)
}
