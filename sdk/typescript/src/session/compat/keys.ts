/** Keys of wires 1 and 2 (`spec/session.md`, Keys). */
import { expand, extract } from "../../crypto/hkdf.js";
import type { Provider } from "../../crypto/provider.js";
import { type Bytes, utf8, wipe } from "../../wire/bytes.js";

/** The `info` of a session's key. */
export function keyInfo(wire: 1 | 2, isAnonymous: boolean, clientId: string): string {
  const tail = wire === 2 ? clientId : isAnonymous ? "ANON" : "AUTH";
  return `SESSION|A256GCM|${tail}`;
}

/** A session's key, from the agreed secret, which is wiped. */
export async function sessionKey(
  provider: Provider,
  secret: Bytes,
  sessionId: string,
  info: string,
): Promise<Bytes> {
  const prk = await extract(provider, utf8(sessionId), secret);
  const key = await expand(await provider.macKey(prk), info);
  wipe(secret, prk);
  return key;
}
