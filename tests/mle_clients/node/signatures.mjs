// Signatures of open banking by the package jose: beside a body, or inside of a token.

import { createPrivateKey, randomUUID, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";

import { CompactSign, compactVerify, jwtVerify } from "jose";

import { check } from "./check.mjs";

const CLAIMS = ["iss", "aud", "sub", "iat", "exp", "jti"];
const SIGNED = /^\{"iss":"(?:[^"\\]|\\.)*","aud":"(?:[^"\\]|\\.)*","iat":\d+,"exp":\d+,"jti":"[^"]*",?/;
const OPEN_BANKING = ["iat", "iss", "tan"].map((name) => `http://openbanking.org.uk/${name}`);
const CRIT = Object.fromEntries(OPEN_BANKING.map((name) => [name, true]));

/** Returns the value of a JSON object without the claims that its signer put there. */
export function withoutClaims(json) {
  const members = Object.entries(JSON.parse(json)).filter(([name]) => !CLAIMS.includes(name));
  return Object.fromEntries(members);
}

export function signaturesOf(settings) {
  const { form, kid, issuer, audience } = settings;
  const anchor = settings.trust_anchor;
  const isNested = form === "nested";
  const privateKey = createPrivateKey(readFileSync(settings.key));
  const publicKey = new X509Certificate(readFileSync(settings.certificate)).publicKey;
  const now = () => Math.floor(Date.now() / 1000);
  const made = new Map();
  const payload = (text) => {
    if (!isNested) return text;
    // The service receives the very bytes that were signed, so that a text has one payload.
    if (!made.has(text)) {
      const claims = JSON.stringify({ iss: issuer, aud: audience, iat: now(), exp: now() + 300, jti: randomUUID() });
      // What a double sends back has the gateway's claims, which come first.
      const rest = text.toString().trim().replace(SIGNED, "{").slice(1);
      made.set(text, `${claims.slice(0, -1)}${rest === "}" ? "" : ","}${rest}`);
    }
    return made.get(text);
  };
  return {
    type: isNested ? "application/jwt" : "application/jose+jwe",
    payload,
    inside: async (text) => {
      if (!isNested) return text;
      const signer = new CompactSign(Buffer.from(payload(text)));
      made.delete(text);
      return await signer.setProtectedHeader({ typ: "JWT", kid, alg: "PS256" }).sign(privateKey);
    },
    open: async (plaintext) => {
      if (!isNested) return plaintext;
      const token = Buffer.from(plaintext).toString();
      const options = { algorithms: ["PS256"], issuer: audience, audience: issuer, maxTokenAge: "60s", typ: "JWT" };
      const { payload: claims, protectedHeader } = await jwtVerify(token, publicKey, options);
      check(claims.exp === claims.iat + 300 && /^[0-9a-f]{32}$/.test(claims.jti), "claims:", claims);
      check(protectedHeader.kid === settings.peer_kid, "kid:", protectedHeader);
      return Buffer.from(token.split(".")[1], "base64url");
    },
    beside: async (body, headers) => {
      if (isNested) return;
      const [iat, iss, tan] = OPEN_BANKING;
      const header = { alg: "PS256", kid, typ: "JOSE", cty: "jwe", [iat]: now(), [iss]: issuer, [tan]: anchor, crit: OPEN_BANKING };
      const token = await new CompactSign(body).setProtectedHeader(header).sign(privateKey, { crit: CRIT });
      const [first, , last] = token.split(".");
      headers["x-jws-signature"] = `${first}..${last}`;
    },
    check: async (body, headers) => {
      if (isNested) return;
      const [first, empty, last] = headers["x-jws-signature"].split(".");
      const token = `${first}.${body.toString("base64url")}.${last}`;
      const { protectedHeader } = await compactVerify(token, publicKey, { algorithms: ["PS256"], crit: CRIT });
      check(empty === "" && protectedHeader.kid === settings.peer_kid, "kid:", protectedHeader);
      check(protectedHeader[OPEN_BANKING[1]] === audience && protectedHeader[OPEN_BANKING[2]] === anchor, protectedHeader);
    },
  };
}
