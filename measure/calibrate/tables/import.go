package tables

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"llmprof/hardware"
	"llmprof/internal/stats"
	"llmprof/measure/calibrate"
	"llmprof/roofline"
)

// An Imported is what tables have of one GPU and one engine.
type Imported struct {
	Rows     []calibrate.Row
	Files    []hardware.TableFile
	Versions []string // versions of the engine and of what it calls, as "vllm 0.24.0"
	Devices  []string // names that the tables give to devices
	Notes    []string
	Launched []roofline.Scheme // schemes whose GEMMs were timed launch by launch

	quantizing map[side]float64 // seconds, of activations to FP8 by kernels of their own
}

// A side is the activations of a product.
type side struct{ m, k int }

// engines are the names that tables and their folders have for engines.
var engines = map[string]string{"vllm": "vllm", "sglang": "sglang", "tensorrt-llm": "trtllm"}

// Import reads the tables below a path, or the one that it names, as far as they are of
// an engine. Of several versions it takes that of the products' table.
func Import(path, engine string) (*Imported, error) {
	files, err := find(path)
	if err != nil {
		return nil, err
	}
	name, ok := engines[engine]
	if !ok {
		name = engine
	}
	out := &Imported{quantizing: map[side]float64{}}
	for _, file := range choose(files, name) {
		if err := out.file(file, path); err != nil {
			return nil, err
		}
	}
	if len(out.Rows) == 0 {
		return nil, fmt.Errorf("%s has no table of operators of %s: want Parquet or CSV with the columns of aiconfigurator's database, as %s",
			path, engine, strings.Join(forms[0].columns, ", "))
	}
	slices.Sort(out.Devices)
	out.Devices = slices.DeleteFunc(slices.Compact(out.Devices), func(name string) bool { return name == "" })
	out.Versions = slices.Compact(out.Versions)
	return out, nil
}

// mostFiles is more than any database of tables has.
const mostFiles = 10000

func find(path string) (files []string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("tables: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	err = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ext := filepath.Ext(p); d.Type().IsRegular() && (ext == ".parquet" || ext == ".csv") {
			if files = append(files, p); len(files) > mostFiles {
				return errors.New("more than 10,000 tables")
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("tables: %w", err)
	}
	return files, nil
}

// wanted are the tables whose rows a law is fitted to, by the name of their file.
var wanted = []string{"computescale_perf", "scale_matrix_perf", "gemm_perf", "context_attention_perf", "generation_attention_perf",
	"context_mla_perf", "generation_mla_perf", "gdn_perf", "kda_perf", "moe_perf", "custom_allreduce_perf", "nccl_perf"}

// choose picks those of an engine among tables in folders named ENGINE/VERSION: of each
// kind the version that the products have, else the next lower. A single file is taken as it is.
func choose(files []string, engine string) (chosen []string) {
	if len(files) == 1 {
		return files
	}
	version := ""
	for _, base := range wanted {
		folder := engine
		if base == "nccl_perf" {
			folder = "nccl"
		}
		best, newest := "", ""
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
			v := filepath.Base(filepath.Dir(file))
			if name != base || filepath.Base(filepath.Dir(filepath.Dir(file))) != folder {
				continue
			}
			if allowed := version == "" || folder == "nccl" || !older(version, v); allowed && (best == "" || older(newest, v)) {
				best, newest = file, v
			}
		}
		if best != "" {
			chosen = append(chosen, best)
		}
		if base == "gemm_perf" {
			version = newest
		}
	}
	return chosen
}

// piece is a number of a version, or what stands between two.
var piece = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\d+|\D+`) })

// older reports whether version a is older than b: numbers in them compare as numbers.
func older(a, b string) bool {
	return slices.CompareFunc(piece().FindAllString(a, -1), piece().FindAllString(b, -1), func(x, y string) int {
		m, errM := strconv.Atoi(x)
		n, errN := strconv.Atoi(y)
		if errM == nil && errN == nil {
			return cmp.Compare(m, n)
		}
		return cmp.Compare(x, y)
	}) < 0
}

// file takes the rows of a table in.
func (out *Imported) file(path, root string) error {
	t, err := read(path)
	if err != nil {
		return err
	}
	if t.has(quantizeColumns...) {
		return out.quantize(t, root)
	}
	at := slices.IndexFunc(forms, func(f form) bool { return t.has(f.columns...) })
	if at < 0 {
		return fmt.Errorf("table %s has the columns %s, which are of no table that is known", path, strings.Join(t.names, ", "))
	}
	var rows []calibrate.Row
	var devices []string
	for i := range t.rows {
		r := &record{t: t, i: i}
		devices = append(devices, r.text("device"))
		row, ok := forms[at].row(r)
		if r.err != nil {
			return r.err
		}
		if !ok {
			continue
		}
		if row.Median, row.Source = row.Seconds[0], r.text("kernel_source"); row.Seconds[0] > 1e4 {
			return fmt.Errorf("table %s, row %d took %v s", path, i+1, row.Seconds[0])
		}
		rows = append(rows, row)
	}
	rows = out.launched(out.withoutQuantizing(out.cut(out.common(rows))))
	if len(rows) == 0 {
		return nil
	}
	out.Devices = append(out.Devices, slices.Compact(slices.Sorted(slices.Values(devices)))...)
	first := &record{t: t}
	if f, v := strings.ToLower(first.text("framework")), first.text("version"); f != "" && v != "" {
		if t.has("nccl_dtype") {
			f = "nccl"
		}
		out.Versions = append(out.Versions, f+" "+v)
	}
	out.Rows = append(out.Rows, rows...)
	out.taken(t, root, len(rows))
	return nil
}

func (out *Imported) taken(t *table, root string, rows int) {
	name, err := filepath.Rel(root, t.path)
	if err != nil || name == "." {
		name = filepath.Base(t.path)
	}
	out.Files = append(out.Files, hardware.TableFile{Path: filepath.ToSlash(name), SHA256: t.hash, Rows: rows})
}

// quantizeColumns are those of tables of kernels that quantize activations: one that finds the
// scales, one that applies them.
var quantizeColumns = []string{"m", "k", "quant_dtype", "latency"}

// quantize takes the times of a table of such kernels in.
func (out *Imported) quantize(t *table, root string) error {
	n := 0
	for i := range t.rows {
		r := &record{t: t, i: i}
		at, seconds := side{r.size("m"), r.size("k")}, r.difference("latency")*1e-3
		if r.err != nil {
			return r.err
		}
		if r.text("quant_dtype") == "fp8" {
			out.quantizing[at] += seconds
			n++
		}
	}
	if n > 0 {
		out.taken(t, root, n)
	}
	return nil
}

// withoutQuantizing subtracts the time that quantizes activations from products in FP8, which
// tables have together: engines let the norm or the activation before quantize.
func (out *Imported) withoutQuantizing(rows []calibrate.Row) []calibrate.Row {
	taken := 0
	for i := range rows {
		r := &rows[i]
		if less := out.quantizing[side{r.Shape.M, r.Shape.K}]; r.Kind == calibrate.GEMM && r.Scheme == roofline.FP8 && less > 0 &&
			less < r.Median {
			r.Median -= less
			taken++
		}
	}
	if taken > 0 {
		out.Notes = append(out.Notes,
			fmt.Sprintf("the time of quantizing activations, of tables of its own, is taken away from products in FP8: %d", taken))
	}
	return rows
}

// slowStart is longer than any kernel takes to start and end: products that never take
// less were timed launch by launch, and small ones show the host.
const slowStart = 25e-6

// hostBound is how many times the least time of such products a row has to take to be
// the GPU's.
const hostBound = 2

// launched leaves out products that show the host's launches in place of the GPU.
func (out *Imported) launched(rows []calibrate.Row) []calibrate.Row {
	type key struct {
		kernel string
		scheme roofline.Scheme
	}
	small := map[key][]float64{}
	of := func(r *calibrate.Row) key { return key{r.Source, r.Scheme} }
	for i := range rows {
		if s := &rows[i].Shape; rows[i].Kind == calibrate.GEMM && s.M <= 64 && s.N <= 1024 && s.K <= 1024 {
			small[of(&rows[i])] = append(small[of(&rows[i])], rows[i].Median)
		}
	}
	floor := map[key]float64{}
	for k, times := range small {
		slices.Sort(times)
		if middle := stats.Percentile(times, 50); middle > slowStart {
			floor[k] = hostBound * middle
			out.Launched = append(out.Launched, k.scheme)
		}
	}
	kept := slices.DeleteFunc(rows, func(r calibrate.Row) bool { return r.Kind == calibrate.GEMM && r.Median < floor[of(&r)] })
	for k, least := range floor {
		out.Notes = append(out.Notes, fmt.Sprintf("products by %s that took less than %.0f µs left out, for they show the launches of the host",
			k.kernel, 1e6*least))
	}
	slices.Sort(out.Notes)
	slices.Sort(out.Launched)
	out.Launched = slices.Compact(out.Launched)
	return kept
}
