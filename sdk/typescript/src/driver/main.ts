/**
 * The conformance driver (`sdk/conformance/README.md`): one JSON object a line in, one a line out, in the same order.
 * It opens no socket and reads no clock.
 */
import { createInterface } from "node:readline";
import type { Reply } from "../exchange/reply.js";
import { ALL_SUITES } from "../session/native/suite.js";
import { KEMS } from "../session/one-shot/hpke.js";
import { SealwayError } from "../wire/error.js";
import {
  type ClientState,
  clientFinish,
  clientInit,
  clientKey,
  clientOpen,
  clientRenew,
  clientSeal,
  type PendingCallState,
  type PendingInit,
} from "./client.js";
import { Fault, type Line, text, whole } from "./message.js";
import { serverInit, serverOpen, serverRenew, serverSeal } from "./server.js";

const handles = new Map<number, unknown>();
let last = 0;

function put(value: unknown): number {
  last += 1;
  handles.set(last, value);
  return last;
}

function get<T>(line: Line, name: string): T {
  const value = handles.get(whole(line, name));
  if (value === undefined) throw new Fault(`${name} is no handle`);
  return value as T;
}

/** A handle that is good once. */
function take<T>(line: Line, name: string): T {
  const value = get<T>(line, name);
  handles.delete(whole(line, name));
  return value;
}

async function run(line: Line): Promise<object> {
  const op = text(line, "op");
  switch (op) {
    case "hello":
      return {
        language: "typescript",
        wires: [1, 2, 3, 4],
        suites: ALL_SUITES,
        kems: KEMS,
        roles: ["client", "server"],
      };
    case "reset":
      handles.clear();
      return {};
    case "client.init": {
      const { handle, ...rest } = await clientInit(line);
      return { handle: put(handle), ...rest };
    }
    case "client.finish": {
      const { session, ...rest } = await clientFinish(take<PendingInit>(line, "handle"), line);
      return { session: put(session), ...rest };
    }
    case "client.renew": {
      const { handle, ...rest } = await clientRenew(get<ClientState>(line, "session"), line);
      return { handle: put(handle), ...rest };
    }
    case "client.key": {
      const { session, ...rest } = await clientKey(line);
      return { session: put(session), ...rest };
    }
    case "client.seal": {
      const { call, ...rest } = await clientSeal(get<ClientState>(line, "session"), line);
      return { call: put(call), ...rest };
    }
    case "client.open":
      return clientOpen(take<PendingCallState>(line, "call"), line);
    case "server.init":
      return serverInit(line);
    case "server.renew":
      return serverRenew(line);
    case "server.open": {
      const { call, ...rest } = await serverOpen(line);
      return { call: put(call), ...rest };
    }
    case "server.seal":
      return serverSeal(take<Reply>(line, "call"), line);
    default:
      throw new Fault(`the op ${op} is unknown`);
  }
}

async function answer(input: string): Promise<object> {
  try {
    const line = JSON.parse(input) as Line;
    return { ok: await run(line) };
  } catch (error) {
    if (error instanceof SealwayError) return { error: error.code };
    return { fault: error instanceof Error ? error.message : String(error) };
  }
}

for await (const input of createInterface({ input: process.stdin, crlfDelay: Number.POSITIVE_INFINITY })) {
  if (input.trim() === "") continue;
  process.stdout.write(`${JSON.stringify(await answer(input))}\n`);
}
