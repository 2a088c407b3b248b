package models

// slidingEverywhere gives every layer the window, where there is one (Mistral).
func slidingEverywhere(r *reader, _ int) string {
	if r.has("sliding_window") {
		return "sliding_attention"
	}
	return "full_attention"
}

// slidingAbove gives the layers from max_window_layers on the window, if the
// config switches it on at all (Qwen2).
func slidingAbove(r *reader, i int) string {
	if r.flag("use_sliding_window") && r.has("sliding_window") && i >= r.countOr("max_window_layers", 0) {
		return "sliding_attention"
	}
	return "full_attention"
}
