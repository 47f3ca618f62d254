/** The demo purchase service, which opens and seals by itself: its sessions are an authority's. */
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import { AuthorityStore, type SealedMessage, sealedExpress } from "../server/index.js";
import { reason, stop, urlOf, wholeOf } from "./environment.js";

const port = wholeOf("PORT", process.env["PORT"] || "3100", 0, 65_535);
const url = urlOf("AUTHORITY_URL", "http://localhost:3000");
const file = process.env["AUTHORITY_SECRET_FILE"] || stop("AUTHORITY_SECRET_FILE is not set");

function middleware() {
  try {
    const store = new AuthorityStore({ url, secret: readFileSync(file, "utf8").trim() });
    return sealedExpress({ store, routes: [{ path: "/health", mode: "off" }] });
  } catch (error) {
    return stop(`AUTHORITY_SECRET_FILE or AUTHORITY_URL: ${reason(error)}`);
  }
}

function answer(response: ServerResponse, status: number, body: object): void {
  const text = JSON.stringify(body);
  response.writeHead(status, {
    "Content-Type": "application/json",
    "Content-Length": Buffer.byteLength(text),
  });
  response.end(text);
}

function serve(request: SealedMessage, response: ServerResponse): void {
  const path = request.url?.split("?", 1)[0];
  if (path === "/health" && request.method === "GET") {
    answer(response, 200, { status: "ok" });
    return;
  }
  if (path !== "/transaction/purchase") {
    answer(response, 404, { error: "NOT_FOUND" });
    return;
  }
  if (request.method !== "POST") {
    answer(response, 405, { error: "METHOD_NOT_ALLOWED" });
    return;
  }
  const { schemeCode, amount } = (request.body ?? {}) as { schemeCode?: unknown; amount?: unknown };
  if (typeof schemeCode !== "string" || typeof amount !== "number") {
    answer(response, 400, { error: "INVALID_REQUEST" });
    return;
  }
  answer(response, 200, {
    status: "SUCCESS",
    transactionId: `TXN-${randomBytes(8).toString("hex").toUpperCase()}`,
    schemeCode,
    amount,
    timestamp: new Date().toISOString(),
    message: `Purchase of ${amount} in scheme ${schemeCode} completed successfully`,
  });
}

const seal = middleware();
const server = createServer((request, response) => {
  seal(request, response, (error) => {
    if (error === undefined) {
      serve(request, response);
      return;
    }
    console.error(`failed: ${reason(error)}`);
    answer(response, 500, { error: "INTERNAL" });
  });
});
server.on("error", (error) => stop(`PORT: ${reason(error)}`));
server.listen(port, "127.0.0.1", () => {
  const address = server.address();
  if (typeof address === "object" && address !== null)
    console.log(`listening http://127.0.0.1:${address.port}`);
});
process.on("SIGTERM", () => {
  server.close(() => process.exit(0));
  server.closeIdleConnections();
});
