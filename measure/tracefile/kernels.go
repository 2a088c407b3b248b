package tracefile

import (
	"cmp"
	"encoding/csv"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
)

// A Type is what a kernel is for.
type Type string

// The types, as Meta's Holistic Trace Analysis has them.
const (
	Compute       Type = "compute"
	Memory        Type = "memory"
	Communication Type = "communication"
)

// OnDevice says whether events of a category ran on a device. The names are
// those of PyTorch's Kineto, libkineto/src/output_json.cpp.
func OnDevice(category string) bool {
	return category == "kernel" || category == "gpu_memcpy" || category == "gpu_memset"
}

// talking are parts of the names of communication kernels: NCCL's
// and NVSHMEM's, and the all-reduces of PyTorch's symmetric memory, vLLM and
// TensorRT-LLM.
var talking = []string{
	"nccl", "nvshmem", "one_shot_all_reduce", "two_shot_all_reduce", "multimem_", "cross_device_reduce", "allreducekernel",
}

// TypeOf finds a kernel's type from its name, by the rules of Holistic Trace
// Analysis (hta/utils/utils.py, get_kernel_type): copies and fills of the driver
// are memory, collectives are communication, everything else computes.
func TypeOf(name string) Type {
	lower := strings.ToLower(name)
	if strings.HasPrefix(lower, "memcpy") || strings.HasPrefix(lower, "memset") {
		return Memory
	}
	if slices.ContainsFunc(talking, func(part string) bool { return strings.Contains(lower, part) }) {
		return Communication
	}
	return Compute
}

// A Kernel is all runs of the kernels of one name, in microseconds.
type Kernel struct {
	Name                     string
	Type                     Type
	Count                    int
	Sum, Mean, Min, Max, Std float64
	Share                    float64 // share of the time of all kernels
}

// Kernels sums the device's kernels up, the longest first. A trace of a CPU has
// none.
func (t *Trace) Kernels() []Kernel {
	times := map[string][]float64{}
	total := 0.0
	for _, e := range t.kernel {
		times[e.Name] = append(times[e.Name], e.Dur)
		total += e.Dur
	}
	kernels := make([]Kernel, 0, len(times))
	for name, us := range times {
		k := Kernel{Name: name, Type: TypeOf(name), Count: len(us), Sum: floats.Sum(us), Min: slices.Min(us), Max: slices.Max(us)}
		k.Mean, k.Std = stat.MeanStdDev(us, nil) // one run has no deviation: NaN
		if total > 0 {
			k.Share = k.Sum / total
		}
		kernels = append(kernels, k)
	}
	slices.SortFunc(kernels, func(a, b Kernel) int {
		return cmp.Or(cmp.Compare(b.Sum, a.Sum), cmp.Compare(a.Name, b.Name))
	})
	return kernels
}

// WriteKernels writes a table of kernels as CSV. A deviation that does not exist
// is empty.
func WriteKernels(to io.Writer, kernels []Kernel) error {
	w := csv.NewWriter(to)
	w.Write([]string{"name", "type", "count", "sum_us", "mean_us", "min_us", "max_us", "std_us", "share"})
	for _, k := range kernels {
		w.Write([]string{
			k.Name, string(k.Type), strconv.Itoa(k.Count), number(k.Sum), number(k.Mean),
			number(k.Min), number(k.Max), number(k.Std), number(k.Share),
		})
	}
	w.Flush()
	return w.Error()
}

// WriteTypes writes the time of each type as CSV, those that took none too.
func WriteTypes(to io.Writer, kernels []Kernel) error {
	w := csv.NewWriter(to)
	w.Write([]string{"type", "count", "sum_us", "share"})
	for _, kind := range []Type{Compute, Memory, Communication} {
		count, sum, share := 0, 0.0, 0.0
		for _, k := range kernels {
			if k.Type == kind {
				count, sum, share = count+k.Count, sum+k.Sum, share+k.Share
			}
		}
		w.Write([]string{string(kind), strconv.Itoa(count), number(sum), number(share)})
	}
	w.Flush()
	return w.Error()
}

func number(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}
