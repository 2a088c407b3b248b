package native

import (
	"errors"
	"os"
	"sync"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/measure/native/cuda"
	"llmprof/measure/native/internal/emulate"
	"llmprof/models"
)

// gpu skips the test where there is no GPU to run it on.
func gpu(t testing.TB) {
	t.Helper()
	err := emulate.RealGPU()
	var missing *cuda.MissingError
	var failed *cuda.Error
	if errors.As(err, &missing) || errors.As(err, &failed) && failed.Call == "cuInit" || errors.Is(err, emulate.ErrHidden) {
		t.Skipf("no GPU here: %v", err)
	}
	testkit.Must(t, err)
}

// slow reports whether tests run fewer and smaller cases: on an emulated GPU, and if
// LLMPROF_TEST_SLOW is set, as under compute-sanitizer.
func slow() bool { return emulate.RealGPU() != nil || underTool() }

// underTool reports whether LLMPROF_TEST_SLOW is set on a real GPU.
func underTool() bool { return emulate.RealGPU() == nil && os.Getenv("LLMPROF_TEST_SLOW") != "" }

var opening sync.Map // config.json to a mutex

// open opens an engine and closes it after the test.
func open(t testing.TB, config string, opt Options) *Engine {
	t.Helper()
	opt.Libraries = emulate.Device(t)
	if opt.Cache.Folder == "" {
		opt.Cache = cuda.Cache{Folder: os.TempDir() + "/llmprof-test-kernels"}
	}
	return ready(t, modelOf(t, config, opt), func(o Options) (*Engine, error) {
		one, _ := opening.LoadOrStore(config, &sync.Mutex{})
		one.(*sync.Mutex).Lock() // so that kernels are compiled once, and taken from the cache then
		defer one.(*sync.Mutex).Unlock()
		return Open(o)
	})
}

// modelOf sets the model of the options.
func modelOf(t testing.TB, config string, opt Options) Options {
	t.Helper()
	m, err := models.Read("test", []byte(config))
	testkit.Must(t, err)
	opt.Model, opt.Config = m, []byte(config)
	return opt
}

// ready opens an engine, or a team of them, prepares it and closes it after the test.
func ready[E interface {
	Prepare() error
	Close() error
}](t testing.TB, opt Options, open func(Options) (E, error)) E {
	t.Helper()
	e, err := open(opt)
	testkit.Must(t, err)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	testkit.Must(t, e.Prepare())
	return e
}

const (
	tinyLlama = `{"model_type":"llama","hidden_size":256,"intermediate_size":704,"num_hidden_layers":2,"num_attention_heads":8,
		"num_key_value_heads":2,"head_dim":64,"vocab_size":1000,"max_position_embeddings":4096,"hidden_act":"silu",
		"rms_norm_eps":1e-5,"rope_theta":500000.0,"tie_word_embeddings":false,"attention_bias":false,"mlp_bias":false,
		"rope_scaling":{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":64}}`
	tinyMistral = `{"model_type":"mistral","hidden_size":512,"intermediate_size":1024,"num_hidden_layers":2,"num_attention_heads":4,
		"num_key_value_heads":1,"head_dim":128,"vocab_size":776,"max_position_embeddings":4096,"hidden_act":"silu",
		"rms_norm_eps":1e-5,"rope_theta":10000.0,"tie_word_embeddings":false,"sliding_window":null}`
	tinyQwen2 = `{"model_type":"qwen2","hidden_size":448,"intermediate_size":1216,"num_hidden_layers":2,"num_attention_heads":7,
		"num_key_value_heads":1,"vocab_size":1001,"max_position_embeddings":4096,"hidden_act":"silu",
		"rms_norm_eps":1e-6,"rope_theta":1000000.0,"tie_word_embeddings":true,"use_sliding_window":false}`
	tinyQwen3 = `{"model_type":"qwen3","hidden_size":256,"intermediate_size":768,"num_hidden_layers":3,"num_attention_heads":4,
		"num_key_value_heads":2,"head_dim":128,"vocab_size":1024,"max_position_embeddings":4096,"hidden_act":"silu",
		"rms_norm_eps":1e-6,"rope_theta":1000000.0,"tie_word_embeddings":true,"attention_bias":false}`
	tinyWindow = `{"model_type":"mistral","hidden_size":256,"intermediate_size":512,"num_hidden_layers":2,"num_attention_heads":4,
		"num_key_value_heads":2,"head_dim":64,"vocab_size":776,"max_position_embeddings":4096,"hidden_act":"silu",
		"rms_norm_eps":1e-5,"rope_theta":10000.0,"tie_word_embeddings":false,"sliding_window":60}`
	tinyQwen3MoE = `{"model_type":"qwen3_moe","hidden_size":256,"intermediate_size":512,"moe_intermediate_size":192,"num_hidden_layers":2,
		"num_attention_heads":4,"num_key_value_heads":2,"head_dim":64,"num_experts":12,"num_experts_per_tok":3,"norm_topk_prob":false,
		"decoder_sparse_step":1,"mlp_only_layers":[],"vocab_size":1001,"max_position_embeddings":4096,"hidden_act":"silu",
		"rms_norm_eps":1e-6,"rope_theta":1000000.0,"tie_word_embeddings":false,"attention_bias":false,"use_sliding_window":false}`
	tinyMixtral = `{"model_type":"mixtral","hidden_size":320,"intermediate_size":448,"num_hidden_layers":2,"num_attention_heads":5,
		"num_key_value_heads":1,"head_dim":64,"num_local_experts":4,"num_experts_per_tok":2,"vocab_size":640,"max_position_embeddings":4096,
		"hidden_act":"silu","rms_norm_eps":1e-5,"rope_theta":1000000.0,"tie_word_embeddings":false,"sliding_window":null}`
	tinyGemma = `{"model_type":"gemma","hidden_size":320,"intermediate_size":704,"num_hidden_layers":2,"num_attention_heads":2,
		"num_key_value_heads":1,"head_dim":256,"vocab_size":901,"max_position_embeddings":4096,"hidden_act":"gelu_pytorch_tanh",
		"rms_norm_eps":1e-6,"rope_theta":10000.0,"tie_word_embeddings":true,"attention_bias":false}`
	tinyGemma2 = `{"model_type":"gemma2","hidden_size":256,"intermediate_size":704,"num_hidden_layers":3,"num_attention_heads":4,
		"num_key_value_heads":2,"head_dim":128,"vocab_size":1003,"max_position_embeddings":4096,"hidden_act":"gelu_pytorch_tanh",
		"hidden_activation":"gelu_pytorch_tanh","rms_norm_eps":1e-6,"rope_theta":10000.0,"tie_word_embeddings":true,"attention_bias":false,
		"sliding_window":48,"query_pre_attn_scalar":100,"attn_logit_softcapping":1.5,"final_logit_softcapping":0.5}`
	tinyGemma3 = `{"model_type":"gemma3_text","hidden_size":320,"intermediate_size":832,"num_hidden_layers":3,"num_attention_heads":8,
		"num_key_value_heads":2,"head_dim":64,"vocab_size":1003,"max_position_embeddings":4096,"hidden_activation":"gelu_pytorch_tanh",
		"rms_norm_eps":1e-6,"rope_theta":1000000.0,"rope_local_base_freq":10000.0,"tie_word_embeddings":true,"attention_bias":false,
		"sliding_window":33,"sliding_window_pattern":2,"query_pre_attn_scalar":50,"rope_scaling":{"rope_type":"linear","factor":8.0}}`
)

// tiny has small models of each family, which cover every switch of the engine.
func tiny() map[string]string {
	return map[string]string{
		"llama": tinyLlama, "mistral": tinyMistral, "qwen2": tinyQwen2, "qwen3": tinyQwen3,
		"window": tinyWindow, "gemma": tinyGemma, "gemma2": tinyGemma2, "gemma3": tinyGemma3,
		"qwen3_moe": tinyQwen3MoE, "mixtral": tinyMixtral,
	}
}
