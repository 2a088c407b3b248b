package concurrent

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestWait(t *testing.T) {
	if err := Wait(t.Context(), time.Millisecond); err != nil {
		t.Error(err)
	}
	why := errors.New("stopped")
	ctx, stop := context.WithCancelCause(t.Context())
	stop(why)
	if err := Wait(ctx, time.Hour); !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
}

// Nothing is called any more once stop has returned.
func TestEvery(t *testing.T) {
	calls := make(chan struct{}, 1)
	stop := Every(t.Context(), time.Millisecond, func(context.Context) {
		select {
		case calls <- struct{}{}:
		default:
		}
	})
	<-calls
	stop()
	select {
	case <-calls:
	default:
	}
	select {
	case <-calls:
		t.Error("a call came after the end")
	default:
	}
}
