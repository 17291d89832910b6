//! Files: all operations, unusual names, and links that change.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use koze_core::sandbox::{Kind, Place, Write};
use koze_core::{Code, Sandbox};
use koze_local::LocalSandbox;

use crate::Test;
use crate::stage::{Stage, at, command, out, sh, within};

pub(crate) const TESTS: &[Test] = &[
    ("write_read_stat", write_read_stat),
    ("unusual_names", unusual_names),
    ("links", links),
    ("directories", directories),
    ("moves", moves),
    ("not_a_file", not_a_file),
    ("modes", modes),
    ("appends_are_whole", appends_are_whole),
    ("replaced_in_one_step", replaced_in_one_step),
    ("confined", confined),
    ("links_that_change", links_that_change),
    ("large", large),
    ("files_of_a_large_directory", files_of_a_large_directory),
];

async fn code(result: impl Future<Output = koze_core::Result<impl std::fmt::Debug>>) -> Code {
    result.await.unwrap_err().code
}

async fn text(sandbox: &LocalSandbox, path: &str) -> String {
    String::from_utf8(sandbox.read(at(path), 0, 1 << 20).await.unwrap().bytes).unwrap()
}

fn write_read_stat() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        let path = at("/home/user/new/deep/file");
        assert_eq!(code(sandbox.read(path, 0, 10)).await, Code::NotFound);
        assert_eq!(sandbox.write(path, b"hello".into(), Write::Replace).await.unwrap(), 5);
        assert_eq!(sandbox.write(path, b" world".into(), Write::Append).await.unwrap(), 11);
        let piece = sandbox.read(path, 3, 5).await.unwrap();
        assert_eq!((&piece.bytes[..], piece.size), (&b"lo wo"[..], 11));
        let piece = sandbox.read(path, 100, 5).await.unwrap();
        assert_eq!((&piece.bytes[..], piece.size), (&b""[..], 11));
        assert_eq!(sandbox.read(path, 0, 0).await.unwrap().bytes, b"");
        let stat = sandbox.stat(path).await.unwrap();
        assert_eq!((stat.kind, stat.size, stat.mode), (Kind::File, 11, 0o644));
        assert_eq!(sandbox.write(path, Vec::new(), Write::Replace).await.unwrap(), 0);
        assert_eq!(sandbox.write(at("/tmp/new"), b"x".into(), Write::Append).await.unwrap(), 1);
        assert_eq!(
            out(&sandbox, "cat /tmp/new; stat -c %U /tmp/new; ls -A /home/user/new/deep").await,
            "xuser\nfile"
        );
        assert!(text(&sandbox, "/proc/meminfo").await.contains("MemTotal"));
    })
}

fn unusual_names() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        let longest = "n".repeat(255);
        let names = ["-rf", "a\nb", " ", "ü☃", "$(id)", "'\"`", "*", "...", "a\\b", "\u{1}\u{7f}", &longest];
        for name in names {
            let path = format!("/workspace/{name}");
            sandbox.write(at(&path), name.into(), Write::Replace).await.unwrap();
            sandbox.write(at(&path), b"+".into(), Write::Append).await.unwrap();
            assert_eq!(text(&sandbox, &path).await, format!("{name}+"));
        }
        let mut listed: Vec<_> =
            sandbox.list(at("/workspace")).await.unwrap().into_iter().map(|entry| entry.name).collect();
        listed.sort();
        let mut wanted = names.map(str::to_owned);
        wanted.sort();
        assert_eq!(listed, wanted);
        for name in names {
            sandbox.remove(at(&format!("/workspace/{name}"))).await.unwrap();
        }
        assert_eq!(sandbox.list(at("/workspace")).await.unwrap(), []);
        let long = format!("/tmp/{}", "a".repeat(256));
        let deep = format!("/tmp{}", "/a".repeat(2100));
        for bad in ["", "relative", "/a\0b", "/tmp/x/\0", &long, &deep] {
            assert_eq!(
                code(sandbox.write(at(bad), b"x".into(), Write::Replace)).await,
                Code::InvalidInput,
                "{bad:?}"
            );
            assert_eq!(code(sandbox.stat(at(bad))).await, Code::InvalidInput, "{bad:?}");
        }
        // A name that is not UTF-8 is listed without affecting others.
        sh(&sandbox, "touch \"$(printf '/workspace/\\377')\"").await;
        assert_eq!(sandbox.list(at("/workspace")).await.unwrap()[0].name, "\u{fffd}");
    })
}

fn links() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        sandbox.write(at("/tmp/real"), b"real".into(), Write::Replace).await.unwrap();
        sandbox.make_link(at("/tmp/link"), "real").await.unwrap();
        assert_eq!(code(sandbox.make_link(at("/tmp/link"), "real")).await, Code::AlreadyExists);
        assert_eq!(code(sandbox.make_link(at("/tmp/none"), "")).await, Code::InvalidInput);
        assert_eq!(sandbox.stat(at("/tmp/link")).await.unwrap().kind, Kind::Link("real".into()));
        assert_eq!(text(&sandbox, "/tmp/link").await, "real");
        // Writing follows the link, which stays a link.
        sandbox.write(at("/tmp/link"), b"other".into(), Write::Replace).await.unwrap();
        assert_eq!(text(&sandbox, "/tmp/real").await, "other");
        assert_eq!(sandbox.stat(at("/tmp/link")).await.unwrap().kind, Kind::Link("real".into()));
        // Writing through a dangling link creates its target.
        sandbox.make_link(at("/tmp/ahead"), "/workspace/x/made").await.unwrap();
        assert_eq!(code(sandbox.read(at("/tmp/ahead"), 0, 1)).await, Code::NotFound);
        sandbox.write(at("/tmp/ahead"), b"made".into(), Write::Append).await.unwrap();
        assert_eq!(text(&sandbox, "/workspace/x/made").await, "made");
        sandbox.make_link(at("/tmp/circle"), "circle").await.unwrap();
        assert_eq!(
            code(sandbox.write(at("/tmp/circle"), b"x".into(), Write::Replace)).await,
            Code::InvalidInput
        );
        // Removing removes the link itself, not its target.
        sandbox.remove(at("/tmp/link")).await.unwrap();
        assert_eq!(text(&sandbox, "/tmp/real").await, "other");
    })
}

fn directories() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        sandbox.make_dir(at("/workspace/a/b/c")).await.unwrap();
        sandbox.make_dir(at("/workspace/a/b/c/")).await.unwrap();
        sandbox.write(at("/workspace/a/file"), b"x".into(), Write::Replace).await.unwrap();
        assert_eq!(code(sandbox.make_dir(at("/workspace/a/file"))).await, Code::NotADirectory);
        assert_eq!(code(sandbox.make_dir(at("/workspace/a/file/d"))).await, Code::NotADirectory);
        assert_eq!(code(sandbox.list(at("/workspace/a/file"))).await, Code::NotADirectory);
        assert_eq!(code(sandbox.list(at("/workspace/none"))).await, Code::NotFound);
        assert_eq!(code(sandbox.read(at("/workspace/a"), 0, 1)).await, Code::IsDirectory);
        assert_eq!(code(sandbox.write(at("/workspace/a"), vec![1], Write::Replace)).await, Code::IsDirectory);
        assert_eq!(code(sandbox.write(at("/workspace/a/"), vec![1], Write::Append)).await, Code::IsDirectory);
        sandbox.remove(at("/workspace/a")).await.unwrap();
        assert_eq!(code(sandbox.remove(at("/workspace/a"))).await, Code::NotFound);
        for fixed in ["/", "/workspace", "/usr/bin/env", "/etc/passwd", "/proc/self"] {
            let code = code(sandbox.remove(at(fixed))).await;
            assert!(matches!(code, Code::PermissionDenied | Code::InvalidInput), "{fixed}: {code}");
        }
        assert_eq!(code(sandbox.write(at("/new"), vec![1], Write::Replace)).await, Code::PermissionDenied);
        assert_eq!(code(sandbox.make_dir(at("/usr/new"))).await, Code::PermissionDenied);
        // More entries than fit in one packet.
        out(&sandbox, "mkdir /tmp/many; cd /tmp/many; seq -f 'a-rather-long-name-%g' 3000 | xargs touch")
            .await;
        assert_eq!(sandbox.list(at("/tmp/many")).await.unwrap().len(), 3000);
    })
}

fn moves() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        for name in ["/tmp/one", "/tmp/two"] {
            sandbox.write(at(name), name.into(), Write::Replace).await.unwrap();
        }
        sandbox.rename(at("/tmp/one"), at("/tmp/two")).await.unwrap();
        assert_eq!(text(&sandbox, "/tmp/two").await, "/tmp/one");
        assert_eq!(code(sandbox.rename(at("/tmp/one"), at("/tmp/two"))).await, Code::NotFound);
        // A directory with its content, from one mount to another.
        out(&sandbox, "mkdir -p /tmp/d/e; echo x > /tmp/d/f; chmod 751 /tmp/d/f; ln -s /nowhere /tmp/d/l")
            .await;
        sandbox.rename(at("/tmp/d"), at("/workspace/d")).await.unwrap();
        let moved =
            out(&sandbox, "cd /workspace; stat -c '%n %a' d/f; readlink d/l; ls d; ls -A; ls -A /tmp").await;
        assert_eq!(moved, "d/f 751\n/nowhere\ne\nf\nl\nd\ntwo");
    })
}

fn not_a_file() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        out(&sandbox, "mkfifo /tmp/pipe").await;
        for path in ["/tmp/pipe", "/dev/null", "/dev/zero"] {
            assert_eq!(code(sandbox.read(at(path), 0, 1)).await, Code::InvalidInput, "{path}");
            assert_eq!(
                code(sandbox.write(at(path), vec![1], Write::Append)).await,
                Code::InvalidInput,
                "{path}"
            );
            assert_eq!(
                code(sandbox.write(at(path), vec![1], Write::Replace)).await,
                Code::InvalidInput,
                "{path}"
            );
            assert_eq!(sandbox.stat(at(path)).await.unwrap().kind, Kind::Other);
        }
    })
}

fn modes() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        let path = at("/tmp/x");
        sandbox.write(path, b"#!/bin/sh\necho ran".into(), Write::Replace).await.unwrap();
        sandbox.set_mode(path, 0o755).await.unwrap();
        assert_eq!(out(&sandbox, "/tmp/x").await, "ran");
        sandbox.write(path, b"#!/bin/sh\necho again".into(), Write::Replace).await.unwrap();
        assert_eq!(out(&sandbox, "/tmp/x").await, "again");
        sandbox.set_mode(path, 0o444).await.unwrap();
        for how in [Write::Replace, Write::Append] {
            assert_eq!(code(sandbox.write(path, vec![1], how)).await, Code::PermissionDenied);
        }
        assert_eq!(code(sandbox.set_mode(path, 0o10_000)).await, Code::InvalidInput);
        assert_eq!(code(sandbox.set_mode(at("/usr/bin"), 0o777)).await, Code::PermissionDenied);
    })
}

fn appends_are_whole() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        sandbox.make_link(at("/tmp/alias"), "log").await.unwrap();
        let writers = (0..20).map(|n| {
            let sandbox = sandbox.clone();
            tokio::spawn(async move {
                for _ in 0..10 {
                    let line = format!("{}\n", char::from(b'a' + n).to_string().repeat(5000));
                    let path = if n % 2 == 0 { "/tmp/log" } else { "/tmp/alias" };
                    sandbox.write(at(path), line.into(), Write::Append).await.unwrap();
                }
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await.unwrap();
        }
        let text = String::from_utf8(sandbox.read(at("/tmp/log"), 0, 1 << 22).await.unwrap().bytes).unwrap();
        assert_eq!(text.lines().count(), 200);
        for line in text.lines() {
            assert!(line.len() == 5000 && line.bytes().all(|byte| byte == line.as_bytes()[0]), "{line}");
        }
    })
}

fn replaced_in_one_step() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        sandbox.write(at("/tmp/f"), vec![b'a'; 300_000], Write::Replace).await.unwrap();
        // A program in the sandbox looks for a file that has neither content.
        let looker = sandbox.clone();
        let looks = tokio::spawn(async move {
            let script = "i=0; while [ $i -lt 150 ]; do tr -d '\\n' < /tmp/f | fold -w 1 | sort -u | tr -d '\\n'; wc -c < /tmp/f; i=$((i+1)); done | sort | uniq -c | awk '{print $2}'";
            out(&looker, &script.replace("| fold -w 1 | sort -u | tr -d '\\n'", "| head -c 1")).await
        });
        for n in 0..100_u8 {
            let byte = if n % 2 == 0 { b'b' } else { b'a' };
            sandbox.write(at("/tmp/f"), vec![byte; 300_000], Write::Replace).await.unwrap();
        }
        for line in looks.await.unwrap().lines() {
            assert!(line == "a300000" || line == "b300000", "{line}");
        }
        assert_eq!(out(&sandbox, "ls -A /tmp").await, "f");
    })
}

fn confined() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        out(
            &sandbox,
            "cd /workspace; ln -s /etc/passwd out; ln -s /workspace/in abs; ln -s ../tmp up; echo in > in",
        )
        .await;
        out(&sandbox, "mkdir /tmp/workspace2; ln -s /tmp/new /workspace/dangling; mkdir /workspace/sub")
            .await;
        let inside = |path| Place { root: "/workspace", path };
        let piece = sandbox.read(inside("/workspace/abs"), 0, 10).await.unwrap();
        assert_eq!(piece.bytes, b"in\n");
        sandbox.write(inside("/workspace/sub/../in"), b"new".into(), Write::Replace).await.unwrap();
        let paths = [
            "/etc/passwd",
            "/workspace/out",
            "/workspace/up/x",
            "/workspace/../tmp/x",
            "/workspace/sub/../../tmp/x",
            "/workspace2",
            "/workspace/dangling",
        ];
        for path in paths {
            let path = inside(path);
            for how in [Write::Replace, Write::Append] {
                assert_eq!(code(sandbox.write(path, vec![1], how)).await, Code::PathEscape, "{path:?}");
            }
            let read = code(sandbox.read(path, 0, 1)).await;
            assert!(matches!(read, Code::PathEscape | Code::NotFound), "{path:?} {read}");
        }
        for path in ["/workspace/up/x", "/workspace/../tmp/x", "/workspace", "/tmp/workspace2"] {
            let path = inside(path);
            assert_eq!(code(sandbox.remove(path)).await, Code::PathEscape, "{path:?}");
            assert_eq!(code(sandbox.make_link(path, "x")).await, Code::PathEscape, "{path:?}");
            assert_eq!(
                code(sandbox.rename(inside("/workspace/in"), path)).await,
                Code::PathEscape,
                "{path:?}"
            );
            assert_eq!(
                code(sandbox.rename(path, inside("/workspace/in"))).await,
                Code::PathEscape,
                "{path:?}"
            );
        }
        assert_eq!(code(sandbox.make_dir(inside("/workspace/up/x/y"))).await, Code::PathEscape);
        assert_eq!(code(sandbox.list(inside("/workspace/up"))).await, Code::PathEscape);
        assert_eq!(code(sandbox.set_mode(inside("/workspace/out"), 0o777)).await, Code::PathEscape);
        assert_eq!(out(&sandbox, "ls -A /tmp").await, "workspace2");
        // The link itself is inside.
        assert!(matches!(sandbox.stat(inside("/workspace/out")).await.unwrap().kind, Kind::Link(_)));
        sandbox.remove(inside("/workspace/out")).await.unwrap();
        assert!(text(&sandbox, "/etc/passwd").await.contains("user"));
    })
}

fn links_that_change() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        out(
            &sandbox,
            "mkdir -p /workspace/good /tmp/bad; echo good > /workspace/good/f; echo bad > /tmp/bad/f; ln -s good /workspace/l",
        )
        .await;
        let swap = "cd /workspace; ln -s good g; ln -s /tmp/bad b
                    while :; do cp -P b n; mv -T n l; cp -P g n; mv -T n l; done";
        // Faster with Python: two renames without another process.
        let fast = "import os\nos.chdir('/workspace')\n\
                    while True:\n for t in ('/tmp/bad','good'):\n  os.symlink(t,'n'); os.rename('n','l')";
        let python = sh(&sandbox, "command -v python3").await.exit_code == 0;
        let argv = if python { ["python3", "-c", fast] } else { ["sh", "-c", swap] };
        let (swapper, swapping) = (sandbox.clone(), command(&argv));
        let swapper = tokio::spawn(async move { swapper.exec(swapping).await });
        let (mut good, mut refused) = (0, 0);
        let inside = |path| Place { root: "/workspace", path };
        for n in 0..4000 {
            let read = sandbox.read(inside("/workspace/l/f"), 0, 100).await;
            let path = inside("/workspace/l/w");
            let wrote = match n % 3 {
                0 => sandbox.write(path, b"x".into(), Write::Replace).await.map(drop),
                1 => sandbox.write(path, b"x".into(), Write::Append).await.map(drop),
                _ => sandbox.make_dir(inside("/workspace/l/d/e")).await,
            };
            for error in [read.as_ref().err(), wrote.as_ref().err()].into_iter().flatten() {
                assert!(matches!(error.code, Code::PathEscape | Code::NotFound), "{error}");
                refused += 1;
            }
            if let Ok(piece) = read {
                assert_eq!(piece.bytes, b"good\n");
                good += 1;
            }
        }
        assert!(good > 20 && refused > 20, "nothing was tried: {good} {refused}");
        assert_eq!(out(&sandbox, "ls -A /tmp/bad; cat /tmp/bad/f").await, "f\nbad");
        swapper.abort();
    })
}

fn large() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        let bytes: Vec<u8> = (0..40_000_000_u32).map(|n| n.to_le_bytes()[(n % 3) as usize]).collect();
        let stop = Arc::new(AtomicBool::new(false));
        // Other calls run meanwhile.
        let (other, done) = (sandbox.clone(), Arc::clone(&stop));
        let other = tokio::spawn(async move {
            let mut calls = 0;
            while !done.load(Ordering::Relaxed) {
                out(&other, "true").await;
                calls += 1;
            }
            calls
        });
        assert_eq!(sandbox.write(at("/tmp/large"), bytes.clone(), Write::Replace).await.unwrap(), 40_000_000);
        assert!(sandbox.read(at("/tmp/large"), 0, u64::MAX).await.unwrap().bytes == bytes);
        let piece = sandbox.read(at("/tmp/large"), 39_999_990, 100).await.unwrap();
        assert_eq!((&piece.bytes[..], piece.size), (&bytes[39_999_990..], 40_000_000));
        stop.store(true, Ordering::Relaxed);
        assert!(other.await.unwrap() > 0);
    })
}

/// More than fits in a message of the guest: it is listed page by page, and the sandbox stays alive.
fn files_of_a_large_directory() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        let links = 17_000;
        let target = "x".repeat(4000);
        sandbox.make_dir(at("/home/user/d")).await.unwrap();
        for number in 0..links {
            sandbox.make_link(at(&format!("/home/user/d/{number}")), &target).await.unwrap();
        }
        sandbox.exec(command(&["sh", "-c", "sleep 98765 > /dev/null 2>&1 &"])).await.unwrap();
        let entries = sandbox.list(at("/home/user/d")).await.unwrap();
        let names: std::collections::HashSet<&str> =
            entries.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!((entries.len(), names.len()), (links, links));
        assert!((0..links).all(|number| names.contains(number.to_string().as_str())));
        assert!(entries.iter().all(|entry| entry.stat.kind == Kind::Link(target.clone())));
        assert_eq!(
            out(&sandbox, "cat /proc/[0-9]*/comm | grep -cx sleep").await,
            "1",
            "it was started again"
        );
    })
}
