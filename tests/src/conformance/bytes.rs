//! Binary data is preserved by all operations.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::Capability::{Exec, ManyCalls};
use super::session::{Session, every_byte};
use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case("bytes_written_are_read", written).needs(&[ManyCalls]),
    case("bytes_are_appended", appended),
    case("bytes_are_transferred", transferred),
    case("bytes_of_programs", of_programs).needs(&[Exec]),
    case("base64_that_is_none", no_base64),
];

fn written(session: &Session) {
    let bytes = every_byte();
    session.write_bytes("b", &bytes);
    let read = session.ok("read_file", json!({ "path": "b" }));
    assert_eq!(read, json!({ "content": STANDARD.encode(&bytes), "size": 512, "encoding": "base64" }));
    let text = session.ok("read_file", json!({ "path": "b", "offset": 256 + 65, "limit": 3 }));
    assert_eq!(text["content"], "ABC", "a part of it may be text");
    assert!(text.get("encoding").is_none());
    for value in 0..=255_u8 {
        // Each part alone decodes correctly, too.
        let read =
            session.ok("read_file", json!({ "path": "b", "offset": 256 + u64::from(value), "limit": 1 }));
        let expected = if value < 0x80 { char::from(value).to_string() } else { STANDARD.encode([value]) };
        assert_eq!(read["content"], expected, "{value}");
    }
}

fn appended(session: &Session) {
    let bytes = every_byte();
    session.write_bytes("b", &bytes);
    let content = STANDARD.encode(&bytes);
    let input = json!({ "path": "b", "content": content, "encoding": "base64", "append": true });
    assert_eq!(session.ok("write_file", input)["size"], 1024);
    session.ok("write_file", json!({ "path": "b", "content": "text", "append": true }));
    let read = session.ok("read_file", json!({ "path": "b" }));
    let expected = [&bytes[..], &bytes, b"text"].concat();
    assert_eq!(read["content"], STANDARD.encode(expected));
}

fn transferred(session: &Session) {
    let bytes = every_byte();
    session.write_bytes("d/b", &bytes);
    let content = STANDARD.encode(&bytes);
    for (from, to, path, recursive) in [("d/b", "b", "b", false), ("d", "d", "d/b", true)] {
        let input = json!({ "from_sandbox": "default", "from_path": from, "to_sandbox": "b", "to_path": to, "recursive": recursive });
        assert_eq!(
            session.ok("transfer", input),
            json!({ "ok": true, "bytes": 512 }),
            "bytes, not characters"
        );
        let read = session.ok("read_file", json!({ "sandbox": "b", "path": path }));
        assert_eq!(read, json!({ "content": content, "size": 512, "encoding": "base64" }));
    }
}

fn of_programs(session: &Session) {
    let script = "for n in $(seq 0 255); do printf \"\\\\x$(printf %02x $n)\"; done > all; wc -c < all";
    assert_eq!(session.out(script), "256");
    let all: Vec<u8> = (0..=255).collect();
    let read = session.ok("read_file", json!({ "path": "all" }));
    assert_eq!(read, json!({ "content": STANDARD.encode(&all), "size": 256, "encoding": "base64" }));
    session.write_bytes("copy", &all);
    assert_eq!(session.out("cmp all copy && echo same"), "same");
}

fn no_base64(session: &Session) {
    session.write("f", "old");
    for content in ["%", "abc", "ab=c", "YQ==\n", "😀", "YQ"] {
        let input = json!({ "path": "f", "content": content, "encoding": "base64" });
        session.fails("write_file", input, "invalid_input");
    }
    assert_eq!(session.read("f"), "old");
    session.ok("write_file", json!({ "path": "f", "content": "", "encoding": "base64" }));
    assert_eq!(session.read("f"), "");
}
