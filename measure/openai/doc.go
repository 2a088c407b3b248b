// Package openai measures a server from outside: it is a client of any endpoint
// that speaks OpenAI's streaming API (vLLM, SGLang, TensorRT-LLM, llama.cpp,
// TGI, Ollama, transformers serve), and it can start such a server and stop it.
//
// What is timed, on the monotonic clock of the client:
//
//   - Time zero of a request is when it is begun in a closed loop, and when it
//     was due in an open one, so that a server that holds requests up cannot hide
//     the wait by delaying those behind (coordinated omission).
//   - The first chunk is the first event of the stream, which may hold no more
//     than the role of who speaks. It is no token.
//   - TTFT ends with the first chunk that holds a token of any channel: content,
//     text, reasoning, tool call, refusal. TTFO ends with the first that is no
//     reasoning.
//   - TPOT is (last token - first token) / (tokens - tokens of the first chunk), with
//     the tokens from the server's usage. Those of the first chunk are known from
//     usage in it or from its text by the server's tokenizer; else it is taken for one,
//     and the result says so. A chunk is not a token: with speculative decoding, parsers
//     of reasoning and tools, or a busy server, a chunk holds several. The time
//     between chunks is called the chunk gap.
//   - Events that came in one read of the connection came at one time.
//
// A request that did not end as it should is a failure of a kind, whatever it
// gave before; its record stays, and none of its times enter a statistic.
package openai
