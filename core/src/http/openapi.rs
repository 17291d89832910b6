//! The description of all HTTP routes as [OpenAPI 3.1](https://spec.openapis.org/oas/v3.1.1.html). A test makes it from the types of the
//! bodies, and it is committed, so that a Worker does not contain the code that makes it.

/// The document, at `GET /openapi.json`.
pub const DOCUMENT: &str = include_str!("openapi.json");

#[cfg(test)]
mod tests {
    use std::path::Path;

    use schemars::JsonSchema;
    use schemars::generate::{SchemaGenerator, SchemaSettings};
    use serde_json::{Map, Value, json};

    use super::super::*;
    use crate::journal::Page;
    use crate::tool::ToolResult;

    const FILE: &str = "/sessions/{session}/sandboxes/{sandbox}/files/{path}";
    const ARCHIVE: (&str, &str) = ("archive", "`tar` for a directory as an archive.");
    const STAT: (&str, &str) =
        ("stat", "Returns the metadata of what is at the path, without following a link.");
    const LIST: (&str, &str) = ("list", "Returns the entries of a directory with their metadata.");
    const WATCH: (&str, &str) =
        ("watch", "Returns the later changes to what is at the path and below it, as server-sent events.");
    const MERGE: (&str, &str) =
        ("merge", "With `true`, the archive may be extracted into a directory that exists.");

    /// The bodies of requests and responses.
    enum Content {
        /// JSON with a schema.
        Json(Value),
        /// Any bytes.
        Bytes,
        /// Server-sent events.
        Events,
        None,
    }

    impl Content {
        fn to_value(&self) -> Option<Value> {
            Some(match self {
                Content::Json(schema) => json!({ "application/json": { "schema": schema } }),
                Content::Bytes => json!({ "application/octet-stream": {} }),
                Content::Events => json!({ "text/event-stream": { "schema": { "type": "string" } } }),
                Content::None => return None,
            })
        }
    }

    /// A route of the document.
    struct Route {
        method: &'static str,
        path: &'static str,
        summary: &'static str,
        /// The parameters of its query, and what they mean.
        query: &'static [(&'static str, &'static str)],
        body: Content,
        /// The responses that are no errors.
        responses: Vec<(u16, &'static str, Content)>,
    }

    fn name_of_path_parameter(name: &str) -> &'static str {
        match name {
            "session" => "The session.",
            "sandbox" => "The name of the sandbox.",
            "process" => "The ID of the process.",
            "snapshot" => "The ID of the snapshot.",
            "tool" => "The name of the tool.",
            "path" => "The path of the file below the root of the sandbox. It may contain slashes.",
            other => panic!("the parameter `{other}` has no description"),
        }
    }

    impl Route {
        fn to_value(&self) -> Value {
            let mut parameters = Vec::new();
            for name in self.path.split('{').skip(1).map(|rest| rest.split('}').next().unwrap()) {
                parameters.push(json!({
                    "name": name, "in": "path", "required": true, "description": name_of_path_parameter(name),
                    "schema": { "type": "string" },
                }));
            }
            for (name, description) in self.query {
                parameters.push(json!({
                    "name": name, "in": "query", "description": description, "schema": { "type": "string" },
                }));
            }
            let mut responses = Map::new();
            for (status, description, content) in &self.responses {
                let mut response = json!({ "description": description });
                if let Some(content) = content.to_value() {
                    response["content"] = content;
                }
                responses.insert(status.to_string(), response);
            }
            responses.insert("default".into(), json!({ "$ref": "#/components/responses/Error" }));
            let mut operation = json!({ "summary": self.summary, "parameters": parameters });
            if let Some(content) = self.body.to_value() {
                operation["requestBody"] = json!({ "required": true, "content": content });
            }
            operation["responses"] = responses.into();
            operation
        }
    }

    fn json_of<T: JsonSchema>(schemas: &mut SchemaGenerator) -> Content {
        Content::Json(schemas.subschema_for::<T>().to_value())
    }

    fn any_json() -> Content {
        Content::Json(json!({ "type": "object" }))
    }

    fn route(
        method: &'static str,
        path: &'static str,
        summary: &'static str,
        query: &'static [(&'static str, &'static str)],
        body: Content,
        responses: Vec<(u16, &'static str, Content)>,
    ) -> Route {
        Route { method, path, summary, query, body, responses }
    }

    /// The tools and their journal.
    fn routes_of_tools(schemas: &mut SchemaGenerator) -> Vec<Route> {
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
    fn routes_of_machines(schemas: &mut SchemaGenerator) -> Vec<Route> {
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
    fn routes_of_sandboxes(schemas: &mut SchemaGenerator) -> Vec<Route> {
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
    fn routes_of_files(schemas: &mut SchemaGenerator) -> Vec<Route> {
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
    fn routes_of_processes(schemas: &mut SchemaGenerator) -> Vec<Route> {
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
    fn routes_of_snapshots(schemas: &mut SchemaGenerator) -> Vec<Route> {
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

    fn document() -> Value {
        let mut schemas = SchemaSettings::draft2020_12()
            .with(|settings| {
                settings.definitions_path = "/components/schemas".into();
                settings.meta_schema = None;
            })
            .into_generator();
        let mut routes = routes_of_tools(&mut schemas);
        routes.extend(routes_of_machines(&mut schemas));
        routes.extend(routes_of_sandboxes(&mut schemas));
        routes.extend(routes_of_files(&mut schemas));
        routes.extend(routes_of_processes(&mut schemas));
        routes.extend(routes_of_snapshots(&mut schemas));
        // To these, no response refers.
        schemas.subschema_for::<EventText>();
        schemas.subschema_for::<TerminalRequest>();
        schemas.subschema_for::<FileList>();
        schemas.subschema_for::<FileChange>();
        schemas.subschema_for::<WatchedFiles>();
        schemas.subschema_for::<DroppedOutput>();
        schemas.subschema_for::<ProcessExit>();
        let error = schemas.subschema_for::<ErrorBody>().to_value();
        let mut paths = Map::new();
        for route in routes {
            let path = paths.entry(route.path).or_insert_with(|| json!({}));
            path[route.method] = route.to_value();
        }
        json!({
            "openapi": "3.1.1",
            "info": {
                "title": "koze",
                "summary": "Isolated Linux sandboxes for agents.",
                "version": env!("CARGO_PKG_VERSION"),
                "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
            },
            "servers": [{ "url": "/" }],
            "security": [{ "token": [] }],
            "paths": paths,
            "components": {
                "securitySchemes": {
                    "token": { "type": "http", "scheme": "bearer", "description": "A token of the server." },
                },
                "responses": {
                    "Error": {
                        "description": "The request failed.",
                        "content": { "application/json": { "schema": error } },
                    },
                },
                "schemas": schemas.take_definitions(true),
            },
        })
    }

    #[test]
    fn the_committed_document_is_that_of_the_types() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http/openapi.json");
        let text = serde_json::to_string_pretty(&document()).unwrap() + "\n";
        if std::env::var_os("KOZE_BLESS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == text,
            "openapi.json differs from the types: run `KOZE_BLESS=1 cargo test -p koze-core --lib openapi`"
        );
    }

    /// The routes of this module are all there: each is asked with a method that it refuses.
    #[test]
    fn every_route_is_described() {
        let document = document();
        let described = document["paths"].as_object().unwrap();
        for path in [
            "",
            "/{sandbox}",
            "/{sandbox}/processes",
            "/{sandbox}/processes/{process}",
            "/{sandbox}/processes/{process}/events",
            "/{sandbox}/processes/{process}/stdin",
            "/{sandbox}/processes/{process}/signal",
            "/{sandbox}/processes/{process}/resize",
        ] {
            let mut methods: Vec<String> = described[&format!("/sessions/{{session}}/sandboxes{path}")]
                .as_object()
                .unwrap()
                .keys()
                .cloned()
                .collect();
            methods.sort();
            let allowed = super::super::tests::allowed_methods(path);
            assert_eq!(methods, allowed, "{path}");
        }
    }
}
