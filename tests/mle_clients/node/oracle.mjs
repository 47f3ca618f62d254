// jose as an oracle of JWE: a question in JSON a line, an answer a line. Questions and answers are those of ../python/oracle.py.

import { createPrivateKey, createPublicKey } from "node:crypto";
import { createInterface } from "node:readline";

import { CompactEncrypt, compactDecrypt } from "jose";

async function answer(question) {
  const shared = question.key.startsWith("hex:") && Buffer.from(question.key.slice(4), "hex");
  if (question.token !== undefined) {
    const opened = await compactDecrypt(question.token, shared || createPrivateKey(question.key));
    return { plaintext: Buffer.from(opened.plaintext).toString("hex") };
  }
  const { alg, enc, kid } = question;
  const sealing = new CompactEncrypt(Buffer.from(question.plaintext, "hex")).setProtectedHeader({ alg, enc, kid });
  return { token: await sealing.encrypt(shared || createPublicKey(question.key)) };
}

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  let result;
  try {
    result = await answer(JSON.parse(line));
  } catch (error) {
    result = { error: `${error.code ?? error.name}: ${error.message}` };
  }
  process.stdout.write(`${JSON.stringify(result)}\n`);
}
