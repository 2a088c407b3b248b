package settings

import (
	"encoding"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"llmprof/deployment"
	"llmprof/serving"
	"llmprof/unit"
)

// An own is a flag that is read and shown in a way of its own.
type own struct {
	kind string // package pflag's name for the kind of value
	text func() string
	set  func(string) error
}

// Own is the value of a flag that text shows, "" if it is not given, and set reads.
func Own(text func() string, set func(string) error) pflag.Value { return own{"value", text, set} }

// OwnText is the same value for a flag that help and errors treat as a text.
func OwnText(text func() string, set func(string) error) pflag.Value { return own{"string", text, set} }

// String is the value as it is given.
func (v own) String() string { return v.text() }

// Set reads the value.
func (v own) Set(s string) error { return v.set(s) }

// Type is the kind of the value.
func (v own) Type() string { return v.kind }

// Lenient lets a flag of whole numbers, or of several with commas between, be written as people write them: 4096, 4k, 4K or 1e3.
func Lenient(f *pflag.Flag) {
	given := f.Value
	if given.Type() != "int" && given.Type() != "intSlice" {
		return
	}
	f.Value = own{given.Type(), given.String, func(s string) error {
		parts := []string{s}
		if given.Type() == "intSlice" {
			parts = strings.Split(s, ",")
		}
		for i, part := range parts {
			v, err := count(part)
			if err != nil {
				return err
			}
			parts[i] = strconv.Itoa(v)
		}
		return given.Set(strings.Join(parts, ","))
	}}
}

// count reads a whole number as people write it.
func count(s string) (int, error) { return unit.ParseCount(strings.TrimSpace(s)) }

// TimeFlag reads a time as people write it, as "120", "500ms" or "2m": a bare number is of seconds.
func TimeFlag(to *unit.Seconds) pflag.Value {
	return Own(func() string {
		if *to == 0 {
			return ""
		}
		return number(float64(*to))
	}, func(s string) (err error) {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			*to, err = unit.ParseTime(s)
			return err
		}
		*to = unit.Seconds(v)
		return nil
	})
}

// quantity reads a quantity above 0 with its unit, or a number of such units, each of which is so many of the quantity's own.
func quantity[Q ~float64, P interface {
	*Q
	encoding.TextUnmarshaler
}](to P, each Q, s string) error {
	var q Q
	if v, err := strconv.ParseFloat(s, 64); err == nil {
		q = Q(v) * each
	} else if err := P(&q).UnmarshalText([]byte(s)); err != nil {
		return err
	}
	if math.IsNaN(float64(q)) || q <= 0 || q > 1e12 {
		return fmt.Errorf("want more than 0")
	}
	*to = q
	return nil
}

// CalibrationFlag names a file of constants that were measured.
func CalibrationFlag(f *pflag.FlagSet, file *string) {
	f.StringVar(file, "calibration", "", "`FILE` of \"llmprof calibrate\"; \"default\" takes no file")
}

// RatesFlag reads rates, as "2.5" or "1,2,4", and a range that a knee is searched in, as "1..32", unless span is nil.
func RatesFlag(rates *[]float64, span *[2]float64) pflag.Value {
	given := false
	return Own(func() string {
		if span != nil && span[1] > 0 {
			return fmt.Sprintf("%g..%g", span[0], span[1])
		}
		return strings.Trim(strings.ReplaceAll(fmt.Sprint(*rates), " ", ","), "[]")
	}, func(s string) error {
		if !given || span == nil { // Given again a flag of several rates has more of them.
			*rates = nil
		}
		given = true
		if low, high, ok := strings.Cut(s, ".."); ok && span != nil {
			a, failed := strconv.ParseFloat(strings.TrimSpace(low), 64)
			b, wrong := strconv.ParseFloat(strings.TrimSpace(high), 64)
			if failed != nil || wrong != nil || !(a >= serving.LeastRate && a < b && b <= serving.MostRate) {
				return fmt.Errorf("%.40q: want two rates above 0, the smaller first, as 1..32", s)
			}
			*span = [2]float64{a, b}
			return nil
		}
		for part := range strings.SplitSeq(s, ",") {
			v, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
			if err != nil || serving.CheckRate(v) != nil {
				return fmt.Errorf("want requests a second, from 1e-9 to 1e6, or several, as 1,2.5,5")
			}
			*rates = append(*rates, v)
		}
		return nil
	})
}

// A TraceReader gives the lengths of the prompts and of the answers of a recorded trace.
type TraceReader func(file string) (prompt, gen serving.Lengths, err error)

// LengthsFlag reads the tokens of prompts, or of answers: "1024", "512..2048", "lognormal:1024,0.8" or "trace:FILE". Read is nil
// where no traces are read.
func LengthsFlag(to *serving.Lengths, answers bool, read TraceReader) pflag.Value {
	return Own(func() string {
		if to.Kind == "" {
			return ""
		}
		return to.String()
	}, func(text string) error {
		file, traced := strings.CutPrefix(strings.TrimSpace(text), "trace:")
		if !traced {
			l, err := serving.ParseLengths(text)
			if err == nil {
				*to = l
			}
			return err
		}
		if read == nil {
			return fmt.Errorf("%.60q: no trace can be read here", text)
		}
		lengths, gen, err := read(file)
		if answers {
			lengths = gen
		}
		if err == nil {
			*to = lengths
		}
		return err
	})
}

// LengthDistributions lets the flags of a request's lengths take distributions too, whose mean is the number of tokens then: under a load
// the lengths of requests may differ.
func LengthDistributions(f *pflag.FlagSet, q *deployment.Request, read TraceReader) {
	prompt, gen := f.Lookup("prompt-len"), f.Lookup("gen-len")
	prompt.Value = distributionFlag(prompt.Value, &q.Prompts, false, read)
	gen.Value = distributionFlag(gen.Value, &q.Answers, true, read)
}

func distributionFlag(number pflag.Value, lengths **serving.Lengths, answers bool, read TraceReader) pflag.Value {
	return Own(number.String, func(text string) error {
		if !strings.Contains(text, "..") && !strings.ContainsAny(text, ":=") {
			*lengths = nil
			return number.Set(text)
		}
		l := &serving.Lengths{}
		if err := LengthsFlag(l, answers, read).Set(text); err != nil {
			return err
		}
		*lengths = l
		return number.Set(strconv.Itoa(int(math.Round(l.MeanLength()))))
	})
}
