package main

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// mostConnections is how many connections the page's server holds at once. A browser has six.
const mostConnections = 256

// server answers requests until ctx ends. Its limits are those of a browser on this machine.
func (s *pageServer) server(ctx context.Context) *http.Server {
	return &http.Server{
		Handler: s, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: time.Minute, WriteTimeout: time.Minute, IdleTimeout: time.Minute,
		MaxHeaderBytes: 1 << 14, ErrorLog: log.New(appLog{s.a}, "", 0), //nolint:forbidigo // net/http logs to nothing else
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, guestKey{}, c) },
	}
}

// answer answers requests until ctx ends, and what was measured meanwhile has ended.
func (s *pageServer) answer(ctx context.Context, server *http.Server, listener net.Listener) error {
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stopped()
	defer s.estimators.forget()
	err := server.Serve(&crowd{Listener: listener, most: mostConnections})
	s.measuring.Lock()
	defer s.measuring.Unlock()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// An appLog has what the server logs of requests said as this program says things.
type appLog struct{ a *app }

func (l appLog) Write(b []byte) (int, error) {
	l.a.logf("%s", b)
	return len(b), nil
}

// A crowd is a listener that holds so many connections at most: each further one closes the oldest that has not shown the token, so
// that whoever opens many and says nothing keeps nobody out.
type crowd struct {
	net.Listener
	most int

	mu     sync.Mutex
	guests []*guest // in the order in which they came
}

// A guest is a connection of a crowd.
type guest struct {
	net.Conn
	of    *crowd
	known bool // a request of it had the token
}

type guestKey struct{}

// known keeps the connection of a request.
func known(r *http.Request) {
	if g, ok := r.Context().Value(guestKey{}).(*guest); ok {
		g.of.mu.Lock()
		g.known = true
		g.of.mu.Unlock()
	}
}

// Accept waits for a connection, and makes room for it.
func (c *crowd) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if g := c.take(conn); g != nil {
			return g, nil
		}
		_ = conn.Close()
	}
}

// take is a connection among the others; nil where all others are known.
func (c *crowd) take(conn net.Conn) *guest {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.guests) >= c.most {
		oldest := slices.IndexFunc(c.guests, func(g *guest) bool { return !g.known })
		if oldest < 0 {
			return nil
		}
		_ = c.guests[oldest].Conn.Close()
		c.guests = slices.Delete(c.guests, oldest, oldest+1)
	}
	g := &guest{Conn: conn, of: c}
	c.guests = append(c.guests, g)
	return g
}

// Close leaves the crowd.
func (g *guest) Close() error {
	g.of.mu.Lock()
	g.of.guests = slices.DeleteFunc(g.of.guests, func(o *guest) bool { return o == g })
	g.of.mu.Unlock()
	return g.Conn.Close()
}
