//! `read_file` and `write_file`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::session;

#[test]
fn what_is_written_is_read() {
    let session = session();
    let text = "héllo\n\"quotes\" `ticks` $(touch /tmp/x) \u{0}\u{1f600}\r\n";
    let written = session.ok("write_file", json!({ "path": "a/b/c.txt", "content": text }));
    assert_eq!(written, json!({ "ok": true, "size": text.len() }));
    let read = session.ok("read_file", json!({ "path": "/home/user/a/b/c.txt" }));
    assert_eq!(read, json!({ "content": text, "size": text.len() }), "a relative path starts at home");
}

#[test]
fn a_file_is_replaced_or_appended_to() {
    let session = session();
    session.write("f", "one");
    session.write("f", "two");
    let written = session.ok("write_file", json!({ "path": "f", "content": "+3", "append": true }));
    assert_eq!(written["size"], 5);
    assert_eq!(session.read("f"), "two+3");
    session.ok("write_file", json!({ "path": "new", "content": "1", "append": true }));
    assert_eq!(session.read("new"), "1", "append makes a file that is not there");
}

#[test]
fn bytes_stay_bytes() {
    let session = session();
    let bytes: Vec<u8> = (0..=255).collect();
    let content = STANDARD.encode(&bytes);
    let written = session.ok("write_file", json!({ "path": "b", "content": content, "encoding": "base64" }));
    assert_eq!(written["size"], 256);
    let read = session.ok("read_file", json!({ "path": "b" }));
    assert_eq!(read, json!({ "content": content, "size": 256, "encoding": "base64" }));
    session
        .ok("write_file", json!({ "path": "b", "content": content, "encoding": "base64", "append": true }));
    let read = session.ok("read_file", json!({ "path": "b", "offset": 256 }));
    assert_eq!(read["content"], content);
    let text = session.ok("read_file", json!({ "path": "b", "offset": 65, "limit": 3 }));
    assert_eq!(text["content"], "ABC", "a part of it may be text");
}

#[test]
fn a_long_file_is_read_in_parts() {
    let session = session();
    let text = "ü".repeat(200_000);
    session.write("long", &text);
    let mut whole = String::new();
    let mut offset = json!(0);
    let mut parts = 0;
    while !offset.is_null() {
        let part = session.ok("read_file", json!({ "path": "long", "offset": offset }));
        assert_eq!(part["size"], 400_000);
        assert_eq!(part.get("truncated"), part.get("next_offset").map(|_| &json!(true)));
        assert!(part.get("encoding").is_none(), "text is cut between characters");
        whole += part["content"].as_str().expect("text");
        offset = part["next_offset"].clone();
        parts += 1;
    }
    assert_eq!((whole == text, parts), (true, 2));
}

#[test]
fn the_smallest_part_comes_to_an_end() {
    let session = session();
    session.write("f", "a😀b");
    let part = session.ok("read_file", json!({ "path": "f", "offset": 1, "limit": 1 }));
    assert_eq!(part, json!({ "content": "😀", "size": 6, "truncated": true, "next_offset": 5 }));
    let end = session.ok("read_file", json!({ "path": "f", "offset": 6 }));
    assert_eq!(end, json!({ "content": "", "size": 6 }));
    assert_eq!(session.ok("read_file", json!({ "path": "f", "offset": u64::MAX / 2 }))["content"], "");
}

#[test]
fn odd_names_are_names() {
    let session = session();
    let long = "n".repeat(255);
    let quoted = "q'\"`$(x)";
    for name in ["-rf", "a b", "new\nline", "日本", " ", "*", "~", "$HOME", quoted, &long] {
        session.write(name, name);
        assert_eq!(session.read(&format!("/home/user/{name}")), name);
    }
}
