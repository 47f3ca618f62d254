import { readFileSync } from "node:fs";
import { createConnection, createServer, type Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import {
  attach,
  Connector,
  Identity,
  Listener,
  parseGrantPair,
  type Stream,
} from "../../src/channel/index.js";
import { Rpc } from "../../src/rpc/index.js";
import { freePort, RelayFixture, until } from "./relay.js";

const fixture = new RelayFixture();
beforeAll(async () => {
  await fixture.start();
  await fixture.control();
});
afterAll(() => fixture.stop());
vi.setConfig({ testTimeout: 60_000 });

const PROFILES = [
  ["flowersec-v1 over X25519", ["--profile", "flowersec-v1", "--suite", "1"]],
  ["flowersec-v1 over P-256", ["--profile", "flowersec-v1", "--suite", "2"]],
  ["NNpsk0, X25519 and ML-KEM, AESGCM", ["--suite", "260"]],
  ["NNpsk0, X25519, ChaChaPoly", ["--suite", "257"]],
  ["NNpsk0, P-256 and ML-KEM, AESGCM", ["--suite", "262"]],
  ["NNpsk0, P-256, ChaChaPoly", ["--suite", "259"]],
] as const;

async function all(stream: Stream): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for (let chunk = await stream.read(); chunk !== undefined; chunk = await stream.read()) chunks.push(chunk);
  return Buffer.concat(chunks);
}

describe.each(PROFILES)("with sealway channel cat, %s,", (_, flags) => {
  const sent = Buffer.from(crypto.getRandomValues(new Uint8Array(60_000)));
  const large = Buffer.concat(Array.from({ length: 20 }, () => sent));

  it("the client is ours: bytes go both ways and end in order", async () => {
    const pair = JSON.parse(await fixture.mintText(...flags)) as Record<string, object>;
    const file = fixture.file("server.json", JSON.stringify(pair.grant_server));
    const cat = fixture.spawn(["channel", "cat", "--grant", file], "pipe");
    const channel = await attach(parseGrantPair(JSON.stringify(pair)).client);
    const stream = await channel.open({ kind: "cat", v: 1 });
    cat.child.stdin!.end(large);
    const [got] = await Promise.all([all(stream), stream.write(large).then(() => stream.end())]);
    expect(got.equals(large)).toBe(true);
    expect(await cat.ended).toBe(0);
    expect(cat.said.out.equals(large)).toBe(true);
    expect((await channel.over()).code).toMatch(/^(ended|closed|peer_closed)$/);
  });

  it("the server is ours: bytes go both ways and end in order", async () => {
    const pair = JSON.parse(await fixture.mintText(...flags)) as Record<string, object>;
    const file = fixture.file("client.json", JSON.stringify(pair.grant_client));
    const cat = fixture.spawn(["channel", "cat", "--grant", file], "pipe");
    cat.child.stdin!.end(large);
    const channel = await attach(parseGrantPair(JSON.stringify(pair)).server);
    const { hello, stream } = (await channel.accept())!;
    expect(hello).toEqual({ kind: "cat", v: 1 });
    const [got] = await Promise.all([all(stream), stream.write(large)]);
    await stream.end();
    expect(got.equals(large)).toBe(true);
    expect(await cat.ended).toBe(0);
    expect(cat.said.out.equals(large)).toBe(true);
    await channel.over();
  });
});

describe.each([
  ["KKpsk0", "276", "25519"],
  ["IKpsk1", "295", "P256"],
  ["XXpsk3", "310", "P256"],
] as const)("with pinned keys, %s,", (pattern, suite, curve) => {
  it.each(["client", "server"] as const)("we are the %s", async (role) => {
    const mine = Identity.draw(curve);
    const path = `${fixture.folder}/identity-${pattern}-${role}`;
    const theirs = fixture.run("channel", "key", path, "--curve", curve.toLowerCase()).trim();
    const [client, server] =
      role === "client" ? [await mine.public(curve), theirs] : [theirs, await mine.public(curve)];
    const pins = ["--noise-pattern", pattern, `--client-static=${client}`, `--server-static=${server}`];
    const pair = JSON.parse(await fixture.mintText("--suite", suite, ...pins)) as Record<string, object>;
    const other = role === "client" ? "server" : "client";
    const file = fixture.file(`pinned-${role}.json`, JSON.stringify(pair[`grant_${other}`]));
    const cat = fixture.spawn(["channel", "cat", "--grant", file, "--identity", path], "pipe");
    cat.child.stdin!.end("theirs");
    const channel = await attach(parseGrantPair(JSON.stringify(pair))[role], { identity: mine });
    const stream =
      role === "client" ? await channel.open({ kind: "cat", v: 1 }) : (await channel.accept())!.stream;
    await stream.write(Buffer.from("ours"));
    await stream.end();
    expect((await all(stream)).toString()).toBe("theirs");
    expect(await cat.ended, cat.said.err).toBe(0);
    expect(cat.said.out.toString()).toBe("ours");
  });

  it("another key than the pinned one is rejected", async () => {
    const [mine, stranger] = [Identity.draw(curve), Identity.draw(curve)];
    const pins = [
      `--client-static=${await mine.public(curve)}`,
      `--server-static=${await mine.public(curve)}`,
    ];
    const pair = await fixture.mint("--suite", suite, "--noise-pattern", pattern, ...pins);
    const quick = { handshakeTimeoutMs: 2000, peerTimeoutMs: 3000 };
    const [client, server] = await Promise.allSettled([
      attach(pair.client, { identity: mine, ...quick }),
      attach(pair.server, { identity: stranger, ...quick }),
    ]);
    const codes = [client, server].map((end) => (end.status === "rejected" ? end.reason.code : "connected"));
    expect(codes).not.toContain("connected");
    expect(codes.join()).toMatch(/handshake_unauthentic|peer_key_unpinned/);
  });
});

describe("with sealway load channel, which calls and notifies,", () => {
  const count = 6;

  it.each(PROFILES.slice(0, 3))("%s: our server answers its clients", async (_, flags) => {
    const file = fixture.file(
      "grants",
      (await Promise.all(Array.from({ length: count }, () => fixture.mintText(...flags)))).join(""),
    );
    const pairs = readPairs(file);
    const serving = pairs.map(async ({ server }) => {
      const channel = await attach(server);
      const { hello, stream } = (await channel.accept())!;
      expect(hello).toEqual({ kind: "rpc", v: 1 });
      const rpc = Rpc.over(stream, {
        handlers: {
          1: async (payload) => {
            await rpc.notify(2, { hello: "world" });
            return payload;
          },
        },
      });
      await rpc.over();
    });
    const load = fixture.spawn(
      ["load", "channel", "--role", "client", "--grants-in", file, "--channels", `${count}`].concat([
        "--rate",
        "0",
        "--steady",
        "500ms",
      ]),
    );
    expect(await load.ended, load.said.err + load.said.out.toString()).toBe(0);
    await Promise.all(serving);
  });

  it.each(PROFILES.slice(0, 3))("%s: its servers answer our clients", async (_, flags) => {
    const file = fixture.file(
      "grants",
      (await Promise.all(Array.from({ length: count }, () => fixture.mintText(...flags)))).join(""),
    );
    const pairs = readPairs(file);
    const load = fixture.spawn(
      ["load", "channel", "--role", "server", "--grants-in", file, "--channels", `${count}`].concat([
        "--rate",
        "0",
        "--steady",
        "500ms",
        "--grant-time",
        "8s",
      ]),
    );
    const calls = pairs.map(async ({ client }) => {
      const channel = await attach(client);
      const heard: unknown[] = [];
      const rpc = await Rpc.open(channel, { listeners: { 2: (payload) => heard.push(payload) } });
      const answer = await rpc.call(1, {}, { timeoutMs: 5000 });
      await expect(rpc.call(77, {})).rejects.toMatchObject({ code: "handler_not_found", number: 404 });
      await channel.close();
      return [answer, heard.length];
    });
    const answers = await Promise.all(calls);
    expect(
      answers.every(([answer, heard]) => answer !== undefined && heard === 1),
      JSON.stringify(answers),
    ).toBe(true);
    await load.ended;
  });
});

function readPairs(file: string) {
  return readFileSync(file, "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => parseGrantPair(line));
}

describe("by a name at a control plane", () => {
  it("our listener serves sealway channel connect, one stream a connection", async () => {
    const listener = new Listener(fixture.grants("ours", "server"));
    const serving = (async () => {
      const channel = await listener.accept();
      for await (const { hello, stream } of channel.incoming()) {
        expect(hello.kind).toBe("forward");
        void stream.readable.pipeTo(stream.writable).catch(() => undefined);
      }
    })();
    const port = await freePort();
    const args = ["--control", fixture.controlUrl, "--token-file", fixture.tokenFile, "--name", "ours"];
    const connect = fixture.spawn(["channel", "connect", "--listen", `127.0.0.1:${port}`, ...args]);
    for (const said of ["first", "second"]) expect(await ask(port, said)).toBe(said);
    connect.child.kill();
    await serving;
  });

  it("our connector reaches sealway channel listen, also after a restart", async () => {
    const echo = createServer((socket: Socket) => socket.pipe(socket)).listen(0, "127.0.0.1");
    await until("the echo", () => echo.address() ?? undefined);
    const { port } = echo.address() as { port: number };
    const args = ["--control", fixture.controlUrl, "--token-file", fixture.tokenFile, "--name", "theirs"];
    const listen = () =>
      fixture.spawn(["channel", "listen", "--forward", `tcp://127.0.0.1:${port}`, ...args]);
    const connector = new Connector(fixture.grants("theirs", "client"), { peerTimeoutMs: 1000 });
    const talk = async () => {
      const channel = await connector.channel();
      const stream = await channel.open({ kind: "forward", v: 1 });
      await stream.write(Buffer.from("through"));
      await stream.end();
      expect((await all(stream)).toString()).toBe("through");
      return channel;
    };
    const first = listen();
    const channel = await talk();
    first.child.kill();
    await channel.over();
    listen();
    expect(await talk()).not.toBe(channel);
    (await connector.channel()).close();
    echo.close();
  });

  it("a rejection of a control plane has its code", async () => {
    const { controlGrants } = await import("../../src/channel/index.js");
    const from = (token: string, url = fixture.controlUrl) =>
      controlGrants({ url, name: "x", role: "server", token })().catch(
        (error: { code: string }) => error.code,
      );
    expect(await from("wrong-token-wrong-token-wrong-token")).toBe("unauthorized");
    expect(await from("x", `http://127.0.0.1:${await freePort()}`)).toBe("control_unreachable");
    expect(() => controlGrants({ url: "ftp://a", name: "x", role: "server" })).toThrowError(
      /address_invalid/,
    );
  });
});

function ask(port: number, said: string): Promise<string> {
  return until("an answer", async () => {
    const got = await new Promise<string>((resolve) => {
      const socket = createConnection(port, "127.0.0.1", () => socket.end(said));
      let text = "";
      socket.on("data", (bytes) => {
        text += bytes.toString();
      });
      socket.on("close", () => resolve(text));
      socket.on("error", () => undefined);
    });
    return got === "" ? undefined : got;
  });
}
