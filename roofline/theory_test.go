package roofline

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// theory is the document that explains the laws; the other names the constants too.
const (
	theory      = "../docs/theory.md"
	calibration = "../docs/calibration.md"
)

// classes says what the kernels of each class are.
var classes = [NumClasses]string{
	GEMM: "GEMM: by a library", SkinnyGEMM: "skinny GEMM: of few rows", WGMMAGEMM: "wgmma GEMM: of 17 to 64 rows",
	GroupedGEMM:      "grouped GEMM: all experts with their tokens",
	VectorGEMM:       "vector GEMM: in FP32, by the vector units",
	UnpackGEMM:       "unpacking GEMM: dequantizes its weights tile by tile (llama.cpp)",
	AttentionPrefill: "attention, prefill", LatentPrefill: "latent attention, prefill", LatentDecode: "latent attention, decode",
	Index: "choice of latent vectors", IndexEntries: "choice of compressed entries", IndexBlocks: "choice of blocks of keys",
	SparseAttention: "sparse latent attention", SparseEntries: "attention to compressed entries", SparseBlocks: "attention to blocks of keys",
	ChunkedScan: "gated delta rule, prefill, in chunks", ChannelScan: "gated delta rule with a decay a channel, prefill",
	StateScan: "scan of a state-space model, prefill",
	ScanStep:  "gated delta rule, decode", Convolution: "causal convolution, prefill", ConvolutionStep: "causal convolution, decode",
	AttentionDecode: "attention, decode", AttentionMMA: "attention, prefill by mma",
	AttentionCopied:  "attention over copies of the cache for every query head",
	Elementwise:      "element-wise: norms, activations, rotary embedding, cache writes, gathers, scans",
	SmallElementwise: "element-wise, unfused: one of many small kernels in a stream",
	MoEDecode:        "MoE, decode: router, top-k and experts together",
	MoERouting:       "MoE routing: top-k of a prompt and the sort of its pairs", MoEPrefill: "MoE, prefill: a grouped GEMM of the experts",
	AllReduce: "all-reduce over the link, by NCCL", OneShotAllReduce: "all-reduce, one-shot: one exchange over peer memory",
	FusedAllReduce: "all-reduce, fused into the GEMMs ahead of it", PCIeCollective: "collective over PCIe",
	HostCopy: "copy between GPU and host", HostProduct: "product of the host's threads",
	WeightCopy: "copy of weights from pinned memory of the host", PageableCopy: "copy of weights from memory of the host that is not pinned",
	HostCrossing: "crossing between GPU and host",
}

// TestTheory holds docs/theory.md to the laws and the constants;
// UPDATE_GOLDEN=1 go test ./roofline -run TestTheory writes its tables anew.
func TestTheory(t *testing.T) {
	data, err := os.ReadFile(theory)
	if err != nil {
		t.Fatal(err)
	}
	doc := between(t, string(data), "laws", lawTable())
	doc = between(t, doc, "constants", constantTable())
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(theory, []byte(doc), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if doc != string(data) {
		t.Errorf("%s is not what package roofline says: UPDATE_GOLDEN=1 go test ./roofline -run TestTheory", theory)
	}
}

// between puts a text between the marks of a document.
func between(t *testing.T, doc, mark, text string) string {
	t.Helper()
	head, rest, ok := strings.Cut(doc, "<!-- roofline: "+mark+" -->\n")
	_, tail, also := strings.Cut(rest, "<!-- end -->")
	if !ok || !also {
		t.Fatalf("%s has no mark of its %s", theory, mark)
	}
	return head + "<!-- roofline: " + mark + " -->\n" + text + "<!-- end -->" + tail
}

// lawTable has a line for every law; classes in a row whose laws differ in their constants alone share one.
func lawTable() string {
	var b strings.Builder
	b.WriteString("| kernel class | time | power |\n|---|---|---|\n")
	names := ""
	for c := range NumClasses {
		names += classes[c]
		if next := c + 1; next < NumClasses && laws[next].Equation == laws[c].Equation && laws[next].Power == laws[c].Power {
			names += "; "
			continue
		}
		power := "`" + laws[c].Power.String() + "`"
		if laws[c].Power == None {
			power = "–"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", names, laws[c].Equation, power)
		names = ""
	}
	return b.String()
}

// constantTable has a line for every constant, with the laws that it is in.
func constantTable() string {
	in := map[Constant][]string{}
	for c := range NumClasses {
		for _, k := range constantsOf(c) {
			name, _, _ := strings.Cut(classes[c], ":")
			in[k] = append(in[k], name)
		}
	}
	var b strings.Builder
	b.WriteString("| constant | what it is | unit | ideal | in the laws of |\n|---|---|---|---|---|\n")
	for _, k := range All() {
		i := k.Info()
		if k.OfScheme() {
			continue
		}
		laws := strings.Join(in[k], "; ")
		switch n := len(in[k]); {
		case n == 0:
			laws = "–"
		case n > 6:
			laws = fmt.Sprintf("%d kernel classes", n)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %g | %s |\n", i.Key, i.Help, units[i.Quantity], i.Ideal, laws)
	}
	return b.String()
}

var units = [...]string{
	Share: "share of a peak", Time: "s", Delay: "s, may be 0", Tokens: "tokens", Growth: "share of the weights' time", Repeats: "times",
	Often: "times, may be 0", Exposure: "0 to 3", Shown: "share of a time, may be 0", Power: "share of power",
	Burst: "share of power, may exceed 1",
}

// constantsOf lists the constants that terms of a law name, of kernels in which
// everything is there to do.
func constantsOf(c Class) (all []Constant) {
	p := Peaks{Vector: 1e12, Memory: 1e12, SMs: 100, Link: 1e11, LinkGPUs: 8, PCIe: 1e10, NIC: 1e10}
	for f := range p.Matrix {
		p.Matrix[f] = 1e14
	}
	var ones Constants
	for _, k := range All() {
		ones[k] = 1
	}
	for _, tokens := range []float64{1, 2} {
		tile := Tile{Rows: 16, Columns: 8, Blocks: 1}
		if tokens == 1 {
			tile = Tile{} // The library chooses.
		}
		k := Kernel{
			Class: c, Format: 1, Launches: 1, Count: 1, Reread: 1, Reload: 1, Permuted: 1, Unpermuted: 1, Quantized: 1, Sliced: 1, Tile: tile,
			Shape: Shape{M: 8, N: 8, K: 4096, Matrices: 1, Experts: 8, TopK: 2, Hit: 4, Pairs: 4, Tokens: tokens, Ranks: 2, Tiles: 1},
			Work:  Work{FLOPs: 1e9, Vector: 1e9, Weights: 1e9, KV: 1e9, State: 1e9, Acts: 1e9, Wire: 1e9, NodeWire: 1e9},
		}
		m, terms := NewMachine(&p, &ones), Terms{}
		m.terms(&terms, &k)
		if terms.exposed != None && !slices.Contains(all, terms.exposed) {
			all = append(all, terms.exposed)
		}
		for _, x := range terms.List() {
			for _, k := range []Constant{x.By, x.And} {
				if k != None && !slices.Contains(all, k) {
					all = append(all, k)
				}
			}
		}
	}
	return all
}

// TestEquations holds the words of an equation to the terms: it names every constant
// of its law, but for those of terms that all products share.
func TestEquations(t *testing.T) {
	for c := range NumClasses {
		if classes[c] == "" || laws[c].Equation == "" {
			t.Errorf("class %d has no name or no equation", c)
		}
		for _, k := range constantsOf(c) {
			_, name, _ := strings.Cut(k.String(), ".")
			switch k {
			// Of arithmetic beside the matrix product, and of the way between nodes.
			case ElementwiseCompute, GEMMCompute, InterNodeShare, InterNodeBase:
				continue
			}
			if !strings.Contains(laws[c].Equation, name) {
				t.Errorf("%s: %q does not name %s", classes[c], laws[c].Equation, k)
			}
		}
	}
}

// TestNamesInDocs holds that documents name no constant that there is not.
func TestNamesInDocs(t *testing.T) {
	sections := map[string]bool{}
	for _, k := range All() {
		section, _, _ := strings.Cut(k.String(), ".")
		sections[section] = true
	}
	word := regexp.MustCompile(`[a-z_]+\.[a-z_]+`)
	for _, path := range []string{theory, calibration} {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range word.FindAllString(string(data), -1) {
			section, rest, _ := strings.Cut(name, ".")
			if sections[section] && rest != "go" && ConstantOf(name).String() != name {
				t.Errorf("%s names %s, which is no constant", path, name)
			}
		}
		for _, old := range []string{"own.", "wide.", "mixture.", "experts.", "choice.", "posted."} {
			if strings.Contains(string(data), "`"+old) {
				t.Errorf("%s has a constant of the former section %s", path, old)
			}
		}
	}
}
