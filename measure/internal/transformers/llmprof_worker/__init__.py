"""Runs a causal language model of Hugging Face transformers for llmprof.

Commands come as JSON lines on standard input and events go out on standard
output; measure/worker/protocol.go documents both. Nothing else may write to
standard output, so the worker duplicates it and replaces it by standard error.
"""
