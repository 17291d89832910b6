//! Node, with the packages that `cargo xtask setup` installs.

use std::path::Path;
use std::process::Command;

use koze_core::egress::Placement;
use koze_core::sandbox::{Sandbox as _, Write};

use super::server::{Reply, Request};
use super::{Scene, Stage, VALUE, credential};
use crate::stage::{at, within};

/// Puts Node 22 into a sandbox, as `node` in its home directory.
pub(super) async fn node_program(stage: &Stage) {
    let program = std::fs::read(koze_tests::node_modules().join("node/bin/node")).unwrap();
    stage.sandbox.write(at("/home/user/node"), program, Write::Replace).await.unwrap();
    stage.run("chmod 755 node").await;
}

/// Puts the npm of this machine into a sandbox, as `npm` in its home directory.
pub(super) async fn unpack_npm(stage: &Stage) {
    let found = Command::new("sh").args(["-c", "command -v npm"]).output().unwrap();
    let found = String::from_utf8(found.stdout).unwrap();
    // The link leads to `npm/bin/npm-cli.js`.
    let script = std::fs::canonicalize(found.trim()).expect("npm is in the PATH: Node brings it");
    let modules = script.ancestors().nth(3).unwrap();
    stage.unpack(pack(modules, "npm")).await;
}

/// Packs an entry of a directory without types, sources and documents.
fn pack(directory: &Path, name: &str) -> Vec<u8> {
    let mut tar = Command::new("tar");
    tar.args([
        "--exclude=*.ts",
        "--exclude=*.mts",
        "--exclude=*.map",
        "--exclude=*.md",
        "--exclude=man",
        "--exclude=docs",
    ]);
    let output = tar.args(["-chf", "-", "-C"]).arg(directory).arg(name).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// A program for the service of `OpenAI`. It names no host, key or proxy.
const CHAT: &str = r"
import OpenAI from 'openai';
const client = new OpenAI();
const messages = [{ role: 'user', content: 'Say it.' }];
const answer = await client.chat.completions.create({ model: 'tests', messages });
console.log(answer.choices[0].message.content);
const stream = await client.chat.completions.create({ model: 'tests', messages, stream: true });
let text = '';
for await (const part of stream) text += part.choices[0]?.delta?.content ?? '';
console.log(text);
";

/// The client of a program for a Node that does not read `HTTPS_PROXY`, as the SDK's documentation has it.
const CLIENT_WITH_PROXY: &str = r"
import { fetch, ProxyAgent } from 'undici';
const dispatcher = new ProxyAgent(process.env.HTTPS_PROXY);
const client = new OpenAI({ fetch, fetchOptions: { dispatcher } });
";

/// Answers as the service of `OpenAI`, with what the request asks for, and the value that it carries.
/// Source: <https://platform.openai.com/docs/api-reference/chat>.
pub(super) fn answer_chat(request: &Request) -> Reply {
    let key = request.header("authorization").to_owned();
    if key != format!("Bearer {VALUE}") {
        let error = serde_json::json!({ "error": { "message": "Incorrect API key provided", "code": "invalid_api_key" } });
        return Reply { status: 401, ..Reply::new("application/json", error.to_string()) };
    }
    if request.path() != "/v1/chat/completions" {
        return Reply::status(404);
    }
    let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
    let asked = &body["messages"][0]["content"];
    let text = format!("{} {key}", asked.as_str().unwrap());
    let base = |kind: &str, choice: serde_json::Value| serde_json::json!({ "id": "a", "object": kind, "created": 1, "model": body["model"], "choices": [choice] });
    if body["stream"] != true {
        let message = serde_json::json!({ "role": "assistant", "content": text });
        let choice = serde_json::json!({ "index": 0, "message": message, "finish_reason": "stop" });
        return Reply::new("application/json", base("chat.completion", choice).to_string());
    }
    let event = |text: &str| {
        let choice = serde_json::json!({ "index": 0, "delta": { "content": text }, "finish_reason": null });
        format!("data: {}\n\n", base("chat.completion.chunk", choice))
    };
    let events = [event("Streamed: "), event(&text), "data: [DONE]\n\n".to_owned()].concat();
    let mut reply = Reply::new("text/event-stream", "");
    // Pieces end anywhere, also within an event and the value.
    reply.pieces = events.as_bytes().chunks(50).map(<[u8]>::to_vec).collect();
    reply
}

pub(super) fn talks_to_a_model() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let mut scene = Scene::new();
        scene.serve("openai.example", answer_chat).await;
        let key = credential("OPENAI_API_KEY", "openai.example", Placement::Bearer);
        let stage = scene.open(&[key], &[]).await;
        node_program(&stage).await;
        stage.run("mkdir node_modules").await;
        stage.unpack(pack(&koze_tests::framework_modules(), "openai")).await;
        stage.unpack(pack(&koze_tests::node_modules(), "undici")).await;
        stage.run("mv openai undici node_modules").await;
        stage.sandbox.write(at("/home/user/chat.mjs"), CHAT.into(), Write::Replace).await.unwrap();
        let stars = "*".repeat(VALUE.len());
        let expected = format!("Say it. Bearer {stars}\nStreamed: Say it. Bearer {stars}");
        let run = "OPENAI_BASE_URL=https://openai.example/v1 ./node chat.mjs";
        assert_eq!(stage.run(run).await, expected);
        let with_proxy = CHAT.replace("\nconst client = new OpenAI();\n", CLIENT_WITH_PROXY);
        assert_ne!(with_proxy, CHAT);
        stage.sandbox.write(at("/home/user/proxy.mjs"), with_proxy.into(), Write::Replace).await.unwrap();
        let older = format!("unset NODE_USE_ENV_PROXY; {}", run.replace("chat.mjs", "proxy.mjs"));
        assert_eq!(stage.run(&older).await, expected);
        let requests = stage.received();
        assert_eq!(requests.len(), 4);
        assert!(requests.iter().all(|request| request.header("user-agent").starts_with("OpenAI/JS")));

        stage.secrets.set("OPENAI_API_KEY", "another-value-0123456789").unwrap();
        let failed = stage.fail(run).await;
        assert!(failed.contains("401 Incorrect API key provided"), "{failed}");
    })
}
