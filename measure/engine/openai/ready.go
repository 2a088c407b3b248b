package openai

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Answers gives what reports whether the server of o is ready: its /health is
// well or, where it has none, it lists its models. (llama.cpp lists models while
// it still loads them; Ollama has no /health; what transformers serve lists are
// those of a cache that need not be there.)
func Answers(o Options) (func(context.Context) error, error) {
	at, err := newEndpoint(o.BaseURL, o.API)
	if err != nil {
		return nil, err
	}
	r := &runner{options: o, endpoint: at, clients: o.visitor()}
	health := *at.base
	health.Path, health.RawPath = "/health", ""
	return func(ctx context.Context) error {
		defer r.clients.free()
		there, err := r.well(ctx, &health)
		if err != nil || there {
			return err
		}
		_, err = r.well(ctx, at.base.JoinPath("models"))
		return err
	}, nil
}

// well asks for a page. That there is none such is no sign of a server that is
// not ready.
func (r *runner) well(ctx context.Context, page *url.URL) (there bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page.String(), nil)
	if err != nil {
		return false, fmt.Errorf("nothing can be asked of %s", bare(page))
	}
	r.head(req.Header)
	resp, err := r.clients.fresh.Do(req)
	if err != nil {
		return false, fmt.Errorf("%s: %w", bare(page), broken(ctx, err, false))
	}
	defer resp.Body.Close()
	said := limited(resp.Body)
	switch code := resp.StatusCode; {
	case code >= 200 && code < 300:
		return true, nil
	case code == http.StatusNotFound, code == http.StatusMethodNotAllowed:
		return false, nil
	default:
		f := refused(code, resp.Status, said)
		r.options.redact(f)
		return true, fmt.Errorf("%s: %w", bare(page), f)
	}
}
