package broker

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc/stats"
)

// observer notes how far a call has come, and counts bytes.
type observer struct{ in, out atomic.Int64 }

type trailKey struct{}

// trail is how far an attempt has come: its headers have left, the broker's have come.
type trail struct{ hasLeft, isAnswered atomic.Bool }

func (*observer) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (o *observer) HandleRPC(ctx context.Context, what stats.RPCStats) {
	way, is := ctx.Value(trailKey{}).(*trail)
	if !is {
		return
	}
	switch what := what.(type) {
	case *stats.OutHeader:
		way.hasLeft.Store(true)
	case *stats.InHeader, *stats.InTrailer:
		way.isAnswered.Store(true)
	case *stats.OutPayload:
		o.out.Add(int64(what.WireLength))
	case *stats.InPayload:
		o.in.Add(int64(what.WireLength))
	}
}

func (*observer) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (*observer) HandleConn(context.Context, stats.ConnStats) {}
