// A connection to a Worker that costs little itself, to measure requests.

import { connect } from "node:net";

/** Opens a connection for sequential requests. */
export async function connection(url) {
  const socket = connect({ host: url.hostname, port: Number(url.port), noDelay: true });
  let [read, answered] = ["", undefined];
  socket.setEncoding("latin1");
  socket.on("data", (chunk) => {
    read += chunk;
    const end = read.indexOf("\r\n\r\n");
    const length = Number(/\r\ncontent-length: (\d+)\r\n/i.exec(read.slice(0, end + 2))?.[1]);
    if (end >= 0 && !(read.length < end + 4 + length)) answered?.resolve(read);
  });
  socket.on("error", (error) => answered?.reject(error));
  socket.on("close", () => answered?.reject(new Error("the Worker closed the connection")));
  return {
    /** Sends a request, and returns the whole answer and the microseconds until its end. */
    async send(request) {
      answered = Promise.withResolvers();
      read = "";
      const start = performance.now();
      socket.write(request);
      const answer = await answered.promise;
      return { answer, us: (performance.now() - start) * 1000 };
    },
    end: () => socket.destroy(),
  };
}

/** Returns a request. @param {string} path @param {Record<string, string>} headers @param {unknown} value */
export function post(path, headers, value) {
  const body = JSON.stringify(value);
  const lines = Object.entries({ host: "localhost", ...headers, "content-type": "application/json", "content-length": body.length });
  return [`POST ${path} HTTP/1.1`, ...lines.map(([name, text]) => `${name}: ${text}`), "", body].join("\r\n");
}

/** Returns the JSON of an answer. */
export function read(answer) {
  if (!answer.startsWith("HTTP/1.1 200 ")) throw new Error(`a Worker refuses:\n${answer}`);
  return JSON.parse(answer.slice(answer.indexOf("\r\n\r\n")));
}
