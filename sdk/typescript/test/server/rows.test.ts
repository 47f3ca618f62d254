/** Rows of sessions in Redis: every file of `vectors/store`, and chains of renewals. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { RedisStore } from "../../src/server/redis/index.js";
import { Keks, openValue } from "../../src/server/redis/value.js";
import { runFolder } from "../vectors/folder.js";
import { type Json, same } from "../vectors/scenario.js";

const FOLDER = fileURLToPath(new URL("../../../../vectors/store/", import.meta.url));
const bytes = (text: string) => Uint8Array.from(Buffer.from(text, "hex"));
const linesOf = (listed: Json[]) =>
  listed.map((key) => `${key["id"]} ${Buffer.from(key["key_hex"], "hex").toString("base64")}`).join("\n");
const keksOf = (listed: Json[]) => new Keks({ kek: linesOf(listed) });

async function sameSession(opened: ReturnType<typeof openValue>, s: Json): Promise<void> {
  const row = await opened;
  const session = row?.session;
  const orNull = (text: string | undefined) => text ?? null;
  same("id", session?.id, s["id"]);
  same("wire", session?.wire, s["wire"]);
  same("client id", orNull(session?.clientId), s["client_id"]);
  same("subject", orNull(session?.subject), s["subject"]);
  same("tenant", orNull(session?.tenant), s["tenant"]);
  same("auth", session?.auth, s["auth"]);
  same("lineage", orNull(row?.lineage), s["lineage"]);
  same("end", session?.expiresMs, s["expires_ms"]);
  same("key", Buffer.from(session?.key ?? []).toString("hex"), s["key_hex"]);
  // When it began is no part of a session here.
  s["created_ms"];
}

async function row(_: unknown, s: Json): Promise<void> {
  await sameSession(openValue(s["session"]["id"], bytes(s["value_hex"]), keksOf(s["keks"])), s["session"]);
  for (const member of ["kek_id", "iv_hex", "aad_hex"]) s[member];
}

async function rowCompat(_: unknown, s: Json): Promise<void> {
  const [id, value, keks] = [s["session_id"], bytes(s["value_hex"]), keksOf(s["keks"])];
  same("by default", await openValue(id, value, keks), undefined);
  await sameSession(openValue(id, value, keks, s["accept_until_ms"]), s["session"]);
}

async function rowRefused(_: unknown, s: Json): Promise<void> {
  const opened = await openValue(
    s["session_id"],
    bytes(s["value_hex"]),
    keksOf(s["keks"]),
    s["accept_until_ms"],
  ).catch((error) => error.code);
  same("refusal", opened, s["reason"] === "unauthenticated" ? undefined : "store_unavailable");
}

runFolder("store", { row, "row-old": rowCompat, "row-refused": rowRefused });

it("a session is revoked by the first one of its chain of renewals, and by no absence of that", async () => {
  const vector = JSON.parse(readFileSync(`${FOLDER}row-wire3-full.json`, "utf8")) as Json;
  const { id, lineage } = vector["session"] as { id: string; lineage: string };
  for (const [first, isLive] of [
    [undefined, true],
    ["y", true],
    ["x", false],
  ] as const) {
    const rows = new Map([[`sealway:s:${id}`, Buffer.from(bytes(vector["value_hex"]))]]);
    if (first !== undefined) rows.set(`sealway:s:${lineage}`, Buffer.from(first));
    const redis = {
      command: async (_: string, key: unknown) => rows.get(String(key)) ?? null,
      onConnect: () => undefined,
    };
    const found = await new RedisStore({ redis, kek: linesOf(vector["keks"]) }).get(id);
    expect(found?.subject).toBe(isLive ? "alice" : undefined);
  }
});
