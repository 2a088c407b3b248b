package main

import (
	"fmt"
	"strconv"
	"strings"

	"llmprof/unit"
)

// A formatFlag reads a number format.
type formatFlag struct{ format *unit.Format }

// String is the format as it is spelt.
func (f formatFlag) String() string {
	if f.format == nil || *f.format == unit.NoFormat {
		return ""
	}
	return f.format.String()
}

// Set reads the format.
func (f formatFlag) Set(s string) error { return f.format.UnmarshalText([]byte(s)) }

// Type is the name that help shows.
func (f formatFlag) Type() string { return "format" }

// formatNames lists the number formats.
func formatNames() []string {
	var names []string
	for _, f := range unit.Formats() {
		names = append(names, f.String())
	}
	return names
}

// A shareFlag reads a share of a peak. The zero share is one not given.
type shareFlag struct{ share *float64 }

// String is the share, empty if not given.
func (f shareFlag) String() string {
	if f.share == nil || *f.share == 0 {
		return ""
	}
	return strconv.FormatFloat(*f.share, 'g', -1, 64)
}

// Set reads a share above 0 and up to 1.
func (f shareFlag) Set(s string) error {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v > 0 && v <= 1) {
		return fmt.Errorf("want a share of the peak, above 0 and at most 1, as 0.8")
	}
	*f.share = v
	return nil
}

// Type is the name that help shows.
func (f shareFlag) Type() string { return "share" }

// maxPrice is beyond any GPU's price of an hour.
const maxPrice = 1e6

// A price is what an hour of one GPU costs; the zero price is one not given.
type price unit.DollarsPerHour

// String is the price, empty if not given.
func (p *price) String() string {
	if *p == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(*p), 'g', -1, 64)
}

// Set reads "2.49" or "2.49 $/h".
func (p *price) Set(s string) error {
	var d unit.DollarsPerHour
	if err := d.UnmarshalText([]byte(strings.TrimPrefix(s, "$"))); err != nil {
		return err
	}
	if d <= 0 || d > maxPrice {
		return fmt.Errorf("want dollars an hour, above 0 and at most %.0f", maxPrice)
	}
	*p = price(d)
	return nil
}

// Type is the name that help shows.
func (p *price) Type() string { return "$/h" }

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

// A ratesFlag reads rates with commas between.
type ratesFlag struct{ rates *[]float64 }

// String is the rates, empty if none is given.
func (f ratesFlag) String() string {
	if f.rates == nil || len(*f.rates) == 0 {
		return ""
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(*f.rates), " ", ","), "[]")
}

// Set reads "2.5" or "1,2,4".
func (f ratesFlag) Set(s string) error {
	*f.rates = nil
	for _, part := range strings.Split(s, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || !(v > 0 && v <= mostRate) {
			return fmt.Errorf("%.40q: want requests a second, above 0, or several, as 1,2.5,5", part)
		}
		*f.rates = append(*f.rates, v)
	}
	return nil
}

// mostRate is beyond any server's.
const mostRate = 1e6

// Type is the name that help shows.
func (f ratesFlag) Type() string { return "requests" }
