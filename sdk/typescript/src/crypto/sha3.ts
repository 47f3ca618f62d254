/** SHA3-256 (FIPS 202), which WebCrypto lacks. Its words are halves of 32 bits; no branch or index depends on the input. */
import { type Bytes, concat, wipe } from "../wire/bytes.js";

const RATE = 136;
const ROUNDS = 24;

/** Step rho: how far the word `x + 5 y` turns. */
const TURNS = [0, 1, 62, 28, 27, 36, 44, 6, 55, 20, 3, 10, 43, 25, 39, 41, 45, 15, 21, 8, 18, 2, 61, 56, 14];

/** Step iota: a word of each round, of which the register of FIPS 202 section 3.2.5 gives seven bits. */
const CONSTANTS: readonly (readonly [low: number, high: number])[] = (() => {
  let register = 1;
  return Array.from({ length: ROUNDS }, () => {
    const word: [number, number] = [0, 0];
    for (let j = 0; j < 7; j += 1) {
      const bit = 2 ** j - 1;
      if (register & 1) word[bit >> 5]! |= 1 << (bit & 31);
      register = (register << 1) ^ (register & 0x80 ? 0x171 : 0);
    }
    return word;
  });
})();

/** One half of a word that turns left by `by`, from its half of the same place and the other one. */
const turned = (own: number, other: number, by: number): number => {
  const [a, b] = by < 32 ? [own, other] : [other, own];
  const bits = by & 31;
  return bits === 0 ? a : (a << bits) | (b >>> (32 - bits));
};

/** Keccak-f[1600] over 25 words; the low half of each stands first. */
function permute(state: Uint32Array): void {
  const columns = new Uint32Array(10);
  const moved = new Uint32Array(50);
  for (const [low, high] of CONSTANTS) {
    columns.fill(0);
    for (let i = 0; i < 50; i += 1) columns[i % 10]! ^= state[i]!;
    for (let x = 0; x < 5; x += 1) {
      const [left, right] = [2 * ((x + 4) % 5), 2 * ((x + 1) % 5)];
      for (let half = 0; half < 2; half += 1) {
        const mix = columns[left + half]! ^ turned(columns[right + half]!, columns[right + 1 - half]!, 1);
        for (let y = 0; y < 5; y += 1) state[2 * (x + 5 * y) + half]! ^= mix;
      }
    }
    for (let x = 0; x < 5; x += 1) {
      for (let y = 0; y < 5; y += 1) {
        const [from, to] = [x + 5 * y, y + 5 * ((2 * x + 3 * y) % 5)];
        const [own, other] = [state[2 * from]!, state[2 * from + 1]!];
        moved[2 * to] = turned(own, other, TURNS[from]!);
        moved[2 * to + 1] = turned(other, own, TURNS[from]!);
      }
    }
    for (let row = 0; row < 50; row += 10) {
      for (let i = 0; i < 10; i += 1)
        state[row + i] = moved[row + i]! ^ (~moved[row + ((i + 2) % 10)]! & moved[row + ((i + 4) % 10)]!);
    }
    state[0]! ^= low;
    state[1]! ^= high;
  }
  columns.fill(0);
  moved.fill(0);
}

/** The hash of all parts behind one another, 32 bytes. */
export function sha3(...parts: readonly Uint8Array[]): Bytes {
  const message = concat(...parts);
  const padded = new Uint8Array((Math.floor(message.length / RATE) + 1) * RATE);
  padded.set(message);
  padded[message.length]! ^= 0x06;
  padded[padded.length - 1]! ^= 0x80;
  const view = new DataView(padded.buffer);
  const state = new Uint32Array(50);
  for (let at = 0; at < padded.length; at += RATE) {
    for (let i = 0; i < RATE / 4; i += 1) state[i]! ^= view.getUint32(at + 4 * i, true);
    permute(state);
  }
  const out = new Uint8Array(32);
  const words = new DataView(out.buffer);
  for (let i = 0; i < 8; i += 1) words.setUint32(4 * i, state[i]!, true);
  wipe(message, padded);
  state.fill(0);
  return out;
}
