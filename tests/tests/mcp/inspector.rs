//! The inspector's command line.

use koze_tests::{Sandboxes, node_command, run};
use serde_json::{Value, json};

use crate::clients::without_hints;
use crate::server::{Http, TIMEOUT, project};

/// Returns the inspector's JSON output.
fn inspect(args: &[&str], host: &Sandboxes) -> Value {
    let mut inspector = node_command("mcp-inspector");
    inspector.arg("--cli").args(args).envs(host.env()).current_dir(host.dir());
    let output = run(inspector, TIMEOUT);
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(output.status.success(), "{stdout}{stderr}");
    serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}\n{stdout}{stderr}"))
}

#[test]
fn tools_are_listed_and_called() {
    let host = project();
    let listed: Value = serde_json::from_str(&host.koze(&["tools"]).stdout).expect("JSON");
    let koze = host.command(&[]).get_program().to_string_lossy().into_owned();
    let server = Http::start(&host, &[]);
    let header = format!("Authorization: Bearer {}", server.token);
    let env = host.env().map(|(name, value)| format!("{name}={value}"));
    let on_stdio = [koze.as_str(), "mcp", "-e", &env[0], "-e", &env[1]];
    let over_http = [server.url.as_str(), "--transport", "http", "--header", &header];
    for place in [&on_stdio[..], &over_http[..]] {
        let see = |args: &[&str]| inspect(&[place, args].concat(), &host);
        assert_eq!(without_hints(see(&["--method", "tools/list"])["tools"].take()), listed);
        let call = ["--method", "tools/call", "--tool-name", "shell", "--tool-arg", "command=echo inspected"];
        let result = see(&call);
        assert_eq!(
            result["structuredContent"],
            json!({ "stdout": "inspected\n", "stderr": "", "exit_code": 0 })
        );
    }
}
