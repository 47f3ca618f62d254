// Command grpc-echo is what the broker is compared with: the least that a server of grpc-go on a Unix socket does. It
// answers bench.Echo/Echo, a message with one field of bytes, with the same message; it knows no cryptography.
package main

import (
	"context"
	"fmt"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func echo(_ any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
	message := new(wrapperspb.BytesValue)
	if err := decode(message); err != nil {
		return nil, err
	}
	return message, nil
}

func run() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("usage: grpc-echo SOCKET")
	}
	listener, err := net.Listen("unix", os.Args[1])
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "bench.Echo",
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Echo", Handler: echo}},
	}, nil)
	return server.Serve(listener)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "grpc-echo:", err)
		os.Exit(1)
	}
}
