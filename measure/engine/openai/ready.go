package openai

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Answers gives what reports whether the server of o is ready: it lists its
// models, and where it has a /health, that is well. (llama.cpp lists models while
// it still loads them; Ollama has no /health.)
func Answers(o Options) (func(context.Context) error, error) {
	at, err := newEndpoint(o.BaseURL, o.API)
	if err != nil {
		return nil, err
	}
	o.Concurrency = 1
	client, _ := o.httpClient()
	r := &runner{options: o, endpoint: at, client: client}
	root := *at.base
	root.Path = "/health"
	return func(ctx context.Context) error {
		defer client.CloseIdleConnections()
		if err := r.well(ctx, at.base, below(at.base, "/models")); err != nil {
			return err
		}
		return r.well(ctx, &root, root.String())
	}, nil
}

// well asks for a page. That there is none such is no sign of a server that is
// not ready.
func (r *runner) well(ctx context.Context, named *url.URL, page string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return fmt.Errorf("nothing can be asked of %s", bare(named))
	}
	r.head(req.Header)
	resp, err := r.client.Do(req)
	if err != nil {
		return fmt.Errorf("%s: %w", bare(named), broken(ctx, err, false))
	}
	defer resp.Body.Close()
	said := limited(resp.Body)
	switch code := resp.StatusCode; {
	case code >= 200 && code < 300, code == http.StatusNotFound, code == http.StatusMethodNotAllowed:
		return nil
	default:
		f := refused(code, resp.Status, said)
		r.options.redact(f)
		return fmt.Errorf("%s: %w", bare(named), f)
	}
}
