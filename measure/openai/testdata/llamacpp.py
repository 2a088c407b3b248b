"""Runs llama.cpp's server with a tiny Llama of random weights, until it is killed.

Arguments: the file that the model is written to, the host, the port, the number of slots,
and words that are tokens.
"""

import sys
import time

import gguf
import numpy
import xllamacpp

vocab, hidden, ffn, layers, heads, kv_heads, context = 1000, 128, 256, 3, 4, 2, 2048


def write(path, words):
    random = numpy.random.default_rng(11)
    w = gguf.GGUFWriter(path, "llama")
    w.add_context_length(context)
    w.add_embedding_length(hidden)
    w.add_block_count(layers)
    w.add_feed_forward_length(ffn)
    w.add_head_count(heads)
    w.add_head_count_kv(kv_heads)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_dimension_count(hidden // heads)
    w.add_vocab_size(vocab)
    w.add_file_type(gguf.LlamaFileType.ALL_F32)
    pieces = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL] + [gguf.TokenType.BYTE] * 256
    special = len(pieces)
    # A word is put together from its characters, two parts at a time: every part is a token.
    parts = dict.fromkeys(p for word in words for n in range(1, len(word) + 2) for p in (("\u2581" + word)[:n], ("\u2581" + word)[n - 1 : n]))
    parts = sorted(parts, key=len) + [f"\u2581w{i}" for i in range(vocab)]
    pieces += parts[: vocab - special]
    kinds += [gguf.TokenType.NORMAL] * (vocab - special)
    w.add_tokenizer_model("llama")
    w.add_token_list([p.encode() for p in pieces])
    w.add_token_scores([float(len(p)) for p in pieces])
    w.add_token_types(kinds)
    w.add_unk_token_id(0)
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_add_bos_token(True)

    def matrix(name, rows, columns, silent=0):
        m = (random.standard_normal((rows, columns)) * 0.05).astype(numpy.float32)
        m[:silent] = 0
        w.add_tensor(name, m)

    matrix("token_embd.weight", vocab, hidden)
    matrix("output.weight", vocab, hidden, silent=special)  # an answer of bytes may be no text
    w.add_tensor("output_norm.weight", numpy.ones(hidden, numpy.float32))
    for i in range(layers):
        at = f"blk.{i}."
        for norm in "attn_norm", "ffn_norm":
            w.add_tensor(at + norm + ".weight", numpy.ones(hidden, numpy.float32))
        matrix(at + "attn_q.weight", hidden, hidden)
        matrix(at + "attn_k.weight", kv_heads * hidden // heads, hidden)
        matrix(at + "attn_v.weight", kv_heads * hidden // heads, hidden)
        matrix(at + "attn_output.weight", hidden, hidden)
        matrix(at + "ffn_gate.weight", ffn, hidden)
        matrix(at + "ffn_up.weight", ffn, hidden)
        matrix(at + "ffn_down.weight", hidden, ffn)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


path, host, port, slots = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
write(path, sys.argv[5:])
p = xllamacpp.CommonParams()
p.model.path, p.hostnames, p.port = path, [host], port
p.n_parallel, p.n_ctx = slots, context * slots
p.endpoint_metrics = True
p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 1
p.warmup = False
server = xllamacpp.Server(p)
while True:
    time.sleep(60)
