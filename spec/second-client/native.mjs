// The client's side of Sealway's native protocol (wire 3), written from spec/session-3.md alone. Needs node:crypto only.
// ML-KEM is not in Node 20: a caller that offers a suite with it gives `kem` = {generate(set), publicKey(priv), decapsulate(priv, ct)},
// where `set` is 768 or 1024.
import crypto from 'node:crypto';
import { verifyMlDsa } from './mldsa.mjs';

/** Failure with a `code` of spec/registry.toml; `field` names the member at fault, if one is. */
export class SealwayError extends Error {
  constructor(code, field) { super(field ? `${code}: ${field}` : code); this.code = code; this.field = field; }
}
const fail = (code, field) => { throw new SealwayError(code, field); };
const check = (ok, code, field) => ok || fail(code, field);

// --- Encodings ---------------------------------------------------------------------------------------------------------------
const bytes = x => (typeof x === 'string' ? Buffer.from(x, 'utf8') : Buffer.from(x));
const uint = (n, size) => Buffer.from(BigInt(n).toString(16).padStart(2 * size, '0'), 'hex');
export const cat = (...parts) => Buffer.concat(parts.map(bytes));
export const field = x => cat(uint(bytes(x).length, 4), x);
export const number = n => field(uint(n, 8));
export const list = items => field(cat(...items.map(field)));
export const sha256 = x => crypto.createHash('sha256').update(x).digest();
const hmac = (key, x) => crypto.createHmac('sha256', key).update(x).digest();
export const extract = (salt, ikm) => hmac(salt, ikm);
/** Expands `prk` to `length` bytes (RFC 5869). */
export function expand(prk, info, length) {
  let out = Buffer.alloc(0);
  for (let i = 1, t = out; out.length < length; i++) out = cat(out, t = hmac(prk, cat(t, info, uint(i, 1))));
  return out.subarray(0, length);
}
const equal = (a, b) => a.length === b.length && crypto.timingSafeEqual(a, b);
/** Decodes canonical base64, or returns null. */
export function base64(text) {
  const out = Buffer.from(text, 'base64');
  return /^[A-Za-z0-9+/]*={0,2}$/.test(text) && out.toString('base64') === text ? out : null;
}
export const keyId = pub => sha256(pub).subarray(0, 16).toString('hex');
const SESSION_ID = /^S-[0-9a-f]{32}$/, KEY_ID = /^[0-9a-f]{32}$/, SUITE = /^[A-Za-z0-9_-]{1,32}$/, ALGORITHM = /^[A-Za-z0-9_+-]{1,32}$/;
export const isSessionId = x => SESSION_ID.test(x);

// --- JSON ----------------------------------------------------------------------------------------------------------------------
/** Parses JSON by the rules of "JSON". Every text and member name gets the prefix `s`, every number becomes a text `n<as written>`. */
export function parseJson(data) {
  let depth = 0, most = 0;
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes(data));
    JSON.parse(text); // the grammar
    const marked = text.replace(/"((?:[^"\\]|\\.)*)"|(-?\d[\d.eE+-]*)|[[{]|[\]}]/g, (all, str, num) => {
      if (num !== undefined) { check(Number.isFinite(Number(num))); return `"n${num}"`; }
      if (str !== undefined) return `"s${str}"`;
      most = Math.max(most, depth += '[{'.includes(all) ? 1 : -1);
      return all;
    });
    check(most <= 127);
    return JSON.parse(marked);
  } catch { fail('json_invalid'); }
}
/** Forms of members: each takes a marked value and returns the value read, or undefined. */
const str = ok => v => (typeof v === 'string' && v[0] === 's' && v.length > 1 && v.isWellFormed() && ok(v.slice(1)) ? v.slice(1) : undefined);
const re = r => str(x => r.test(x));
const text = max => str(x => bytes(x).length <= max);
const b64 = (min = 1, max = Infinity) => v => { const x = str(y => base64(y))(v), raw = x && base64(x); return raw && raw.length >= min && raw.length <= max ? raw : undefined; };
const whole = max => v => {
  if (typeof v !== 'string' || v[0] !== 'n') return undefined;
  const plain = /^-?\d+$/.test(v.slice(1));
  if (!plain && !Number.isInteger(Number(v.slice(1)))) return undefined;
  const n = BigInt(plain ? v.slice(1) : Number(v.slice(1)));
  return n >= 0n && n <= max ? n : undefined;
};
const several = (min, max, form) => v => {
  const out = Array.isArray(v) ? v.map(form) : [undefined];
  return out.length >= min && out.length <= max && !out.includes(undefined) && new Set(out).size === out.length ? out : undefined;
};
const REQUEST = { suite: re(SUITE), suites: several(1, 8, re(SUITE)), share: b64(), client_id: re(/^(?!.*\|)[\x20-\x7e]{1,256}$/),
  'ttl_sec?': whole(2n ** 32n - 1n), 'proof?': text(8192), 'pinned_key_ids?': several(0, 16, re(KEY_ID)),
  'signature_algorithms?': several(1, 8, re(ALGORITHM)) };
const ANSWER = { session_id: re(SESSION_ID), suite: re(SUITE), suites: several(1, 8, re(SUITE)), share: b64(),
  expires_in_sec: whole(2n ** 32n - 1n), server_time_ms: whole(2n ** 64n - 1n), key_id: re(KEY_ID), key_ids: several(1, 16, re(KEY_ID)),
  auth: re(/^(none|bearer|dpop|certificate)$/), 'subject?': text(256), 'tenant?': text(256), signature: b64(1, 8192), confirm: b64(32, 32) };
const TIME = whole(999_999_999_999_999n);
const KEY_SET = { issued_ms: TIME, expires_ms: TIME, keys: v => (Array.isArray(v) && v.length <= 16 ? v : undefined),
  'root_key_id?': re(KEY_ID), 'root_signature?': b64(1, 8192) };
const KEY = { key_id: re(KEY_ID), alg: re(ALGORITHM), public_key: b64(1, 8192), not_before_ms: TIME, not_after_ms: TIME };
/** Reads the members of `form` from a marked value; the first that has not its form is `field_invalid`. */
export function members(value, form) {
  check(value !== null && typeof value === 'object' && !Array.isArray(value), 'field_invalid');
  const out = {};
  for (const [name, read] of Object.entries(form)) {
    const key = name.replace('?', ''), given = Object.hasOwn(value, 's' + key) ? value['s' + key] : null;
    if (given === null && name.endsWith('?')) continue;
    out[key] = given === null ? undefined : read(given);
    check(out[key] !== undefined, 'field_invalid', key);
  }
  return out;
}
export const readRequest = data => { check(bytes(data).length <= 16384, 'body_too_large'); return members(parseJson(data), REQUEST); };

// --- Keys of curves ------------------------------------------------------------------------------------------------------------
const int = b => BigInt('0x' + b.toString('hex'));
/** Curves: bytes of a coordinate, the prime, the coefficient b (a is −3), the name at Node, the hash of its ECDSA. */
const CURVES = {
  'P-256': { size: 32, p: 2n ** 256n - 2n ** 224n + 2n ** 192n + 2n ** 96n - 1n, node: 'prime256v1', hash: 'sha256',
    b: 0x5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604bn },
  'P-384': { size: 48, p: 2n ** 384n - 2n ** 128n - 2n ** 96n + 2n ** 32n - 1n, node: 'secp384r1', hash: 'sha384',
    b: 0xb3312fa7e23ee7e4988e056be3f82d19181d9c6efe8141120314088f5013875ac656398d8a2ed19d2a85c8edd3ec2aefn },
};
/** Rejects everything but an uncompressed point on the curve. */
export function point(pub, curve = 'P-256') {
  const { size, p, b } = CURVES[curve];
  check(pub.length === 1 + 2 * size && pub[0] === 4, 'public_key_invalid');
  const x = int(pub.subarray(1, 1 + size)), y = int(pub.subarray(1 + size));
  check(x < p && y < p && (y * y - x * x * x + 3n * x - b) % p === 0n, 'public_key_invalid');
  return pub;
}
/** Verifies ECDSA. A key that is no point verifies nothing. */
function verifyEcdsa(curve, pub, message, signature) {
  try { point(pub, curve); } catch { return false; }
  const { size, hash } = CURVES[curve], u = b => b.toString('base64url');
  const key = crypto.createPublicKey({ key: { kty: 'EC', crv: curve, x: u(pub.subarray(1, 1 + size)), y: u(pub.subarray(1 + size)) }, format: 'jwk' });
  return crypto.verify(hash, message, { key, dsaEncoding: 'ieee-p1363' }, signature);
}

// --- Identity keys' algorithms -----------------------------------------------------------------------------------------------
/** Algorithms of one key: bytes of a public key and of a signature, verification. */
const SINGLE = {
  ES256: { key: 65, signature: 64, verify: (...x) => verifyEcdsa('P-256', ...x) },
  ES384: { key: 97, signature: 96, verify: (...x) => verifyEcdsa('P-384', ...x) },
  'ML-DSA-65': { key: 1952, signature: 3309, verify: (...x) => verifyMlDsa('ML-DSA-65', ...x) },
  'ML-DSA-87': { key: 2592, signature: 4627, verify: (...x) => verifyMlDsa('ML-DSA-87', ...x) },
};
/** Every algorithm with its parts: one, or two of a composite. */
const ALGORITHMS = Object.fromEntries([...Object.keys(SINGLE), 'ES256+ML-DSA-65', 'ES384+ML-DSA-87'].map(name => [name, name.split('+').map(p => SINGLE[p])]));
const total = (parts, what) => parts.reduce((n, p) => n + p[what], 0);
/** Gives the name of a public key's algorithm, which its length tells, or undefined. */
export const algorithmOf = pub => Object.keys(ALGORITHMS).find(name => total(ALGORITHMS[name], 'key') === pub.length);
/** Verifies a signature by the algorithm of the public key: each part over `message`, those of a composite over its name too. */
export function verify(pub, message, signature) {
  const name = algorithmOf(pub), parts = ALGORITHMS[name] ?? [];
  if (!name || signature.length !== total(parts, 'signature')) return false;
  const signed = parts.length > 1 ? cat(field(name), message) : message;
  let k = 0, s = 0;
  return parts.map(p => p.verify(pub.subarray(k, k += p.key), signed, signature.subarray(s, s += p.signature))).every(ok => ok);
}

// --- Key agreement -------------------------------------------------------------------------------------------------------------
/** Part of a share on a curve. */
function ec(curve) {
  const { size, node } = CURVES[curve], ecdh = scalar => { const e = crypto.createECDH(node); e.setPrivateKey(scalar); return e; };
  return { client: 1 + 2 * size, server: 1 + 2 * size,
    make: () => { const e = crypto.createECDH(node); e.generateKeys(); return uint(int(e.getPrivateKey()), size); }, pub: k => ecdh(k).getPublicKey(), secret: (k, pub) => uint(int(ecdh(k).computeSecret(point(pub, curve))), size) };
}
/** Part of a share of ML-KEM. */
const mlKem = (set, client, server) => ({ client, server, make: kem => kem.generate(set), pub: (k, kem) => kem.publicKey(k),
  secret: (k, ct, kem) => kem.decapsulate(k, ct) });
const xPriv = raw => crypto.createPrivateKey({ key: cat(Buffer.from('302e020100300506032b656e04220420', 'hex'), raw), format: 'der', type: 'pkcs8' });
const xPub = raw => crypto.createPublicKey({ key: cat(Buffer.from('302a300506032b656e032100', 'hex'), raw), format: 'der', type: 'spki' });
/** Parts of a share: lengths of the client's and the server's part, new private key, public key, secret. ML-KEM comes last. */
export const PARTS = {
  p256: ec('P-256'),
  p384: ec('P-384'),
  x: { client: 32, server: 32, make: () => crypto.randomBytes(32), pub: k => crypto.createPublicKey(xPriv(k)).export({ format: 'der', type: 'spki' }).subarray(12),
    secret: (k, pub) => {
      let out;
      try { out = crypto.diffieHellman({ privateKey: xPriv(k), publicKey: xPub(pub) }); } catch { fail('public_key_invalid'); }
      check(out.some(b => b), 'public_key_invalid');
      return out;
    } },
  kem768: mlKem(768, 1184, 1088),
  kem1024: mlKem(1024, 1568, 1568),
};
export const SUITES = { X25519MLKEM768: ['kem768', 'x'], SecP256r1MLKEM768: ['p256', 'kem768'], P256: ['p256'],
  SecP384r1MLKEM1024: ['p384', 'kem1024'], MLKEM1024: ['kem1024'] };
/** Gives the suite of a session: the first name of the client's list that is in the server's. */
export const suiteFor = (client, server) => client.find(s => server.includes(s));
/** Cuts a share into the parts of its suite; `side` is that of its sender. */
export function cutShare(suite, share, side) {
  check(share.length === total(SUITES[suite].map(p => PARTS[p]), side), 'public_key_invalid');
  let at = 0;
  return Object.fromEntries(SUITES[suite].map(p => [p, share.subarray(at, at += PARTS[p][side])]));
}
/** Agrees on the secret. The ciphertext comes last: no other fault of the share depends on it. */
function agree(suite, keys, share, kem) {
  const cut = cutShare(suite, share, 'server'), secrets = {};
  for (const p in PARTS) if (cut[p]) secrets[p] = PARTS[p].secret(keys[p], cut[p], kem);
  return cat(...SUITES[suite].map(p => secrets[p]));
}

// --- Trust -----------------------------------------------------------------------------------------------------------------------
/** Says if a client accepts the algorithm of a public key. Without a list it accepts ES256, and any known one of a pinned key. */
function accepts(algorithms, pub, pinned) {
  const name = algorithmOf(pub);
  return name !== undefined && (algorithms ? algorithms.includes(name) : pinned || name === 'ES256');
}
/** Trusts pinned public keys. Pins have no times. */
export class Pins {
  constructor(publicKeys) { this.keys = new Map(publicKeys.map(k => [keyId(k), k])); this.ids = [...this.keys.keys()]; }
  signer(id) { return this.keys.get(id); }
}
/** Reads a key set: form, ids and sizes (steps 1 and 2). */
export function readKeySet(data) {
  check(bytes(data).length <= 65536, 'body_too_large');
  const set = members(parseJson(data), KEY_SET);
  set.keys = set.keys.map(k => members(k, KEY));
  for (const k of set.keys) {
    // No key of an unknown algorithm has the length of a known one.
    const known = algorithmOf(k.public_key);
    check(known ? known === k.alg && (!known.startsWith('ES') || k.public_key[0] === 4) : !Object.hasOwn(ALGORITHMS, k.alg), 'field_invalid', 'public_key');
    check(keyId(k.public_key) === k.key_id, 'field_invalid', 'key_id');
  }
  check(new Set(set.keys.map(k => k.key_id)).size === set.keys.length, 'field_invalid', 'keys');
  check(!set.root_key_id === !set.root_signature, 'field_invalid');
  return set;
}
/** Trusts the keys of sets that a pinned root signed. `algorithms` are those that the client accepts, if it restricts them. */
export class Root {
  constructor(root, takenIssuedMs = null, algorithms = undefined) {
    check(accepts(algorithms, root, true), 'key_untrusted');
    Object.assign(this, { root, algorithms, issued: takenIssuedMs === null ? null : BigInt(takenIssuedMs), set: null });
  }
  /** Takes a key set in place of the one before. */
  take(data, now = Date.now()) {
    const set = readKeySet(data);
    check(set.root_key_id === keyId(this.root), 'key_untrusted');
    const keys = set.keys.map(k => cat(field(k.key_id), field(k.public_key), number(k.not_before_ms), number(k.not_after_ms)));
    const signed = cat('sealway/3 keys', sha256(cat(number(set.issued_ms), number(set.expires_ms), list(keys))));
    check(verify(this.root, signed, set.root_signature), 'signature_invalid');
    check(BigInt(now) < set.expires_ms && (this.issued === null || set.issued_ms >= this.issued), 'key_untrusted');
    this.issued = set.issued_ms;
    return (this.set = set);
  }
  /** Gives the public key if the set accepts this signer at that time. */
  signer(id, serverTime, now = Date.now()) {
    const k = this.set?.keys.find(x => x.key_id === id), time = BigInt(serverTime);
    const latest = [time, BigInt(now), this.issued ?? 0n].reduce((a, b) => (a > b ? a : b));
    return k && accepts(this.algorithms, k.public_key) && k.not_before_ms <= time && latest < k.not_after_ms && latest < this.set.expires_ms ? k.public_key : undefined;
  }
}

// --- Init and renewal --------------------------------------------------------------------------------------------------------
const ttl = r => (r.ttl_sec === undefined ? field('') : number(r.ttl_sec));
const algorithms = r => (r.signature_algorithms ? list(r.signature_algorithms) : '');
export const initHash = r => sha256(cat(list(r.suites), field(r.suite), field(r.share), field(r.client_id), ttl(r), list(r.pinned_key_ids ?? []), algorithms(r)));
/** Joins what both sides said; `old` is the id of the session that is renewed. */
export const transcript = (r, a, authorization, old) => cat(
  old ? cat(field('sealway/3 renew'), field(old)) : field('sealway/3 init'),
  field(r.suite), list(r.suites), field(r.share), field(r.client_id), ttl(r), field(r.proof ?? ''), list(r.pinned_key_ids ?? []),
  algorithms(r), field(authorization && !old ? sha256(Buffer.from(authorization, 'latin1')) : ''),
  field(a.session_id), field(a.suite), list(a.suites), field(a.share), number(a.expires_in_sec), number(a.server_time_ms),
  field(a.key_id), list(a.key_ids), field(a.auth), field(a.subject ?? ''), field(a.tenant ?? ''));
/** Derives the keys of a session from `prk`. */
export const sessionKeys = prk => Object.fromEntries(['c2s', 's2c', 'exporter'].map(k => [k, expand(prk, `sealway/3 ${k}`, 32)]));
export const prkOf = (th, secret, old) => extract(th, old ? cat(old.exporter, secret) : secret);
/** Begins an init, or with `old` the renewal of that session. `proof` may be a function of the init hash (32 bytes). */
export function beginInit({ suites, suite = suites[0], client_id, ttl_sec, proof, pinned_key_ids, signature_algorithms, authorization, old, keys, kem }) {
  keys ??= Object.fromEntries(SUITES[suite].map(p => [p, PARTS[p].make(kem)]));
  const r = { suite, suites, share: cat(...SUITES[suite].map(p => PARTS[p].pub(keys[p], kem))), client_id, ttl_sec, pinned_key_ids, signature_algorithms };
  r.proof = typeof proof === 'function' ? proof(initHash(r).toString('base64url')) : proof;
  const body = JSON.stringify({ ...r, share: r.share.toString('base64'), ttl_sec: ttl_sec === undefined ? undefined : Number(ttl_sec) });
  readRequest(body);
  check(!old || !r.proof, 'usage');
  return { request: r, body, keys, kem, authorization, old };
}
/** Checks the answer to an init or renewal, in the order of the specification, and gives the session. `trust` is Pins or Root. */
export function finishInit(pending, status, data, trust, { now = Date.now(), clock = () => performance.now() } = {}) {
  const { request: r, old } = pending;
  check(status === 201 && bytes(data).length <= 16384, 'answer_mismatch');
  let a;
  try { a = members(parseJson(data), ANSWER); } catch (e) { fail('answer_mismatch', e.field); }
  check(a.suite === r.suite, 'answer_mismatch', 'suite');
  check(a.suite === suiteFor(r.suites, a.suites), 'suite_downgraded');
  const key = trust.signer(a.key_id, a.server_time_ms, now) ?? fail('key_untrusted');
  check(accepts(r.signature_algorithms, key, r.pinned_key_ids?.includes(a.key_id)), 'key_untrusted');
  const th = sha256(transcript(r, a, pending.authorization, old?.id));
  check(verify(key, cat('sealway/3 signature', th), a.signature), 'signature_invalid');
  const prk = prkOf(th, agree(a.suite, pending.keys, a.share, pending.kem), old);
  check(equal(hmac(expand(prk, 'sealway/3 confirm', 32), th), a.confirm), 'unconfirmed');
  pending.keys = null;
  return new Session({ ...a, th, prk, client_id: r.client_id }, clock);
}
/** Tells what a client does after a problem at its init: 'again' with the suite to use, or null to give up. */
export function afterInitProblem(pending, problem) {
  if (problem.code !== 'suite_required') return null;
  try { return suiteFor(pending.request.suites, members(problem.members, { suites: ANSWER.suites }).suites) ?? null; } catch { return null; }
}
/** Session of a client: its keys, and its clock, which runs from the server's time. */
export class Session {
  constructor(a, clock) {
    Object.assign(this, { id: a.session_id, ...sessionKeys(a.prk), prk: a.prk, th: a.th, answer: a, clock });
    this.expires_ms = a.server_time_ms + a.expires_in_sec * 1000n;
    this.setClock(a.server_time_ms);
  }
  setClock(ms) { this.base = BigInt(ms); this.since = this.clock(); }
  now() { return this.base + BigInt(Math.floor(this.clock() - this.since)); }
}

// --- Streams and inner headers -----------------------------------------------------------------------------------------------
const SEALING = new Set('x-kid x-idempotency-key x-clientid x-nonce x-timestamp x-enc-alg x-iv x-tag x-aad x-seal x-sealed'.split(' '));
const FORBIDDEN = new Set('connection content-length expect host http2-settings keep-alive te trailer transfer-encoding upgrade'.split(' '));
const TOKEN = /^[a-z0-9!#$%&'*+\-.^_`|~]{1,255}$/;
const bad = (name, value) => !TOKEN.test(name) || SEALING.has(name) || FORBIDDEN.has(name) || /^(proxy|x-sealway)-/.test(name)
  || value.length > 65535 || value.some(b => b !== 9 && (b < 0x20 || b === 0x7f));
/** Writes inner headers: pairs of a name in lower case and a value of bytes. */
export function writeInner(pairs) {
  const all = cat(...pairs.map(([name, value]) => {
    check(!bad(name, bytes(value)), 'inner_headers_invalid', name);
    return cat(uint(name.length, 1), name, uint(bytes(value).length, 2), value);
  }));
  check(all.length <= 16384 && pairs.length <= 64, 'inner_headers_invalid');
  return cat(uint(all.length, 2), all);
}
/** Reads inner headers from the plaintext of the first frame; gives them and the rest, which is body. */
export function readInner(plain) {
  let at = 0, end = plain.length;
  const take = n => { check(at + n <= end, 'inner_headers_invalid'); return plain.subarray(at, at += n); };
  const length = take(2).readUInt16BE(), headers = [];
  check(length <= 16384 && 2 + length <= end, 'inner_headers_invalid');
  for (end = 2 + length; at < end;) {
    const name = take(take(1)[0]).toString('latin1'), value = take(take(2).readUInt16BE());
    check(!bad(name, value) && headers.push([name, value]) <= 64, 'inner_headers_invalid');
  }
  return { headers, rest: plain.subarray(end) };
}
const frameIv = (iv, last, n) => { const mask = cat(uint(last ? 1 : 0, 4), uint(n, 8)); return Buffer.from(iv.map((b, i) => b ^ mask[i])); };
/** Writes a stream frame by frame from plaintexts of at most 65 536 bytes; one is held back, since the last is marked. */
export function* writeStream({ key, iv, commit }, context, plaintexts) {
  let n = 0, held;
  const frame = (plain, last) => {
    check(plain.length <= 65536 && (last || plain.length > 0) && n < 2 ** 32, 'usage');
    const gcm = crypto.createCipheriv('aes-256-gcm', key, frameIv(iv, last, n++)).setAAD(context);
    const sealed = cat(gcm.update(plain), gcm.final(), gcm.getAuthTag());
    return cat(uint(sealed.length + (last ? 2 ** 31 : 0), 4), sealed);
  };
  yield commit;
  for (const plain of plaintexts) { if (held) yield frame(held, false); held = plain; }
  yield frame(held, true);
}
/** Reads a stream in pieces of any size. `push` returns the plaintexts that verified; only `end` says that the stream was whole. */
export class StreamReader {
  /** `single` is true for a stream in `X-Sealed`. */
  constructor({ key, iv, commit }, context, single) { Object.assign(this, { key, iv, commit, context, single, buffer: Buffer.alloc(0), n: 0, done: false }); }
  push(piece) {
    const out = [];
    this.buffer = cat(this.buffer, piece);
    if (this.right === undefined) {
      if (this.buffer.length < 16) return out;
      this.right = equal(this.buffer.subarray(0, 16), this.commit);
      this.buffer = this.buffer.subarray(16);
    }
    while (!this.done && this.buffer.length >= 4) {
      const head = this.buffer.readUInt32BE(), last = head >= 2 ** 31, length = head % 2 ** 31;
      check(length >= (last ? 16 : 17) && length <= 65552 && this.n < 2 ** 32, 'frame_invalid');
      if (this.buffer.length < 4 + length) break;
      out.push(this.open(this.buffer.subarray(4, 4 + length), last));
      check(last || !this.single, 'stream_truncated');
      this.buffer = this.buffer.subarray(4 + length);
      this.done = last;
    }
    check(!this.done || this.buffer.length === 0, 'frame_invalid');
    return out;
  }
  open(sealed, last) {
    const gcm = crypto.createDecipheriv('aes-256-gcm', this.key, frameIv(this.iv, last, this.n++)).setAAD(this.context);
    gcm.setAuthTag(sealed.subarray(-16));
    const plain = gcm.update(sealed.subarray(0, -16));
    try { gcm.final(); } catch { this.right = false; }
    return this.right ? plain : fail('unsealable');
  }
  end() { check(this.done, 'stream_truncated'); }
}

// --- Requests ----------------------------------------------------------------------------------------------------------------------
const split60 = x => ({ key: x.subarray(0, 32), iv: x.subarray(32, 44), commit: x.subarray(44) });
const latin = x => Buffer.from(x ?? '', 'latin1');
export const requestKeys = (c2s, nonce, stamp) => split60(expand(c2s, cat(field('sealway/3 request'), field(nonce), field(stamp)), 60));
export const requestContext = m => sha256(cat(field('sealway/3 request context'), ...[m.method, m.path, m.contentType, m.stamp, m.nonce, m.id].map(x => field(latin(x)))));
/** Joins inner headers and a body, given in chunks, to plaintexts of frames: a chunk ends a frame, a long one is cut. */
export function* plaintexts(inner, chunks) {
  let head = writeInner(inner);
  for (const chunk of chunks.length ? chunks : ['']) {
    let rest = cat(head, chunk);
    do { yield rest.subarray(0, 65536); rest = rest.subarray(65536); } while (rest.length);
    head = '';
  }
}
/** Seals a request. Without a body GET, HEAD and DELETE travel in `X-Sealed` if the stream fits there, or as `inHeader` says. */
export function sealRequest(session, { method, path, inner = [], chunks = [], inHeader, contentType, stamp, nonce }) {
  check(!['CONNECT', 'TRACE', 'OPTIONS'].includes(method) && /^[\x21-\x7e]{1,8192}$/.test(path), 'usage');
  nonce ??= crypto.randomBytes(16).toString('hex');
  stamp ??= session.now().toString();
  check(/^\d{1,15}$/.test(stamp) && /^(?!r-)[A-Z0-9_-]{16,128}$/i.test(nonce), 'usage');
  const plain = [...plaintexts(inner, chunks)];
  const fits = plain.length === 1 && 4 * Math.ceil((36 + plain[0].length) / 3) <= 8192;
  inHeader ??= ['GET', 'HEAD', 'DELETE'].includes(method) && !chunks.some(c => c.length) && fits;
  check(!inHeader || fits, 'usage');
  const type = inHeader ? null : contentType === undefined ? 'application/octet-stream' : contentType;
  const context = requestContext({ method, path, contentType: type, stamp, nonce, id: session.id });
  const stream = cat(...writeStream(requestKeys(session.c2s, nonce, stamp), context, plain));
  const headers = [['X-Seal', '3'], ['X-Kid', `session:${session.id}`], ['X-Idempotency-Key', `${stamp}.${nonce}`]];
  if (type) headers.push(['Content-Type', type]);
  if (inHeader) headers.push(['X-Sealed', stream.toString('base64')]);
  return { method, path, nonce, stamp, headers, body: inHeader ? Buffer.alloc(0) : stream, context };
}
/** Seals the request that renews a session; `pending` comes from `beginInit` with `old`. */
export const renewRequest = (session, pending) => sealRequest(session, { method: 'POST', path: `/v3/sessions/${session.id}/renew`,
  inner: [['content-type', 'application/json']], chunks: [bytes(pending.body)] });
/** Seals the request that ends a session. */
export const endRequest = session => sealRequest(session, { method: 'DELETE', path: `/v3/sessions/${session.id}` });

// --- Answers -----------------------------------------------------------------------------------------------------------------------
const find = (headers, name) => headers.filter(([n]) => n.toLowerCase() === name).map(([, v]) => v.replace(/^[ \t]+|[ \t]+$/g, ''));
/** Reads a header that must be there once. */
export function header(headers, name) {
  const found = find(headers, name);
  check(found.length && (found.length > 1 || found[0]), 'header_missing', name);
  check(found.length === 1 && /^[\t\x20-\x7e]*$/.test(found[0]), 'header_invalid', name);
  return found[0];
}
/** Reads a header that may be there once; null if it is absent. */
export const optional = (headers, name) => (find(headers, name).length ? (find(headers, name).length > 1 ? fail('header_invalid', name) : find(headers, name)[0]) : null);
/** Reads `X-Sealed`; null if it is absent. */
export function sealedHeader(headers) {
  const value = optional(headers, 'x-sealed');
  return value === null ? null : (value.length <= 8192 && base64(value)) || fail('header_invalid', 'x-sealed');
}
/** Cuts `X-Idempotency-Key` and checks shape, nonce, `mark(nonce)` and timestamp. */
export function stampAndNonce(value, mark) {
  const parts = value.split('.');
  check(parts.length === 2 && parts[0] && parts[1], 'idempotency_key_shape');
  check(/^[A-Za-z0-9_-]{16,128}$/.test(parts[1]), 'nonce_invalid');
  mark(parts[1]);
  check(/^\d{1,15}$/.test(parts[0]), 'timestamp_invalid');
  return parts;
}
export const answerKeys = (s2c, requestNonce, nonce) => split60(expand(s2c, cat(field('sealway/3 answer'), field(requestNonce), field(nonce)), 60));
export const answerContext = m => sha256(cat(field('sealway/3 answer context'), number(m.status), ...[m.method, m.path, m.contentType, m.stamp, m.nonce, m.id].map(x => field(latin(x)))));
/** Opens an answer in pieces: `push` and `end` return body; `headers` has the inner ones after the first frame. */
export class AnswerReader {
  constructor(session, { method, path, nonce: asked }, status, headers) {
    check(find(headers, 'x-seal').length, 'unsealed');
    check(header(headers, 'x-seal') === '3', 'header_invalid', 'x-seal');
    const kid = header(headers, 'x-kid');
    check(kid.startsWith('session:'), 'kid_prefix');
    check(kid === `session:${session.id}`, 'answer_mismatch');
    const [stamp, nonce] = stampAndNonce(header(headers, 'x-idempotency-key'), n => check(n.startsWith('r-'), 'answer_mismatch'));
    this.sealed = sealedHeader(headers);
    const context = answerContext({ status, method, path, contentType: optional(headers, 'content-type'), stamp, nonce, id: session.id });
    Object.assign(this, { headers: null, context, stream: new StreamReader(answerKeys(session.s2c, asked, nonce), context, this.sealed !== null) });
  }
  read(piece) {
    return this.stream.push(piece).map(plain => {
      if (this.headers) return plain;
      const { headers, rest } = readInner(plain);
      this.headers = headers;
      return rest;
    });
  }
  push(piece) { check(this.sealed === null || !piece.length, 'header_invalid', 'x-sealed'); return this.sealed ? [] : this.read(piece); }
  end() {
    const out = this.sealed ? this.read(this.sealed) : [];
    this.stream.end();
    return out;
  }
}
/** Opens a whole answer. */
export function openAnswer(session, request, status, headers, body) {
  const r = new AnswerReader(session, request, status, headers);
  return { status, frames: [...r.push(body), ...r.end()], headers: r.headers, context: r.context };
}

// --- Problems ----------------------------------------------------------------------------------------------------------------------
/** Reads a problem from an answer without `X-Seal`; null if it is none. */
export function readProblem(method, status, headers, body) {
  if (find(headers, 'x-seal').length) return null;
  if (method === 'HEAD') return status === 401 ? { code: 'session_expired', status, members: {} } : null;
  if (body.length > 98304 || find(headers, 'content-type')[0]?.split(';')[0].trim().toLowerCase() !== 'application/problem+json') return null;
  try {
    const value = parseJson(body), { type } = members(value, { type: re(/^urn:sealway:problem:[a-z_]+$/) });
    return { code: type.slice('urn:sealway:problem:'.length), status, members: value };
  } catch { return null; }
}
/** Gives the server's time of a `clock_skew` whose mac verifies for the rejected request; otherwise null. */
export function provenTime(session, problem, { nonce, stamp }) {
  if (problem?.code !== 'clock_skew') return null;
  try {
    const m = members(problem.members, { server_time_ms: ANSWER.server_time_ms, mac: b64(32) });
    const mac = hmac(expand(session.s2c, 'sealway/3 clock', 32), cat(field(nonce), field(stamp), number(m.server_time_ms)));
    return equal(mac, m.mac) ? m.server_time_ms : null;
  } catch { return null; }
}
/** Tells whether a rejected request is sent again. `time` is what `provenTime` gave, `elapsed` whole milliseconds since it was sent. */
export function sendAgain(method, problem, time, stamp, elapsed) {
  const safe = method === 'GET' || method === 'HEAD';
  if (problem.code === 'session_expired') return safe;
  return problem.code === 'clock_skew' && time !== null && (safe || BigInt(stamp) + 600_000n < time - BigInt(elapsed));
}
/** Tells whether a session is gone after its end was asked for. */
export const ended = (answer, problem) => answer?.status === 204 || problem?.code === 'session_expired';
