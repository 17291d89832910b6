//! Finds out which cases a running Worker can play, and why the others are left out.

use std::error::Error;
use std::time::Duration;

use serde_json::{Value, json};

use super::tidy::Tidy;
use super::{Http, message};
use crate::conformance::{
    Capability, Case, Host as _, ToolResult, WORKSPACES, cases, script_cases, workspace_cases,
};

/// The free disk that the cases with [`Capability::Big`] need, in KiB: a gigabyte and its copy.
const BIG_KIB: u64 = 5 << 19;

/// How often, and how many times at most, the status of a sandbox is read until it sleeps.
const LOOK: (Duration, usize) = (Duration::from_millis(500), 60);

/// The cases of one family of tools.
pub struct Part {
    /// The name of the family.
    pub family: &'static str,
    /// The cases to play, with the client for the family's tools.
    pub cases: Vec<Case>,
    /// The client.
    pub host: Http,
    /// The capabilities that the Worker lacks, with the reasons.
    pub lacks: Vec<(Capability, String)>,
    /// The numbers of other cases that are left out, with the reasons.
    pub left_out: Vec<(usize, String)>,
}

impl Http {
    /// Returns the cases of all families, with those that the Worker cannot play left out.
    ///
    /// # Errors
    ///
    /// Returns an error if nothing answers, the token is wrong, or the Worker does not answer as the cases need it.
    pub fn parts(&self) -> Result<Vec<Part>, Box<dyn Error>> {
        let (status, body) = self.definitions("")?;
        // Without a default toolset, the answer is another error.
        if [401, 403, 503].contains(&status) {
            return Err(format!("{} answers {status}: {}", self.url, message(&body)).into());
        }
        Ok(vec![self.agent_part()?, self.workspace_part()?, self.script_part()?])
    }

    /// Returns the names of a family's tools, or why the Worker does not serve it.
    fn served(&self, family: &str) -> Result<Result<Vec<String>, String>, Box<dyn Error>> {
        let (status, body) = self.definitions(&format!("?tools={family}"))?;
        if status != 200 {
            return Ok(Err(message(&body)));
        }
        let tools: Vec<Value> = serde_json::from_str(&body)?;
        Ok(Ok(tools.iter().filter_map(|tool| tool["name"].as_str().map(str::to_owned)).collect()))
    }

    fn part(&self, family: &'static str, cases: Vec<Case>) -> Part {
        let host = Http { toolset: Some(family), ..self.moved(&self.url) };
        Part { family, cases, host, lacks: Vec::new(), left_out: Vec::new() }
    }

    fn agent_part(&self) -> Result<Part, Box<dyn Error>> {
        let mut part = self.part("agent", cases());
        match self.served("agent")? {
            Ok(_) => part.lacks = part.host.lacks()?,
            Err(why) => part.leave_out_all(why),
        }
        Ok(part)
    }

    fn workspace_part(&self) -> Result<Part, Box<dyn Error>> {
        let mut part = self.part("workspace", workspace_cases());
        let names = match self.served("workspace")? {
            Ok(names) => names,
            Err(why) => {
                part.leave_out_all(why);
                return Ok(part);
            }
        };
        let is_missing = |workspace: &str| !names.contains(&format!("workspace__{workspace}__read_file"));
        let missing: Vec<_> = WORKSPACES.iter().filter(|(name, _)| is_missing(name)).collect();
        // Only the cases of snapshots use this workspace.
        if missing.iter().any(|(name, _)| *name != "saved") {
            let declared = missing.iter().map(|(name, more)| {
                let comma = if more.is_empty() { "" } else { ", " };
                format!("workspace(name = \"{name}\"{comma}{more})")
            });
            let declared = declared.collect::<Vec<_>>().join("; ");
            part.leave_out_all(format!("the Worker has no sandboxes with {declared}"));
            return Ok(part);
        }
        if !missing.is_empty() {
            let all = part.cases.len();
            part.cases.retain(|case| !case.name.contains("snapshot"));
            let why = "the Worker has no workspace `saved`, whose snapshots are in an R2 bucket".to_owned();
            part.left_out.push((all - part.cases.len(), why));
        }
        part.lacks.push(no_restart());
        let input = json!({ "command": "id -u" });
        let ran = Tidy::new(&part.host).call("who-runs-there", "workspace__open__run", input);
        part.lacks.extend(user(&self.url, &ran)?);
        Ok(part)
    }

    fn script_part(&self) -> Result<Part, Box<dyn Error>> {
        let mut part = self.part("script", script_cases());
        if let Err(why) = self.served("script")? {
            part.leave_out_all(why);
            return Ok(part);
        }
        part.lacks.push(no_restart());
        let time = "statements of Durable Objects have no timeout";
        part.lacks.push((Capability::StatementTime, time.to_owned()));
        let session = "what-scripts-have";
        // An address that no script may reach.
        let inside = json!({ "url": "http://127.0.0.1:9/" });
        let fetched = part.host.call(session, "fetch_url", inside.clone()).content;
        if fetched.contains("no network for scripts") {
            part.lacks.push((Capability::Network, fetched));
        } else {
            part.lacks
                .push((Capability::Network, "the server of these cases has no public address".to_owned()));
            part.cases.retain(|case| case.name != "script_without_a_network");
            part.left_out.push((1, "scripts have a network there".to_owned()));
        }
        for (capability, tool, input) in [
            (Capability::Browser, "browser_navigate", inside),
            (Capability::Database, "db_schema", json!({})),
        ] {
            let ToolResult { content, is_error } = part.host.call(session, tool, input);
            if is_error && content.starts_with("unsupported: ") {
                part.lacks.push((capability, content));
            }
        }
        Ok(part)
    }

    /// Returns whether the cases that need much of a sandbox can be played, and the reasons if not.
    pub(super) fn lacks_of_sandboxes(
        &self,
        has_list: bool,
    ) -> Result<Vec<(Capability, String)>, Box<dyn Error>> {
        let asked = Tidy::new(self);
        let mut lacks = Vec::new();
        let df = "df -Pk /home/user | tail -n 1 | tr -s ' ' | cut -d ' ' -f 4";
        let ran = asked.call("what-fits-there", "shell", json!({ "command": df }));
        let free = stdout(&ran).and_then(|text| text.trim().parse::<u64>().ok());
        if free.is_none_or(|free| free < BIG_KIB) {
            let why = free
                .map_or("`df` prints no free disk".to_owned(), |free| format!("{free} KiB of disk are free"));
            lacks.push((Capability::Big, format!("{why}, and the cases need {BIG_KIB}")));
        }
        if !has_list {
            let unknown = "without a list of sandboxes, nothing says when one sleeps";
            lacks.push((Capability::Keep, unknown.to_owned()));
            lacks.push((Capability::Limits, NO_LIMITS.to_owned()));
        } else if !keeps_files(&asked)? {
            lacks.push((Capability::Keep, "the files of a sandbox were deleted when it slept".to_owned()));
            lacks.push((Capability::Limits, NO_LIMITS.to_owned()));
        }
        Ok(lacks)
    }
}

/// Sandboxes of a local machine keep their files. The others are containers.
const NO_LIMITS: &str = "a container has only the limits of its machine, which a fork bomb may take down: play these cases with \
                         `--with limits`";

impl Part {
    fn leave_out_all(&mut self, why: String) {
        self.left_out.push((std::mem::take(&mut self.cases).len(), why));
    }
}

/// Lets a sandbox sleep, and returns whether its file is still there.
fn keeps_files(asked: &Tidy<'_>) -> Result<bool, Box<dyn Error>> {
    let session = "what-outlives-sleep";
    let done = |tool: &str, input: Value| -> Result<Value, Box<dyn Error>> {
        let ToolResult { content, is_error } = asked.call(session, tool, input);
        if is_error { Err(format!("{tool}: {content}").into()) } else { Ok(serde_json::from_str(&content)?) }
    };
    done("sandbox_create", json!({ "sandbox": "short", "sleep_after_ms": 1000 }))?;
    done("write_file", json!({ "sandbox": "short", "path": "file", "content": "kept" }))?;
    let (pause, times) = LOOK;
    for _ in 0..times {
        std::thread::sleep(pause);
        if done("sandbox_list", json!({}))?["sandboxes"][0]["status"] == "sleeping" {
            return Ok(!asked
                .call(session, "read_file", json!({ "sandbox": "short", "path": "file" }))
                .is_error);
        }
    }
    Err("a sandbox with an idle time of a second did not sleep within 30 s".into())
}

/// Returns the capability that no Worker has.
pub(super) fn no_restart() -> (Capability, String) {
    (Capability::Restart, "no request ends a Worker".to_owned())
}

/// Returns the capability that the user of programs lacks, if any, from the result of `id -u`.
pub(super) fn user(url: &str, ran: &ToolResult) -> Result<Option<(Capability, String)>, Box<dyn Error>> {
    if ran.is_error && ran.content.starts_with("unsupported: ") {
        return Ok(Some((Capability::Exec, ran.content.clone())));
    }
    match stdout(ran).and_then(|text| text.trim().parse::<u32>().ok()) {
        Some(0) => Ok(Some((Capability::PlainUser, "`id -u` prints 0: programs are root there".to_owned()))),
        Some(_) => Ok(None),
        None => Err(format!("{url}: `id -u` gives no user id in a sandbox: {}", ran.content).into()),
    }
}

/// Returns the standard output of a command.
fn stdout(ran: &ToolResult) -> Option<String> {
    let answer: Value = serde_json::from_str(&ran.content).ok()?;
    answer["stdout"].as_str().map(str::to_owned)
}
