// Serves a built page as a careful host would: its own files alone, under a policy that allows nothing inline.

import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { createServer, request as forward } from "node:http";
import path from "node:path";

const TYPES = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
  ".json": "application/json",
};

/** The policy under which every page must work; `connect` lists the origins that it calls. */
export function policy(connect) {
  return [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    `connect-src 'self' ${connect.join(" ")}`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
  ].join("; ");
}

/**
 * Serves `folder` on a free port of localhost. `extra` are answers by path, as text or as objects for JSON; `connect`
 * gives the origins of the policy. Both are read at each request. What is no file goes to `behind()`, if that gives an
 * origin, as where one server has page and service.
 */
export async function servePage(folder, { extra = {}, connect = () => [], behind = () => null } = {}) {
  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url, "http://localhost");
    const name = pathname === "/" ? "/index.html" : pathname;
    const head = {
      "Content-Security-Policy": policy(connect()),
      "X-Content-Type-Options": "nosniff",
      "Cache-Control": "no-store",
    };
    const file = path.join(folder, path.normalize(name));
    if (name in extra) {
      const body = typeof extra[name] === "string" ? extra[name] : JSON.stringify(extra[name]);
      response.writeHead(200, { ...head, "Content-Type": TYPES[path.extname(name)] }).end(body);
    } else if (
      await stat(file).then(
        (found) => found.isFile(),
        () => false,
      )
    ) {
      response.writeHead(200, { ...head, "Content-Type": TYPES[path.extname(file)] ?? "application/octet-stream" });
      createReadStream(file).pipe(response);
    } else if (behind() !== null) {
      const { method, headers } = request;
      const onward = forward(new URL(request.url, behind()), { method, headers }, (answer) => {
        response.writeHead(answer.statusCode, answer.headers);
        answer.pipe(response);
      });
      onward.on("error", () => response.writeHead(502, head).end());
      request.pipe(onward);
    } else {
      response.writeHead(404, head).end();
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://localhost:${server.address().port}`,
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
