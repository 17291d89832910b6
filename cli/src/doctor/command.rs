//! Determines whether a `build.command` expects a program on the `PATH` or installs it first.

/// How a build command obtains a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Supply {
    /// The command does not run the program by its bare name.
    Unused,
    /// The command runs `cargo install` for it first.
    Installed,
    /// The command may install it first or change the `PATH`; only a shell can tell.
    Unknown,
    /// The command expects the program on the `PATH`.
    Expected,
}

/// Shell keywords and programs that may precede the program of a command.
const PREFIXES: [&str; 13] =
    ["if", "then", "else", "elif", "while", "until", "do", "!", "{", "exec", "time", "command", "env"];

/// Determines how a command obtains `program`. Returns [`Supply::Unknown`] where only a shell could tell.
pub(crate) fn supply(command: &str, program: &str) -> Supply {
    let mut before = Supply::Expected;
    for part in command.split(['&', '|', ';', '\n', '(', ')', '`']) {
        let mut words = part.split_whitespace().map(strip_quotes).peekable();
        let mut sets = false;
        while let Some(word) = words.peek() {
            // `PATH=… program` changes where the program is found.
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
            // `command -v program` and the like only query.
            return before;
        }
        if is_install(first, &rest, program) {
            before = Supply::Installed;
        } else if first != "koze" && !is_harmless(first) {
            before = before.or_unknown();
        }
    }
    Supply::Unused
}

impl Supply {
    /// Returns `Installed` if that is certain, otherwise `Unknown`.
    fn or_unknown(self) -> Supply {
        if self == Supply::Installed { self } else { Supply::Unknown }
    }
}

/// Returns whether a command is `cargo +stable install -q "worker-build@^0.8"`, or the same with `cargo binstall`.
fn is_install(first: &str, rest: &[&str], program: &str) -> bool {
    let subcommand = rest.iter().position(|word| !word.starts_with(['+', '-']));
    first.rsplit('/').next() == Some("cargo")
        && subcommand.is_some_and(|at| {
            let named = |word: &&str| word.split('@').next() == Some(program);
            ["install", "binstall"].contains(&rest[at]) && rest[at + 1..].iter().any(named)
        })
}

/// Returns whether a program neither installs anything nor changes the `PATH`.
fn is_harmless(program: &str) -> bool {
    ["-v", "-V", "which", "type", "echo", "test", "[", "true", ":", "cd", "fi", "done", "}"]
        .contains(&program)
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn strip_quotes(word: &str) -> &str {
    word.trim_matches(['"', '\''])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn supply_of_build_commands() {
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
