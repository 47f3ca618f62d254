/** Requests of vectors, as the exchange opens them. */
import type { Provider } from "../../src/crypto/provider.js";
import type { SessionRecord } from "../../src/exchange/exchange.js";
import { Exchange } from "../../src/exchange/exchange.js";
import type { Piece } from "../../src/exchange/stream.js";
import type { RequestLine } from "../../src/session/native/call.js";
import type { Bytes } from "../../src/wire/bytes.js";
import type { HeaderList } from "../../src/wire/headers.js";

/** Opens a whole request: its plain form, what each piece of the body holds, and its claim. */
export async function opened(
  provider: Provider,
  record: SessionRecord,
  line: RequestLine,
  headers: HeaderList,
  body: Bytes,
  nowMs: number,
  windowMs: number,
) {
  const exchange = Exchange.begin(line, headers, nowMs, { wires: [1, 2, 3], windowMs });
  const { opening, stream } = await exchange.session(provider, record);
  const [first, ...others] = await stream.all(body);
  const request = await opening.open(first as Piece);
  const claim = await request.readmit(record, nowMs);
  const plain = await request.release("fresh", nowMs);
  return { plain, frames: [plain.first, ...others.map(({ bytes }) => bytes)], claim };
}
