// The engine's entrance to the network of a container: `CONNECT` to one of the ports, like workerd's sidecar, on a
// socket that both sides can access.

import http from "node:http";
import net from "node:net";

/** @param {string} path the path of the socket */
export function openDoor(path) {
  const door = http.createServer();
  door.on("connect", (request, client, head) => {
    client.setNoDelay?.();
    const port = Number((request.headers["x-dst-addr"] ?? request.url).split(":").at(-1));
    const server = net.connect({ port, host: "127.0.0.1", noDelay: true }, () => {
      client.write("HTTP/1.1 200 OK\r\n\r\n");
      server.write(head);
      client.pipe(server).pipe(client);
    });
    server.on("error", () => client.end("HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n"));
    client.on("error", () => server.destroy());
    client.on("close", () => server.destroy());
    server.on("close", () => client.destroy());
  });
  door.listen(path);
}

// As a separate program.
if (process.argv[2]) openDoor(process.argv[2]);
