//! Tasks of models, each over `koze mcp` and without a wasted call.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use koze_tests::Sandboxes;
use serde_json::{Value, json};

use crate::clients::play;
use crate::server::{project, stdio};

/// A web framework with a dependency, as wheels in an index of packages.
const INDEX: &str = r#"
import os, sys, zipfile
def wheel(name, source, needs=""):
    os.makedirs(f"simple/{name}")
    with zipfile.ZipFile(f"simple/{name}/{name}-1.0-py3-none-any.whl", "w") as file:
        about = f"{name}-1.0.dist-info/"
        file.writestr(f"{name}.py", source)
        file.writestr(about + "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needs}")
        file.writestr(about + "WHEEL", "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(about + "RECORD", "")
wheel("routes", "class Routes(dict):\n    def __call__(self, path): return lambda function: self.setdefault(path, function)\n")
wheel("tinyweb", """from routes import Routes
from wsgiref.simple_server import make_server
class App:
    def __init__(self): self.route = Routes()
    def __call__(self, environ, start):
        start("200 OK", [("Content-Type", "text/html")])
        return [self.route[environ["PATH_INFO"]]().encode()]
    def run(self, port): make_server("127.0.0.1", port, self).serve_forever()
""", "Requires-Dist: routes\n")
with open("rates.json", "w") as file: file.write('{"EUR": 1, "USD": 1.25}')
from http.server import HTTPServer, SimpleHTTPRequestHandler
server = HTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler)
print(server.server_port, flush=True)
server.serve_forever()
"#;

/// A server of packages and of data, which is killed on drop.
struct Origin(Child, String);

impl Origin {
    fn start(host: &Sandboxes) -> Self {
        fs_err::create_dir(host.path("origin")).expect("a directory");
        let mut python = Command::new("python3");
        python.args(["-c", INDEX]).current_dir(host.path("origin"));
        let mut child = python.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("python3 starts");
        let mut port = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut port).expect("its port");
        Origin(child, format!("127.0.0.1:{}", port.trim()))
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Makes the calls of a task. All of them must succeed.
fn done(server: &Value, calls: &[(&str, Value)]) -> Vec<Value> {
    let seen = play("task", "1", server, &[&json!(calls).to_string()]);
    let results = seen["results"].as_array().expect("a list");
    for ((tool, input), result) in calls.iter().zip(results) {
        assert_ne!(result["isError"], true, "{tool} {input}: {result}");
    }
    assert_eq!(results.len(), calls.len());
    results.clone()
}

fn with_tools(host: &Sandboxes, tools: &str) -> Value {
    let mut server = stdio(host);
    server["args"] = json!(["mcp", "--tools", tools]);
    server
}

/// A web server with a dependency from an index that the sandbox may reach, its test, and a look at it.
#[test]
fn a_web_server_with_a_dependency() {
    let host = project();
    let origin = Origin::start(&host);
    host.write(
        "src/server/shell.sandbox.rs",
        "use koze::prelude::*;\n\n#[sandbox(allowed_hosts = [\"packages.example\"])]\npub struct ShellSandbox;\n",
    );
    let mut server = with_tools(&host, "agent");
    server["env"]["KOZE_TESTING_NAMES"] = json!(format!("packages.example={}", origin.1));
    let app = "from tinyweb import App\n\napp = App()\n\n@app.route('/')\ndef home():\n    return '<h1>Hello</h1>'\n\n\
               if __name__ == '__main__':\n    app.run(8000)\n";
    let test = "import unittest\nfrom app import home\n\nclass Home(unittest.TestCase):\n    def test_greets(self):\n        \
                self.assertIn('Hello', home())\n";
    let install =
        "pip install -q --index-url http://packages.example/simple --trusted-host packages.example tinyweb";
    let results = done(
        &server,
        &[
            ("write_file", json!({ "path": "app.py", "content": app })),
            ("write_file", json!({ "path": "test_app.py", "content": test })),
            (
                "shell",
                json!({ "command": format!("{install} && python -m unittest -q && (python app.py &> log &)") }),
            ),
            (
                "shell",
                json!({ "command": "for i in 1 2 3 4 5; do curl -sf localhost:8000 && break; sleep 1; done" }),
            ),
            ("browse", json!({ "port": 8000 })),
        ],
    );
    let page = results[3]["structuredContent"]["stdout"].as_str().expect("a text");
    assert_eq!(page, "<h1>Hello</h1>");
    let looked = &results[4]["structuredContent"];
    assert_eq!(looked.get("note"), None, "{looked}");
    assert!(get(looked["url"].as_str().expect("a URL")).ends_with("<h1>Hello</h1>"));
}

/// Returns the answer to a request for a preview, whose host resolves to this machine.
pub(crate) fn get(url: &str) -> String {
    let host = url.strip_prefix("http://").and_then(|rest| rest.strip_suffix('/')).expect("a URL");
    let port = host.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port");
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the server of previews");
    write!(stream, "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// A table becomes a chart, which the model sees as a picture.
#[test]
fn a_table_becomes_a_chart() {
    let host = project();
    host.write(
        "src/server/lab.sandbox.rs",
        "use koze::prelude::*;\n\n#[sandbox(tools = [\"workspace\"], workspace(code))]\npub struct LabSandbox;\n",
    );
    let table = "month,sales\nJan,3\nFeb,5\nMar,4\n";
    // Nothing is installed: the standard library can write a PNG.
    let chart = "import csv, struct, zlib
from IPython.display import Image

rows = list(csv.DictReader(open('sales.csv')))
bars = [int(row['sales']) * 10 for row in rows]
width, height = 30 * len(bars), 60
lines = b''.join(
    b'\\0' + bytes(0 if x % 30 < 20 and height - y <= bars[x // 30] else 255 for x in range(width)) for y in range(height)
)
def chunk(kind, data):
    return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
header = struct.pack('>IIBBBBB', width, height, 8, 0, 0, 0, 0)
print(max(rows, key=lambda row: int(row['sales']))['month'])
Image(data=b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', header) + chunk(b'IDAT', zlib.compress(lines)) + chunk(b'IEND', b''))
";
    let results = done(
        &with_tools(&host, "workspace"),
        &[
            ("workspace__lab__write_file", json!({ "path": "sales.csv", "content": table })),
            ("workspace__lab__run_code", json!({ "language": "python", "code": chart })),
        ],
    );
    let content = results[1]["content"].as_array().expect("a list");
    let picture = content.iter().find(|part| part["type"] == "image").expect("a picture");
    assert_eq!(picture["mimeType"], "image/png");
    let png = BASE64_STANDARD.decode(picture["data"].as_str().expect("a text")).expect("Base64");
    assert!(png.starts_with(b"\x89PNG") && png.ends_with(b"IEND\xaeB`\x82"), "{picture}");
    let texts: String = content.iter().filter_map(|part| part["text"].as_str()).collect();
    assert!(texts.contains("Feb"), "{content:?}");
    assert!(!texts.contains(picture["data"].as_str().expect("a text")), "the picture is there once");
}

/// A program of Node.js reads and writes files, as a script of a shell and as code.
#[test]
fn a_program_reads_and_writes_files() {
    let host = project();
    let program = "const fs = require(\"fs\");\nconst path = require(\"path\");\nconst words = fs.readFileSync(\"in.txt\", \
                   \"utf8\").trim().split(/\\s+/);\nfs.writeFileSync(path.join(\".\", \"out.txt\"), words.sort().join(\"\\n\"));\n";
    let results = done(
        &with_tools(&host, "agent"),
        &[
            ("write_file", json!({ "path": "in.txt", "content": "pear apple fig\n" })),
            ("write_file", json!({ "path": "sort.js", "content": program })),
            ("shell", json!({ "command": "node sort.js" })),
            ("read_file", json!({ "path": "out.txt" })),
        ],
    );
    assert_eq!(results[3]["structuredContent"]["content"], "apple\nfig\npear");

    host.write(
        "src/server/lab.sandbox.rs",
        "use koze::prelude::*;\n\n#[sandbox(tools = [\"workspace\"], workspace(code))]\npub struct LabSandbox;\n",
    );
    let results = done(
        &with_tools(&host, "workspace"),
        &[
            ("workspace__lab__write_file", json!({ "path": "in.txt", "content": "pear apple fig\n" })),
            (
                "workspace__lab__run_code",
                json!({ "language": "javascript", "code": format!("{program}words.length") }),
            ),
            ("workspace__lab__read_file", json!({ "path": "out.txt" })),
        ],
    );
    let ran = results[1]["content"].to_string();
    assert!(ran.contains('3'), "{ran}");
    let read = results[2]["content"].to_string();
    assert!(read.contains("apple") && read.contains("pear"), "{read}");
}

/// A tool of the model's own, which calls a host that scripts may reach.
#[test]
fn a_tool_calls_an_allowed_host() {
    let host = project();
    let origin = Origin::start(&host);
    let manifest = host.read("Cargo.toml");
    let table = "\n[package.metadata.koze.script]\nworker = false\nallowed_hosts = [\"rates.example\"]\n";
    host.write("Cargo.toml", manifest + table);
    let mut server = with_tools(&host, "script");
    server["env"]["KOZE_TESTING_NAMES"] = json!(format!("rates.example={}", origin.1));
    let schema = json!({
        "type": "object",
        "properties": { "euros": { "type": "number" } },
        "required": ["euros"],
        "additionalProperties": false,
    });
    let code = "const rates = await (await fetch('http://rates.example/rates.json')).json();\nreturn { dollars: args.euros * rates.USD };";
    let results = done(
        &server,
        &[
            (
                "create_tool",
                json!({
                    "name": "to_dollars",
                    "description": "Converts euros to dollars at today's rate.",
                    "parameter_schema": schema,
                    "code": code,
                }),
            ),
            ("to_dollars", json!({ "euros": 4 })),
        ],
    );
    let text = results[1]["content"][0]["text"].as_str().expect("a text");
    let value: Value = serde_json::from_str(text).expect("JSON");
    assert!(value == json!({ "dollars": 5 }) || value["result"] == json!({ "dollars": 5 }), "{value}");
}
