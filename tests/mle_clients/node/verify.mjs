// Verifies signatures of requests by Mastercard's own library, and by jose: verify.mjs FILE, which is described in ../README.md.

import assert from "node:assert/strict";
import crypto from "node:crypto";
import { readFileSync } from "node:fs";
import { compactVerify, jwtVerify } from "jose";
import OAuth from "mastercard-oauth1-signer";

const OPEN_BANKING = ["iat", "iss", "tan"].map((name) => `http://openbanking.org.uk/${name}`);

const sha256 = (bytes) => crypto.createHash("sha256").update(bytes).digest("base64");

const near = (seconds) => assert(Math.abs(seconds - Date.now() / 1000) < 60, `time: ${seconds}`);

/** Recomputes the signed text by the functions with which Mastercard's library makes it. */
function oauth1(request, body, key) {
  const [, list] = request.headers.authorization.match(/^OAuth (.*)$/);
  const parameters = new Map(list.split(",").map((part) => part.match(/^(\w+)="([^"]*)"$/).slice(1)));
  const signature = decodeURIComponent(parameters.get("oauth_signature"));
  parameters.delete("oauth_signature");
  assert.equal(parameters.get("oauth_consumer_key"), request.consumer_key);
  assert.equal(parameters.get("oauth_signature_method"), request.signature_method);
  assert.equal(parameters.get("oauth_version"), "1.0");
  near(Number(parameters.get("oauth_timestamp")));
  assert.equal(parameters.get("oauth_body_hash"), OAuth.getBodyHash(body));
  const sorted = OAuth.toOAuthParamString(OAuth.extractQueryParams(request.url), parameters);
  const text = OAuth.getSignatureBaseString(request.method, OAuth.getBaseUriString(request.url), sorted);
  const padding = { "RSA-SHA256": crypto.constants.RSA_PKCS1_PADDING, "RSA-PSS": crypto.constants.RSA_PKCS1_PSS_PADDING };
  const options = { key, padding: padding[request.signature_method], saltLength: 32 };
  assert(crypto.verify("RSA-SHA256", Buffer.from(text), options, Buffer.from(signature, "base64")), text);
}

async function visaAcceptance(request, body, key) {
  const [, token] = request.headers.authorization.match(/^Bearer (.*)$/);
  const options = { algorithms: ["RS256"], issuer: request.merchant_id, maxTokenAge: "60s", typ: "JWT" };
  const { payload, protectedHeader } = await jwtVerify(token, key, options);
  const url = new URL(request.url);
  assert.equal(protectedHeader.kid, request.kid);
  assert.equal(payload.exp, payload.iat + 120);
  assert.equal(payload["request-host"], url.host);
  assert.equal(payload["request-resource-path"], url.pathname + url.search);
  assert.equal(payload["request-method"], request.method);
  assert.equal(payload["v-c-merchant-id"], request.merchant_id);
  assert.equal(payload["v-c-jwt-version"], "2");
  assert.equal(payload["v-c-response-mle-kid"], request.answer_kid);
  assert.match(payload.jti, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.equal(payload.digest, request.method === "GET" ? undefined : sha256(body));
}

async function openBanking(request, body, key) {
  const [header, empty, signature] = request.headers["x-jws-signature"].split(".");
  assert.equal(empty, "");
  const crit = Object.fromEntries(OPEN_BANKING.map((name) => [name, true]));
  const token = `${header}.${body.toString("base64url")}.${signature}`;
  const { protectedHeader } = await compactVerify(token, key, { algorithms: ["PS256"], crit });
  assert.deepEqual(protectedHeader.crit, OPEN_BANKING);
  near(protectedHeader[OPEN_BANKING[0]]);
  assert.equal(protectedHeader[OPEN_BANKING[1]], request.issuer);
  assert.equal(protectedHeader[OPEN_BANKING[2]], request.trust_anchor);
  assert.equal(protectedHeader.kid, request.kid);
}

/** The HMAC of Visa, whose programs in Node make it like this. */
function xPayToken(request, body) {
  const [version, timestamp, mac] = request.headers["x-pay-token"].split(":");
  assert.equal(version, "xv2");
  near(Number(timestamp));
  const { search } = new URL(request.url);
  const hmac = crypto.createHmac("sha256", request.shared_secret);
  hmac.update(timestamp + request.resource_path + search.slice(1)).update(body);
  assert.equal(mac, hmac.digest("hex"));
}

const verifiers = { oauth1, visa_acceptance_jwt: visaAcceptance, jws_detached: openBanking, x_pay_token: xPayToken };
const requests = JSON.parse(readFileSync(process.argv[2], "utf8"));
for (const request of requests) {
  const key = crypto.createPublicKey(readFileSync(request.certificate));
  const verify = async (body) => verifiers[request.scheme](request, body, key);
  const body = Buffer.from(request.body, "base64");
  await verify(body);
  // A body that is not the one that was sent; of a GET the JWT has no digest.
  const isBound = request.scheme !== "visa_acceptance_jwt" || request.method !== "GET";
  if (isBound) await assert.rejects(verify(Buffer.concat([body, Buffer.from(" ")])), request.url);
}
console.log(`${requests.length} signatures`);
