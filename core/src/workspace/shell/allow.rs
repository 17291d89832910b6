//! The allowlist of a workspace's shell: which programs a command runs.
//!
//! Every simple command must name its program literally, and the program must be on the list. Whatever could run or shadow a
//! program in another way, or could be read differently by another shell, is refused: the accepted language is small, so that
//! nothing depends on the details of one parser.

use super::commands;
use crate::error::{Code, Error, Result};

/// The longest command that is checked, in bytes.
const LONGEST: usize = 64 << 10;

/// Checks that a command runs only programs of the list.
///
/// # Errors
/// [`Code::PermissionDenied`] if it runs another program, and [`Code::InvalidInput`] if that cannot be determined.
pub(super) fn check_command(command: &str, allow: &[String]) -> Result<()> {
    if command.len() > LONGEST {
        let message = format!(
            "with an allowlist, `command` must have at most {LONGEST} bytes: write a file and run it"
        );
        return Err(Error::new(Code::TooLarge, message));
    }
    commands::visit_programs(command, &|program| {
        if allow.iter().any(|allowed| allowed == program) {
            return Ok(());
        }
        let message =
            format!("the program `{program}` is not allowed: this workspace allows {}", allow.join(", "));
        Err(Error::new(Code::PermissionDenied, message))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(command: &str) -> Option<Code> {
        let allow = ["git", "npm", "/usr/bin/env", "time", "coproc"].map(str::to_owned);
        check_command(command, &allow).err().map(|error| error.code)
    }

    #[test]
    fn commands_of_allowed_programs_run() {
        for command in [
            "git status",
            "  git status  ",
            "git log --format='%h $(x) `y` # z' | git hash-object --stdin > out.txt 2>&1",
            "git add . && git commit -m \"it's done; really\" || npm test; npm run build &",
            "git status\nnpm test\n",
            "(git status; npm test) | git cat-file --batch",
            "{ git status; } >> log",
            "! git diff --quiet",
            "git show \"$(git rev-parse HEAD)\" $HOME ${HOME} ~/x *.rs {a,b} a\\;b",
            "git show `git rev-parse HEAD`",
            "git show \"a `git rev-parse \"HEAD\"`\"",
            "npm config set a=b",
            "git apply <<< \"$(git diff)\"",
            "/usr/bin/env",
            "> out git status",
            "git status 2> /dev/null &> all",
            "git commit -m 'two\nlines'",
        ] {
            assert_eq!(
                check_command(command, &["git", "npm", "/usr/bin/env"].map(str::to_owned)),
                Ok(()),
                "{command}"
            );
        }
    }

    #[test]
    fn other_programs_are_named() {
        for command in [
            "rm -rf /",
            "git status; rm x",
            "git status && rm x",
            "git status || rm x",
            "git status | sh",
            "git status & rm x",
            "git status\nrm x",
            "git status |& rm x",
            "(rm x)",
            "{ rm x; }",
            "! rm x",
            "git $(rm x)",
            "git `rm x`",
            "git \"$(rm x)\"",
            "git \"a`rm x`b\"",
            "git \"$(git \"$(rm x)\")\"",
            "git x > $(rm x)",
            "git < `rm x`",
            "git <<< $(rm x)",
            "eval git status",
            "exec git status",
            "command git status",
            "builtin git",
            "source git",
            ". git",
            "env git",
            "./git",
            "/tmp/git",
            "../bin/git",
            "alias git=rm",
            "hash -p /tmp/x git",
            "enable -f x git",
            "trap 'rm x' EXIT",
            "export PATH=/tmp",
            "sudo git",
            "xargs git",
            "git $(git $(git $(git $(sh))))",
        ] {
            assert_eq!(refusal(command), Some(Code::PermissionDenied), "{command}");
        }
    }

    #[test]
    fn what_is_not_certain_is_refused() {
        let deep = format!("git {}git{}", "$(git ".repeat(20), ")".repeat(20));
        let brackets = format!("{}git{}", "(".repeat(200), ")".repeat(200));
        for command in [
            ": $(git)",
            "# only a comment",
            "PATH=/tmp git status",
            "PATH=/tmp",
            "A=1 B=2 git status",
            "PATH+=:/tmp git",
            "a[0]=1 git",
            "GIT_SSH_COMMAND='sh -c x' git fetch",
            "$GIT status",
            "${X:-rm} x",
            "$(echo rm) x",
            "`echo rm` x",
            "\"git\" status",
            "'rm' x",
            "r\\m x",
            "g''it status",
            "{git,status}",
            "gi? status",
            "/bin/r* x",
            "~/git",
            "git() { rm x; }; git",
            "function git { rm x; }; git",
            "for PATH in /tmp; do git; done",
            "while git; do git; done",
            "until git; do git; done",
            "if git; then git; fi",
            "case a in a) git;; esac",
            "select PATH in a; do git; done",
            "[[ -n $(git) ]]",
            "[[ a -eq PATH=1 ]]",
            "((PATH=1))",
            "git $((PATH=1))",
            "git $[PATH=1]",
            "git ${PATH:=/tmp}",
            "git ${a[PATH=1]}",
            "git ${a:PATH=1}",
            "git ${a:-$(rm x)}",
            "git ${!a}",
            "git ${a/x/$(rm x)}",
            "git \"${a:-$(rm x)}\"",
            "git a=$(rm x)",
            "git `git \\`rm x\\``",
            "git `git \"\\$(rm x)\"`",
            "git \"`git \\\"x\\\"`\"",
            "git \"${x[$(rm x)]}\"",
            "git ${x@P}",
            "git $(<f)",
            "git a=(rm)",
            "git {PATH}>x",
            "exec {PATH}>x",
            "time git",
            "time rm x",
            "coproc rm x",
            "coproc git { rm x; }",
            "git <(rm x)",
            "git > >(rm x)",
            "git << EOF\n$(rm x)\nEOF",
            "git <<EOF\nx\nEOF\nrm x",
            "git << 'EOF'\nx\nEOF",
            "git <<- EOF\n\tx\n\tEOF",
            "gi\\\nt status",
            "git \\\n; rm x",
            "git # comment",
            "git x#$(rm x)",
            "git $'\\'; rm x #'",
            "git $\"x\"",
            "git $(",
            "git )",
            "git 'x",
            "git \"x",
            "git `x",
            "git |",
            "git &&",
            "&& git",
            "> out",
            "git\r\nrm x",
            "git\u{0}",
            "git\u{a0}status",
            "git\u{2028}rm x",
            "git\u{85}rm x",
            "a=(git) git",
            "git=1",
            "{",
            "}",
            "git $(case x in a) rm x;; esac)",
            &deep,
            &brackets,
        ] {
            assert!(
                matches!(refusal(command), Some(Code::InvalidInput | Code::PermissionDenied)),
                "{command}: {:?}",
                refusal(command)
            );
        }
    }

    #[test]
    fn no_command_takes_long() {
        let long = format!("git {}", "a ".repeat(30_000));
        for text in ["(", "$(", "`", "{ ", "\"$(", "((", "! ", "git|", "git;", "'", "\"", "<", "\\"] {
            for count in [20, 32, 1000] {
                // Whatever the answer, there is one.
                let _ = refusal(&text.repeat(count));
            }
        }
        assert_eq!(refusal(&long), None);
        assert_eq!(refusal(&"a".repeat(LONGEST + 1)), Some(Code::TooLarge));
    }
}
