// Drives the transit API by node-vault: main.mjs ADDRESS TOKEN. Writes a line of JSON for each operation.
import vault from "node-vault";

const [endpoint, token] = process.argv.slice(2);
const client = vault({ endpoint, token, apiVersion: "v1" });
const base64 = (text) => Buffer.from(text).toString("base64");

function say(operation, ok) {
  if (!ok) process.exitCode = 1;
  console.log(JSON.stringify({ operation, ok: Boolean(ok) }));
}

async function status(call) {
  try {
    await call();
    return 200;
  } catch (error) {
    return error.response?.statusCode;
  }
}

const health = await client.health();
say("health", health.initialized && !health.sealed);
say("status", (await client.status()).sealed === false);
say("tokenLookupSelf", (await client.tokenLookupSelf()).data.display_name === "admin");

await client.transitCreateKey({ name: "orders", type: "aes256-gcm96" });
await client.transitCreateKey({ name: "invoices", type: "ed25519" });
say("transitCreateKey", (await client.transitReadKey({ name: "orders" })).data.latest_version === 1);
say("transitListKeys", (await client.transitListKeys()).data.keys.join() === "invoices,orders");

const sealed = (await client.encryptData({ name: "orders", plaintext: base64("node") })).data.ciphertext;
say("encryptData", sealed.startsWith("vault:v1:"));
say("decryptData", (await client.decryptData({ name: "orders", ciphertext: sealed })).data.plaintext === base64("node"));
await client.write("transit/keys/orders/rotate", {});
const rewrapped = (await client.rewrapData({ name: "orders", ciphertext: sealed })).data.ciphertext;
say("rewrapData", rewrapped.startsWith("vault:v2:"));
const changed = sealed.slice(0, -4) + (sealed.endsWith("AAA=") ? "BBB=" : "AAA=");
say("decryptData of a changed text", (await status(() => client.decryptData({ name: "orders", ciphertext: changed }))) === 400);

const signed = (await client.write("transit/sign/invoices", { input: base64("42") })).data.signature;
const verify = async (text) =>
  (await client.write("transit/verify/invoices", { input: base64(text), signature: signed })).data.valid;
say("sign", await verify("42"));
say("verify", !(await verify("43")));
say("hash", (await client.write("transit/hash/sha2-256", { input: base64("abc") })).data.sum.startsWith("ba7816bf"));
const drawn = (await client.write("transit/random/16", { format: "hex" })).data.random_bytes;
say("random", drawn.length === 32);
const key = (await client.write("transit/datakey/wrapped/orders", {})).data;
say("datakey", key.ciphertext.startsWith("vault:v2:") && key.plaintext === undefined);

say("transitDeleteKey before it is allowed", (await status(() => client.transitDeleteKey({ name: "orders" }))) === 400);
await client.write("transit/keys/orders/config", { deletion_allowed: true });
await client.transitDeleteKey({ name: "orders" });
say("transitDeleteKey", (await status(() => client.transitReadKey({ name: "orders" }))) === 404);
