// A receiver on Node's http module. `node receiver.js [SECONDS]` prints its port; the seconds are
// for `keepAliveTimeout`.
"use strict";

const http = require("node:http");

const server = http.createServer((request, response) => {
  request.resume();
  request.on("end", () => response.end("ok"));
});
if (process.argv[2] !== undefined) {
  server.keepAliveTimeout = Number(process.argv[2]) * 1000;
}
server.listen(0, "127.0.0.1", 1024, () => console.log(server.address().port));
