// Plays vectors/session3 against native.mjs. `--break` changes what each vector expects, in memory: each must then fail.
import crypto from 'node:crypto';
import fs from 'node:fs';
import * as n from './native.mjs';

const BREAK = process.argv.includes('--break'), DIR = new URL('../../vectors/session3/', import.meta.url);
const hex = x => Buffer.from(x, 'hex');
const raw = v => (v.hex !== undefined ? hex(v.hex) : v.text !== undefined ? Buffer.from(v.text, 'utf8') : Buffer.alloc(v.count, hex(v.repeat)));
/** Vectors that this client plays today. */
const PLAYED_MIN = 1032;
class NotPlayed extends Error {}
const skip = why => { throw new NotPlayed(why); };
/** Fails unless both are the same: bytes, or values by their JSON. */
function same(got, want, what) {
  const show = x => (Buffer.isBuffer(x) ? x.toString('hex') : JSON.stringify(x));
  if (show(got) !== show(want)) throw new Error(`${what}: got ${show(got)?.slice(0, 120)}, want ${show(want)?.slice(0, 120)}`);
}
function sameBytes(got, want, what) {
  if (want.sha256_hex === undefined) return same(got, raw(want), what);
  same(got.length, want.count, what + ' length');
  same(n.sha256(got), hex(want.sha256_hex), what);
}
const sorted = headers => headers.map(([k, v]) => [k.toLowerCase(), v]).sort();
/** Fails unless `act` is refused with `code`. */
function refused(code, act, name) {
  let got = 'accepted', at;
  try { act(); } catch (e) { if (!(e instanceof n.SealwayError)) throw e; got = e.code; at = e.field; }
  same(got, code, 'code');
  return name === undefined ? at : same(at ?? null, name, 'field');
}

/** Builds the ML-KEM side of a client from what a vector gives: the ciphertext's secret where it is there. */
function kemOf(server) {
  return {
    publicKey: k => k.length === 2400 ? k.subarray(1152, 2336) : k.subarray(1536, 3104), // expanded keys of ML-KEM-768 and ML-KEM-1024
    decapsulate: (k, ct) => server && ct.equals(hex(server.kem_ciphertext_hex)) ? hex(server.kem_secret_hex) : skip('needs ML-KEM decapsulation; the vector has no ML-KEM secret'),
  };
}
function keysOf(c) {
  const kem = hex(c.kem_private_hex ?? '');
  return { p256: hex(c.p256_scalar_hex), p384: hex(c.p384_scalar_hex ?? ''), x: hex(c.x25519_hex ?? ''), kem768: kem, kem1024: kem };
}
const pins = keys => new n.Pins(keys.map(hex));
function pendingOf(v, body, client, kem, old) {
  const r = n.readRequest(body);
  const p = n.beginInit({ ...r, suites: r.suites, authorization: v.authorization, old, keys: keysOf(client), kem });
  const asJson = x => Object.entries(JSON.parse(x)).sort();
  same(asJson(p.body), asJson(body.toString()), 'request');
  return p;
}
/** Finishes the init of suite P256 that a call's `client` tells of. */
function sessionOf(c) {
  const p = pendingOf({}, Buffer.from(c.body), c);
  return n.finishInit(p, 201, c.answer, pins([c.trusted_hex]), { clock: () => 0 });
}
function checkKeys(v, s) {
  same(s.th, hex(v.th_hex), 'th'); same(s.prk, hex(v.prk_hex), 'prk');
  for (const k of ['c2s', 's2c', 'exporter']) same(s[k], hex(v[k + '_hex']), k);
}
/** Derives what the server derives, where `client` is null. */
function serverInit(v) {
  const r = n.readRequest(raw(v.body)), a = JSON.parse(v.answer);
  const answer = { ...a, share: Buffer.from(a.share, 'base64') };
  const t = n.transcript(r, answer, v.authorization);
  same(t, hex(v.transcript_hex), 'transcript');
  same(n.initHash(r), hex(v.init_hash_hex), 'init hash');
  const e = crypto.createECDH('prime256v1'); e.setPrivateKey(hex(v.server.p256_scalar_hex));
  if (r.suite !== 'P256') skip('the server of a hybrid suite');
  const secret = e.computeSecret(r.share), th = n.sha256(t), prk = n.prkOf(th, secret);
  same(secret, hex(v.secret_hex), 'secret');
  checkKeys(v, { th, prk, ...n.sessionKeys(prk) });
}
function init(v) {
  if (!v.client) return serverInit(v);
  const old = v.old && sessionOf(v.old.client);
  if (old) { same(old.id, v.old.session_id, 'old id'); same(old.exporter, hex(v.old.exporter_hex), 'old exporter'); }
  const p = pendingOf(v, raw(v.body), v.client, kemOf(v.server), old);
  same(n.initHash(p.request), hex(v.init_hash_hex), 'init hash');
  let answer = Buffer.from(v.answer);
  if (old) answer = throughOld(old, p, answer);
  const s = n.finishInit(p, 201, answer, pins(v.trusted_hex), { clock: () => 0 });
  same(n.transcript(p.request, s.answer, v.authorization, old?.id), hex(v.transcript_hex), 'transcript');
  checkKeys(v, s);
  same(s.answer.subject ?? null, v.server.subject, 'subject'); same(s.answer.tenant ?? null, v.server.tenant, 'tenant');
  same(s.now().toString(), String(v.now_ms), 'clock'); // now_ms is the server's clock
}
/** Carries a renewal through the old session: the sealed request, opened as a server would, and a sealed answer. */
function throughOld(old, p, answer) {
  const q = n.renewRequest(old, p), reader = new n.StreamReader(n.requestKeys(old.c2s, q.nonce, q.stamp), q.context);
  const { headers, rest } = n.readInner(Buffer.concat(reader.push(q.body)));
  reader.end();
  same([headers.map(([k, x]) => [k, x.toString()]), rest.toString()], [[['content-type', 'application/json']], p.body], 'sealed renewal');
  const stamp = '1750000000020', nonce = 'r-' + '0'.repeat(32), contentType = 'application/octet-stream';
  const context = n.answerContext({ status: 201, method: q.method, path: q.path, contentType, stamp, nonce, id: old.id });
  const body = Buffer.concat([...n.writeStream(n.answerKeys(old.s2c, q.nonce, nonce), context, n.plaintexts([['content-type', 'application/json']], [answer]))]);
  const sealed = [['X-Seal', '3'], ['X-Kid', 'session:' + old.id], ['X-Idempotency-Key', stamp + '.' + nonce], ['Content-Type', contentType]];
  return Buffer.concat(n.openAnswer(old, q, 201, sealed, body).frames);
}
const inner = v => v.inner.map(([k, x]) => [k, raw(x)]);
/** Feeds a stream in small and in large pieces; the outcome must not depend on it. */
const pieces = body => (body.length < 5000 ? [[body], [...body].map(b => Buffer.of(b))] : [[body]]);

/** Opens a request as the server does, steps 3 to 9; for vectors that are the server's. */
function serverOpen(v, headers, body, find) {
  if (n.header(headers, 'x-seal') !== '3') throw new n.SealwayError('header_invalid');
  const kid = n.header(headers, 'x-kid'), key = n.header(headers, 'x-idempotency-key');
  const fail = code => { throw new n.SealwayError(code); };
  const [stamp, nonce] = n.stampAndNonce(key, x => /^r-/i.test(x) && fail('nonce_reserved'));
  if (!kid.startsWith('session:')) fail('kid_prefix');
  const contentType = n.optional(headers, 'content-type'), sealed = n.sealedHeader(headers);
  const s = n.isSessionId(kid.slice(8)) && v.session.id === kid.slice(8) ? v.session : fail('session_unknown');
  if (v.now_ms >= s.expires_ms) fail('session_expired');
  if (s.wire !== 3) fail('wire_mismatch');
  if (Math.abs(Number(stamp) - v.now_ms) > Math.min(v.window_ms, 300000)) fail('timestamp_outside_window');
  if (sealed && body.length) fail('header_invalid');
  const context = n.requestContext({ method: v.method, path: v.path, contentType, stamp, nonce, id: s.id });
  const reader = new n.StreamReader(n.requestKeys(hex(s.c2s_hex), nonce, stamp), context, sealed !== null), frames = [];
  let got;
  for (const piece of find(sealed ?? body)) for (const plain of reader.push(piece)) {
    if (got) { frames.push(plain); continue; }
    got = n.readInner(plain); frames.push(got.rest);
  }
  reader.end();
  return { frames, headers: got.headers, nonce, id: s.id };
}

const PLAY = {
  init3: init,
  renew3: init,
  'init3-refused'(v) {
    const old = v.old && sessionOf(v.old.client);
    const p = pendingOf(v, raw(v.body), v.client, kemOf(null), old);
    refused(v.code, () => n.finishInit(p, v.status, raw(v.answer), pins(v.trusted_hex)));
  },
  request3(v) {
    const s = sessionOf(v.client), inHeader = v.sealed.headers.some(([k]) => k === 'X-Sealed');
    const chunks = v.frames.map(raw);
    const key = n.requestKeys(s.c2s, v.nonce, v.stamp);
    for (const k of ['key', 'iv', 'commit']) same(key[k], hex(v[k + '_hex']), k);
    const q = n.sealRequest(s, { ...v, contentType: v.content_type, inner: inner(v), chunks, inHeader });
    same(q.context, hex(v.context_hex), 'context');
    same(sorted(q.headers), sorted(v.sealed.headers), 'headers');
    sameBytes(q.body, v.sealed.body, 'body');
    for (const ps of [x => [x], x => pieces(x).at(-1)]) { // the server's half, with the same reader
      const got = serverOpen(v, q.headers, q.body, ps);
      same([got.headers.map(([k, x]) => [k, x.toString('hex')]), got.frames.map(f => f.toString('hex'))],
        [inner(v).map(([k, x]) => [k, x.toString('hex')]), chunks.map(f => f.toString('hex'))], 'opened');
      const id = Buffer.from(got.id), claim = n.sha256(Buffer.concat([Buffer.of(3, id.length >> 8, id.length & 255), id, Buffer.from(got.nonce)])).subarray(0, 16);
      same(claim, hex(v.claim.key_hex), 'claim');
    }
  },
  'request3-refused': v => { for (const ps of [x => [x], x => pieces(x).at(-1)]) refused(v.code, () => serverOpen(v, v.headers, raw(v.body), ps)); },
  answer3(v) {
    const s = sessionOf(v.client), key = n.answerKeys(s.s2c, v.request.nonce, v.nonce);
    for (const k of ['key', 'iv', 'commit']) same(key[k], hex(v[k + '_hex']), k);
    let body = v.sealed.body;
    if (body.sha256_hex) { // the body is given by its hash: seal it as the server would, compare, then open it
      const made = Buffer.concat([...n.writeStream(key, hex(v.context_hex), n.plaintexts(inner(v), v.frames.map(raw)))]);
      sameBytes(made, body, 'body'); body = made;
    } else body = raw(body);
    for (const ps of pieces(body)) {
      const r = new n.AnswerReader(s, v.request, v.status, v.sealed.headers);
      same(r.context, hex(v.context_hex), 'context');
      const got = [...ps.flatMap(p => r.push(p)), ...r.end()];
      same(got.map(f => f.toString('hex')), v.frames.map(f => raw(f).toString('hex')), 'frames');
      same(r.headers.map(([k, x]) => [k, x.toString('hex')]), inner(v).map(([k, x]) => [k, x.toString('hex')]), 'inner');
    }
  },
  'answer3-refused'(v) {
    const s = sessionOf(v.client);
    for (const ps of pieces(raw(v.body))) refused(v.code, () => {
      const r = new n.AnswerReader(s, v.request, v.status, v.headers);
      for (const p of ps) r.push(p);
      r.end();
    });
  },
  'key-set3'(v) {
    const root = new n.Root(hex(v.root_public_hex), v.taken_issued_ms, v.signature_algorithms), set = root.take(v.body, v.now_ms);
    same(Number(set.issued_ms), v.issued_ms, 'issued_ms');
    same(set.keys.filter(k => n.algorithmOf(k.public_key)).map(k => [k.key_id, k.public_key.toString('hex')]), v.keys.map(k => [k.key_id, k.public_hex]), 'keys');
    for (const x of v.signers) same(!!root.signer(x.key_id, x.server_time_ms, x.now_ms), x.trusted, 'signer');
  },
  'key-set3-refused': v => refused(v.code, () => new n.Root(hex(v.root_public_hex), v.taken_issued_ms, v.signature_algorithms).take(v.body, v.now_ms)),
  problem3(v) {
    const s = sessionOf(v.client), status = JSON.parse(v.body).status;
    const p = n.readProblem('POST', status, [['Content-Type', 'application/problem+json']], Buffer.from(v.body));
    const time = n.provenTime(s, p, v.request);
    same(time !== null, v.proven, 'proven');
    for (const r of v.resends) same(n.sendAgain(r.method, p, time, v.request.stamp, r.elapsed_ms), r.again, `${r.method} after ${r.elapsed_ms}`);
  },
  'init3-request-refused'(v) { // the server's: JSON, members, suite rule, keys, share
    if (v.code === 'key_retired' || v.code === 'suite_required' || v.code === 'public_key_invalid') {
      const r = n.readRequest(raw(v.body));
      if (n.suiteFor(r.suites, v.server.suites) !== r.suite) return same('suite_required', v.code, 'code');
      const pinned = k => r.pinned_key_ids.includes(n.keyId(k)), restricted = r.pinned_key_ids?.length > 0;
      const accepted = r.signature_algorithms ?? (restricted ? null : ['ES256']);
      const live = v.server.identities.filter(k => k.not_before_ms <= v.now_ms && v.now_ms < k.not_after_ms).map(identity);
      if (!live.some(k => (!restricted || pinned(k)) && (!accepted || accepted.includes(n.algorithmOf(k))))) return same('key_retired', v.code, 'code');
      return refused(v.code, () => clientShare(r.suite, r.share));
    }
    refused(v.code, () => n.readRequest(raw(v.body)), v.field);
  },
};
/** Gives the public key of a server's identity key. */
function identity(k) {
  if (k.alg) return hex(k.public_hex);
  const e = crypto.createECDH('prime256v1');
  e.setPrivateKey(hex(k.scalar_hex));
  return e.getPublicKey();
}
/** Checks a client's share as a server does. */
function clientShare(suite, share) {
  const bad = () => { throw new n.SealwayError('public_key_invalid'); };
  for (const [part, x] of Object.entries(n.cutShare(suite, share, 'client'))) {
    if (part === 'p256') n.point(x);
    else if (part === 'p384') n.point(x, 'P-384');
    else if (part === 'x') n.PARTS.x.secret(n.PARTS.x.make(), x);
    else for (let i = 0; i < x.length - 32; i += 3) if ((x[i] | (x[i + 1] & 15) << 8) >= 3329 || (x[i + 1] >> 4 | x[i + 2] << 4) >= 3329) bad();
  }
}
// Headers for the service (a server's): the table of that section, with the names of registry.toml.
const ORIGIN = 'forwarded x-real-ip x-client-ip x-cluster-client-ip true-client-ip cf-connecting-ip fastly-client-ip client-cert client-cert-chain x-arr-clientcert'.split(' ');
const PREFIXES = ['x-forwarded-', 'x-client-cert', 'x-ssl-client-', 'ssl-client-', 'x-amzn-mtls-'], WAY = ['via', 'traceparent', 'tracestate'];
PLAY.headers3 = v => {
  const alike = x => x.toLowerCase().replaceAll('_', '-'), stripped = x => ORIGIN.includes(x) || PREFIXES.some(p => x.startsWith(p)) || WAY.includes(x);
  const out = v.inner.filter(([k]) => !alike(k).startsWith('x-sealway-') && !stripped(alike(k)));
  for (const [k, x] of v.outer) {
    const name = k.toLowerCase();
    if (stripped(name) ? v.front_trusted : ['host', 'user-agent', 'accept-language'].includes(name) && !v.inner.some(([i]) => alike(i) === alike(name))) out.push([name, x]);
  }
  same(out.sort(), v.service.map(([k, x]) => [k.toLowerCase(), x]).sort(), 'service');
};
const NOT = {};

/** Flips a bit of what a vector says must come out, or of its code. */
function flip(v) {
  const at = (o, k) => { o[k] = Buffer.from(hex(o[k]).map((b, i) => (i ? b : b ^ 1))).toString('hex'); };
  if (v.code) v.code = 'flipped';
  else if (v.type === 'problem3') v.proven = !v.proven;
  else if (v.type === 'key-set3') at(v.keys[0], 'public_hex');
  else if (v.prk_hex) at(v, 'prk_hex');
  else if (v.type === 'headers3') v.service.push(['x-flipped', '1']);
  else at(v, 'context_hex');
  return v;
}
const counts = {}, lines = [];
for (const file of fs.readdirSync(DIR).sort()) {
  const v = JSON.parse(fs.readFileSync(new URL(file, DIR)));
  const c = counts[v.type ?? file] ??= { passed: 0, failed: 0, not: {} };
  if (BREAK) flip(v);
  try {
    if (NOT[v.type]) skip(NOT[v.type]);
    if (!PLAY[v.type]) throw new Error('a type that is not known');
    PLAY[v.type](v);
    c.passed++;
  } catch (e) {
    if (e instanceof NotPlayed) (c.not[e.message] ??= []).push(v.name);
    else { c.failed++; lines.push(`FAILED ${v.name}: ${e.message}`); }
  }
}
if (!BREAK || process.argv.includes('-v')) lines.forEach(l => console.log(l));
let failed = 0, total = [0, 0, 0];
for (const [type, c] of Object.entries(counts)) {
  const not = Object.values(c.not).flat().length;
  console.log(`${type}: ${c.passed} passed, ${c.failed} failed, ${not} not played` + Object.entries(c.not).map(([why, names]) => ` (${why}: ${names.length > 5 ? names.length : names.join(', ')})`).join(''));
  total = [total[0] + c.passed, total[1] + c.failed, total[2] + not];
  failed += c.failed;
}
console.log(`total: ${total[0]} passed, ${total[1]} failed, ${total[2]} not played`);
// A vector that is no longer played, or a folder without vectors, is a failure too.
process.exit(failed || total[0] < PLAYED_MIN ? 1 : 0);
