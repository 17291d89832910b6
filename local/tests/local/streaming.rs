//! Commands of a workspace whose output is passed on while they run.

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use koze_core::Code;
use koze_core::progress::Event;
use koze_core::sandbox::process::{Chunk, Stream};
use koze_core::tool::Family;
use koze_core::workspace::{ShellConfig, WorkspaceConfig};

use crate::Test;
use crate::scene::Scene;
use crate::stage::{settings, within};

pub(crate) const TESTS: &[Test] = &[
    ("streaming_whole_and_in_order", whole),
    ("streaming_at_once", at_once),
    ("streaming_slow_reader", slow_reader),
    ("streaming_failed_callback", failed_callback),
    ("streaming_bounds", bounds),
    ("streaming_dropped", dropped),
];

async fn scene(allow: Option<&[&str]>) -> Scene {
    let shell = ShellConfig {
        allow: allow.map(|programs| programs.iter().map(|&program| program.to_owned()).collect()),
        max_duration: Duration::from_mins(1),
    };
    let mut profile = settings().profile;
    profile.tools = vec![Family::Workspace];
    profile.workspace = Some(WorkspaceConfig { shell: Some(shell), ..WorkspaceConfig::new("box") });
    Scene::open(profile).await
}

/// The output is the same as without a stream, and what is passed on is all of it.
fn whole() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let scene = scene(None).await;
        let shell = scene.workspace.shell().unwrap();
        // Longer than one argument of a program can be.
        let command = format!("pwd; echo e >&2; cat; printf '\\377'; exit 3 # {}", "x".repeat(200_000));
        let command = command.as_str();
        let ran = shell.run(command, None).await.unwrap().output;
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let streamed = shell.run_streaming(command, None, |chunk: Chunk| {
            let to = if chunk.stream == Stream::Stdout { &mut out } else { &mut err };
            to.extend(chunk.bytes);
            std::future::ready(Ok::<_, ()>(()))
        });
        assert_eq!(streamed.await.unwrap().output, ran);
        assert_eq!((out, err), (ran.stdout, ran.stderr));
        assert_eq!(ran.exit_code, 3);
        // More than is kept of a stream.
        let command = "seq 400000; seq 1000 >&2";
        let ran = shell.run(command, None).await.unwrap().output;
        assert!(ran.stdout.len() <= 1 << 20 && ran.stdout.ends_with(b"400000\n"));
        let mut events = std::pin::pin!(shell.stream(command, None));
        let mut out = String::new();
        let ended = loop {
            match events.next().await.unwrap() {
                Event::Output(chunk) if chunk.stream == Stream::Stdout => {
                    out.push_str(&String::from_utf8(chunk.bytes).unwrap());
                }
                Event::Output(_) => {}
                Event::Done(ran) => break ran.unwrap().output,
            }
        };
        assert_eq!(ended, ran);
        let numbers: Vec<String> = (1..=400_000).map(|number| number.to_string()).collect();
        let expected = numbers.join("\n") + "\n";
        assert!(out == expected, "{} of {} bytes were passed on", out.len(), expected.len());
        assert!(events.next().await.is_none());
    })
}

/// Output arrives while the program runs: it waits for an answer to what it has printed.
fn at_once() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let scene = scene(None).await;
        let shell = scene.workspace.shell().unwrap();
        let command = "for n in 1 2 3; do printf $n; until test -e $n; do sleep 0.01; done; done";
        let mut events = std::pin::pin!(shell.stream(command, None));
        for number in ["1", "2", "3"] {
            let Some(Event::Output(chunk)) = events.next().await else { panic!("no output") };
            assert_eq!(chunk.bytes, number.as_bytes());
            scene.workspace.fs().unwrap().write(number, Vec::new()).await.unwrap();
        }
        let Some(Event::Done(Ok(ran))) = events.next().await else { panic!("it has ended") };
        assert_eq!((ran.output.exit_code, ran.output.stdout), (0, b"123".to_vec()));
    })
}

/// A program waits for a slow reader, and nothing is lost.
fn slow_reader() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let scene = scene(None).await;
        let shell = scene.workspace.shell().unwrap();
        let command = "yes 0123456789 | head -c 2000000; touch printed";
        let mut events = std::pin::pin!(shell.stream(command, None));
        let Some(Event::Output(first)) = events.next().await else { panic!("no output") };
        let mut read = first.bytes.len();
        tokio::time::sleep(Duration::from_millis(500)).await;
        let early = scene.workspace.fs().unwrap().stat("printed").await;
        assert_eq!(early.unwrap_err().code, Code::NotFound, "it did not wait for the reader");
        while let Some(Event::Output(chunk)) = events.next().await {
            read += chunk.bytes.len();
        }
        assert_eq!(read, 2_000_000);
        scene.workspace.fs().unwrap().stat("printed").await.unwrap();
    })
}

/// An error of the callback does not change the result.
fn failed_callback() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let scene = scene(None).await;
        let mut calls = 0;
        let ran =
            scene.workspace.shell().unwrap().run_streaming("echo 1; sleep 0.2; echo 2; exit 7", None, |_| {
                calls += 1;
                std::future::ready(Err("the reader is gone"))
            });
        let output = ran.await.unwrap().output;
        assert_eq!((output.exit_code, output.stdout, calls), (7, b"1\n2\n".to_vec(), 1));
    })
}

/// The allowlist and the longest duration apply to a stream, too.
fn bounds() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let strict = scene(Some(&["echo", "sleep"])).await;
        let shell = strict.workspace.shell().unwrap();
        let run = async |command: &str, timeout| {
            let silent = |_| std::future::ready(Ok::<_, ()>(()));
            shell.run_streaming(command, timeout, silent).await
        };
        assert_eq!(run("id", None).await.unwrap_err().code, Code::PermissionDenied);
        let long = run("echo", Some(Duration::from_secs(61))).await.unwrap_err();
        assert_eq!(long.code, Code::InvalidInput);
        assert_eq!(run("a\0", None).await.unwrap_err().code, Code::InvalidInput);
        let output = run("echo a && sleep 60", Some(Duration::from_millis(300))).await.unwrap().output;
        assert_eq!((output.exit_code, output.timed_out, output.stdout), (124, true, b"a\n".to_vec()));
    })
}

/// A caller that drops the stream kills the program and what it has started.
fn dropped() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let scene = scene(None).await;
        let shell = scene.workspace.shell().unwrap();
        let mut events = Box::pin(shell.stream("trap '' INT TERM; echo a; sleep 7102; touch survived", None));
        assert!(matches!(events.next().await, Some(Event::Output(_))));
        drop(events);
        let until = Instant::now() + Duration::from_secs(30);
        let check = "for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $f; echo; done 2>/dev/null | grep -c '^sleep 7102'";
        loop {
            let counted = shell.run(check, None).await.unwrap().output;
            if counted.stdout == b"0\n" {
                break;
            }
            assert!(Instant::now() < until, "the program still runs");
        }
        let kept = scene.workspace.fs().unwrap().stat("survived").await;
        assert_eq!(kept.unwrap_err().code, Code::NotFound);
    })
}
