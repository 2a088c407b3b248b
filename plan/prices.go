//go:build !js

package plan

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"llmprof/hardware"
	"llmprof/internal/input"
	"llmprof/unit"
)

// A priceList is a form of price list: the columns that tell it from others, and what a row says.
type priceList struct {
	known []string // columns
	read  func(row map[string]string) (name string, o Offer, err error)
}

// priceLists are the forms of lists that are read: our own, the catalogues of SkyPilot, and those of gpuhunt. The latter two have the price
// of an instance, of which each GPU has its share.
var priceLists = []priceList{
	{[]string{"gpu", "usd_per_hour"}, readOwn},
	{[]string{"AcceleratorName", "AcceleratorCount", "Price"}, func(row map[string]string) (string, Offer, error) {
		memory := map[string]string{"A100": "40", "V100": "16"}[row["AcceleratorName"]] // The larger ones have it in their name.
		return shared(row, "AcceleratorName", "AcceleratorCount", "Price", "Region", "InstanceType", memory)
	}},
	{[]string{"gpu_name", "gpu_count", "price"}, func(row map[string]string) (string, Offer, error) {
		return shared(row, "gpu_name", "gpu_count", "price", "location", "instance_name", row["gpu_memory"])
	}},
}

const (
	maxPrices  = 64 << 20
	mostPrices = 1 << 20 // rows; the catalogue of all clouds has a tenth
	mostPerGPU = 1e4
)

// readPrices reads the offers of a CSV file of prices with a header: "gpu,usd_per_hour" and, if given, "node,region,term,source,date",
// where the price is that of one GPU; a catalogue of SkyPilot, or one of gpuhunt.
func readPrices(path string, t *hardware.Table) (map[string][]Offer, error) {
	text, err := input.Read(path, maxPrices)
	if err != nil {
		return nil, fmt.Errorf("prices: %w", err)
	}
	r := csv.NewReader(strings.NewReader(string(text)))
	r.TrimLeadingSpace, r.FieldsPerRecord = true, -1
	header, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("%s: want a line of column names first: %w", path, err)
	}
	i := slices.IndexFunc(priceLists, func(l priceList) bool {
		return !slices.ContainsFunc(l.known, func(column string) bool { return !slices.Contains(header, column) })
	})
	if i < 0 {
		return nil, fmt.Errorf("%s: the columns are %.200s; want gpu and usd_per_hour, or those of SkyPilot's or gpuhunt's catalogues", path,
			strings.Join(header, ", "))
	}
	if twice := twice(header); twice != "" {
		return nil, fmt.Errorf("%s: it has two columns %.60q: leave one out", path, twice)
	}
	all := map[string][]Offer{}
	for rows := 0; ; rows++ {
		cells, err := r.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		line, _ := r.FieldPos(0)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", path, err)
		case rows == mostPrices:
			return nil, fmt.Errorf("%s: more than %d prices, the most that are read", path, mostPrices)
		case len(cells) > len(header):
			return nil, fmt.Errorf("%s:%d: %d cells below %d columns: write numbers without commas", path, line, len(cells), len(header))
		}
		row := map[string]string{}
		for j, cell := range cells {
			row[header[j]] = strings.TrimSpace(cell)
		}
		for _, row := range terms(row) {
			name, o, err := priceLists[i].read(row)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", path, line, err)
			}
			if o.Source == "" {
				o.Source = path
			}
			if g := namedIn(t, name); g != nil && o.Hour > 0 { // Nothing is rented for 0.
				o.GPU = g.Key
				all[g.Key] = append(all[g.Key], o)
			}
		}
	}
}

// terms are a row for each price that it has: catalogues of SkyPilot have that of spot instances beside the one on demand.
func terms(row map[string]string) []map[string]string {
	if row["SpotPrice"] == "" {
		return []map[string]string{row}
	}
	spot := maps.Clone(row)
	spot["Price"], spot["spot"] = row["SpotPrice"], "true"
	return []map[string]string{row, spot}
}

// twice is a name that two columns have, however it is written; "" if none has.
func twice(header []string) string {
	seen := map[string]bool{}
	for _, name := range header {
		key := strings.ToLower(strings.TrimSpace(name))
		if seen[key] && key != "" {
			return name
		}
		seen[key] = true
	}
	return ""
}

// namedIn is the GPU that a list means by a name; nil where the table does not have it.
func namedIn(t *hardware.Table, name string) *hardware.GPU {
	for _, n := range []string{name, strings.ReplaceAll(name, "-80GB", "-sxm-80gb"), name[:max(strings.LastIndex(name, "-"), 0)]} {
		if g := t.Named(n); g != nil {
			return g
		}
	}
	return nil
}

// readOwn reads a row of our own form.
func readOwn(row map[string]string) (name string, o Offer, err error) {
	o = Offer{Region: row["region"], Term: row["term"], Source: strings.Trim(row["source"]+", "+row["date"], ", ")}
	if o.Hour, err = hourly(row["usd_per_hour"]); err == nil && o.Hour == 0 {
		err = fmt.Errorf("usd_per_hour: want dollars an hour of one GPU")
	}
	if err == nil && row["node"] != "" {
		o.Node, err = gpuCount(row["node"])
	}
	if row["gpu"] == "" && err == nil {
		err = fmt.Errorf("there is no name of a GPU")
	}
	return row["gpu"], o, err
}

// shared reads a row of a catalogue of instances. Rows of processors alone, and without a price, are none.
func shared(row map[string]string, name, count, price, region, instance, memory string) (string, Offer, error) {
	if row[name] == "" || row[count] == "" || row[count] == "0" || row[count] == "0.0" {
		return "", Offer{}, nil
	}
	o := Offer{Region: row[region], Term: "on-demand", Source: strings.Trim(row[instance]+", "+row[region], ", ")}
	if row["spot"] == "True" || row["spot"] == "true" {
		o.Term = "spot"
	}
	whole, err := hourly(row[price])
	if err != nil {
		return "", o, err
	}
	if o.Node, err = gpuCount(row[count]); err != nil {
		return "", Offer{}, nil //nolint:nilerr // A part of a GPU is no GPU.
	}
	o.Hour = unit.DollarsPerHour(float64(whole) / float64(o.Node))
	full := row[name]
	if gb, err := strconv.ParseFloat(memory, 64); err == nil && gb > 0 {
		full += fmt.Sprintf("-%.0fgb", gb)
	}
	return full, o, nil
}

func hourly(text string) (unit.DollarsPerHour, error) {
	if text == "" {
		return 0, nil
	}
	v, err := strconv.ParseFloat(strings.TrimPrefix(text, "$"), 64)
	if err != nil || !(v >= 0 && v <= mostPerGPU*1e3) {
		return 0, fmt.Errorf("%.40q is no price of an hour in dollars", text)
	}
	return unit.DollarsPerHour(v), nil
}

func gpuCount(text string) (int, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || v < 1 || v > 1e5 || v != math.Trunc(v) {
		return 0, fmt.Errorf("%.40q GPUs: want a whole number", text)
	}
	return int(v), nil
}
