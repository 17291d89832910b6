//! What the document says of each route.

use schemars::generate::SchemaGenerator;
use serde_json::json;

use super::operation::{Content, Route, any_json, json_of, route};
use crate::http::*;
use crate::journal::Page;
use crate::tool::ToolResult;

const FILE: &str = "/sessions/{session}/sandboxes/{sandbox}/files/{path}";
const ARCHIVE: (&str, &str) = ("archive", "`tar` for a directory as an archive.");
const STAT: (&str, &str) = ("stat", "Returns the metadata of what is at the path, without following a link.");
const LIST: (&str, &str) = ("list", "Returns the entries of a directory with their metadata.");
const WATCH: (&str, &str) =
    ("watch", "Returns the later changes to what is at the path and below it, as server-sent events.");
const MERGE: (&str, &str) =
    ("merge", "With `true`, the archive may be extracted into a directory that exists.");

/// The tools and their journal.
pub(super) fn routes_of_tools(schemas: &mut SchemaGenerator) -> Vec<Route> {
    vec![
        route(
            "get",
            "/tools",
            "The definitions of the tools",
            &[
                ("dialect", "`mcp`, `anthropic`, `openai` or `openai-responses` [default: mcp]."),
                ("tools", "The families of tools, separated by commas [default: that of the project]."),
                ("instructions", "Returns `{instructions, tools}`: also what a model must know."),
            ],
            Content::None,
            vec![(200, "The definitions.", Content::Json(json!({})))],
        ),
        route(
            "post",
            "/sessions/{session}/tools/{tool}",
            "Call a tool",
            &[("tools", "The families of tools, separated by commas [default: that of the project].")],
            any_json(),
            vec![(200, "The result. The tool may have failed.", json_of::<ToolResult>(schemas))],
        ),
        route(
            "get",
            "/sessions/{session}/log",
            "The journal of tool calls",
            &[
                ("since", "The calls after this ID [default: the newest ones]."),
                ("limit", "At most this many calls, from 1 to 1000 [default: 100]."),
            ],
            Content::None,
            vec![(200, "The calls, the newest last.", json_of::<Page>(schemas))],
        ),
        route(
            "post",
            "/mcp",
            "The Model Context Protocol over streamable HTTP",
            &[
                ("session", "The session [default: the header `koze-session`, or `default`]."),
                ("tools", "The families of tools, separated by commas [default: that of the project]."),
            ],
            any_json(),
            vec![
                (200, "A message, or a stream of messages.", any_json()),
                (202, "The notification was accepted.", Content::None),
            ],
        ),
    ]
}

/// What only hosts with a list of their sessions have.
pub(super) fn routes_of_machines(schemas: &mut SchemaGenerator) -> Vec<Route> {
    vec![
        route(
            "get",
            "/sessions",
            "The sessions on this machine (501 from a Worker)",
            &[],
            Content::None,
            vec![(200, "The sessions.", json_of::<SessionList>(schemas))],
        ),
        route(
            "get",
            "/sessions/{session}/egress",
            "The hosts that a session reached and was refused, on this machine (501 from a Worker)",
            &[("limit", "At most this many of the newest entries, from 1 to 1000 [default: 100].")],
            Content::None,
            vec![(200, "The entries, the newest last.", json_of::<EgressList>(schemas))],
        ),
        route(
            "get",
            "/sessions/{session}/usage",
            "The memory, processor time and disk of the sandboxes that run (501 from a Worker)",
            &[],
            Content::None,
            vec![(200, "The usage.", json_of::<UsageList>(schemas))],
        ),
        route(
            "get",
            "/sessions/{session}/sandboxes/{sandbox}/terminal",
            "Open a login shell in a terminal, as a WebSocket (501 from a Worker)",
            &[
                ("cols", "The number of columns [default: 80]."),
                ("rows", "The number of rows [default: 24]."),
            ],
            Content::None,
            vec![(
                101,
                "Binary messages are bytes, in both directions. The client may send a `TerminalRequest` as text. The last \
                 message is text: a `ProcessExit`, or an `ErrorBody`.",
                Content::None,
            )],
        ),
    ]
}

/// The sandboxes of a session.
pub(super) fn routes_of_sandboxes(schemas: &mut SchemaGenerator) -> Vec<Route> {
    vec![
        route(
            "get",
            "/sessions/{session}/sandboxes",
            "The sandboxes of a session",
            &[],
            Content::None,
            vec![(200, "The sandboxes.", json_of::<SandboxList>(schemas))],
        ),
        route(
            "post",
            "/sessions/{session}/sandboxes",
            "Create a sandbox unless it exists",
            &[],
            json_of::<CreateSandbox>(schemas),
            vec![
                (200, "It existed.", json_of::<CreatedSandbox>(schemas)),
                (201, "It was created.", json_of::<CreatedSandbox>(schemas)),
            ],
        ),
        route(
            "get",
            "/sessions/{session}/sandboxes/{sandbox}",
            "Describe a sandbox",
            &[],
            Content::None,
            vec![(200, "The sandbox.", json_of::<SandboxDetails>(schemas))],
        ),
        route(
            "delete",
            "/sessions/{session}/sandboxes/{sandbox}",
            "Destroy a sandbox and delete its files",
            &[],
            Content::None,
            vec![(200, "It is gone.", json_of::<Done>(schemas))],
        ),
    ]
}

/// The files of a sandbox.
pub(super) fn routes_of_files(schemas: &mut SchemaGenerator) -> Vec<Route> {
    vec![
        route(
            "get",
            FILE,
            "Read a file, or the metadata of one",
            &[ARCHIVE, STAT, LIST, WATCH],
            Content::None,
            vec![
                (
                    200,
                    "The file, or the archive of the directory. With `stat`, a `FileEntry` as JSON, and with `list`, a \
                     `FileList`. With `watch`, events: first `ready` with `WatchedFiles`, then `created`, `changed` and \
                     `removed` with `FileChange`, and last `error` with `ErrorDetails`.",
                    Content::Bytes,
                ),
                (206, "The requested range of the file.", Content::Bytes),
                (304, "The file has the tag of `If-None-Match`.", Content::None),
            ],
        ),
        route(
            "delete",
            FILE,
            "Remove a file, or a directory with its contents",
            &[],
            Content::None,
            vec![(200, "It is gone.", json_of::<Done>(schemas))],
        ),
        route(
            "put",
            FILE,
            "Write a file",
            &[ARCHIVE, MERGE],
            Content::Bytes,
            vec![
                (201, "The file or directory was created.", Content::None),
                (204, "The file was replaced, or the archive extracted.", Content::None),
            ],
        ),
    ]
}

/// The processes of a sandbox.
pub(super) fn routes_of_processes(schemas: &mut SchemaGenerator) -> Vec<Route> {
    vec![
        route(
            "get",
            "/sessions/{session}/sandboxes/{sandbox}/processes",
            "The processes of a sandbox",
            &[],
            Content::None,
            vec![(200, "The processes, the oldest first.", json_of::<ProcessList>(schemas))],
        ),
        route(
            "post",
            "/sessions/{session}/sandboxes/{sandbox}/processes",
            "Start a process",
            &[],
            json_of::<StartProcess>(schemas),
            vec![(201, "It runs.", json_of::<ProcessEntry>(schemas))],
        ),
        route(
            "get",
            "/sessions/{session}/sandboxes/{sandbox}/processes/{process}",
            "Describe a process",
            &[],
            Content::None,
            vec![(200, "The process.", json_of::<ProcessEntry>(schemas))],
        ),
        route(
            "get",
            "/sessions/{session}/sandboxes/{sandbox}/processes/{process}/events",
            "The output of a process",
            &[
                (
                    "since",
                    "The ID of the last event [default: 0]. The header `Last-Event-ID` has precedence.",
                ),
                ("follow", "With `false`, ends with the output that is there [default: true]."),
            ],
            Content::None,
            vec![(
                200,
                "Events: `stdout` and `stderr` with `EventText`, `dropped` with `DroppedOutput`, and last `exit` with \
                 `ProcessExit` or `error` with `ErrorDetails`.",
                Content::Events,
            )],
        ),
        route(
            "post",
            "/sessions/{session}/sandboxes/{sandbox}/processes/{process}/stdin",
            "Write to the standard input of a process",
            &[("close", "With `true`, closes it if all was written [default: false].")],
            Content::Bytes,
            vec![(200, "How much it has read.", json_of::<Written>(schemas))],
        ),
        route(
            "post",
            "/sessions/{session}/sandboxes/{sandbox}/processes/{process}/signal",
            "Send a signal to a process",
            &[],
            json_of::<SendSignal>(schemas),
            vec![(200, "It was sent.", json_of::<Done>(schemas))],
        ),
        route(
            "post",
            "/sessions/{session}/sandboxes/{sandbox}/processes/{process}/resize",
            "Set the size of a process's terminal",
            &[],
            json_of::<TerminalSize>(schemas),
            vec![(200, "It was set.", json_of::<Done>(schemas))],
        ),
    ]
}

/// The snapshots of workspaces.
pub(super) fn routes_of_snapshots(schemas: &mut SchemaGenerator) -> Vec<Route> {
    let mut create = |how: &'static str, path: &'static str| {
        let body = json_of::<RestoreSnapshot>(schemas);
        let created = (201, "The new sandbox.", json_of::<RestoredSnapshot>(schemas));
        route("post", path, how, &[], body, vec![created])
    };
    let restore = create(
        "Create a sandbox `<workspace>-restored-…` with the content of a snapshot",
        "/sessions/{session}/snapshots/{snapshot}/restore",
    );
    let branch = create(
        "Create a sandbox `<workspace>-branch-…` with the content of a snapshot",
        "/sessions/{session}/snapshots/{snapshot}/branch",
    );
    vec![
        route(
            "get",
            "/sessions/{session}/snapshots",
            "The snapshots of a session, and the sandboxes that were created from them",
            &[("workspace", "Those of this workspace [default: of all that declare `snapshot`].")],
            Content::None,
            vec![(200, "The snapshots, the oldest first.", json_of::<SnapshotList>(schemas))],
        ),
        route(
            "post",
            "/sessions/{session}/snapshots",
            "Take a snapshot of the directory of a workspace",
            &[],
            json_of::<CreateSnapshot>(schemas),
            vec![(201, "The snapshot.", json_of::<SnapshotEntry>(schemas))],
        ),
        route(
            "get",
            "/sessions/{session}/snapshots/{snapshot}",
            "Describe a snapshot",
            &[],
            Content::None,
            vec![(200, "The snapshot.", json_of::<SnapshotEntry>(schemas))],
        ),
        route(
            "delete",
            "/sessions/{session}/snapshots/{snapshot}",
            "Remove a snapshot",
            &[],
            Content::None,
            vec![(200, "It is gone.", json_of::<Done>(schemas))],
        ),
        restore,
        branch,
    ]
}
