import { createReadStream } from "node:fs";
import { createServer } from "node:http";

const files = { "/": "index.html", "/assets/style.css": "assets/style.css" };

createServer((request, response) => {
  const file = files[request.url];
  if (!file) return response.writeHead(404).end();
  createReadStream(`static/${file}`).pipe(response);
}).listen(8000, "127.0.0.1");
