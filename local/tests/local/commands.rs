//! Programs: input, output and exit.

use std::time::{Duration, Instant};

use koze_core::{Code, Sandbox};

use crate::Test;
use crate::stage::{STARTED, Stage, at, command, out, sh, until, within};

pub(crate) const TESTS: &[Test] = &[
    ("exit_codes", exit_codes),
    ("input_and_environment", input_and_environment),
    ("programs_that_cannot_start", programs_that_cannot_start),
    ("arguments_are_data", arguments_are_data),
    ("timeout_kills_all", timeout_kills_all),
    ("cancelled_is_killed", cancelled_is_killed),
    ("background_processes_keep_running", background_processes_keep_running),
    ("output_is_bounded", output_is_bounded),
    ("bytes_stay_bytes", bytes_stay_bytes),
    ("many_at_once", many_at_once),
    ("languages", languages),
];

fn exit_codes() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        assert_eq!(sandbox.exec(command(&["true"])).await.unwrap().exit_code, 0);
        assert_eq!(sandbox.exec(command(&["false"])).await.unwrap().exit_code, 1);
        assert_eq!(sh(&sandbox, "exit 77").await.exit_code, 77);
        for (signal, code) in [("TERM", 143), ("KILL", 137), ("SEGV", 139), ("PIPE", 141)] {
            assert_eq!(sh(&sandbox, &format!("kill -{signal} $$")).await.exit_code, code, "{signal}");
        }
        let output = sh(&sandbox, "echo one; echo two >&2; exit 3").await;
        assert_eq!(
            (&output.stdout[..], &output.stderr[..], output.exit_code),
            (&b"one\n"[..], &b"two\n"[..], 3)
        );
    })
}

fn input_and_environment() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        assert_eq!(out(&sandbox, "cat | wc -c").await, "0");
        assert_eq!(out(&sandbox, "pwd; id -u; id -g; hostname").await, "/home/user\n1000\n1000\na");
        assert_eq!(out(&sandbox, "echo $HOME $USER; echo $IMAGE").await, "/home/user user\nof the image");
        let mut here = command(&["sh", "-c", "pwd; echo \"$IMAGE\"; echo \"$ODD\""]);
        here.working_dir = "/mnt/user-data/uploads".into();
        here.env = vec![("IMAGE".into(), "mine".into()), ("ODD".into(), "$(id)\n\"'".into())];
        let output = sandbox.exec(here).await.unwrap();
        assert_eq!(output.stdout, b"/mnt/user-data/uploads\nmine\n$(id)\n\"'\n");
        // No variables of the host.
        let names = out(&sandbox, "env | cut -d= -f1 | grep -E 'CARGO|KOZE|RUST' || true").await;
        assert_eq!(names, "");
        // Only the standard streams and ls's own descriptor are open.
        assert_eq!(out(&sandbox, "ls /proc/self/fd | tr '\\n' ' '").await, "0 1 2 3");
    })
}

fn programs_that_cannot_start() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        let code = async |argv: &[&str], dir: &str| {
            let mut command = command(argv);
            command.working_dir = dir.into();
            sandbox.exec(command).await.unwrap_err().code
        };
        assert_eq!(code(&["no-such-program"], "/").await, Code::NotFound);
        assert_eq!(code(&["true"], "/nowhere").await, Code::NotFound);
        assert_eq!(code(&["true"], "/etc/passwd").await, Code::NotADirectory);
        assert_eq!(code(&["true"], "relative").await, Code::InvalidInput);
        assert_eq!(code(&["true"], "/a\0b").await, Code::InvalidInput);
        assert_eq!(code(&["tr\0ue"], "/").await, Code::InvalidInput);
        assert_eq!(code(&[], "/").await, Code::InvalidInput);
        assert_eq!(code(&["/etc/passwd"], "/").await, Code::PermissionDenied);
        assert_eq!(code(&["true", &"x".repeat(300_000)], "/").await, Code::TooLarge);
        assert_eq!(sandbox.exec(command(&["true"])).await.unwrap().exit_code, 0);
    })
}

fn arguments_are_data() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        let long = "y".repeat(100_000);
        let odd = ["-n", "$(touch /tmp/x)", "; false", "a\nb", "ü", "'\"", "", &long];
        let mut argv = vec!["printf", "%s|"];
        argv.extend(odd);
        let output = sandbox.exec(command(&argv)).await.unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{}|", odd.join("|")));
        assert_eq!(sandbox.stat(at("/tmp/x")).await.unwrap_err().code, Code::NotFound);
    })
}

/// Counts the processes with this argument in the sandbox.
async fn sleepers(sandbox: &koze_local::LocalSandbox, mark: &str) -> String {
    // The brackets keep the searching process from matching itself.
    let (first, rest) = mark.split_at(1);
    out(
        sandbox,
        &format!(
            "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -o 'sleep [{first}]{rest}' | wc -l"
        ),
    )
    .await
}

fn timeout_kills_all() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        let mut late = command(&[
            "sh",
            "-c",
            "echo before; echo warned >&2
             sleep 9871 & setsid sleep 9871 & (setsid sh -c 'setsid sleep 9871 & sleep 9871' &)
             trap '' TERM INT HUP; sleep 9871; echo after",
        ]);
        late.timeout = Duration::from_secs(1);
        let start = Instant::now();
        let output = sandbox.exec(late).await.unwrap();
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
        assert_eq!((&output.stdout[..], output.exit_code), (&b"before\n"[..], 124));
        assert_eq!(output.stderr, b"warned\n");
        // A killed process ends when it is next scheduled.
        until("the processes are gone", async || sleepers(&sandbox, "9871").await == "0").await;
        // Background processes of another call keep running.
        sh(&sandbox, &format!("sleep 9872 >/dev/null 2>&1 & {STARTED}")).await;
        let mut late = command(&["sleep", "9873"]);
        late.timeout = Duration::from_millis(100);
        assert_eq!(sandbox.exec(late).await.unwrap().exit_code, 124);
        assert_eq!(sleepers(&sandbox, "9872").await, "1");
    })
}

fn cancelled_is_killed() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        let call = sandbox.exec(command(&["sh", "-c", "setsid sleep 9874 & sleep 9874"]));
        assert!(tokio::time::timeout(Duration::from_millis(300), call).await.is_err());
        until("the command is gone", async || sleepers(&sandbox, "9874").await == "0").await;
    })
}

fn background_processes_keep_running() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        let start = Instant::now();
        // It keeps the pipe open, and writes more than a pipe holds.
        let script =
            "(while :; do echo tick; head -c 20000 /dev/zero; echo x >> /tmp/ticks; sleep 0.02; done) &";
        let output = sh(&sandbox, &format!("{script} echo started")).await;
        assert_eq!(output.exit_code, 0);
        assert!(String::from_utf8_lossy(&output.stdout).contains("started"));
        assert!(start.elapsed() < Duration::from_secs(5));
        until("it writes on", async || {
            out(&sandbox, "cat /tmp/ticks 2>/dev/null | wc -l")
                .await
                .trim()
                .parse::<u32>()
                .is_ok_and(|ticks| ticks > 30)
        })
        .await;
    })
}

fn output_is_bounded() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        let mut much =
            command(&["sh", "-c", "echo first; head -c 5000000 /dev/zero | tr '\\0' x; echo last"]);
        much.max_output = 1000;
        let output = sandbox.exec(much.clone()).await.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.len() <= 1000 && text.len() > 950, "{}", text.len());
        assert!(text.starts_with("first\nxxx") && text.ends_with("xxxlast\n"), "{text}");
        assert!(text.contains("bytes left out"), "{text}");
        much.max_output = 10_000_000;
        assert_eq!(sandbox.exec(much).await.unwrap().stdout.len(), 5_000_011);
        // Only the timeout ends an endless stream.
        let mut endless = command(&["yes"]);
        (endless.timeout, endless.max_output) = (Duration::from_millis(300), 100);
        let output = sandbox.exec(endless).await.unwrap();
        assert_eq!((output.stdout.len() <= 100, output.exit_code), (true, 124));
    })
}

fn bytes_stay_bytes() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        let all: Vec<u8> = (0..=255).cycle().take(70_000).collect();
        sandbox.write(at("/tmp/all"), all.clone(), koze_core::sandbox::Write::Replace).await.unwrap();
        assert_eq!(sandbox.exec(command(&["cat", "/tmp/all"])).await.unwrap().stdout, all);
        assert_eq!(sandbox.read(at("/tmp/all"), 0, 1 << 20).await.unwrap().bytes, all);
    })
}

fn many_at_once() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.open("a").await;
        let calls: Vec<_> = (0..40)
            .map(|n| {
                let sandbox = sandbox.clone();
                tokio::spawn(async move { out(&sandbox, &format!("sleep 0.1; echo {n}")).await })
            })
            .collect();
        for (n, call) in calls.into_iter().enumerate() {
            assert_eq!(call.await.unwrap(), n.to_string());
        }
    })
}

fn languages() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let stage = Stage::new();
        let sandbox = stage.sized(1024, 200).await;
        // Not every machine has them in /usr. Those that exist must work with threads and a terminal.
        if sh(&sandbox, "command -v python3").await.exit_code == 0 {
            let script = "import threading,os,pty\nt=threading.Thread(target=lambda:print('thread'));t.start();t.join()\n\
                          m,s=pty.openpty();print(os.isatty(s))";
            let output = sandbox.exec(command(&["python3", "-c", script])).await.unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), "thread\nTrue\n", "{output:?}");
        }
        if sh(&sandbox, "command -v node").await.exit_code == 0 {
            let output = sandbox.exec(command(&["node", "-e", "console.log(6*7)"])).await.unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), "42\n", "{output:?}");
        }
    })
}
