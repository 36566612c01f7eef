/** A server that answers as a test says, and records its requests. */
import { createServer } from "node:http";
import { once } from "node:events";

/**
 * Start a server. Each request takes the next of `answers` (the last one stays): `{ status, headers,
 * body }`, `"reset"` to break the connection, or `"silence"`.
 */
export async function scriptedServer(t, ...answers) {
  const requests = [];
  const server = createServer(async (request, response) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    requests.push({ method: request.method, url: request.url, headers: request.headers, body: Buffer.concat(parts).toString() });
    const answer = answers.length > 1 ? answers.shift() : answers[0];
    if (answer === "silence") return;
    if (answer === "reset") return request.socket.destroy();
    const { status = 200, headers = {}, body = {} } = answer;
    const text = typeof body === "string" ? body : JSON.stringify(body);
    response.writeHead(status, { "Content-Type": "application/json", ...headers }).end(status === 204 ? undefined : text);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${server.address().port}`, requests, server };
}

export function problem(status, code, more = {}, headers = {}) {
  const body = { type: `urn:hookfast:problem:${code}`, title: "…", status, detail: "It failed.", code, ...more };
  return { status, headers: { "Content-Type": "application/problem+json", ...headers }, body };
}
