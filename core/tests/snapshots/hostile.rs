//! Files of snapshots that koze has not exported: what is imported can be restored, and nothing else is imported.

use std::collections::BTreeMap;

use koze_core::Code;
use koze_core::path::anywhere;
use koze_core::provider::memory::Memory;
use koze_core::sandbox::Sandbox as _;
use koze_core::workspace::{Snapshot, SnapshotConfig};
use koze_protocol::tar::{Entry, What, end, padding, write_header};
use sha2::{Digest as _, Sha256};

use crate::{blobs, config, import, open, run, sandbox, session, tree};

/// Returns an archive with these entries, whose files have content.
fn archive(entries: &[Entry]) -> Vec<u8> {
    let mut tar = Vec::new();
    for entry in entries {
        let start = tar.len();
        write_header(entry, &mut tar);
        set_mode(&mut tar[start..], entry.mode);
        if let What::File(size) = entry.what {
            tar.extend(vec![b'x'; usize::try_from(size).unwrap()]);
            tar.extend(padding(size));
        }
    }
    tar.extend(end());
    tar
}

/// Sets permission bits that koze does not write, in a header without extensions.
fn set_mode(header: &mut [u8], mode: u32) {
    header[100..107].copy_from_slice(format!("{mode:07o}").as_bytes());
    header[148..156].fill(b' ');
    let sum: u32 = header[..512].iter().map(|byte| u32::from(*byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
}

/// Returns the file of a snapshot with this archive, and with a manifest that is true.
fn file(tar: &[u8], entries: &[Entry]) -> Vec<u8> {
    let mut archive = Vec::new();
    for part in tar.chunks(1 << 20) {
        let frame = zstd::bulk::compress(part, 1).unwrap();
        archive.extend(0x184D_2A50_u32.to_le_bytes());
        archive.extend(4_u32.to_le_bytes());
        archive.extend(u32::try_from(frame.len()).unwrap().to_le_bytes());
        archive.extend(frame);
    }
    let bytes: u64 =
        entries.iter().map(|entry| if let What::File(size) = entry.what { size } else { 0 }).sum();
    let count = entries.iter().filter(|entry| !entry.name.is_empty()).count();
    let hash = Sha256::digest(&archive).iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    let manifest = serde_json::json!({
        "format": 1, "id": format!("snap_{}", "0".repeat(32)), "workspace": "box", "session": "a",
        "dir": "/workspace", "created": 1, "contents": { "entries": count, "bytes": bytes },
        "archive_bytes": archive.len(), "sha256": hash,
    })
    .to_string();
    let length = u32::try_from(manifest.len()).unwrap().to_le_bytes();
    [&0x184D_2A5B_u32.to_le_bytes()[..], &length, manifest.as_bytes(), &archive].concat()
}

fn entry(name: &str, what: What, mode: u32) -> Entry {
    Entry { name: name.to_owned(), what, mode, mtime: 0 }
}

/// Random numbers that are the same in every run.
struct Random(u32);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as usize % most
    }

    /// Returns entries of which about half the lists have a fault.
    fn entries(&mut self) -> Vec<Entry> {
        let mut entries = vec![entry("", What::Directory, 0o755)];
        for _ in 0..=self.below(6) {
            let name = ["a", "b", "a/c", "b/c", "a/c/d", "a/e", "f", "g/h/i", ""][self.below(9)];
            let what = match self.below(6) {
                _ if name.is_empty() => What::Directory,
                0 => What::Link(["b", "/etc/passwd", "", "../x"][self.below(4)].to_owned()),
                1 | 2 => What::Directory,
                _ => What::File([0, 3, 200_000][self.below(3)]),
            };
            let mode = [0o644, 0o755, 0o4755, 0o2750, 0o1777, 0o7777][self.below(6)];
            entries.push(entry(name, what, mode));
        }
        entries
    }
}

/// Returns the modes of what the entries create, or `None` if they cannot be created one after the other.
fn expected(entries: &[Entry]) -> Option<BTreeMap<String, Option<u32>>> {
    let mut there: BTreeMap<String, Option<u32>> = BTreeMap::new();
    let (mut listed, mut directories) = (Vec::new(), Vec::new());
    for Entry { name, what, mode, .. } in entries {
        if listed.contains(name) || *what == What::Link(String::new()) {
            return None;
        }
        for (at, _) in name.match_indices('/') {
            let above = &name[..at];
            if there.contains_key(above) && !directories.contains(&above.to_owned()) {
                return None;
            }
            directories.push(above.to_owned());
            there.entry(above.to_owned()).or_insert(None);
        }
        let is_directory = *what == What::Directory;
        if there.contains_key(name) && !is_directory {
            return None;
        }
        if is_directory {
            directories.push(name.clone());
        }
        listed.push(name.clone());
        let mode = (!matches!(what, What::Link(_))).then_some(mode & 0o777);
        if !name.is_empty() {
            there.insert(name.clone(), mode);
        }
    }
    Some(there)
}

#[test]
fn what_is_imported_can_be_restored() {
    run(async {
        let session = session(Memory::new(), "a", &config(SnapshotConfig::default()));
        let workspace = open(&session).await;
        let store = session.store().unwrap();
        let (mut random, mut counts) = (Random(7), (0, 0));
        for round in 0..400 {
            let entries = random.entries();
            let imported = import(&workspace, &file(&archive(&entries), &entries)).await;
            let snapshots = workspace.snapshot().unwrap();
            let Some(expected) = expected(&entries) else {
                let error = imported.expect_err(&format!("{round}: {entries:?}"));
                assert_eq!(error.code, Code::InvalidInput, "{round}: {error}");
                assert!(error.message.contains("the archive's entry `"), "{round}: {error}");
                assert_eq!(
                    (snapshots.list().await.unwrap(), blobs(&store).await),
                    (Vec::<Snapshot>::new(), 0)
                );
                counts.0 += 1;
                continue;
            };
            let imported = imported.unwrap_or_else(|error| panic!("{round}: {error}: {entries:?}"));
            let restored = snapshots.restore(&imported.id, None).await.unwrap();
            let copy = sandbox(&session, restored.workspace.as_str()).await;
            let there = tree(&copy, "/workspace").await;
            let names: Vec<&str> = there.iter().map(|one| &one.0["/workspace/".len()..]).collect();
            assert_eq!(names, expected.keys().collect::<Vec<_>>(), "{round}: {entries:?}");
            for ((_, _, mode, _), expected) in there.iter().zip(expected.values()) {
                assert!(expected.is_none_or(|expected| *mode == expected), "{round}: {mode:o}: {entries:?}");
            }
            copy.destroy().await.unwrap();
            snapshots.remove(&imported.id).await.unwrap();
            counts.1 += 1;
        }
        assert!(counts.0 > 100 && counts.1 > 100, "{counts:?}");
    });
}

#[test]
fn what_has_a_false_manifest_is_not_imported() {
    run(async {
        let session = session(Memory::new(), "a", &config(SnapshotConfig::default()));
        let workspace = open(&session).await;
        let entries = [entry("", What::Directory, 0o755), entry("a", What::File(3), 0o4755)];
        let good = file(&archive(&entries), &entries);
        let length = usize::try_from(u32::from_le_bytes(good[4..8].try_into().unwrap())).unwrap();
        let manifest: serde_json::Value = serde_json::from_slice(&good[8..8 + length]).unwrap();
        let mut random = Random(11);
        for round in 0..200 {
            let mut changed = manifest.clone();
            let key = ["format", "id", "created", "contents", "archive_bytes", "sha256"][random.below(6)];
            changed[key] = match (key, random.below(4)) {
                (_, 0) => serde_json::Value::Null,
                ("created" | "format", _) => serde_json::json!(-1),
                ("id" | "sha256", number) => "0".repeat(number * 32).into(),
                ("contents", number) => serde_json::json!({ "entries": number + 1, "bytes": 3 }),
                (_, number) => [0, 1 << 20, u64::MAX][number - 1].into(),
            };
            let text = changed.to_string();
            let head = u32::try_from(text.len()).unwrap().to_le_bytes();
            let file = [&good[..4], &head, text.as_bytes(), &good[8 + length..]].concat();
            let error = import(&workspace, &file).await.expect_err(&format!("{round}: {text}"));
            let is_expected = matches!(error.code, Code::InvalidInput | Code::TooLarge);
            assert!(is_expected, "{round}: {error}: {text}");
        }
        assert!(workspace.snapshot().unwrap().list().await.unwrap().is_empty());
        assert_eq!(blobs(&session.store().unwrap()).await, 0);
        let imported = import(&workspace, &good).await.unwrap();
        let restored = workspace.snapshot().unwrap().restore(&imported.id, None).await.unwrap();
        let copy = sandbox(&session, restored.workspace.as_str()).await;
        assert_eq!(copy.stat(anywhere("/workspace/a")).await.unwrap().mode, 0o755);
    });
}
