use std::path::Path;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::routes::{
    routes_of_files, routes_of_machines, routes_of_processes, routes_of_sandboxes, routes_of_snapshots,
    routes_of_tools,
};
use crate::http::*;

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
