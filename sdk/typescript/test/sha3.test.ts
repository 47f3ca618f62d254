/** SHA3-256 beside the platform's. */
import * as crypto from "node:crypto";
import { expect, it } from "vitest";
import { sha3 } from "../src/crypto/sha3.js";
import { hex } from "../src/wire/bytes.js";

it("is the platform's for each length of up to three blocks, and for several parts", () => {
  const bytes = Uint8Array.from({ length: 410 }, (_, at) => (at * 151 + 7) & 0xff);
  for (let length = 0; length <= bytes.length; length += 1) {
    const message = bytes.subarray(0, length);
    const wanted = crypto.createHash("sha3-256").update(message).digest("hex");
    expect(hex(sha3(message)), `${length} bytes`).toBe(wanted);
    expect(hex(sha3(message.subarray(0, length >> 1), message.subarray(length >> 1)))).toBe(wanted);
  }
});
