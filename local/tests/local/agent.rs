//! The example agent, against a server that plays the model.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Test;
use crate::stage::within;

/// The argument that makes this program the example.
pub(crate) const EXAMPLE: &str = "KOZE_TEST_AGENT";
const KEY: &str = "a-key-that-nobody-sees";

pub(crate) const TESTS: &[Test] = &[
    ("agent_calls_tools", calls_tools),
    ("agent_stops_after_so_many_steps", stops_after_so_many_steps),
    ("agent_reports_why_it_ends", reports_why_it_ends),
    ("agent_retries_a_limited_number_of_times", retries_a_limited_number_of_times),
];

/// A response of the server: status and body.
type Answer = (u16, Value);

struct Asked {
    head: String,
    body: Value,
}

struct Ended {
    stdout: String,
    stderr: String,
    success: bool,
    asked: Vec<Asked>,
}

fn message(stop_reason: &str, content: Value) -> Answer {
    let mut message = json!({ "role": "assistant", "stop_reason": stop_reason });
    message["content"] = content;
    (200, message)
}

fn tool_use(id: &str, name: &str, input: Value) -> Value {
    let mut block = json!({ "type": "tool_use", "id": id, "name": name });
    block["input"] = input;
    block
}

/// Runs the example against the responses in order; the last one is repeated.
fn play(answers: Vec<Answer>) -> Ended {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (tell, asked) = channel();
    std::thread::spawn(move || {
        let mut answers = answers.into_iter().peekable();
        while let Ok((stream, _)) = listener.accept() {
            let Some(answer) = answers.next() else { return };
            let last = answers.peek().is_none();
            if tell.send(serve(stream, &answer)).is_err() {
                return;
            }
            if last {
                answers = vec![answer].into_iter().peekable();
            }
        }
    });
    let mut child = Command::new(std::env::current_exe().unwrap())
        .arg("Do it.")
        .env(EXAMPLE, "1")
        .env("ANTHROPIC_BASE_URL", &url)
        .env("ANTHROPIC_API_KEY", KEY)
        .env_remove("ANTHROPIC_MODEL")
        .env("NO_PROXY", "127.0.0.1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_mins(2);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > until {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().unwrap();
    ended(&output, &asked)
}

fn ended(output: &std::process::Output, asked: &Receiver<Asked>) -> Ended {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let ended = Ended {
        stdout: text(&output.stdout),
        stderr: text(&output.stderr),
        success: output.status.success(),
        asked: asked.try_iter().collect(),
    };
    assert!(!ended.stdout.contains(KEY) && !ended.stderr.contains(KEY), "{} {}", ended.stdout, ended.stderr);
    ended
}

/// Reads a request and responds to it.
fn serve(stream: TcpStream, (status, body): &Answer) -> Asked {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while reader.read_line(&mut head).unwrap() > 2 {}
    let head = head.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
    let mut bytes = vec![0; length.trim().parse().unwrap()];
    reader.read_exact(&mut bytes).unwrap();
    let answer = body.to_string();
    let (length, mut stream) = (answer.len(), reader.into_inner());
    write!(
        stream,
        "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\nretry-after: 0\r\nconnection: close\r\n\
         content-length: {length}\r\n\r\n{answer}"
    )
    .unwrap();
    Asked { head, body: serde_json::from_slice(&bytes).unwrap() }
}

fn calls_tools() -> Result<(), libtest_mimic::Failed> {
    within(async {
        // Each waits for a file that the other creates, so they only succeed if they run concurrently.
        let meet = |mine: &str, other: &str| {
            let command = format!("touch {mine}; until [ -e {other} ]; do sleep 0.05; done; echo {mine}");
            json!({ "command": command, "timeout_ms": 30_000 })
        };
        let both = json!([
            { "type": "text", "text": "Both at once." },
            tool_use("id-1", "shell", meet("one", "two")),
            tool_use("id-2", "shell", meet("two", "one")),
        ]);
        let wrong = json!([
            tool_use("id-3", "toString", json!({})),
            tool_use("id-4", "shell", json!({ "command": "exit 3" })),
        ]);
        let pause = json!([{ "type": "text", "text": "Let me think." }]);
        let played = play(vec![
            (529, json!({ "error": { "type": "overloaded_error", "message": "Overloaded" } })),
            message("tool_use", both.clone()),
            message("tool_use", wrong.clone()),
            message("pause_turn", pause.clone()),
            message(
                "end_turn",
                json!([{ "type": "text", "text": "All " }, { "type": "text", "text": "done." }]),
            ),
        ]);
        assert!(played.success, "{}", played.stderr);
        assert_eq!(played.stdout, "All done.\n");
        let [busy, first, second, third, fourth] = &played.asked[..] else {
            panic!("{}", played.asked.len())
        };
        assert_eq!(busy.body, first.body, "the same request is retried");
        assert!(first.head.starts_with("post /v1/messages http/1.1\r\n"), "{}", first.head);
        assert!(first.head.contains(&format!("x-api-key: {KEY}")), "{}", first.head);
        assert!(first.head.contains("anthropic-version: 2023-06-01"), "{}", first.head);
        let tools = first.body["tools"].as_array().unwrap();
        assert_eq!(tools.len(), 12);
        for tool in tools {
            assert_eq!(tool["input_schema"]["type"], "object");
            assert!(
                tool["name"].is_string()
                    && tool["description"].is_string()
                    && tool.get("inputSchema").is_none()
            );
        }
        assert!(first.body["model"].is_string() && first.body["max_tokens"].is_u64());

        let prompt = json!({ "role": "user", "content": "Do it." });
        let ran = |id: &str, stdout: &str, code: i32| {
            let content = json!({ "stdout": stdout, "stderr": "", "exit_code": code }).to_string();
            json!({ "type": "tool_result", "tool_use_id": id, "content": content, "is_error": code != 0 })
        };
        let results =
            json!({ "role": "user", "content": [ran("id-1", "one\n", 0), ran("id-2", "two\n", 0)] });
        assert_eq!(first.body["messages"], json!([prompt]));
        assert_eq!(
            second.body["messages"],
            json!([prompt, { "role": "assistant", "content": both }, results])
        );
        let results = &third.body["messages"][4];
        assert_eq!((&results["role"], &results["content"][1]), (&json!("user"), &ran("id-4", "", 3)));
        let unknown = &results["content"][0];
        assert_eq!((&unknown["tool_use_id"], &unknown["is_error"]), (&json!("id-3"), &json!(true)));
        assert!(
            unknown["content"].as_str().is_some_and(|text| text.starts_with("unknown_tool: ")),
            "{unknown}"
        );
        assert_eq!(fourth.body["messages"].as_array().unwrap().len(), 6, "a pause adds no message");
        assert_eq!(fourth.body["messages"][5], json!({ "role": "assistant", "content": pause }));
    })
}

fn stops_after_so_many_steps() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let call = tool_use("id", "sandbox_list", json!({}));
        let played = play(vec![message("tool_use", json!([call]))]);
        assert_eq!((played.success, played.asked.len()), (false, 30), "{}", played.stderr);
        assert_eq!(played.stderr, "error: no end after 30 steps\n");
    })
}

fn reports_why_it_ends() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let cut = json!([{ "type": "text", "text": "It is" }]);
        for (answer, why) in [
            (message("refusal", json!([])), "the model refused to go on"),
            (message("max_tokens", cut), "the answer was cut off after 8192 tokens: It is"),
            (message("new", json!([])), "the model stopped for a reason this agent does not know: \"new\""),
            (
                (401, json!({ "error": { "message": "invalid x-api-key" } })),
                "the API answered 401: invalid x-api-key",
            ),
            ((404, json!("nothing")), "the API answered 404: it does not say why"),
        ] {
            let played = play(vec![answer]);
            assert_eq!((played.success, played.asked.len()), (false, 1), "{why}");
            assert_eq!(played.stderr, format!("error: {why}\n"));
            assert_eq!(played.stdout, "");
        }
    })
}

fn retries_a_limited_number_of_times() -> Result<(), libtest_mimic::Failed> {
    within(async {
        for status in [429, 500, 529] {
            let played = play(vec![(status, json!({ "error": { "message": "later" } }))]);
            assert_eq!((played.success, played.asked.len()), (false, 5), "{status}");
            assert_eq!(played.stderr, format!("error: the API answered {status}: later\n"));
        }
    })
}
