// Verification of ML-DSA-65 and ML-DSA-87 signatures, written from FIPS 204 alone: Node 20 has none. Needs node:crypto only.
// All inputs are public, so its time may depend on them.
import crypto from 'node:crypto';

const Q = 8380417, N = 256, D = 13, GAMMA1 = 2 ** 19, ALPHA = (Q - 1) / 16; // ALPHA is 2γ2, alike in both sets
/** Parameter sets of section 4; `c` is the length of c̃, λ/4 bytes. */
const SETS = { 'ML-DSA-65': { k: 6, l: 5, tau: 49, beta: 196, omega: 55, c: 48 }, 'ML-DSA-87': { k: 8, l: 7, tau: 60, beta: 120, omega: 75, c: 64 } };
const shake = (bits, length, ...parts) => crypto.createHash('shake' + bits, { outputLength: length }).update(Buffer.concat(parts)).digest();
const mod = x => ((x % Q) + Q) % Q;
const polynomial = f => Array.from({ length: N }, (_, i) => f(i));
/** Reads 256 numbers of `bits` bits each, the least significant bit first (algorithms 18 and 19 without their offset). */
const unpack = (bytes, bits) => polynomial(i => {
  let x = 0;
  for (let b = 0, at = i * bits; b < bits; b++, at++) x |= (bytes[at >> 3] >> (at & 7) & 1) << b;
  return x;
});
/** Cuts `bytes` into `count` equal pieces. */
const pieces = (bytes, count) => Array.from({ length: count }, (_, i) => bytes.subarray(i * bytes.length / count, (i + 1) * bytes.length / count));

// --- Number theoretic transform: algorithms 41 and 42 ---------------------------------------------------------------------
const ZETAS = polynomial(i => {
  let z = 1;
  for (let b = 0; b < 8; b++) z = z * z % Q * (i >> b & 1 ? 1753 : 1) % Q; // the exponent is i with its 8 bits reversed
  return z;
});
function ntt(poly) {
  const w = [...poly];
  for (let length = 128, m = 0; length >= 1; length /= 2) for (let start = 0; start < N; start += 2 * length) {
    const z = ZETAS[++m];
    for (let j = start; j < start + length; j++) { const t = z * w[j + length] % Q; w[j + length] = mod(w[j] - t); w[j] = mod(w[j] + t); }
  }
  return w;
}
function inverseNtt(poly) {
  const w = [...poly];
  for (let length = 1, m = N; length < N; length *= 2) for (let start = 0; start < N; start += 2 * length) {
    const z = Q - ZETAS[--m];
    for (let j = start; j < start + length; j++) { const t = w[j]; w[j] = mod(t + w[j + length]); w[j + length] = z * mod(t - w[j + length]) % Q; }
  }
  return w.map(x => x * 8347681 % Q); // 256⁻¹
}

// --- Sampling ------------------------------------------------------------------------------------------------------------
// A loop needs more bytes than its stream has with a probability below 2⁻²⁵⁶; the read beyond the end then throws.
/** Draws an entry of the matrix in row `r` and column `s` from its seed (algorithms 30 and 32). */
function entry(rho, r, s) {
  const out = [], stream = shake(128, 1344, rho, Buffer.of(s, r));
  for (let at = 0; out.length < N; at += 3) { const x = stream.readUIntLE(at, 3) & 0x7fffff; if (x < Q) out.push(x); }
  return out;
}
/** Draws the challenge of `tau` coefficients 1 and −1 (algorithm 29). */
function inBall(seed, tau) {
  const c = new Array(N).fill(0), stream = shake(256, 1088, seed);
  for (let i = N - tau, at = 8, sign = 0; i < N; i++, sign++) {
    while (stream.readUInt8(at) > i) at++;
    const j = stream[at++];
    c[i] = c[j];
    c[j] = stream[sign >> 3] >> (sign & 7) & 1 ? Q - 1 : 1;
  }
  return c;
}
/** Reads the hints (algorithm 21): a set of positions for each polynomial, or null if the encoding is not canonical. */
function hints(bytes, k, omega) {
  const out = [];
  let at = 0;
  for (let i = 0; i < k; i++) {
    const end = bytes[omega + i], own = [...bytes.subarray(at, end)];
    if (end < at || end > omega || own.some((x, n) => n && x <= own[n - 1])) return null;
    out.push(new Set(own));
    at = end;
  }
  return bytes.subarray(at, omega).some(x => x) ? null : out;
}
/** Gives the high bits of `r`, corrected by a hint (algorithms 36 and 40). */
function useHint(hint, r) {
  let low = r % ALPHA;
  if (low > ALPHA / 2) low -= ALPHA;
  let high = (r - low) / ALPHA;
  if (r - low === Q - 1) { high = 0; low -= 1; }
  return hint ? (high + (low > 0 ? 1 : 15)) % 16 : high;
}

/** Verifies a signature with an empty context (algorithms 3 and 8). Bytes of another length verify nothing. */
export function verifyMlDsa(name, pub, message, signature) {
  const { k, l, tau, beta, omega, c } = SETS[name];
  if (pub.length !== 32 + 320 * k || signature.length !== c + 640 * l + omega + k) return false;
  const rho = pub.subarray(0, 32), seed = signature.subarray(0, c);
  const z = pieces(signature.subarray(c, c + 640 * l), l).map(x => unpack(x, 20).map(v => GAMMA1 - v));
  const hint = hints(signature.subarray(c + 640 * l), k, omega);
  if (!hint || z.flat().some(x => Math.abs(x) >= GAMMA1 - beta)) return false;
  const mu = shake(256, 64, shake(256, 64, pub), Buffer.of(0, 0), message);
  const zHat = z.map(x => ntt(x.map(mod))), cHat = ntt(inBall(seed, tau));
  const high = pieces(pub.subarray(32), k).map((x, r) => {
    const t = ntt(unpack(x, 10).map(v => v * 2 ** D)), a = zHat.map((_, s) => entry(rho, r, s));
    const w = inverseNtt(polynomial(i => mod(zHat.reduce((sum, p, s) => sum + a[s][i] * p[i] % Q, 0) - cHat[i] * t[i] % Q)));
    return w.map((v, i) => useHint(hint[r].has(i), v));
  });
  const packed = Buffer.from(high.flatMap(w => Array.from({ length: N / 2 }, (_, i) => w[2 * i] | w[2 * i + 1] << 4)));
  return crypto.timingSafeEqual(shake(256, c, mu, packed), seed);
}
