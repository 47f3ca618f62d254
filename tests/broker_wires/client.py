"""A raw gRPC client of the broker. Its messages are made from spec/*.proto while it runs, by Google's own compiler: nothing
of the broker's code is in it."""

import os
import re
import tempfile

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SPEC = os.path.join(ROOT, "spec")
DATA = os.path.join(ROOT, "crates/broker/tests/data")
PROTOS = ["broker-w0.proto", "broker-open.proto", "broker.proto", "broker-health.proto"]


def _pool():
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "set")
        code = protoc.main(["protoc", "-I" + SPEC, "--descriptor_set_out=" + out, *PROTOS])
        assert code == 0, "the protos do not compile"
        with open(out, "rb") as file:
            files = descriptor_pb2.FileDescriptorSet.FromString(file.read())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return files, pool


def data(path):
    with open(os.path.join(DATA, path), encoding="ascii") as file:
        return file.read()


class Refused(Exception):
    """A call that was refused."""

    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code, self.text = code, text


class Client:
    def __init__(self, socket):
        self.files, self.pool = _pool()
        # gRPC's C core would name the socket's path, percent-encoded, as the authority; Go and JavaScript say "localhost".
        options = [("grpc.default_authority", "localhost"), ("grpc.max_send_message_length", 8 << 20)]
        self.channel = grpc.insecure_channel("unix:" + socket, options=options)
        self.methods = {}
        for file in self.files.file:
            for service in file.service:
                for method in service.method:
                    path = f"/{file.package}.{service.name}/{method.name}"
                    types = (method.input_type.lstrip("."), method.output_type.lstrip("."))
                    self.methods[path] = (types, method.server_streaming)

    def type(self, name):
        return message_factory.GetMessageClass(self.pool.FindMessageTypeByName(name))

    def request(self, path, **fields):
        return self.type(self.methods[path][0][0])(**fields)

    def call(self, path, request=None, headers=(), **fields):
        """The answer; Refused with the code's number and the text where there is none."""
        (_, answer), _ = self.methods[path]
        request = self.request(path, **fields) if request is None else request
        raw = request if isinstance(request, bytes) else request.SerializeToString()
        stub = self.channel.unary_unary(path, lambda body: body, self.type(answer).FromString)
        try:
            return stub(raw, timeout=30, wait_for_ready=True, metadata=headers)
        except grpc.RpcError as error:
            raise Refused(error.code().value[0], error.details()) from None

    def watch(self, path, **fields):
        (_, answer), _ = self.methods[path]
        stub = self.channel.unary_stream(path, lambda body: body, self.type(answer).FromString)
        return stub(self.request(path, **fields).SerializeToString(), timeout=30, wait_for_ready=True)


def refused(client, path, code, text, **fields):
    """The call is refused with this code and this text, in which a * stands for anything."""
    what = f"{path} with {sorted(fields)}: wanted {code} {text!r}"
    try:
        client.call(path, **fields)
    except Refused as error:
        fits = re.fullmatch(".*".join(map(re.escape, text.split("*"))), error.text, re.DOTALL)
        assert error.code == code and fits, f"{what}, got {error.code} {error.text!r}"
        return
    raise AssertionError(f"{what}, got an answer")
