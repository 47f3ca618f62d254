#!/bin/sh
# Writes the code of the broker's messages anew from spec/, after a change there. It needs Python and Go, and no protoc:
#
#   sdk/go/broker/generate.sh
#
# Tools are put into a temporary folder.
set -eu
cd "$(dirname "$0")/../../.."
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
python3 -m venv "$tools/python"
"$tools/python/bin/pip" -q install grpcio-tools==1.80.0
GOBIN="$tools" go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.11
GOBIN="$tools" go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.0
module=sealway.dev/go
PATH="$tools:$PATH" "$tools/python/bin/python" -m grpc_tools.protoc -I spec \
    --go_out=sdk/go --go_opt=module=$module --go-grpc_out=sdk/go --go-grpc_opt=module=$module \
    --go_opt=Mbroker.proto=$module/broker/internal/wire --go-grpc_opt=Mbroker.proto=$module/broker/internal/wire \
    --go_opt=Mbroker-open.proto=$module/broker/internal/open --go-grpc_opt=Mbroker-open.proto=$module/broker/internal/open \
    broker.proto broker-open.proto
