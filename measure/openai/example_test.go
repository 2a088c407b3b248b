package openai_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"llmprof/measure/openai"
)

// A server that thinks for one chunk, then says two tokens in one.
func ExampleRun() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, data := range []string{
			`{"choices":[{"delta":{"role":"assistant"}}]}`,
			`{"choices":[{"delta":{"reasoning_content":"hm"}}]}`,
			`{"choices":[{"delta":{"content":"so be it"},"finish_reason":"length"}]}`,
			`{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4}}`,
			`[DONE]`,
		} {
			fmt.Fprintf(w, "data: %s\n\n", data)
			w.(http.Flusher).Flush()
		}
	}))
	defer server.Close()
	serving, err := openai.Run(context.Background(), openai.Options{
		BaseURL: server.URL, API: openai.Chat, Model: "m", Concurrency: 2, Requests: 8, Warmup: 2,
		Prompts: openai.RandomText(10, 8, 1), GenLen: 4,
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ttft, _, ttlt := openai.Times(serving)
	fmt.Println(serving.Completed, "of", serving.Requests, "after", serving.Warmups, "to warm up")
	fmt.Println(*serving.Usage.Tokens, "tokens in", serving.Usage.Chunks, "chunks")
	fmt.Println(ttft.N, "TTFT,", serving.TTFO.N, "TTFO,", ttlt.N, "TTLT")
	fmt.Println(strings.HasSuffix(serving.Endpoint, "/v1"))
	// Output:
	// 8 of 8 after 2 to warm up
	// 32 tokens in 16 chunks
	// 8 TTFT, 8 TTFO, 8 TTLT
	// true
}
