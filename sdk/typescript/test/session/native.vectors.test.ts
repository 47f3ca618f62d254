import { readdirSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { SIGNATURE_ALGORITHMS } from "../../src/session/native/algorithm.js";
import { ALL_SUITES } from "../../src/session/native/suite.js";
import { runFolder } from "../vectors/folder.js";
import { NATIVE } from "../vectors/native.js";

runFolder("session3", NATIVE);

it("there are vectors of every algorithm and every suite", () => {
  const folder = new URL("../../../../vectors/session3/", import.meta.url);
  const inits = readdirSync(folder)
    .map((name) => JSON.parse(readFileSync(new URL(encodeURIComponent(name), folder), "utf8")))
    .filter(({ type }) => type === "init3");
  const algorithms = inits.flatMap(({ server }) => server.identities.map(({ alg = "ES256" }) => alg));
  expect(new Set(algorithms)).toEqual(new Set(SIGNATURE_ALGORITHMS));
  expect(new Set(inits.map(({ body }) => JSON.parse(body.text).suite))).toEqual(new Set(ALL_SUITES));
});
