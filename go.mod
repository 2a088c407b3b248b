module llmprof

go 1.26
