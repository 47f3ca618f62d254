module sealway/bench/grpc-echo

go 1.24

require google.golang.org/grpc v1.76.0
