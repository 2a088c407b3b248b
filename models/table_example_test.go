package models_test

import (
	"context"
	"fmt"

	"llmprof"
	"llmprof/models"
)

// The reader of config.json, the built-in table and the hub are one to the
// user: what --model says is found where it is.
func ExampleResolver() {
	table, err := models.Load(llmprof.ModelsJSON)
	if err != nil {
		fmt.Println(err)
		return
	}
	find := models.Resolver{Table: table, Hub: models.Hub{Offline: true}}
	m, err := find.Resolve(context.Background(), "Llama-2-70B")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Name, m.Params())
	_, err = find.Resolve(context.Background(), "lama2-70b")
	fmt.Println(err)
	// Output:
	// llama2-70b 68976648192
	// unknown model "lama2-70b"; did you mean llama2-70b?
}
