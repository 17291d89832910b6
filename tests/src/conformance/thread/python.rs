//! Python and its packages in a sandbox that has Python, and the error in one that does not.

use serde_json::json;

use super::super::session::Session;

/// Writes a package that pip can install without an index: a wheel is an archive.
const WHEEL: &str = r#"
import zipfile
with zipfile.ZipFile("greeting-1.0-py3-none-any.whl", "w") as wheel:
    wheel.writestr("greeting.py", "def main():\n    print('hello')\n")
    about = "greeting-1.0.dist-info/"
    wheel.writestr(about + "METADATA", "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n")
    wheel.writestr(about + "WHEEL", "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(about + "entry_points.txt", "[console_scripts]\ngreet = greeting:main\n")
    wheel.writestr(about + "RECORD", "")
"#;

/// Returns whether the image has Python, and pip if asked for.
fn has(session: &Session, module: &str) -> bool {
    let command = format!("command -v python3 >/dev/null && python3 -c 'import {module}' && echo yes; true");
    session.bash(&command) == "yes\n"
}

pub(super) fn runs(session: &Session) {
    if !has(session, "sys") {
        let (text, is_error) = session.thread("bash", json!({ "command": "python -V" }));
        assert!(is_error && text.ends_with("\nExit Code: 127"), "{text}");
        return;
    }
    assert_eq!(
        session.bash("python -c 'import sys; print(sys.version_info[0], sys.argv)' a"),
        "3 ['-c', 'a']\n"
    );
    assert_eq!(session.bash("echo 'print(1)' | python -"), "1\n");
    session.put("a.py", "#!/usr/bin/env python\nprint('hello')\n");
    assert_eq!(
        session.bash("chmod +x a.py; ./a.py; xargs python <<< a.py; env -C /tmp python -c 'print(2)'"),
        "hello\nhello\n2\n"
    );
    // Nothing of it shows in the workspace.
    assert_eq!(session.bash("ls -A"), "a.py\n");
}

pub(super) fn installs(session: &Session) {
    if !has(session, "venv, zipfile, pip") {
        return;
    }
    session.put("wheel.py", WHEEL);
    session.bash("python wheel.py");
    session.bash("cp *.whl /tmp");
    // Several first uses at the same time create one environment.
    let install = "pip install -q --no-index --find-links /tmp --disable-pip-version-check greeting";
    session.bash(&format!("{install} 2>a & pip3 --version > v & python -m pip --version > w & wait; cat a"));
    assert_eq!(session.bash("greet; python -c 'import greeting; greeting.main()'"), "hello\nhello\n");
    let place = "/mnt/user-data/workspace/.venv";
    assert_eq!(session.bash("python -c 'import sys; print(sys.prefix)'"), format!("{place}\n"));
    let version = session.bash("cat v w");
    assert_eq!(version.lines().count(), 2, "{version}");
    // The packages of the image are there, too.
    assert_eq!(session.bash("python -c 'import pip, venv; print(1)'"), "1\n");
    let listed = session.bash("pip list --disable-pip-version-check --format freeze | grep greeting");
    assert_eq!(listed, "greeting==1.0\n");
    session.bash("pip uninstall -q -y greeting");
    session.refuses(
        "bash",
        json!({ "command": "greet" }),
        "bash: line 1: greet: command not found\n\nExit Code: 127",
    );
}
