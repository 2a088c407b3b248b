package openai

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// transport is tuned for streams that are timed: a connection for every request
// under way, kept for the next; none of HTTP/2, where streams wait for each
// other on one connection; no compression, which would hold events back.
func transport(connections int) *http.Transport {
	dialer := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: 30 * time.Second,
		DisableCompression:  true,
		MaxIdleConnsPerHost: connections,
		IdleConnTimeout:     90 * time.Second,
		WriteBufferSize:     64 << 10, // a prompt in one write
		ReadBufferSize:      16 << 10,
		Protocols:           protocols,
	}
}

// httpClient gives the client to use, and what frees it.
func (o *Options) httpClient() (c *http.Client, free func()) {
	if o.Client != nil {
		own := *o.Client // its redirects are ours to judge
		own.CheckRedirect = follow
		return &own, func() {}
	}
	connections := o.Concurrency
	if connections == 0 {
		connections = min(o.Requests, 1024)
	}
	t := transport(connections)
	return &http.Client{Transport: t, CheckRedirect: follow}, t.CloseIdleConnections
}

// follow allows redirects that keep the request a POST (307 and 308), and takes
// the key off one to another host. Go itself would let it through to another
// port and to a subdomain.
func follow(next *http.Request, via []*http.Request) error {
	first := via[0]
	switch {
	case next.Method != first.Method:
		return http.ErrUseLastResponse
	case first.URL.Scheme == "https" && next.URL.Scheme != "https":
		return errors.New("a redirect from https to http is not followed")
	case len(via) >= 5:
		return fmt.Errorf("%d redirects in a row", len(via))
	}
	if next.URL.Host != first.URL.Host || next.URL.Scheme != first.URL.Scheme {
		next.Header.Del("Authorization")
		next.Header.Del("Referer") // the URL of before, with its query
	}
	return nil
}
