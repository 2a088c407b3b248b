package main

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// interruption ends a context when the program is asked to end.
type interruption struct{ by atomic.Int32 }

// endSignals lists the signals that ask the program to end. What a parent had it ignore,
// as nohup does with SIGHUP, goes on being ignored.
func endSignals() []os.Signal {
	var all []os.Signal
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			all = append(all, s)
		}
	}
	return all
}

// watch returns a context that ends with the first signal. A second one ends the
// program at once, as if nothing had been caught.
func (i *interruption) watch(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := endSignals()
	if len(signals) == 0 { // Notify without any would catch all
		return ctx, cancel
	}
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, signals...)
	go func() {
		select {
		case s := <-caught:
			if n, ok := s.(syscall.Signal); ok {
				i.by.Store(int32(n))
			}
			signal.Stop(caught)
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(caught); cancel() }
}

// signalled is added to a signal's number by shells for the status of what it ended.
const signalled = 128

// status is the exit status of a program that was interrupted: 130 after Ctrl-C.
func (i *interruption) status() int { return signalled + int(i.by.Load()) }
