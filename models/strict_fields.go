package models

import (
	"strings"
	"sync"
)

// harmlessFields say neither how large a matrix is nor what is computed with it: names, tokens,
// training, scales, bases of rotary positions, which experts are chosen, text generation, towers
// that a note names.
var harmlessFields = sync.OnceValue(func() map[string]bool {
	known := make(map[string]bool)
	for _, field := range strings.Fields(harmlessText) {
		known[field] = true
	}
	for _, t := range towers() {
		known[t[0]] = true
	}
	for _, path := range wrapped() {
		known[path] = true
	}
	return known
})

const harmlessText = `
	_attn_implementation _attn_implementation_autoset _flash_attn_2_enabled _name_or_path activation activation_fn_name activation_function
	add_cross_attention afn altup_coef_clip altup_correct_scale apply_query_key_layer_scaling architectures attention_dropout attention_in_multiplier
	attention_multiplier attention_out_multiplier attention_probs_dropout_prob attention_softmax_in_fp32 attention_value_scale attn_dropout
	attn_implementation attn_logit_softcapping attn_pdrop attn_scale attn_temperature_tuning audio_token_id auto_map autocast_kernel_dtype aux_loss_alpha
	aux_loss_coef bad_words_ids begin_suppress_tokens bias_dropout_fusion bias_init block_mlp_init_scale block_norm_eps block_out_init_scale boi_token_id
	boi_token_index bos_token bos_token_id cache_implementation chunk_size_feed_forward chunkwise_kernel classifier_activation classifier_dropout
	cls_token_id cross_attention_hidden_size decoder_start_token_id deepspeed_config dim_model_base diversity_penalty do_sample dropout dtype
	dummy_token_indices early_stopping embd_pdrop embedding_dropout embedding_dropout_prob embedding_initializer_range embedding_multiplier
	embeddings_scale_by_sqrt_dim enable_moe_fp32_combine encoder_no_repeat_ngram_size eod_token eod_token_id eoi_token_id eoi_token_index eos_token
	eos_token_id ep_size eps expert_selection_fn exponential_decay_length_penalty ffn_dropout_prob final_logit_softcapping final_w_init_variance_scale
	finetuning_task floor_scale forced_bos_token_id forced_eos_token_id full_attn_alpha_factor full_attn_beta_factor fused_add_norm gate_soft_cap
	gegelu_limit gradient_checkpointing gradient_checkpointing_kwargs hc_eps hc_magnitude hidden_act hidden_activation hidden_dropout hidden_dropout_prob
	hidden_mamba_act id2label image_token_id image_token_index index_share_for_mtp_iteration indexer_rope_interleave init_device init_std
	initial_context_length initializer_cutoff_factor initializer_factor initializer_range is_decoder is_encoder_decoder key_multiplier label2id
	lambda_std_dev language_model_only layer_norm_eps layer_norm_epsilon layer_rope_theta layer_types layernorm_eps layernorm_epsilon length_penalty
	license linear_a_log_max linear_allow_neg_eigval linear_attn_alpha_factor linear_attn_beta_factor linear_dt_init_floor linear_dt_max linear_dt_min
	lm_head_multiplier logit_scale logits_scaling logits_soft_cap mamba_hidden_act mamba_norm_before_gate mamba_ssm_dtype mask_token_id
	max_inference_chunksize max_length max_position_embeddings min_length mixer_rms_eps mlp_alpha_factor mlp_beta_factor mlp_hidden_act mlp_multipliers
	model_max_length model_name model_type moe_dropout moe_norm_min moe_renormalize moe_routed_scaling_factor moe_router_activation_func moe_router_dtype
	moe_shared_expert_overlap mrope_section mtp_hybrid_override_pattern mtp_layers_block_type mtp_transformer_layers mup_attn_multiplier
	mup_embedding_multiplier mup_width_multiplier n_group neftune_noise_alpha no_repeat_ngram_size norm_eps norm_epsilon norm_reduction_force_float32
	norm_topk_prob normalization_layer_name num_beam_groups num_beams num_expert_group num_logits_to_keep num_return_sequences
	original_max_position_embeddings output_attentions output_gate_type output_hidden_states output_logit_soft_cap output_router_logits output_scores
	pad_token pad_token_id position_bias_max_distance prefix pretraining_tp problem_type pruned_heads quantization_config query_pre_attn_scalar
	remove_invalid_values reorder_and_upcast_attn repetition_penalty rescale_every rescale_prenorm_residual resid_pdrop residual_dropout residual_in_fp32
	residual_multiplier return_dict return_dict_in_generate return_last_states rms_eps rms_norm_eps rope_embedding_base rope_freq_constant rope_interleave
	rope_local_base_freq rope_max_length rope_parameters rope_position_scale rope_ratio rope_scaling rope_theta rotary_emb_base route_scale
	routed_scaling_factor router_aux_loss_coef router_dtype router_jitter_noise router_scaling_factor router_z_loss_coef scale_attention_softmax_in_fp32
	scale_attn_by_inverse_layer_idx scale_attn_weights scale_depth scale_emb scale_embedding scoring_func sep_token_id seq_aux sequence_kernel
	shared_expert_combination_strategy skip_bias_add sliding_window_type ssm_in_multiplier ssm_multipliers ssm_out_multiplier step_kernel
	summary_first_dropout summary_proj_to_labels summary_type summary_use_proj suppress_tokens swa_rope_theta swiglu_alpha swiglu_limit
	task_specific_params temperature tf_legacy_loss tie_encoder_decoder time_step_floor time_step_init_scheme time_step_limit time_step_max time_step_min
	time_step_scale tokenizer_class tokenizer_name top_k top_p topk_group topk_method torch_dtype torchscript transformers_version typical_p unk_token_id
	unsloth_fixed unsloth_version use_associative_scan use_bfloat16 use_bidirectional_attention use_cache use_flash_attention use_flash_attention_2
	use_flash_attn use_grouped_topk use_mamba_kernels use_mrope use_mtp use_pos_enc use_sliding_window version video_token_id vision_end_token_id
	vision_start_token_id w_init_variance_scale z_loss_coefficient`

// idleFields are sizes and switches that some families read and that the code of these families leaves
// aside, or that say in another way what was read.
var idleFields = sync.OnceValue(func() map[string][]string {
	idle := make(map[string][]string)
	for line := range strings.Lines(strings.TrimSpace(idleText)) {
		field, families, _ := strings.Cut(line, ":")
		idle[strings.TrimSpace(field)] = strings.Fields(families)
	}
	return idle
})

const idleText = `
_sliding_window_pattern: gemma3_text
activation_situ_beta: kimi_linear
activation_situ_linear_beta: kimi_linear
activation_sparsity_pattern: gemma3n_text
add_swa_attention_sink_bias: mimo_v2_flash
attention_bias: mimo nemotron_h
attention_chunk_size: mimo_v2_flash
attention_head_dim: hunyuan_v1_moe zamba zamba2
attention_hidden_size: zamba zamba2
attention_types: gpt_neo
attn_layer_offset: zamba
attn_layer_period: zamba
attn_output_gate: qwen3_5_moe_text qwen3_5_text
attn_rotary_emb: bamba
attn_type_list: minimax_m2
block_dim: lfm2
block_ffn_dim_multiplier: lfm2
block_multiple_of: lfm2
block_use_swiglu: lfm2
blocksparse_block_size: phi3small
blocksparse_num_local_blocks: phi3small
blocksparse_triton_kernel_block_size: phi3small
blocksparse_vert_stride: phi3small
compress_rope_theta: deepseek_v4
conv_L_cache: lfm2
conv_dim: lfm2
conv_dim_out: lfm2
dense_attention_every_n_layers: phi3small
dense_intermediate_size: minimax_m3_vl_text minimax_m3
embedding_fraction: mpt
expand: falcon_mamba mamba mamba2 nemotron_h
ff_factor: falcon
ffn_hidden_size: zamba2
first_k_dense_replace: deepseek_v32 exaone_moe glm_moe_dsa minimax_m3
full_attention_interval: qwen3_5_moe_text qwen3_5_text qwen3_next
full_attn_idxs: lfm2
gating: laguna
global_attn_every_n_layers: afmoe
hc_sinkhorn_iters: deepseek_v4
head_dim: axk1 axk2 deepseek_v2 deepseek_v3 deepseek_v32 glm_moe_dsa hy_v4 kimi_linear longcat_flash minicpm3 youtu
hybrid_layer_ids: zamba2
index_block_size: minimax_m3_vl_text minimax_m3
index_head_dim: minimax_m3_vl_text minimax_m3
index_local_blocks: minimax_m3_vl_text minimax_m3
index_n_heads: minimax_m3_vl_text minimax_m3
index_skip_topk_offset: glm_moe_dsa
index_topk_blocks: minimax_m3_vl_text minimax_m3
index_topk_freq: glm_moe_dsa
interleave_moe_layer_step: llama4_text
intermediate_size: deepseek_v2 mellum nemotron_h qwen2_moe qwen3_moe qwen3_next inkling_text
intermediate_size_mlp: llama4_text
keep_window_size: doge
kv_channels: zamba2
learned_pos_emb: mpt
local_attention: modernbert-decoder
local_layer_ids: inkling_text
log_scaling_alpha: inkling_text
logits_mup_width_multiplier: inkling_text
mamba_chunk_size: granitemoehybrid
mamba_conv_bias: granitemoehybrid
mamba_d_conv: granitemoehybrid
mamba_d_head: granitemoehybrid
mamba_d_ssm: falcon_h1
mamba_d_state: granitemoehybrid
mamba_expand: bamba falcon_h1 granitemoehybrid zamba2
mamba_n_groups: granitemoehybrid
mamba_n_heads: granitemoehybrid
max_window_layers: dots1 mimo qwen2 qwen2_moe qwen3 qwen3_moe smollm3
mla_use_nope: kimi_linear
mlp_bias: apertus youtu
mlp_layer_types: deepseek_v4
mlp_type: starcoder2
mode: xlstm
moe_intermediate_size: hunyuan_v1_moe nemotron_h minimax_m3
moe_layer_freq: glm_moe_dsa
moe_shared_expert_intermediate_size: nemotron_h
moe_use_aux_free: ernie4_5_moe
mtp_hidden_states_first: inkling_text
multi_query: falcon
mup_use_scaling: phi3small
n_routed_experts: nemotron_h
n_shared_experts: nemotron_h minimax_m3
no_rope_layer_interval: llama4_text smollm3
norm_type: mpt starcoder2
num_attention_heads: bamba granitemoehybrid jetmoe laguna
num_experts: doge
num_experts_per_tok: doge granitemoehybrid jamba nemotron_h
num_gqa_groups: openelm
num_hash_layers: deepseek_v4
num_heads: lfm2
num_key_value_heads: axk1 axk2 bamba deepseek_v2 deepseek_v3 deepseek_v32 glm4_moe_lite glm_moe_dsa gpt_bigcode granitemoehybrid hy_v4 kimi_linear longcat_flash minicpm3 youtu
num_kv_heads: falcon
num_query_groups: nemotron_h zamba2
num_shared_expert: hunyuan_v1_moe
number_of_conv_states: inkling_text
offset_alibi: bloom
original_rope: chatglm
partial_rotary_factor: bamba glm glm4 glm4_moe minimax_m2 nemotron nemotron_h persimmon phi qwen3_5_moe_text qwen3_5_text qwen3_next recurrent_gemma solar_open stablelm minimax_m3 deepseek_v4
post_layer_norm: chatglm
postnorm: minimax_text_01
prefix_dense_sliding_window_pattern: cohere2_moe
qk_head_dim: axk1 axk2 deepseek_v2 deepseek_v3 deepseek_v32 glm4_moe_lite glm_moe_dsa hy_v4 kimi_linear longcat_flash minicpm3 youtu
qk_norm: apertus
qk_norm_type: minimax_m2 minimax_m3
qkv_multipliers: openelm
rms_norm: mamba2 mamba_ssm
rms_norm_eps_moe_gate: inkling_text
shared_expert_sink: inkling_text
sliding_window: dots1 laguna mellum mimo qwen2
sliding_window_pattern: cohere2_moe exaone4 exaone_moe gemma2 gemma3_text gemma3n_text cohere2 olmo3
time_step_rank: mamba2 nemotron_h
use_dynamic_ntk: qwen
use_expert_bias: lfm2_moe
use_gemma_norm: minimax_m3
use_logn_attn: qwen
use_mixed_mlp_moe: hunyuan_v1_moe
use_qk_norm: hunyuan_v1_moe minimax_m2 qwen3_moe minimax_m3
use_routing_bias: minimax_m2 minimax_m3
vocab_size_per_layer_input: gemma4_text
weight_mode: xlstm
`
