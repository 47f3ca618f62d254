import { spawnSync } from "node:child_process";
import { createServer, type IncomingMessage } from "node:http";
import { createServer as createHttp2Server } from "node:http2";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, expect, it } from "vitest";
import { BrokerFixture } from "./broker.js";

const [TRACE, SPAN] = ["0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"];
const traceparent = `00-${TRACE}-${SPAN}-01`;
const inputs = [new Uint8Array(3)];
const fixture = new BrokerFixture();
afterAll(() => fixture.end());

/** What a collector is sent. */
async function collector() {
  const spans: Buffer[] = [];
  const server = createServer((request: IncomingMessage, answer) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      if (request.url === "/v1/traces") spans.push(Buffer.concat(chunks));
      answer.end();
    });
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  const has = (id: string): boolean => spans.some((sent) => sent.includes(Buffer.from(id, "hex")));
  return { server, url: `http://127.0.0.1:${port}`, has };
}

it("the trace of a call arrives at the broker: its span is a child of the caller's", async () => {
  const { server, url, has } = await collector();
  await fixture.start({ OTEL_TRACES_EXPORTER: "otlphttp", OTEL_EXPORTER_OTLP_ENDPOINT: url });
  const client = fixture.client();
  await client.hash({ profile: "All", inputs }, { traceparent });
  const cli = fileURLToPath(new URL("../../dist/broker/cli.js", import.meta.url));
  const [other, otherSpan] = [TRACE.replace("0a", "1a"), SPAN.replace("b7", "c7")];
  const args = [cli, "--socket", fixture.socket, "--traceparent", `00-${other}-${otherSpan}-01`];
  const said = spawnSync(process.execPath, [...args, "--profile", "All", "hash", "abc"], {
    encoding: "utf8",
  });
  expect(said).toMatchObject({ status: 0, stderr: "" });
  // Its end sends what waits.
  await fixture.stop();
  server.close();
  expect([TRACE, SPAN, other, otherSpan].filter((id) => !has(id))).toEqual([]);
});

it("a call carries the given trace context unchanged, and none by default", async () => {
  const heard: unknown[] = [];
  const server = createHttp2Server();
  server.on("stream", (stream, headers) => {
    heard.push(headers["traceparent"]);
    stream.respond(
      { ":status": 200, "content-type": "application/grpc", "grpc-status": "7" },
      { endStream: true },
    );
  });
  const socket = join(fixture.folder, "listening.sock");
  await new Promise<void>((resolve) => void server.listen(socket, resolve));
  const client = fixture.client({ socket });
  for (const options of [{ traceparent }, {}])
    await expect(client.hash({ profile: "All", inputs }, options)).rejects.toMatchObject({
      code: "permission_denied",
    });
  expect(heard).toEqual([traceparent, undefined]);
  client.close();
  server.close();
});
