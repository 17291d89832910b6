# A server with TLS that publishes the credential of each request in every encoding. It writes the heads that it received to `received`.
import base64, json, ssl, sys, urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        key = self.headers.get("Authorization", "").removeprefix("Bearer ")
        with open("received", "a") as received:
            received.write(f"{self.path} {key}\n")
        percent = "".join(f"%{byte:02X}" for byte in key.encode())
        forms = [
            key,
            json.dumps({"key": key}),
            urllib.parse.quote(key),
            percent,
            percent.lower(),
            urllib.parse.quote(key, safe=""),
            urllib.parse.quote_plus(key),
            base64.b64encode(key.encode()).decode(),
            base64.urlsafe_b64encode(key.encode()).decode(),
            key.encode().hex(),
            key.encode().hex().upper(),
        ]
        body = "\n".join(forms).encode()
        self.send_response(200)
        self.send_header("X-Key", key)
        self.send_header("Set-Cookie", f"key={key}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("server.pem", "server.key")
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
