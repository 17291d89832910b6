//! Frames from arbitrary bytes: the inputs of `cargo xtask fuzz`, its corpus and more.
#![cfg(target_os = "linux")]

#[path = "frames/play.rs"]
mod play;

use std::path::Path;

use koze_guest::container::frame::{Kind, encode};
use proptest::collection::vec;
use proptest::prelude::*;

#[test]
fn the_corpus() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/guest");
    let mut count = 0;
    for entry in std::fs::read_dir(corpus).unwrap() {
        play::check(&std::fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count >= 5, "{count}");
}

/// The seeds of the corpus, written with `KOZE_BLESS=1`.
#[test]
fn seeds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/guest");
    let write = br#"{"write":{"root":"/","path":"/x"}}"#;
    let raw = [
        &[0][..],
        &encode(1, Kind::Request, write),
        &encode(1, Kind::Data, b"\0abc"),
        &encode(1, Kind::End, &[0]),
        &encode(1, Kind::Credit, &[1, 1, 0, 0, 0]),
        &encode(1, Kind::Cancel, &[]),
    ]
    .concat();
    let tree = [
        &[0][..],
        &encode(1, Kind::Request, br#"{"unpack":{"root":"/","path":"/x"}}"#),
        &encode(1, Kind::Data, b"\0\x05\0\0\0\0\x01\0\xa4\x03"),
        &encode(2, Kind::Request, br#"{"pack":{"root":"/","path":"/x","except":".y"}}"#),
        &encode(2, Kind::Credit, &[1, 0, 0, 4, 0]),
        &encode(1, Kind::End, &[0]),
    ]
    .concat();
    let long = [&[0][..], &encode(1, Kind::Request, write)[..20], &u32::MAX.to_le_bytes()].concat();
    let formed =
        [&[1][..], &[0, 1, 0, 4, 1, 6, 4, 1, 6, 5, 1, 0, 1, 2, 0, 6, 10, 3, 7, 1, 0, 2, 3, 6, 2, 3, 1]]
            .concat();
    let hello = [&[2][..], br#"{"token":"00","protocol":1}"#].concat();
    for (name, bytes) in
        [("a-call", raw), ("a-cut-frame", long), ("a-tree", tree), ("forms", formed), ("hello", hello)]
    {
        if std::env::var_os("KOZE_BLESS").is_some() {
            std::fs::write(corpus.join(name), &bytes).unwrap();
        }
        assert!(
            std::fs::read(corpus.join(name)).is_ok_and(|seed| seed == bytes),
            "KOZE_BLESS=1 writes {name}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes(input in vec(any::<u8>(), 0..600)) {
        play::check(&input);
    }
}
