//! The end of the process that started a server.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use fs_err as fs;
use koze_tests::eventually;

use crate::server::project;

/// Another process may still hold the streams of the server, such as a sibling that inherited them.
#[test]
fn a_server_ends_with_the_process_that_started_it() {
    let host = project();
    let koze = host.command(&["mcp"]);
    let script = "exec 3<&0; \"$0\" mcp <&3 & echo $!; wait";
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).arg(koze.get_program()).current_dir(host.dir()).envs(host.env());
    let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a shell");
    let mut input = shell.stdin.take().expect("a pipe");
    let mut output = BufReader::new(shell.stdout.take().expect("a pipe"));
    let mut line = String::new();
    output.read_line(&mut line).expect("the ID of the server");
    let server: u32 = line.trim().parse().expect("a number");
    input.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"hand\",\"version\":\"1\"}}}\n").expect("it reads");
    line.clear();
    output.read_line(&mut line).expect("its response");
    assert!(line.contains("serverInfo"), "{line}");
    shell.kill().expect("the shell runs");
    shell.wait().expect("it has ended");
    // A process that has ended, but was not collected yet, has no command line.
    let has_ended =
        || fs::read(format!("/proc/{server}/cmdline")).map_or(true, |command_line| command_line.is_empty());
    eventually("the end of the server", has_ended);
    drop(input);
}
