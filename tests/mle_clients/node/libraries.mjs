// The libraries, each behind the same few calls.

import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";

import { CompactEncrypt, compactDecrypt } from "jose";
import mastercardEncryption from "mastercard-client-encryption";

import { check } from "./check.mjs";

/** The member that holds the token, by profile and message. The body of `generic-jwe` is the token itself. */
export const MEMBERS = {
  "mastercard-jwe": { request: "encryptedData", answer: "encryptedData" },
  visa: { request: "encData", answer: "encData" },
  "visa-acceptance": { request: "encryptedRequest", answer: "encryptedResponse" },
  "generic-jwe": {},
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
}

export async function libraryOf(spec) {
  const library = { mastercard, jose }[spec.library](spec);
  library.checkSealed = (message, direction) => {
    check(message.headers["content-type"]?.startsWith(library.answerType), "type:", message.headers);
    checkHeader(tokenOf(spec.profile, direction, message.body), spec, direction);
  };
  return library;
}

/** Mastercard's client-encryption. It takes values and returns values: numbers are doubles before it sees them. */
function mastercard(spec) {
  const paths = {
    whole: { toEncrypt: [{ element: "$", obj: "$" }], toDecrypt: [{ element: "encryptedData", obj: "$" }] },
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
  };
  const jwe = new mastercardEncryption.JweEncryption({
    paths: [{ path: "/resource", ...paths[spec.shape] }],
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

/** The package jose. Any bytes can be sealed. */
function jose(spec) {
  const publicKey = new X509Certificate(readFileSync(spec.seal.certificate)).publicKey;
  const privateKey = createPrivateKey(readFileSync(spec.open.key));
  const isBare = spec.profile === "generic-jwe";
  let sealed = 0;
  return {
    type: isBare ? "application/jose+json" : "application/json",
    answerType: isBare ? "application/jose" : "application/json",
    opensAll: false,
    sent: (text) => Buffer.from(text),
    seal: async (text, message) => {
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
      return Buffer.from(opened.plaintext);
    },
    isSame: (one, other) => Buffer.from(one).equals(Buffer.from(other)),
  };
}
