/** A service for each test of a file, and what its tests share. */
import { afterEach, beforeEach, expect } from "vitest";
import { type OneShotOptions, sealOnce } from "../../src/one-shot/index.js";
import { plainProblem, Service } from "./service.js";

export let service: Service;
beforeEach(async () => {
  service = await Service.start();
});
afterEach(() => service.stop());

export const client = (options: Partial<OneShotOptions> = {}) =>
  sealOnce({ origin: service.url, pin: service.key.pin, ...options });
export const post = (body: BodyInit = "a body"): RequestInit => ({ method: "POST", body });
export const errorOf = (done: Promise<unknown>): Promise<any> =>
  done.then(
    () => expect.fail("it was accepted"),
    (error) => error,
  );
/** Answers the first sealed request in plain, and lets the others pass. */
export function firstIs(status: number, members: () => object | Promise<object>): void {
  let isFirst = true;
  service.before = async (request, response) => {
    if (request.url?.startsWith("/.well-known/") || !isFirst) return;
    isFirst = false;
    request.resume();
    plainProblem(response, status, await members());
  };
}
