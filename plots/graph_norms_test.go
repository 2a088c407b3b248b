package plots

import (
	"fmt"
	"strings"
	"testing"

	"llmprof/internal/testkit"
)

// TestOrderOfNodes compares the operators of layers, and what flows between them, with the models'
// code in transformers (src/transformers/models): "(" is where a block reads the stream, ")" where
// it adds to it, "[" and "]" are around a branch.
func TestOrderOfNodes(t *testing.T) {
	for model, want := range map[string]string{
		"llama2-70b": "( input_layernorm qkv_proj rotary kv_write attention o_proj all_reduce ) " +
			"( post_attention_layernorm gate_up_proj activation down_proj all_reduce )",
		// gemma2/modeling_gemma2.py: norms before and after both blocks
		"gemma2-2b": "( input_layernorm qkv_proj rotary kv_write sliding_attention o_proj all_reduce post_attention_layernorm ) " +
			"( pre_feedforward_layernorm gate_up_proj activation down_proj all_reduce post_feedforward_layernorm )",
		// gemma4/modeling_gemma4.py: experts beside the mlp, each with norms of its own, and a norm of their sum
		"gemma4-26b-a4b": "( input_layernorm qkv_proj qk_norm_rotary kv_write sliding_attention o_proj all_reduce post_attention_layernorm ) " +
			"( pre_feedforward_layernorm gate_up_proj activation down_proj all_reduce [ pre_feedforward_layernorm_2 mixture of experts " +
			"post_feedforward_layernorm_2 post_feedforward_layernorm_1 all_reduce post_feedforward_layernorm ) ]",
		// longcat_flash/modeling_longcat_flash.py: experts read what the first mlp reads; the second attention and mlp have the lines of the
		// first
		"longcat-flash": "( input_layernorm q_a_proj q_a_layernorm q_b_proj [ kv_a_proj kv_a_layernorm ] rotary kv_write kv_b_proj " +
			"latent_attention o_proj all_reduce ) " +
			"( post_attention_layernorm gate_up_proj activation down_proj [ mixture of experts ) ]",
		// olmo2/modeling_olmo2.py: norms after both, and of the whole of q and k
		"olmo2-7b": "( qkv_proj q_norm k_norm qk_norm_all_reduce rotary kv_write attention o_proj all_reduce post_attention_layernorm ) " +
			"( gate_up_proj activation down_proj all_reduce post_feedforward_layernorm )",
		// deepseek_v3/modeling_deepseek_v3.py: queries beside keys and values
		"deepseek-v3": "( input_layernorm q_a_proj q_a_layernorm q_b_proj [ kv_a_proj kv_a_layernorm ] rotary kv_write kv_b_proj " +
			"latent_attention o_proj all_reduce ) " +
			"( post_attention_layernorm gate_up_proj activation down_proj all_reduce )",
		// gptj/modeling_gptj.py: attention and mlp beside each other
		"gpt-j-6b": "( ln_1 qkv_proj rotary kv_write attention o_proj all_reduce [ up_proj activation down_proj ] all_reduce )",
		// falcon_h1/modeling_falcon_h1.py: attention and scan beside each other, a gated norm behind the scan
		"falcon-h1-34b": "( input_layernorm qkv_proj rotary kv_write attention o_proj all_reduce [ in_proj causal_conv ssd_scan norm out_proj " +
			"] all_reduce ) " +
			"( post_attention_layernorm gate_up_proj activation down_proj all_reduce )",
		// olmoe/modeling_olmoe.py
		"olmoe-1b-7b": "( input_layernorm qkv_proj q_norm k_norm qk_norm_all_reduce rotary kv_write attention o_proj all_reduce ) " +
			"( post_attention_layernorm mixture of experts all_reduce )",
	} {
		c := testCase(t, model, "h200", 1, 2)
		g, err := newGraph(c, explain(t, c))
		testkit.Must(t, err)
		if got := g.clusters[1].spelled(); got != want {
			t.Errorf("%s:\n got %s\nwant %s", model, got, want)
		}
	}
}

// TestReduceOfEachBlock finds one all-reduce at the end of each of three blocks,
// which the report has as one line.
func TestReduceOfEachBlock(t *testing.T) {
	c := testCase(t, "zamba2-1.2b", "h200", 1, 2)
	g, err := newGraph(c, explain(t, c))
	testkit.Must(t, err)
	cl := &g.clusters[2]
	if n := strings.Count(cl.spelled(), "all_reduce )"); n != 3 || len(cl.residual) != 3 {
		t.Errorf("%d of %d blocks end in an all-reduce: %s", n, len(cl.residual), cl.spelled())
	}
}

// spelled is a cluster in a line.
func (cl *cluster) spelled() string {
	var words []string
	for i := 0; i <= len(cl.nodes); i++ {
		for _, s := range cl.residual {
			if s.to+1 == i {
				words = append(words, ")")
			}
		}
		for _, b := range cl.branches {
			if b.to+1 == i {
				words = append(words, "]")
			}
		}
		for _, s := range cl.residual {
			if s.from == i {
				words = append(words, "(")
			}
		}
		for _, b := range cl.branches {
			if b.from == i {
				words = append(words, "[")
			}
		}
		if i < len(cl.nodes) {
			words = append(words, cl.nodes[i].Name)
		}
	}
	return strings.Join(words, " ")
}

// TestFlows finds the edges of a block with a branch by hand.
func TestFlows(t *testing.T) {
	g := &graph{clusters: []cluster{
		{nodes: []*GraphNode{{Name: "embedding"}}},
		{
			nodes:    []*GraphNode{{Name: "norm"}, {Name: "a"}, {Name: "b"}, {Name: "c"}},
			residual: []span{{0, 3}}, branches: []branch{{fork: 1, from: 2, to: 2}},
		},
		{nodes: []*GraphNode{{Name: "head"}, {Name: "host", apart: true}}},
	}}
	var got []string
	for _, f := range g.trace().flows {
		got = append(got, fmt.Sprintf("%s>%s", f.From, f.To))
	}
	const want = "n0_0>n1_0 n1_0>n1_1 n1_0>n1_2 n1_1>n1_3 n1_2>n1_3 n0_0>s1_4 n1_3>s1_4 s1_4>n2_0"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("got %s\nwant %s", s, want)
	}
}
