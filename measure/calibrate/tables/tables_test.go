package tables

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"llmprof/measure/calibrate"
	"llmprof/roofline"
	"llmprof/unit"
)

// imported are the rows of the excerpts.
func imported(t *testing.T) *Imported {
	t.Helper()
	got, err := Import(filepath.Join("testdata", "h200_sxm"), "vllm")
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// find is the row of a point.
func (out *Imported) find(t *testing.T, kind calibrate.Kind, scheme roofline.Scheme, s calibrate.Shape, ranks int) calibrate.Row {
	t.Helper()
	i := slices.IndexFunc(out.Rows, func(r calibrate.Row) bool {
		return r.Kind == kind && r.Scheme == scheme && r.Shape == s && r.Ranks == ranks
	})
	if i < 0 {
		t.Fatalf("no row of %s %v %+v", kind, scheme, s)
	}
	return out.Rows[i]
}

// TestImport holds rows to what pandas shows of the same files.
func TestImport(t *testing.T) {
	got := imported(t)
	for _, x := range []struct {
		kind   calibrate.Kind
		scheme roofline.Scheme
		shape  calibrate.Shape
		ranks  int
		want   float64 // seconds
	}{
		{calibrate.GEMM, roofline.Unquantized, calibrate.Shape{M: 16, N: 4096, K: 4096}, 1, 12.792e-6},
		{calibrate.GEMM, roofline.FP8, calibrate.Shape{M: 16, N: 4096, K: 4096}, 1, 10.320e-6 - 2.034e-6}, // less the kernel that quantizes
		{calibrate.AttentionDecode, roofline.Unquantized, calibrate.Shape{Batch: 8, Context: 1024, Heads: 32, KVHeads: 8, HeadDim: 128}, 1,
			17.4e-6},
		{calibrate.AttentionPrefill, roofline.Unquantized, calibrate.Shape{Batch: 1, Tokens: 4096, Heads: 32, KVHeads: 8, HeadDim: 128}, 1,
			267.7e-6},
		{calibrate.Mixture, roofline.Unquantized, calibrate.Shape{Tokens: 16, Hidden: 2048, Width: 768, TopK: 8, Experts: 128, EP: 1}, 1, 305e-6},
		{calibrate.OneShot, roofline.Unquantized, calibrate.Shape{Bytes: 2048}, 8, 4.8e-6},
		{calibrate.AllReduce, roofline.Unquantized, calibrate.Shape{Bytes: 32 << 20}, 4, 171.6e-6},
	} {
		r := got.find(t, x.kind, x.scheme, x.shape, x.ranks)
		if d := r.Median/x.want - 1; !(d < 0.02 && d > -0.02) {
			t.Errorf("%s %+v took %.6g s, want %v", x.kind, x.shape, r.Median, x.want)
		}
	}
	for _, r := range got.Rows {
		if r.Kind == calibrate.Mixture && (r.Shape.Matrices == 2) != (r.Shape.Hidden == 2688) {
			t.Errorf("an expert of %+v", r.Shape)
		}
		if r.Kind == calibrate.GEMM && (r.Copies != 6 || r.Random) { // vLLM's collector
			t.Errorf("product %+v of %d copies, random %v", r.Shape, r.Copies, r.Random)
		}
		if r.Kind == calibrate.OneShot && (r.Shape.Bytes > 8<<20 || strings.Contains(r.Source, "eager")) {
			t.Errorf("%s of %d bytes is none of a graph over peer memory", r.Source, r.Shape.Bytes)
		}
	}
	if want := []string{"NVIDIA H200"}; !slices.Equal(got.Devices, want) {
		t.Errorf("devices %q, want %q", got.Devices, want)
	}
	for _, f := range got.Files {
		if strings.Contains(f.Path, "0.9.1") || len(f.SHA256) != 64 || f.Rows == 0 {
			t.Errorf("file %+v", f)
		}
	}
	if len(got.Files) != 7 {
		t.Errorf("%d files were read, want 7", len(got.Files))
	}
}

// TestCSV reads the same rows as CSV.
func TestCSV(t *testing.T) {
	got, err := Import(filepath.Join("testdata", "h200_sxm", "gemm", "vllm", "0.9.1", "gemm_perf.csv"), "vllm")
	if err != nil {
		t.Fatal(err)
	}
	parquet, err := Import(filepath.Join("testdata", "h200_sxm", "gemm", "vllm", "0.24.0", "gemm_perf.parquet"), "vllm")
	if err != nil {
		t.Fatal(err)
	}
	shape := calibrate.Shape{M: 1, N: 1024, K: 1024}
	a, b := got.find(t, calibrate.GEMM, roofline.Unquantized, shape, 1), parquet.find(t, calibrate.GEMM, roofline.Unquantized, shape, 1)
	if len(got.Rows) != 2 || a.Median != b.Median {
		t.Errorf("%d rows, %v s in CSV and %v s in Parquet", len(got.Rows), a.Median, b.Median)
	}
}

// TestMixtureKernels keeps the mixtures of the kernel that runs most models of a scheme, and of MXFP4 those of TP
// where there are any, whatever the width that TP leaves.
func TestMixtureKernels(t *testing.T) {
	const head = "kernel_source,moe_dtype,num_tokens,hidden_size,inter_size,topk,num_experts,moe_tp_size,moe_ep_size,distribution,latency\n"
	for _, x := range []struct {
		rows string
		kept int
		note string
	}{
		{"a,nvfp4,8,2048,768,8,128,1,1,balanced,0.1\na,nvfp4,8,4096,1536,8,128,1,2,balanced,0.1\nb,nvfp4,8,6144,3072,4,128,1,1,balanced,0.1\n", 2,
			"nvfp4 by b"},
		{"a,fp8_block,8,2048,768,8,128,1,1,balanced,0.1\nb,fp8_block,8,2048,768,8,128,1,1,balanced,0.1\n", 2, ""},
		{"a,w4a16_mxfp4,8,2880,2880,4,128,1,1,balanced,0.1\na,w4a16_mxfp4,8,2880,2880,4,128,4,1,balanced,0.1\na,w4a16_mxfp4,8,2880,2880,4," +
			"128,1,4,balanced,0.1\n", 2, "ranks of EP"},
		{"a,w4a16_mxfp4,8,2880,2880,4,128,1,1,balanced,0.1\na,w4a16_mxfp4,8,2880,2880,4,128,1,4,balanced,0.1\n", 2, ""},
	} {
		path := filepath.Join(t.TempDir(), "moe_perf.csv")
		if err := os.WriteFile(path, []byte(head+x.rows), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Import(path, "vllm")
		if err != nil {
			t.Fatal(err)
		}
		if notes := strings.Join(got.Notes, "\n"); len(got.Rows) != x.kept || (x.note == "") != (notes == "") ||
			!strings.Contains(notes, x.note) {
			t.Errorf("%s%d rows kept with the notes %q: want %d, %q", x.rows, len(got.Rows), notes, x.kept, x.note)
		}
	}
}

// TestLatentAndScans reads latent attention and scans with their convolutions, but no module with its projections, no prefill over
// compressed keys, no prompts of more tokens than a step has, and no steps of states in 16 bits.
func TestLatentAndScans(t *testing.T) {
	const latent = "op_name,kernel_source,mla_dtype,kv_cache_dtype,num_heads,batch_size,isl,tp_size,step,latency"
	const scan = "kernel_source,phase,batch_size,seq_len,num_k_heads,head_k_dim,num_v_heads,head_v_dim,latency"
	for _, x := range []struct {
		text string
		want calibrate.Point // none where it has no kind
	}{
		{latent + "\nmla_generation,default,bfloat16,fp8,16,8,1,8,1023,0.02\n",
			calibrate.Point{Kind: calibrate.LatentDecode, Scheme: roofline.FP8, Shape: calibrate.Shape{Batch: 8, Context: 1024, Heads: 16}}},
		{latent + "\nmla_context,default,bfloat16,bfloat16,16,2,512,8,0,0.1\n",
			calibrate.Point{Kind: calibrate.LatentPrefill, Shape: calibrate.Shape{Batch: 2, Tokens: 512, Heads: 16}}},
		{latent + "\nmla_context,flash_attention,bfloat16,bfloat16,16,2,512,8,0,0.1\n", calibrate.Point{}},
		{latent + ",gemm_type\nmla_context_module,default,bfloat16,bfloat16,16,2,512,8,0,0.1,bfloat16\n", calibrate.Point{}},
		{scan + "\nflashkda_fwd,context,2,512,32,128,32,128,0.1\n",
			calibrate.Point{Kind: calibrate.ChannelScan, Shape: calibrate.Shape{Batch: 2, Tokens: 512, Heads: 32, KVHeads: 32, HeadDim: 128}}},
		{scan + "\nchunk_gated_delta_rule,context,2,512,16,128,32,128,0.1\n",
			calibrate.Point{Kind: calibrate.ScanPrefill, Shape: calibrate.Shape{Batch: 2, Tokens: 512, Heads: 32, KVHeads: 16, HeadDim: 128}}},
		{scan + "\nchunk_gated_delta_rule,context,64,512,16,128,32,128,0.1\n", calibrate.Point{}},
		{scan + "\ncausal_conv1d_fn,context,2,512,16,128,32,128,0.1\n",
			calibrate.Point{Kind: calibrate.ConvPrefill, Shape: calibrate.Shape{Batch: 2, Tokens: 512, Heads: 32, KVHeads: 16, HeadDim: 128}}},
		{scan + "\ncausal_conv1d_update,generation,2,1,16,128,32,128,0.1\n",
			calibrate.Point{Kind: calibrate.ConvStep, Shape: calibrate.Shape{Batch: 2, Tokens: 1, Heads: 32, KVHeads: 16, HeadDim: 128}}},
		{scan + "\nfused_recurrent_gated_delta_rule_packed_decode,generation,2,1,16,128,32,128,0.1\n",
			calibrate.Point{Kind: calibrate.ScanStep, Shape: calibrate.Shape{Batch: 2, Tokens: 1, Heads: 32, KVHeads: 16, HeadDim: 128}}},
		{scan + "\nfused_recurrent_gated_delta_rule,generation,2,1,16,128,32,128,0.1\n", calibrate.Point{}},
	} {
		path := filepath.Join(t.TempDir(), "perf.csv")
		if err := os.WriteFile(path, []byte(x.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Import(path, "sglang")
		switch {
		case x.want.Kind == "":
			if err == nil || !strings.Contains(err.Error(), "no table of operators") {
				t.Errorf("%s%v, want none of its rows", x.text, err)
			}
		case err != nil:
			t.Error(err)
		default:
			x.want.DType, x.want.Ranks = unit.BF16, 1
			if len(got.Rows) != 1 || got.Rows[0].Point() != x.want {
				t.Errorf("%s%+v, want %+v", x.text, got.Rows, x.want)
			}
		}
	}
}

// TestVersions orders versions as their projects do.
func TestVersions(t *testing.T) {
	for _, x := range [][2]string{{"0.5.6.post2", "0.5.14"}, {"1.3.0rc11", "1.3.0rc20"}, {"0.9.1", "0.24.0"}, {"2.23", "2.27.3"},
		{"0.24", "0.24.0"}} {
		if !older(x[0], x[1]) || older(x[1], x[0]) {
			t.Errorf("%s is taken for no older than %s", x[0], x[1])
		}
	}
}

// TestMistakes names the file, the row and what is wrong there.
func TestMistakes(t *testing.T) {
	const head = "kernel_source,gemm_dtype,m,n,k,latency\n"
	for _, x := range []struct{ text, want string }{
		{"", "no line of column names"},
		{"a,b\n1,2\n", "of no table that is known"},
		{"a,a\n1,2\n", "column 2 is called"},
		{head + "x,bfloat16,1,1024,1024\n", "wrong number of fields"},
		{head + "x,bfloat16,1,1024,1024,-1\n", "row 1: latency is -1"},
		{head + "x,bfloat16,1,1024,1024,0.01\nx,bfloat16,1,1024,1024,NaN\n", "row 2: latency is NaN"},
		{head + "x,bfloat16,1,1024,1024,fast\n", "row 1: latency is fast"},
		{head + "x,bfloat16,1.5,1024,1024,0.01\n", "row 1: m is 1.5"},
		{head + "x,bfloat16,1,1024,1e15,0.01\n", "row 1: k is 1e15"},
		{head + "x,bfloat16,1,1024,1024,1e9\n", "row 1 took 1e+06 s"},
		{head + "x,fp3,1,1024,1024,0.01\n", "has no table of operators"},
		{"PAR1 but no more", "not a Parquet file"},
	} {
		path := filepath.Join(t.TempDir(), "gemm_perf.csv")
		if err := os.WriteFile(path, []byte(x.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Import(path, "vllm"); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%q: %v, want %q", x.text, err, x.want)
		}
	}
	if _, err := Import(t.TempDir(), "vllm"); err == nil || !strings.Contains(err.Error(), "no table of operators of vllm") {
		t.Errorf("an empty folder: %v", err)
	}
}

// FuzzTable reads whatever is given without a panic, and nothing that is no time.
func FuzzTable(f *testing.F) {
	for _, name := range []string{"gemm/vllm/0.24.0/gemm_perf.parquet", "gemm/vllm/0.9.1/gemm_perf.csv",
		"comm/vllm/0.24.0/custom_allreduce_perf.csv"} {
		data, err := os.ReadFile(filepath.Join("testdata", "h200_sxm", filepath.FromSlash(name)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "gemm_perf.csv")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Import(path, "vllm")
		if err != nil {
			return
		}
		for _, r := range got.Rows {
			if !(r.Median > 0 && r.Median <= 1e4) {
				t.Errorf("%+v takes %v s", r.Shape, r.Median)
			}
		}
	})
}

// Experts of Nemotron 3 have two matrices, with the hidden size as with the latent one.
func TestUngated(t *testing.T) {
	file := filepath.Join(t.TempDir(), "moe_perf.csv")
	text := "framework,version,device,kernel_source,moe_dtype,num_tokens,hidden_size,inter_size,topk,num_experts,moe_tp_size,moe_ep_size," +
		"distribution,latency\n"
	for _, widths := range []string{"8192,5120,22,512", "2048,5120,22,512", "4096,2688,22,512", "1024,2688,22,512", "4096,1536,8,128"} {
		text += "SGLang,0.5.14,NVIDIA B200,moe,bfloat16,64," + widths + ",1,1,balanced,1.5\n"
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Import(file, "sglang")
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Rows) != 5 {
		t.Fatalf("%d rows, want 5", len(got.Rows))
	}
	for _, r := range got.Rows {
		if two := r.Shape.TopK == 22; two != (r.Shape.Matrices == 2) {
			t.Errorf("%d matrices of %d × %d", r.Shape.Matrices, r.Shape.Hidden, r.Shape.Width)
		}
	}
}

// Ranks of EP of SGLang before 0.5.14 multiply the pairs of all ranks in its collector: such rows are left out.
func TestPairsOfOtherRanks(t *testing.T) {
	const head = "framework,version,kernel_source,moe_dtype,num_tokens,hidden_size,inter_size,topk,num_experts,moe_tp_size,moe_ep_size," +
		"distribution,latency\n"
	for version, want := range map[string]int{"0.5.10": 1, "0.5.14": 2} {
		path := filepath.Join(t.TempDir(), "moe_perf.csv")
		row := "SGLang," + version + ",sglang_fused_moe_triton,bfloat16,16384,2048,768,8,128,1,"
		if err := os.WriteFile(path, []byte(head+row+"1,balanced,12.1\n"+row+"8,balanced,11.7\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Import(path, "sglang")
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Rows) != want {
			t.Errorf("%s: %d rows are taken, want %d", version, len(got.Rows), want)
		}
	}
}

// Collectors that route DeepSeek-V3's tokens by groups of experts send them to half of the experts, and TensorRT-LLM's does so for every
// model that it runs by kernels of least latency: such rows are left out.
func TestGroupedRouting(t *testing.T) {
	const head = "framework,version,kernel_source,moe_dtype,num_tokens,hidden_size,inter_size,topk,num_experts,moe_tp_size,moe_ep_size," +
		"distribution,latency\n"
	const deepseek, qwen = ",fp8_block,64,7168,2048,8,256,8,1,balanced,0.2\n", ",fp8_block,64,4096,1536,8,128,1,1,balanced,0.5\n"
	for kernel, want := range map[string]int{
		"SGLang,0.5.14,sglang_flashinfer_trtllm_moe": 1, "SGLang,0.5.10,sglang_fused_moe_triton": 2,
		"VLLM,0.24.0,vllm_fp8moe_triton_tritonexperts": 1, "VLLM,0.19.0,vllm_fused_moe": 2,
		"TRTLLM,1.3.0rc20,deepgemm": 2, "TRTLLM,1.3.0rc20,moe_torch_flow_min_latency": 0,
	} {
		path := filepath.Join(t.TempDir(), "moe_perf.csv")
		if err := os.WriteFile(path, []byte(head+kernel+deepseek+kernel+qwen), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Import(path, "sglang")
		if err != nil && want > 0 {
			t.Fatal(err)
		}
		if n := 0; got != nil {
			if n = len(got.Rows); n != want {
				t.Errorf("%s: %d rows are taken, want %d", kernel, n, want)
			}
		}
	}
}
