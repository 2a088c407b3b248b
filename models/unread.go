package models

// unread says of families that exist which of their parts is not understood.
func unread(modelType string) string {
	switch modelType {
	case "blt":
		return "its bytes are grouped into patches by a model of their own (patcher_config), and only the patches go through the large layers"
	case "hrm_text":
		return "its two modules run in cycles (H_cycles, L_cycles), which is not understood"
	case "qwen4_exp", "qwen4_exp_text":
		return "its tables of n-grams (ngram_size) and its indexer of compressed keys (indexer_compress_ratio) are not understood"
	case "bert", "roberta", "xlm-roberta", "electra", "deberta", "deberta-v2", "distilbert", "albert", "modernbert":
		return "it is an encoder; decoders are read"
	case "t5", "mt5", "umt5", "bart", "mbart", "pegasus", "whisper", "marian", "m2m_100", "blenderbot", "fsmt", "led", "t5gemma":
		return "it is an encoder with a decoder; decoders alone are read"
	case "xlnet", "reformer", "transfo-xl", "prophetnet", "xlm", "rwkv5", "rwkv6", "rwkv7":
		return "its layers are not understood"
	}
	return ""
}
