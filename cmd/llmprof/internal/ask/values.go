package ask

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"llmprof/serving"
	"llmprof/unit"
)

// A FormatFlag reads a number format.
type FormatFlag struct{ Format *unit.Format }

// String is the format as it is spelt.
func (f FormatFlag) String() string {
	if f.Format == nil || *f.Format == unit.NoFormat {
		return ""
	}
	return f.Format.String()
}

// Set reads the format.
func (f FormatFlag) Set(s string) error { return f.Format.UnmarshalText([]byte(s)) }

// Type is the name that help shows.
func (f FormatFlag) Type() string { return "format" }

// FormatNames lists the number formats.
func FormatNames() []string {
	var names []string
	for _, f := range unit.Formats() {
		names = append(names, f.String())
	}
	return names
}

// A ShareFlag reads a share of a peak. The zero share is one not given.
type ShareFlag struct{ share *float64 }

// String is the share, empty if not given.
func (f ShareFlag) String() string {
	if f.share == nil || *f.share == 0 {
		return ""
	}
	return strconv.FormatFloat(*f.share, 'g', -1, 64)
}

// Set reads a share above 0 and up to 1.
func (f ShareFlag) Set(s string) error {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v > 0 && v <= 1) {
		return fmt.Errorf("want a share above 0 and at most 1, as 0.8")
	}
	*f.share = v
	return nil
}

// Type is the name that help shows.
func (f ShareFlag) Type() string { return "share" }

// A TimeFlag reads a time as people write it: a bare number is of seconds.
type TimeFlag struct{ To *unit.Seconds }

// String is the time in seconds, empty if not given.
func (f TimeFlag) String() string {
	if f.To == nil || *f.To == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(*f.To), 'g', -1, 64)
}

// Set reads "120", "500ms" or "2m".
func (f TimeFlag) Set(s string) (err error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		*f.To, err = ParseTime(s)
		return err
	}
	*f.To = unit.Seconds(v)
	return nil
}

// Type is the name that help shows.
func (f TimeFlag) Type() string { return "time" }

// ParseTime reads a time with its unit, minutes and hours too.
func ParseTime(s string) (t unit.Seconds, err error) {
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return unit.Seconds(d.Seconds()), nil
	}
	err = t.UnmarshalText([]byte(s))
	return t, err
}

// maxPrice is beyond any GPU's price of an hour.
const maxPrice = 1e6

// A Price is what an hour of one GPU costs; the zero Price is one not given.
type Price unit.DollarsPerHour

// String is the price, empty if not given.
func (p *Price) String() string {
	if *p == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(*p), 'g', -1, 64)
}

// Set reads "2.49" or "2.49 $/h".
func (p *Price) Set(s string) error {
	var d unit.DollarsPerHour
	if err := d.UnmarshalText([]byte(strings.TrimPrefix(s, "$"))); err != nil {
		return err
	}
	if d <= 0 || d > maxPrice {
		return fmt.Errorf("want dollars an hour, above 0 and at most %.0f", maxPrice)
	}
	*p = Price(d)
	return nil
}

// Type is the name that help shows.
func (p *Price) Type() string { return "$/h" }

// A RatesFlag reads rates with commas between.
type RatesFlag struct {
	Rates *[]float64
	Span  *[2]float64 // range that a knee is searched in; nil where it cannot be
}

// String is the rates, empty if none is given.
func (f RatesFlag) String() string {
	switch {
	case f.Span != nil && f.Span[1] > 0:
		return fmt.Sprintf("%g..%g", f.Span[0], f.Span[1])
	case f.Rates == nil || len(*f.Rates) == 0:
		return ""
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(*f.Rates), " ", ","), "[]")
}

// Set reads "2.5", "1,2,4", or "1..32" where a knee can be searched.
func (f RatesFlag) Set(s string) error {
	*f.Rates = nil
	if low, high, ok := strings.Cut(s, ".."); ok && f.Span != nil {
		a, failed := strconv.ParseFloat(strings.TrimSpace(low), 64)
		b, wrong := strconv.ParseFloat(strings.TrimSpace(high), 64)
		if failed != nil || wrong != nil || !(a >= leastRate && a < b && b <= mostRate) {
			return fmt.Errorf("%.40q: want two rates above 0, the smaller first, as 1..32", s)
		}
		*f.Span = [2]float64{a, b}
		return nil
	}
	for part := range strings.SplitSeq(s, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || !(v >= leastRate && v <= mostRate) {
			return fmt.Errorf("want requests a second, from 1e-9 to 1e6, or several, as 1,2.5,5")
		}
		*f.Rates = append(*f.Rates, v)
	}
	return nil
}

// No server has so few requests, of which each takes the energy of all the time until the next, nor so many.
const leastRate, mostRate = 1e-9, 1e6

// Type is the name that help shows.
func (f RatesFlag) Type() string { return "requests" }

// A TraceReader gives the lengths of the prompts and of the answers of a recorded trace.
type TraceReader func(file string) (prompt, gen serving.Lengths, err error)

// A LengthsFlag reads the tokens of prompts, or of answers.
type LengthsFlag struct {
	To      *serving.Lengths
	Read    TraceReader // nil where no traces are read
	Answers bool        // A trace gives the lengths of its answers, not of its prompts.
}

// String is the lengths as they are given.
func (f LengthsFlag) String() string {
	if f.To == nil || f.To.Kind == "" {
		return ""
	}
	return f.To.String()
}

// Set reads "1024", "512..2048", "lognormal:1024,0.8" or "trace:FILE".
func (f LengthsFlag) Set(text string) error {
	file, traced := strings.CutPrefix(strings.TrimSpace(text), "trace:")
	if !traced {
		l, err := serving.ParseLengths(text)
		if err == nil {
			*f.To = l
		}
		return err
	}
	if f.Read == nil {
		return fmt.Errorf("%.60q: no trace can be read here", text)
	}
	prompt, gen, err := f.Read(file)
	switch {
	case err != nil:
		return err
	case f.Answers:
		*f.To = gen
	default:
		*f.To = prompt
	}
	return nil
}

// Type is the name that help shows.
func (f LengthsFlag) Type() string { return "tokens" }

func (l *SteadyLoad) lengths(ans *Answer) (prompt, gen serving.Lengths) {
	prompt, gen = serving.Fixed(ans.Q.Workload.PromptLen), serving.Fixed(ans.Q.Workload.GenLen)
	if l.Prompt.Kind != "" {
		prompt = l.Prompt
	}
	if l.Gen.Kind != "" {
		gen = l.Gen
	}
	return prompt, gen
}

// drawn reports whether the requests have lengths that differ.
func (l *SteadyLoad) drawn() bool { return l.Prompt.Kind != "" || l.Gen.Kind != "" }
