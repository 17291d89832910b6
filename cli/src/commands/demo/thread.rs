//! The demo of the tools of a thread: an agent counts the words of an upload.

use serde_json::{Value, json};

use super::Agent;

/// The toolset.
pub(super) const TOOLSET: &str = "thread";

const UPLOAD: &str = "/mnt/user-data/uploads/poem.txt";
const PROGRAM: &str = "/mnt/user-data/workspace/count.sh";
const REPORT: &str = "/mnt/user-data/outputs/report.md";

const POEM: &str = "The sea is calm tonight.\nThe tide is full, the moon lies fair.\n";
const COUNT: &str =
    "tr -cs A-Za-z '\\n' < \"$1\" | tr A-Z a-z | sort | uniq -c | sort -rnk1,1 -k2 | head -n 20\n";

/// Plays the calls.
pub(super) async fn play(agent: &Agent) -> Result<(), String> {
    let path = |path: &str| json!({ "path": path });
    let write = |path: &str, content: &str| json!({ "path": path, "content": content });
    call_with_description(agent, "ls", "See what there is", path("/mnt/user-data")).await?;
    call_with_description(agent, "write_file", "Store the user's upload", write(UPLOAD, POEM)).await?;
    call_with_description(agent, "write_file", "Write a program that counts words", write(PROGRAM, COUNT))
        .await?;
    let edit = json!({ "path": PROGRAM, "old_str": "head -n 20", "new_str": "head -n 3" });
    call_with_description(agent, "str_replace", "Keep the most frequent words only", edit).await?;
    call_with_description(agent, "grep", "Check the edit", json!({ "pattern": "head -n", "path": PROGRAM }))
        .await?;
    let command = format!("(echo '# Words'; sh {PROGRAM} {UPLOAD}) > {REPORT}");
    call_with_description(agent, "bash", "Write the report", json!({ "command": command })).await?;
    call_with_description(agent, "read_file", "Read the report", path(REPORT)).await?;
    let files = json!({ "pattern": "**/*", "path": "/mnt/user-data" });
    call_with_description(agent, "glob", "List all files", files).await
}

/// Calls a tool. The description comes first.
async fn call_with_description(
    agent: &Agent,
    tool: &str,
    description: &str,
    more: Value,
) -> Result<(), String> {
    let mut input = json!({ "description": description });
    if let (Some(input), Value::Object(more)) = (input.as_object_mut(), more) {
        input.extend(more);
    }
    agent.call_and_show(tool, input).await.map(drop)
}
