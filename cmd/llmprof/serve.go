package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/cmd/llmprof/internal/page"
	"llmprof/input"
	"llmprof/validate"
	"llmprof/web"
)

// A serveOrder is the page as it is asked for on the command line.
type serveOrder struct {
	port    int
	noOpen  bool
	offline bool
	results string
	folder  string
	python  string
}

func (a *app) serve() *cobra.Command {
	o := &serveOrder{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Show the estimator as a page in the browser",
		Long: "Serve a page on the loopback, with the whole estimator in it: model, GPU, engine and load to\n" +
			"choose, and verdict, memory, roofline, operators, graph, latency and cost that follow. It asks\n" +
			"nothing of any other host. --static writes the same page to a folder for any static host.",
		Example: "  llmprof serve\n" +
			"  llmprof serve --port 8765 --no-open --results results\n" +
			"  llmprof serve --static page",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runServe(cmd.Context(), o) },
	}
	cli.Define(cmd, cli.Output, func(cmd *cobra.Command) {
		f := cmd.Flags()
		f.IntVar(&o.port, "port", 0, "`port` on 127.0.0.1 (default: one that is free)")
		f.BoolVar(&o.noOpen, "no-open", false, "print the address, and open no browser")
		f.BoolVar(&o.offline, "offline", false, "never use the network: hub ids are looked up in the local cache only")
		f.StringVar(&o.results, "results", "results", "`folder` of results that the page offers")
		f.StringVar(&o.python, "python", "", "Python `interpreter` of the transformers engine, for measuring (default: python3)")
		f.StringVar(&o.folder, "static", "", "write the page to `FOLDER`, and serve nothing")
	})
	return cmd
}

// pageFiles are the files of the page: what stands in the program, and what follows from
// its tables.
func (a *app) pageFiles() (map[string][]byte, error) {
	files, err := web.Files()
	if err != nil {
		return nil, err
	}
	if files[web.Program] == nil {
		return nil, errors.New("this llmprof was built without the page's program: run \"make web\" in its source, and build it again")
	}
	return files, a.derive(files)
}

// derive adds the files that follow from the program's tables.
func (a *app) derive(files map[string][]byte) error {
	files["here.json"] = []byte("null") // a server has a document here, a static folder none
	files["colors.css"] = []byte(page.Colors())
	catalog, err := page.NewCatalog(versionText())
	if err != nil {
		return err
	}
	if files["catalog.json"], err = json.Marshal(catalog); err != nil {
		return err
	}
	scorer, err := a.scorer("", "")
	if err != nil {
		return err
	}
	observed, err := validate.Embedded()
	if err != nil {
		return err
	}
	files["accuracy.json"], err = json.Marshal(page.NewColumns(page.NewAccuracy(scorer.Score(observed))))
	return err
}

// runServe shows the page until it is interrupted.
func (a *app) runServe(ctx context.Context, o *serveOrder) error {
	if o.port < 0 || o.port > 65535 {
		return usage("--port %d: want a port from 1 to 65535, or 0 for one that is free", o.port)
	}
	files, err := a.pageFiles()
	if err != nil {
		return err
	}
	if o.folder != "" {
		return writePage(o.folder, files)
	}
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", o.port))
	if err != nil {
		return fmt.Errorf("--port %d: %w", o.port, err)
	}
	s := newPageServer(a, o, files, listener.Addr().String())
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stopped()
	if _, err := fmt.Fprintln(a.stdout, s.address()); err != nil {
		return err
	}
	if !o.noOpen {
		openBrowser(ctx, s.address())
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func writePage(folder string, files map[string][]byte) error {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return fmt.Errorf("--static %s: %w", folder, input.Cause(err))
	}
	for name, text := range files {
		if err := writeFile(filepath.Join(folder, name), text); err != nil {
			return err
		}
	}
	return nil
}
