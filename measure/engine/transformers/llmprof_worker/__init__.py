"""Runs a causal language model of Hugging Face transformers for llmprof.

Commands come as JSON lines on standard input and events go out on standard
output; measure/engine/protocol.go says what they hold. Nothing else may write to
standard output, so it is moved away and replaced by standard error.
"""
