package openai

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// transport is tuned for streams that are timed: a connection for every request
// under way, of which so many are kept for the next; none of HTTP/2, where streams
// wait for each other on one connection; no compression, which would hold events
// back.
func transport(connections int) *http.Transport {
	dialer := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: 30 * time.Second,
		DisableCompression:  true,
		DisableKeepAlives:   connections == 0,
		MaxIdleConnsPerHost: connections,
		IdleConnTimeout:     90 * time.Second,
		WriteBufferSize:     64 << 10, // a prompt in one write
		ReadBufferSize:      16 << 10,
		Protocols:           protocols,
	}
}

// How connections are used.
const (
	Pooled = "pooled" // kept open, for the next request of any client
	New    = "new"    // one a request
	Worker = "worker" // kept open, one a client of a closed loop
)

// clients are what requests go through.
type clients struct {
	own   []*http.Client // one client for each worker, or one for all
	fresh *http.Client   // client of a request whose kept connection had been closed
	free  func()
}

func (c *clients) of(worker int) *http.Client { return c.own[worker%len(c.own)] }

// clients make the connections that o wants.
func (o *Options) clients() *clients {
	if o.Client != nil {
		own := *o.Client // This client judges the redirects itself.
		own.CheckRedirect = follow
		return &clients{own: []*http.Client{&own}, fresh: &own, free: func() {}}
	}
	connections, pools := cmp.Or(o.Concurrency, min(o.Requests, 1024)), 1
	if o.Connections == Worker {
		connections, pools = 1, o.Concurrency
	}
	c := &clients{fresh: &http.Client{Transport: transport(0), CheckRedirect: follow}}
	for range pools {
		t := transport(connections)
		if o.Connections == New {
			t = transport(0)
		}
		c.own = append(c.own, &http.Client{Transport: t, CheckRedirect: follow})
	}
	c.free = func() {
		for _, own := range append(c.own, c.fresh) {
			own.CloseIdleConnections()
		}
	}
	return c
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
