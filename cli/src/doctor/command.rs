//! What a `build.command` does about a program: whether it looks for it on the `PATH`, and whether it installs it first.

/// How a build command comes by a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Supply {
    /// It does not run the program by its bare name.
    Unused,
    /// `cargo install` comes first.
    Installed,
    /// Something comes first that may install it, or say where it is: only the shell can tell.
    Unknown,
    /// It expects the program on the `PATH`.
    Expected,
}

/// Words of the shell and programs that come before the program of a command.
const PREFIXES: [&str; 13] =
    ["if", "then", "else", "elif", "while", "until", "do", "!", "{", "exec", "time", "command", "env"];

/// How this command comes by `program`. This is no shell: where it cannot tell, it says so.
pub(crate) fn supply(command: &str, program: &str) -> Supply {
    let mut before = Supply::Expected;
    for part in command.split(['&', '|', ';', '\n', '(', ')', '`']) {
        let mut words = part.split_whitespace().map(unquoted).peekable();
        let mut sets = false;
        while let Some(word) = words.peek() {
            // `PATH=… program` looks elsewhere.
            let assigns = word.split_once('=').is_some_and(|(name, _)| is_name(name));
            if !assigns && !PREFIXES.contains(word) {
                break;
            }
            sets |= assigns && word.starts_with("PATH=");
            words.next();
        }
        if sets {
            before = before.or_unknown();
        }
        let Some(first) = words.next() else { continue };
        let rest: Vec<&str> = words.collect();
        if first == program {
            // `command -v program` and its like only ask.
            return before;
        }
        if installs(first, &rest, program) {
            before = Supply::Installed;
        } else if first != "koze" && !asks(first) {
            before = before.or_unknown();
        }
    }
    Supply::Unused
}

impl Supply {
    /// What is certain of an installation stays so.
    fn or_unknown(self) -> Supply {
        if self == Supply::Installed { self } else { Supply::Unknown }
    }
}

/// `cargo +stable install -q "worker-build@^0.8"`, or the same by `cargo binstall`.
fn installs(first: &str, rest: &[&str], program: &str) -> bool {
    let subcommand = rest.iter().position(|word| !word.starts_with(['+', '-']));
    first.rsplit('/').next() == Some("cargo")
        && subcommand.is_some_and(|at| {
            let named = |word: &&str| word.split('@').next() == Some(program);
            ["install", "binstall"].contains(&rest[at]) && rest[at + 1..].iter().any(named)
        })
}

/// Programs that neither install anything nor change where programs are looked for.
fn asks(program: &str) -> bool {
    ["-v", "-V", "which", "type", "echo", "test", "[", "true", ":", "cd", "fi", "done", "}"]
        .contains(&program)
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn unquoted(word: &str) -> &str {
    word.trim_matches(['"', '\''])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_installs_what_it_runs_or_expects_it() {
        for (command, expected) in [
            (r#"cargo install -q "worker-build@^0.8" && worker-build --release"#, Supply::Installed),
            ("cargo install -q worker-build && worker-build --release", Supply::Installed),
            ("koze build --check && cargo install -q worker-build@0.8.7 && worker-build", Supply::Installed),
            ("cargo +stable install --locked 'worker-build' ; worker-build", Supply::Installed),
            ("RUSTFLAGS=-g cargo binstall -y worker-build && worker-build", Supply::Installed),
            ("command -v worker-build || cargo install worker-build; worker-build", Supply::Installed),
            ("which worker-build || cargo install worker-build\nworker-build", Supply::Installed),
            (
                "if ! command -v worker-build; then cargo install worker-build; fi; worker-build",
                Supply::Installed,
            ),
            ("(cd tools && cargo install worker-build) && worker-build", Supply::Installed),
            ("worker-build --release", Supply::Expected),
            ("koze build --check && worker-build --release", Supply::Expected),
            ("CARGO_PROFILE=x worker-build --release", Supply::Expected),
            ("worker-build && cargo install worker-build", Supply::Expected),
            ("cargo install wasm-bindgen-cli && worker-build", Supply::Unknown),
            ("./setup.sh && worker-build", Supply::Unknown),
            ("export PATH=$HOME/.cargo/bin:$PATH && worker-build", Supply::Unknown),
            ("PATH=bin:$PATH worker-build", Supply::Unknown),
            ("make", Supply::Unused),
            ("npx worker-build --release", Supply::Unused),
            ("~/.cargo/bin/worker-build --release", Supply::Unused),
            ("bash build-with-worker-build.sh", Supply::Unused),
            ("cargo install worker-build", Supply::Unused),
            ("", Supply::Unused),
        ] {
            assert_eq!(supply(command, "worker-build"), expected, "{command}");
        }
    }
}
