// The libraries, each behind the same few calls.

import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";

import { CompactEncrypt, compactDecrypt } from "jose";
import mastercardEncryption from "mastercard-client-encryption";

import { check } from "./check.mjs";
import { signaturesOf, withoutClaims } from "./signatures.mjs";

/** The member that holds the token, by profile and message. The body of `generic-jwe` is the token itself. */
export const MEMBERS = {
  "mastercard-jwe": { request: "encryptedData", answer: "encryptedData" },
  visa: { request: "encData", answer: "encData" },
  "visa-acceptance": { request: "encryptedRequest", answer: "encryptedResponse" },
  "generic-jwe": {},
  "open-banking": {},
};

/** Returns the token of a body, which must have nothing beside it. */
function tokenOf(profile, message, body) {
  const name = MEMBERS[profile][message];
  if (name === undefined) return body.toString();
  const value = JSON.parse(body);
  check(isDeepStrictEqual(Object.keys(value), [name]), "the token is not alone:", Object.keys(value));
  return value[name];
}

/** Checks what a library does not: the names in the header, and the time. */
function checkHeader(token, spec, message) {
  const header = JSON.parse(Buffer.from(token.split(".")[0], "base64url"));
  check(token.split(".").length === 5, "parts:", token);
  if (spec.open.kid) check(header.kid === spec.open.kid, "kid:", header);
  const unit = { visa: 1, "visa-acceptance": 1000 }[spec.profile];
  if (unit && message === "request") {
    check(Math.abs(header.iat * unit - Date.now()) < 120_000, "iat:", header);
  }
  if (spec.profile === "mastercard-jwe") check(header.cty === "application/json", "cty:", header);
  if (spec.signature?.form === "nested") check(header.cty === "JWT", "cty:", header);
}

export async function libraryOf(spec) {
  if (spec.profile === "mastercard-field-level") return fieldLevel(spec);
  const library = { mastercard, jose }[spec.library](spec);
  library.checkSealed = (message, direction) => {
    check(message.headers["content-type"]?.startsWith(library.answerType), "type:", message.headers);
    checkHeader(tokenOf(spec.profile, direction, message.body), spec, direction);
  };
  return library;
}

/** Returns the paths of the library, by shape. */
function pathsOf(shape, whole) {
  return {
    whole,
    fields: {
      toEncrypt: [
        { element: "card", obj: "secret" },
        { element: "customer.address", obj: "hidden" },
      ],
      toDecrypt: [
        { element: "secret", obj: "card" },
        { element: "hidden", obj: "customer.address" },
      ],
    },
  }[shape];
}

/** Mastercard's client-encryption. It takes values and returns values: numbers are doubles before it sees them. */
function mastercard(spec) {
  const whole = { toEncrypt: [{ element: "$", obj: "$" }], toDecrypt: [{ element: "encryptedData", obj: "$" }] };
  const jwe = new mastercardEncryption.JweEncryption({
    paths: [{ path: "/resource", ...pathsOf(spec.shape, whole) }],
    mode: "JWE",
    encryptedValueFieldName: "encryptedData",
    encryptionCertificate: spec.seal.certificate,
    privateKey: spec.open.key,
  });
  return {
    type: "application/json",
    answerType: "application/json",
    opensAll: true,
    sent: (text) => JSON.stringify(JSON.parse(text)),
    seal: async (text) => Buffer.from(JSON.stringify(jwe.encrypt("/resource", {}, JSON.parse(text)).body)),
    open: async (body) =>
      JSON.stringify(jwe.decrypt({ request: { url: "/resource" }, header: {}, body: JSON.parse(body) })),
    isSame: (one, other) => isDeepStrictEqual(JSON.parse(one), JSON.parse(other)),
  };
}

/** Mastercard's client-encryption in its field-level form. */
function fieldLevel(spec) {
  const { place, encoding, digest, names } = spec.fle;
  const whole = { toEncrypt: [{ element: "$", obj: "$" }], toDecrypt: [{ element: "$", obj: "$" }] };
  const kind = place === "headers" ? "HeaderName" : "FieldName";
  const library = new mastercardEncryption.FieldLevelEncryption({
    paths: [{ path: "/resource", ...pathsOf(spec.shape, whole) }],
    oaepPaddingDigestAlgorithm: digest,
    dataEncoding: encoding,
    encryptionCertificate: spec.seal.certificate,
    privateKey: spec.open.key,
    encryptedValueFieldName: names.value,
    [`iv${kind}`]: names.iv,
    [`encryptedKey${kind}`]: names.encryptedKey,
    [`oaepHashingAlgorithm${kind}`]: names.digest,
    publicKeyFingerprintType: "publicKey",
    [`publicKeyFingerprint${kind}`]: names.keyFingerprint,
  });
  return {
    type: "application/json",
    answerType: "application/json",
    opensAll: spec.shape === "fields",
    sent: (text) => JSON.stringify(JSON.parse(text)),
    seal: async (text, _message, headers = {}) =>
      Buffer.from(JSON.stringify(library.encrypt("/resource", headers, JSON.parse(text)).body)),
    open: async (body, _message, header) =>
      JSON.stringify(utf8Of(library.decrypt({ request: { url: "/resource" }, header, body: JSON.parse(body) }))),
    isSame: (one, other) => isDeepStrictEqual(JSON.parse(one), JSON.parse(other)),
    checkSealed: ({ headers, body }) => {
      const expected = place === "headers" ? [names.value] : Object.values(names).filter((name) => name);
      const found = Object.keys(JSON.parse(body));
      check(isDeepStrictEqual(new Set(found), new Set(expected)), "members:", found);
      check(place === "body" || headers[names.iv], "headers:", headers);
    },
  };
}

/** Reads texts as UTF-8: this form of the library returns each byte of a plaintext as a character. */
function utf8Of(value) {
  if (typeof value === "string") {
    if (/[^\0-\xff]/.test(value)) return value;
    const read = Buffer.from(value, "latin1").toString();
    return read.includes("\ufffd") ? value : read;
  }
  if (Array.isArray(value)) return value.map(utf8Of);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [utf8Of(name), utf8Of(member)]));
}

/** The package jose. Any bytes can be sealed. */
function jose(spec) {
  const publicKey = new X509Certificate(readFileSync(spec.seal.certificate)).publicKey;
  const privateKey = createPrivateKey(readFileSync(spec.open.key));
  const isBare = spec.profile === "generic-jwe";
  const types = isBare ? ["application/jose+json", "application/jose"] : ["application/json", "application/json"];
  const signatures = spec.signature && signaturesOf(spec.signature);
  const [type, answerType] = signatures ? [signatures.type, signatures.type] : types;
  let sealed = 0;
  return {
    type,
    answerType,
    opensAll: false,
    sent: (text) => Buffer.from(signatures ? signatures.payload(text) : text),
    // The signature beside what is sent, and the check of the one beside what came.
    sign: async (body, headers) => signatures?.beside(body, headers),
    verify: async (body, headers) => signatures?.check(body, headers),
    seal: async (plain, message) => {
      const text = signatures ? await signatures.inside(plain) : plain;
      const encs = spec.seal.encs;
      const header = { alg: spec.seal.alg, enc: encs[sealed++ % encs.length], kid: spec.seal.kid };
      if (spec.profile === "visa") Object.assign(header, { typ: "JOSE", iat: Date.now() });
      if (spec.profile === "visa-acceptance") Object.assign(header, { cty: "JWT", iat: Math.floor(Date.now() / 1000) });
      const token = await new CompactEncrypt(Buffer.from(text)).setProtectedHeader(header).encrypt(publicKey);
      const name = MEMBERS[spec.profile][message];
      return Buffer.from(name === undefined ? token : JSON.stringify({ [name]: token }));
    },
    open: async (body, message) => {
      const opened = await compactDecrypt(tokenOf(spec.profile, message, body), privateKey, {
        keyManagementAlgorithms: [spec.open.alg],
        contentEncryptionAlgorithms: spec.open.encs,
      });
      return Buffer.from(signatures ? await signatures.open(opened.plaintext) : opened.plaintext);
    },
    isSame: (one, other) =>
      spec.signature?.form === "nested"
        ? isDeepStrictEqual(withoutClaims(one), withoutClaims(other))
        : Buffer.from(one).equals(Buffer.from(other)),
  };
}
