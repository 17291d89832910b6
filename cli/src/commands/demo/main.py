from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

handler = partial(SimpleHTTPRequestHandler, directory="static")
ThreadingHTTPServer(("127.0.0.1", 8000), handler).serve_forever()
