//! The allowlist of a workspace's shell: which programs a command runs.
//!
//! The command is parsed as bash. Every simple command must name its program literally, and the program must be on the list.
//! Whatever could run or shadow a program in another way, or could be read differently by another shell, is refused: the
//! accepted language is small, so that nothing depends on the details of one parser.

use brush_parser::ast::{
    AndOr, AndOrList, Assignment, AssignmentValue, Command, CommandPrefixOrSuffixItem, CompoundCommand,
    CompoundList, IoFileRedirectTarget, IoRedirect, Pipeline, Program, SimpleCommand,
};
use brush_parser::word::{self, Parameter, ParameterExpr, WordPiece, WordPieceWithSource};
use brush_parser::{Parser, ParserOptions};

use super::{lexical, refused};
use crate::error::{Code, Error, Result};

/// The longest command that is checked, in bytes.
const LONGEST: usize = 64 << 10;
/// How deep substitutions may be nested.
const DEEPEST: usize = 8;

/// Words that bash reads as syntax in the place of a program. They are refused even if a list has them.
const RESERVED: &[&str] = &[
    "!", "[[", "]]", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if",
    "in", "select", "then", "time", "until", "while", "{", "}",
];

/// Checks that a command runs only programs of the list.
///
/// # Errors
/// [`Code::PermissionDenied`] if it runs another program, and [`Code::InvalidInput`] if that cannot be determined.
pub(super) fn check(command: &str, allow: &[String]) -> Result<()> {
    if command.len() > LONGEST {
        let message = format!(
            "with an allowlist, `command` must have at most {LONGEST} bytes: write a file and run it"
        );
        return Err(Error::new(Code::TooLarge, message));
    }
    Check { allow, options: options(), depth: 0 }.source(command)
}

fn options() -> ParserOptions {
    ParserOptions { enable_extended_globbing: false, ..ParserOptions::default() }
}

struct Check<'a> {
    allow: &'a [String],
    options: ParserOptions,
    depth: usize,
}

impl Check<'_> {
    /// Checks a command line, or the text of a substitution.
    fn source(&self, source: &str) -> Result<()> {
        lexical::check(source)?;
        let mut reader = source.as_bytes();
        let Ok(Program { complete_commands }) = Parser::new(&mut reader, &self.options).parse_program()
        else {
            return Err(refused("it cannot be parsed"));
        };
        complete_commands.iter().try_for_each(|list| self.list(list))
    }

    fn list(&self, CompoundList(items): &CompoundList) -> Result<()> {
        items.iter().try_for_each(|item| self.and_or(&item.0))
    }

    fn and_or(&self, AndOrList { first, additional }: &AndOrList) -> Result<()> {
        self.pipeline(first)?;
        additional.iter().try_for_each(|(AndOr::And(next) | AndOr::Or(next))| self.pipeline(next))
    }

    fn pipeline(&self, pipeline: &Pipeline) -> Result<()> {
        if pipeline.timed.is_some() {
            return Err(refused("it uses `time`"));
        }
        pipeline.seq.iter().try_for_each(|command| self.command(command))
    }

    fn command(&self, command: &Command) -> Result<()> {
        match command {
            Command::Simple(simple) => self.simple(simple),
            Command::Compound(compound, redirects) => {
                let list = match compound {
                    CompoundCommand::Subshell(subshell) => &subshell.list,
                    CompoundCommand::BraceGroup(group) => &group.list,
                    _ => return Err(refused("it uses a loop, a condition or another compound command")),
                };
                self.list(list)?;
                let redirects = redirects.as_ref().map_or(&[][..], |list| &list.0);
                redirects.iter().try_for_each(|redirect| self.redirect(redirect))
            }
            Command::Function(_) => Err(refused("it defines a function, which could shadow a program")),
            Command::ExtendedTest(..) => Err(refused("it uses `[[`, which evaluates expressions")),
        }
    }

    fn simple(&self, command: &SimpleCommand) -> Result<()> {
        let prefix = command.prefix.as_ref().map_or(&[][..], |prefix| &prefix.0);
        for item in prefix {
            match item {
                CommandPrefixOrSuffixItem::IoRedirect(redirect) => self.redirect(redirect)?,
                CommandPrefixOrSuffixItem::AssignmentWord(..) => {
                    return Err(refused("it assigns a variable, which could change what a program does"));
                }
                CommandPrefixOrSuffixItem::Word(_) | CommandPrefixOrSuffixItem::ProcessSubstitution(..) => {
                    return Err(refused("it has no literal program"));
                }
            }
        }
        let Some(program) = &command.word_or_name else {
            return Err(refused("it has a redirection without a program"));
        };
        self.program(&program.value)?;
        let suffix = command.suffix.as_ref().map_or(&[][..], |suffix| &suffix.0);
        suffix.iter().try_for_each(|item| match item {
            CommandPrefixOrSuffixItem::IoRedirect(redirect) => self.redirect(redirect),
            CommandPrefixOrSuffixItem::AssignmentWord(
                Assignment { value: AssignmentValue::Array(_), .. },
                _,
            ) => Err(refused("it assigns an array")),
            CommandPrefixOrSuffixItem::Word(word) | CommandPrefixOrSuffixItem::AssignmentWord(_, word) => {
                self.word(&word.value)
            }
            CommandPrefixOrSuffixItem::ProcessSubstitution(..) => {
                Err(refused("it uses a process substitution"))
            }
        })
    }

    fn program(&self, word: &str) -> Result<()> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._+-/".contains(&byte);
        if !word.bytes().all(plain) || RESERVED.contains(&word) {
            return Err(refused(&format!("`{word}` is not the plain name of a program")));
        }
        if self.allow.iter().any(|allowed| allowed == word) {
            return Ok(());
        }
        let message =
            format!("the program `{word}` is not allowed: this workspace allows {}", self.allow.join(", "));
        Err(Error::new(Code::PermissionDenied, message))
    }

    fn redirect(&self, redirect: &IoRedirect) -> Result<()> {
        match redirect {
            IoRedirect::File(_, _, IoFileRedirectTarget::Fd(_)) => Ok(()),
            IoRedirect::File(
                _,
                _,
                IoFileRedirectTarget::Filename(word) | IoFileRedirectTarget::Duplicate(word),
            )
            | IoRedirect::HereString(_, word)
            | IoRedirect::OutputAndError(word, _) => self.word(&word.value),
            IoRedirect::File(_, _, IoFileRedirectTarget::ProcessSubstitution(..)) => {
                Err(refused("it uses a process substitution"))
            }
            IoRedirect::HereDocument(..) => Err(refused("it has a here-document: write a file instead")),
        }
    }

    /// Checks the substitutions in an argument.
    fn word(&self, word: &str) -> Result<()> {
        let Ok(pieces) = word::parse(word, &self.options) else {
            return Err(refused("one of its words cannot be parsed"));
        };
        self.pieces(&pieces)
    }

    fn pieces(&self, pieces: &[WordPieceWithSource]) -> Result<()> {
        pieces.iter().try_for_each(|piece| match &piece.piece {
            WordPiece::Text(_)
            | WordPiece::SingleQuotedText(_)
            | WordPiece::EscapeSequence(_)
            | WordPiece::TildeExpansion(_)
            | WordPiece::ParameterExpansion(ParameterExpr::Parameter {
                // An index is an arithmetic expression.
                parameter: Parameter::Named(_) | Parameter::Positional(_) | Parameter::Special(_),
                indirect: false,
            }) => Ok(()),
            WordPiece::DoubleQuotedSequence(inner) => self.pieces(inner),
            WordPiece::CommandSubstitution(source) | WordPiece::BackquotedCommandSubstitution(source) => {
                if self.depth == DEEPEST {
                    return Err(refused("its substitutions are nested too deeply"));
                }
                Check { allow: self.allow, options: self.options.clone(), depth: self.depth + 1 }
                    .source(source)
            }
            WordPiece::ParameterExpansion(_) => Err(refused(
                "it uses an expansion other than `$NAME` and `${NAME}`, which can assign variables",
            )),
            WordPiece::ArithmeticExpression(_) => {
                Err(refused("it uses an arithmetic expansion, which can assign variables"))
            }
            WordPiece::AnsiCQuotedText(_) | WordPiece::GettextDoubleQuotedSequence(_) => {
                Err(refused("it uses `$'` or `$\"`"))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(command: &str) -> Option<Code> {
        let allow = ["git", "npm", "/usr/bin/env", "time", "coproc"].map(str::to_owned);
        check(command, &allow).err().map(|error| error.code)
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
                check(command, &["git", "npm", "/usr/bin/env"].map(str::to_owned)),
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
