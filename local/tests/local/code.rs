//! Code contexts of a workspace, on sandboxes of this machine.

use std::collections::HashSet;
use std::time::Duration;

use koze_core::provider::Profile;
use koze_core::sandbox::Status;
use koze_core::tool::Family;
use koze_core::workspace::{CodeConfig, CodeOutput, Language, WorkspaceConfig};
use koze_core::{Code, Profiles, Provider as _, Session};

use crate::Test;
use crate::scene::Scene;
use crate::stage::{Stage, id, settings, until, within};

pub(crate) const TESTS: &[Test] = &[
    ("code_interrupted_at_any_moment", interrupted),
    ("code_caller_gone", caller_gone),
    ("code_long_output", long_output),
    ("code_figures", figures),
    ("code_no_interpreter", no_interpreter),
    ("code_installed_packages", installed_packages),
    ("code_contexts_end_before_sleep", sleep),
];

fn profile(env: &[(&str, &str)]) -> Profile {
    let mut profile = settings().profile;
    profile.tools = vec![Family::Workspace];
    profile.env = env.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    let code = CodeConfig { stateful: true, ..CodeConfig::default() };
    profile.workspace = Some(WorkspaceConfig { code: Some(code), ..WorkspaceConfig::new("box") });
    profile
}

async fn scene(env: &[(&str, &str)]) -> Scene {
    Scene::open(profile(env)).await
}

/// At whatever moment code is interrupted, the answer says truthfully whether the variables survived.
fn interrupted() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let scene = scene(&[]).await;
        let code = scene.workspace.code().unwrap();
        // The code ends by itself at about the middle of the timeouts, so they expire before, during and after its end.
        let busy = [
            (
                Language::Python,
                "import time\nend = time.time() + 0.02\nwhile time.time() < end: print('x' * 50)",
            ),
            (
                Language::Javascript,
                "{ const end = Date.now() + 20; while (Date.now() < end) console.log('x'.repeat(50)) }",
            ),
        ];
        let (mut late, mut seen) = (0, HashSet::new());
        for (language, busy) in busy {
            let mut context = code.create_context(language).await.unwrap();
            let mut value = 0;
            code.run_in_context(&context, "var = 0", None).await.ok();
            for round in 0..50_u64 {
                value += 1;
                let assign = match language {
                    Language::Python => format!("x = {value}"),
                    Language::Javascript => format!("globalThis.x = {value}"),
                };
                let assigned = code.run_in_context(&context, &assign, None).await.unwrap();
                assert_eq!(assigned.exit_code, 0, "{assigned:?}");
                // Spread over 0.3 to 40 ms, in an order that does not follow the rounds.
                let timeout = Duration::from_micros(300 + (round * 7_919) % 40_000);
                let run = match code.run_in_context(&context, busy, Some(timeout)).await {
                    Ok(run) => run,
                    // It had not begun, so nothing was interrupted.
                    Err(error) => {
                        assert_eq!(error.code, Code::Timeout, "{error}");
                        continue;
                    }
                };
                late += u64::from(run.timed_out);
                seen.insert((language, run.timed_out));
                let after = code.run_in_context(&context, "x", None).await;
                if run.survived {
                    let result = after.unwrap().outputs;
                    let expected = CodeOutput::Result { text: value.to_string() };
                    assert_eq!(result, [expected], "{language} {timeout:?}: {run:?}");
                } else {
                    assert_eq!(after.unwrap_err().code, Code::NotFound, "{language} {timeout:?}: {run:?}");
                    context = code.create_context(language).await.unwrap();
                }
            }
        }
        assert!(late > 0 && seen.len() > 2, "{late} of 100 were interrupted: {seen:?}");
    })
}

/// Code whose caller is gone is interrupted, and its context stays usable.
fn caller_gone() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let scene = scene(&[]).await;
        let code = scene.workspace.code().unwrap();
        let context = code.create_context(Language::Python).await.unwrap();
        code.run_in_context(&context, "x = 5", None).await.unwrap();
        let endless = code.run_in_context(&context, "while True: pass", None);
        assert!(tokio::time::timeout(Duration::from_millis(300), endless).await.is_err());
        let after = code.run_in_context(&context, "x", None).await.unwrap();
        assert_eq!(after.outputs, [CodeOutput::Result { text: "5".into() }]);
    })
}

/// Long outputs are cut, and long code arrives whole.
fn long_output() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let scene = scene(&[]).await;
        let code = scene.workspace.code().unwrap();
        let run = code.run("print('a' * 5_000_000); print('end')", Language::Python, None).await.unwrap();
        let [CodeOutput::Stdout { text }] = &run.outputs[..] else { panic!("{:?}", run.exit_code) };
        assert!(text.len() <= 1 << 20 && text.ends_with("a\nend\n") && text.contains("bytes left out"));
        for language in Language::ALL {
            let long = format!("'{}'.length === undefined ? 0 : 1", "a".repeat(1_000_000));
            let long =
                if language == Language::Python { format!("len('{}')", "é".repeat(500_000)) } else { long };
            let run = code.run(&long, language, None).await.unwrap();
            let expected = if language == Language::Python { "500000" } else { "1" };
            assert_eq!(run.outputs, [CodeOutput::Result { text: expected.into() }]);
        }
        // A frame that is much longer than the driver's buffer.
        let run = code.run(
            "display(type('B', (), {'_repr_png_': lambda self: b'a' * 3_000_000})())",
            Language::Python,
            None,
        );
        let run = run.await.unwrap();
        let [CodeOutput::Display { data, .. }, CodeOutput::Display { .. }] = &run.outputs[..] else {
            panic!("{:?}", run.error)
        };
        assert_eq!(data.len(), 4_000_000);
    })
}

/// Open figures are shown at the end of the code. A module in place of matplotlib has the functions that the driver uses.
fn figures() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let scene = scene(&[]).await;
        let code = scene.workspace.code().unwrap();
        let plot = "import sys, types\nopen_figures = [1, 2]\nclass Figure:\n    def __repr__(self): return 'figure'\n    def savefig(self, file, format, bbox_inches):\n        \
                    file.write(format.encode())\nplots = types.ModuleType('matplotlib.pyplot')\nplots.get_fignums = lambda: \
                    list(open_figures)\nplots.figure = lambda number: Figure()\nplots.close = open_figures.remove\n\
                    sys.modules['matplotlib.pyplot'] = plots\n'done'";
        let run = code.run(plot, Language::Python, None).await.unwrap();
        let figure = CodeOutput::Display { mime: "image/png".into(), data: "cG5n".into() };
        let text = CodeOutput::Display { mime: "text/plain".into(), data: "figure".into() };
        assert_eq!(
            run.outputs,
            [CodeOutput::Result { text: "'done'".into() }, figure.clone(), text.clone(), figure, text],
            "{:?}",
            run.error
        );
    })
}

/// Commands have `python` and `pip` on a Debian host, too, and code sees what they have installed.
fn installed_packages() -> Result<(), libtest_mimic::Failed> {
    const INSTALL: &str = r#"
import importlib.util, subprocess, zipfile
with zipfile.ZipFile("greeting-1.0-py3-none-any.whl", "w") as wheel:
    wheel.writestr("greeting.py", "WORD = 'hello'\n")
    about = "greeting-1.0.dist-info/"
    wheel.writestr(about + "METADATA", "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n")
    wheel.writestr(about + "WHEEL", "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(about + "RECORD", "")
def sh(command):
    return subprocess.run(command, shell=True, capture_output=True, text=True)
has_pip = importlib.util.find_spec("pip") is not None
if has_pip:
    installed = sh("python -m pip install -q --no-index --disable-pip-version-check ./greeting*.whl")
    assert installed.returncode == 0, installed.stderr
    print(sh("cd /; python -c 'import greeting; print(greeting.WORD)'").stdout, end="")
else:
    print(sh("python -c 'print(\"hello\")'").stdout, end="")
has_pip
"#;
    within(async {
        let scene = scene(&[]).await;
        let code = scene.workspace.code().unwrap();
        let install = code.run(INSTALL, Language::Python, None).await.unwrap();
        assert_eq!(
            install.outputs.first(),
            Some(&CodeOutput::Stdout { text: "hello\n".into() }),
            "{install:?}"
        );
        // This machine's Python may have no pip.
        if install.outputs.last() == Some(&(CodeOutput::Result { text: "True".into() })) {
            let seen = code.run("import greeting; greeting.WORD", Language::Python, None).await.unwrap();
            assert_eq!(seen.outputs, [CodeOutput::Result { text: "'hello'".into() }], "{:?}", seen.error);
        }
    })
}

/// A context writes what it buffers before its sandbox sleeps: when it is idle, and when it is put to sleep.
fn sleep() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let mut profile = profile(&[]);
        profile.sleep_after = Some(Duration::from_secs(2));
        let stage = Stage::new();
        let profiles = Profiles::new(vec![profile], "python").unwrap();
        let id = id("default").session;
        let session = Session::new(stage.local.clone(), id.clone(), profiles);
        let workspace = session.workspaces().get("box").await.unwrap();
        let asleep = async || {
            let all = stage.local.list(&id).await.unwrap();
            all.iter().all(|info| info.status == Status::Sleeping)
        };
        for (name, is_idle) in [("idle", true), ("asked", false)] {
            let code = workspace.code().unwrap();
            let python = code.create_context(Language::Python).await.unwrap();
            let open = format!("file = open('{name}.py.txt', 'w')\nfile.write('abc')\nNone");
            code.run_in_context(&python, &open, None).await.unwrap();
            let node = code.create_context(Language::Javascript).await.unwrap();
            let open = format!(
                "setTimeout(() => require('fs').writeFile('{name}.js.txt', 'abc', () => {{}}), 500); 0"
            );
            code.run_in_context(&node, &open, None).await.unwrap();
            // This one is killed.
            let endless = code.create_context(Language::Javascript).await.unwrap();
            code.run_in_context(&endless, "setInterval(() => {}, 100); 0", None).await.unwrap();
            if !is_idle {
                stage.local.sleep().await.unwrap();
            }
            until("it sleeps", &asleep).await;
            for language in ["py", "js"] {
                let path = format!("{name}.{language}.txt");
                let content = workspace.fs().unwrap().read(&path).await.unwrap();
                assert_eq!(content, b"abc", "{path}");
            }
        }
    })
}

fn no_interpreter() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let scene = scene(&[("PATH", "/nowhere")]).await;
        for language in Language::ALL {
            let error = scene.workspace.code().unwrap().run("1", language, None).await.unwrap_err();
            assert_eq!(error.code, Code::Unsupported, "{error}");
            assert!(error.message.contains(&format!("the sandbox cannot run {language}")), "{error}");
        }
    })
}
