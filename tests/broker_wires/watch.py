"""watch.py SOCKET: prints each state that the broker reports, and "end" when the stream ends well."""

import sys

from client import Client

for state in Client(sys.argv[1]).watch("/grpc.health.v1.Health/Watch"):
    print(state.status, flush=True)
print("end")
