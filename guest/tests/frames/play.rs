//! Plays untrusted bytes to a connection: it must not panic or break its own rules, and must behave the same however
//! the bytes are split. Programs and files are left out: requests are only decoded, and streams are read.

use std::collections::HashMap;
use std::sync::Arc;

use koze_guest::container::frame::{CREDIT, Decoder, Kind, MAX_FRAME, PIECE, encode};
use koze_guest::container::request::{Hello, Request};
use koze_guest::container::streams::Streams;
use koze_guest::container::table::Table;

/// Plays an input: the first byte selects how to interpret the rest.
pub(crate) fn check(input: &[u8]) {
    let Some((how, rest)) = input.split_first() else { return };
    match how % 3 {
        0 => pieces(rest),
        1 => {
            play(&frames(rest), 4096);
        }
        _ => drop(serde_json::from_slice::<Hello>(rest)),
    }
}

/// Plays the raw bytes, at once and one by one.
fn pieces(bytes: &[u8]) {
    assert_eq!(play(bytes, usize::MAX), play(bytes, 1));
}

/// Creates well-formed frames, from three bytes of the input each: kind, call and length.
fn frames(input: &[u8]) -> Vec<u8> {
    const LENGTHS: [usize; 8] = [0, 1, 4, 5, 100, PIECE - 1, PIECE, PIECE + 1];
    const TEXTS: [&str; 6] = [
        r#"{"write":{"root":"/","path":"/x"}}"#,
        r#"{"stat":{"root":"/","path":"/x"}}"#,
        r#"{"exec":{"argv":["a"],"cwd":"/","timeout_ms":1,"max_output":1}}"#,
        r#"{"unpack":{"root":"/","path":"/x"}}"#,
        r#"{"pack":{"root":"/","path":"/x","except":""}}"#,
        "{",
    ];
    let mut all = Vec::new();
    let mut texts = TEXTS.iter().cycle();
    for op in input.chunks_exact(3) {
        let call = u32::from(op[1] % 8);
        let payload = vec![op[1] / 8 % 4; LENGTHS[usize::from(op[2] % 8)]];
        all.extend(match op[0] % 8 {
            0 | 1 => encode(call, Kind::Request, texts.next().unwrap_or(&"").as_bytes()),
            2 => encode(call, Kind::Request, &vec![b' '; payload.len()]),
            3 => encode(call, Kind::Data, &payload),
            4 => encode(call, Kind::Data, &[&[0], &payload[..payload.len().min(PIECE)]].concat()),
            5 => encode(call, Kind::End, &[op[2] / 128]),
            6 => encode(call, Kind::Credit, &[op[1] / 8 % 4, 0, op[2], 0, op[2] / 2]),
            _ => encode(call, Kind::Cancel, &[]),
        });
    }
    all
}

/// A call in this model.
#[derive(Default)]
struct Model {
    arrived: usize,
    taken: usize,
    ended: bool,
}

/// Returns the decoded requests, and whether a rule was broken.
fn play(bytes: &[u8], piece: usize) -> (Vec<(u32, Option<Request>)>, bool) {
    let (mut decoder, mut table) = (Decoder::new(MAX_FRAME), Table::default());
    let mut open: HashMap<u32, (Arc<Streams>, Model)> = HashMap::new();
    let (mut asked, mut rest, mut buffer) = (Vec::new(), bytes, vec![0; PIECE]);
    loop {
        loop {
            let frame = match decoder.next() {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(_) => return (asked, true),
            };
            assert!(frame.payload.len() <= MAX_FRAME);
            let (call, kind, length) = (frame.call, frame.kind, frame.payload.len());
            match table.take(&frame) {
                Err(_) => {
                    table.stop();
                    assert!(
                        open.values().all(|(streams, _)| streams.stopped()),
                        "work continues after its connection ended"
                    );
                    return (asked, true);
                }
                Ok(Some(one)) => {
                    asked.push((one.call, one.request.ok()));
                    assert!(
                        open.insert(one.call, (one.streams, Model::default())).is_none(),
                        "a number twice"
                    );
                }
                Ok(None) => {}
            }
            let Some((streams, model)) = open.get_mut(&call) else { continue };
            if streams.stopped() {
                continue;
            }
            match kind {
                Kind::Data => model.arrived += length - 1,
                Kind::End => model.ended = true,
                _ => {}
            }
            // Read after every other frame, so that some data is buffered.
            if length % 2 == 0 && (model.arrived > model.taken || model.ended) {
                let (length, _) = streams.take(&mut buffer).expect("the call was not stopped");
                model.taken += length;
                assert!(model.taken <= model.arrived && (length > 0 || model.ended));
            }
            assert!(model.arrived - model.taken <= CREDIT as usize, "more than the credit");
        }
        if rest.is_empty() {
            return (asked, false);
        }
        let space = decoder.space();
        let length = rest.len().min(space.len()).min(piece);
        assert!(length > 0, "there is always space");
        space[..length].copy_from_slice(&rest[..length]);
        decoder.filled(length);
        rest = &rest[length..];
    }
}
