// A fake guest for containers: `node fake.mjs MODE`, with one of the modes below. It listens on the guest's port.

import { writeFileSync, existsSync } from "node:fs";
import net from "node:net";

const PORT = 5693;

/** Encodes a frame. */
function frame(call, kind, said = Buffer.alloc(0)) {
  const head = Buffer.alloc(9);
  head.writeUInt32LE(5 + said.length, 0);
  head.writeUInt32LE(call, 4);
  head.writeUInt8(kind, 8);
  return Buffer.concat([head, said]);
}

/** Performs the handshake, and passes each request to `asked`: its number and its JSON. */
function guest(socket, asked) {
  let left = Buffer.alloc(0);
  socket.on("data", (bytes) => {
    left = Buffer.concat([left, bytes]);
    while (left.length >= 4 && left.length >= 4 + left.readUInt32LE(0)) {
      const [call, kind] = [left.readUInt32LE(4), left.readUInt8(8)];
      const said = left.subarray(9, 4 + left.readUInt32LE(0));
      left = left.subarray(4 + left.readUInt32LE(0));
      if (kind === 0) socket.write(frame(0, 1, Buffer.from('{"protocol":2,"version":"0"}')));
      if (kind === 2) asked(call, JSON.parse(said));
    }
  });
}

const done = (socket, call, ok = {}) => socket.write(frame(call, 3, Buffer.from(JSON.stringify({ ok }))));

/** Answers the requests that set up a sandbox, and passes on the others. */
const furnished = (other) => (socket) =>
  guest(socket, (call, request) => {
    if (request.make_dir) return done(socket, call);
    if (request.read?.path.startsWith("/proc/")) return done(socket, call);
    if (request.list?.path !== "/proc") return other(socket, call, request);
    socket.write(frame(call, 4, Buffer.from("\x01[]")));
    done(socket, call);
  });

const modes = {
  /** Accepts connections and sends nothing. */
  mute() {},

  /** Accepts connections and closes them. */
  stranger: (socket) => socket.end(),

  /** Is not a koze guest. */
  web: (socket) => socket.end("HTTP/1.1 400 Bad Request\r\n\r\n"),

  /** Is the guest of a later koze version. */
  newer: (socket) => socket.end(frame(0, 1, Buffer.from('{"protocol":3,"version":"9.0.0"}'))),

  /** Answers each request with an invalid frame length. */
  garbage: furnished((socket) => socket.write(Buffer.alloc(1000, 0xff))),

  /** Answers calls that do not exist. */
  astray: furnished((socket) => done(socket, 0xffff)),

  /** Sends far more data than requested. */
  flood: furnished((socket, call) => {
    const more = Buffer.concat([Buffer.from([1]), Buffer.alloc(65536)]);
    for (let n = 0; n < 300; n++) socket.write(frame(call, 4, more));
  }),

  /** Answers with values of wrong types. */
  liar: furnished((socket, call, request) => {
    if (request.list) {
      socket.write(frame(call, 4, Buffer.from("\x01not a list")));
      return done(socket, call);
    }
    return done(socket, call, { exit_code: "none", size: -0.5, kind: 7, mode: {} });
  }),

  /** Answers with invalid JSON. */
  babble: furnished((socket, call) => socket.write(frame(call, 3, Buffer.from("{")))),

  /** Is an earlier guest, which knows no archives, searches and trees. */
  older: furnished((socket, call, request) => {
    const text = `the guest does not understand the request: unknown variant \`${Object.keys(request)[0]}\`, expected one of`;
    socket.write(frame(call, 3, Buffer.from(JSON.stringify({ failed: { why: "invalid_input", text } }))));
  }),

  /** Fails with unknown error codes. */
  odd: furnished((socket, call) =>
    socket.write(frame(call, 3, Buffer.from('{"failed":{"why":"toString","text":"/etc/secret"}}'))),
  ),

  /** Performs requests without answering. */
  silent: furnished((socket, call, request) => {
    const path = "/opt/shared/asked";
    writeFileSync(path, `${JSON.stringify(request)}\n`, { flag: "a" });
    if (existsSync("/opt/shared/hang-up")) socket.destroy();
  }),
};

net.createServer((socket) => {
  socket.on("error", () => {});
  modes[process.argv[2]](socket);
}).listen(PORT);
