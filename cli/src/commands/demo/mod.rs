//! `koze demo`: creates a project, plays an agent's work in its sandboxes, and shows each call.

mod script;
mod steps;
mod thread;
mod workspace;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use koze_core::Profiles;
use koze_core::tool::ToolResult;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::local_session::{self, LocalSession};
use super::{add, new, show};
use crate::args;
use crate::finding::Findings;
use crate::session::Client;

/// The sandboxes that the agents create.
const SANDBOXES: [&str; 4] = ["frontend", "backend", "default", workspace::NAME];
/// The number of connection attempts while the server starts, and the pause between them.
const MAX_ATTEMPTS: usize = 100;
const PAUSE: Duration = Duration::from_millis(100);

pub(super) fn run(args: &args::Demo) -> Result<ExitCode, ExitCode> {
    let scratch = tempfile::Builder::new()
        .prefix("koze-demo-")
        .tempdir()
        .map_err(|error| show::failure(&format!("cannot create a temporary project: {error}")))?;
    let project = scratch.path().join("demo");
    create_project(&project, args)?;
    let session = args::SessionArgs {
        project,
        config: None,
        state: Some(scratch.path().join("state")),
        session: args::SESSION.to_owned(),
        engine: None,
    };
    let profiles = local_session::profiles(&session)?;
    let client = LocalSession::find(&session)?.client().named("koze demo");
    local_session::wait(async {
        let agent = Agent { client: client.clone(), profiles, toolset: args.tools };
        let played = match args.tools {
            args::DemoTools::Agent => agent.play().await,
            args::DemoTools::Thread => thread::play(&agent).await,
            args::DemoTools::Workspace => workspace::play(&agent).await,
            args::DemoTools::Script => script::play(&agent).await,
        };
        for name in SANDBOXES {
            // It may not exist if the demo failed early.
            let _ = client.destroy(name).await;
        }
        let _ = client.stop().await;
        match played {
            Ok(()) => {
                show::out(
                    "\nThe sandboxes have been destroyed. Next: create a project with `koze new NAME`, and connect your agent with `koze mcp`.\n",
                );
                ExitCode::SUCCESS
            }
            Err(why) => show::failure(&why),
        }
    })
}

/// Creates a project with its sandboxes, with the commands that a user would run.
fn create_project(project: &Path, args: &args::Demo) -> Result<(), ExitCode> {
    show::out("$ koze new demo\n");
    let wanted = args::New {
        dir: project.to_owned(),
        name: None,
        backend: args::Backend::Native,
        runtime_path: args.runtime_path.clone(),
    };
    let mut findings = Findings::new(false);
    let made = new::create(&wanted, &mut findings);
    show::findings(&findings);
    made.map_err(|_| ExitCode::FAILURE)?;
    match args.tools {
        args::DemoTools::Agent => {}
        args::DemoTools::Thread => return add_keys(project, "tools = [\"thread\"], "),
        args::DemoTools::Workspace => return add_keys(project, workspace::ATTRIBUTE),
        args::DemoTools::Script => return script::enable(project),
    }
    show::out("$ koze add python\n");
    let place = args::ProjectArgs {
        project: project.to_owned(),
        config: None,
        strict: false,
        format: args::Format::Human,
    };
    let wanted = args::Add {
        container: false,
        image: None,
        port: None,
        name: "python".to_owned(),
        backend: None,
        variant: None,
        dir: None,
        edit: args::Edit { place, dry_run: false },
    };
    match add::run(&wanted) {
        ExitCode::SUCCESS => Ok(()),
        code => Err(code),
    }
}

/// Adds keys to the attribute of the project's sandbox.
fn add_keys(project: &Path, keys: &str) -> Result<(), ExitCode> {
    let file = "src/server/shell.sandbox.rs";
    show::out(&format!("$ sed -i 's/sandbox(/&{keys}/' {file}\n"));
    let path = project.join(file);
    let changed = fs_err::read_to_string(&path)
        .and_then(|text| fs_err::write(&path, text.replacen("sandbox(", &format!("sandbox({keys}"), 1)));
    changed.map_err(|error| show::failure(&error.to_string()))
}

/// The scripted agent, in place of a model.
struct Agent {
    client: Client,
    profiles: Profiles,
    toolset: args::DemoTools,
}

impl Agent {
    async fn play(&self) -> Result<(), String> {
        self.call_json("sandbox_create", json!({ "sandbox": "frontend", "image": "shell" })).await?;
        self.call_json("sandbox_create", json!({ "sandbox": "backend", "image": "python" })).await?;
        self.call_json("shell", json!({ "sandbox": "frontend", "command": steps::BUILD })).await?;
        let found =
            self.call_json("shell", json!({ "sandbox": "backend", "command": steps::PREPARE })).await?;
        let server = steps::server(found["stdout"].as_str().unwrap_or_default())?;
        let path = format!("/home/user/app/{}", server.file);
        self.call_json("write_file", json!({ "sandbox": "backend", "path": path, "content": server.source }))
            .await?;
        self.call_json(
            "transfer",
            json!({
                "from_sandbox": "frontend", "from_path": "/home/user/app/dist",
                "to_sandbox": "backend", "to_path": "/home/user/app/static", "recursive": true,
            }),
        )
        .await?;
        let command = format!("cd app && {} {} > server.log 2>&1 &", server.program, server.file);
        self.call_json("shell", json!({ "sandbox": "backend", "command": command })).await?;
        let given = self.call_json("browse", json!({ "sandbox": "backend", "port": steps::PORT })).await?;
        let url = given["url"].as_str().ok_or("`browse` returned no URL")?;
        show::out(&format!("\n$ curl {url}\n{}", fetch_page(url).await?));
        Ok(())
    }

    /// Calls a tool that returns JSON.
    async fn call_json(&self, tool: &str, input: Value) -> Result<Value, String> {
        let content = self.call_and_show(tool, input).await?;
        serde_json::from_str(&content).map_err(|error| format!("`{tool}` returned invalid JSON: {error}"))
    }

    /// Calls a tool and shows the call and its result.
    async fn call_and_show(&self, tool: &str, input: Value) -> Result<String, String> {
        show::out(&format!("\n> {tool} {input}\n"));
        let toolset = match self.toolset {
            args::DemoTools::Agent => None,
            args::DemoTools::Thread => Some(thread::TOOLSET),
            args::DemoTools::Workspace => Some(workspace::TOOLSET),
            args::DemoTools::Script => Some(script::TOOLSET),
        };
        let reply = self.client.call(self.profiles.clone(), toolset, tool, input).await;
        let ToolResult { content, is_error } = reply.into();
        show::out(&format!("{content}\n"));
        if is_error { Err(format!("`{tool}` failed")) } else { Ok(content) }
    }
}

/// Fetches a page. Connects to the loopback address itself, because not every system resolves names below `localhost`.
async fn fetch_page(url: &str) -> Result<String, String> {
    let odd = || format!("{url} is not a preview URL");
    let host = url.strip_prefix("http://").and_then(|rest| rest.split('/').next()).ok_or_else(odd)?;
    let port = host.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok()).ok_or_else(odd)?;
    for _ in 0..MAX_ATTEMPTS {
        let page =
            get_response(host, port).await.map_err(|error| format!("{url} cannot be reached: {error}"))?;
        match page.split_once("\r\n\r\n") {
            Some((head, body)) if head.split(' ').nth(1) == Some("200") => return Ok(body.to_owned()),
            // The server is still starting.
            _ => tokio::time::sleep(PAUSE).await,
        }
    }
    Err(format!("nothing answers at {url}"))
}

async fn get_response(host: &str, port: u16) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let request = format!("GET / HTTP/1.0\r\nHost: {host}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut page = Vec::new();
    stream.read_to_end(&mut page).await?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}
