//! The description of the routes: `GET /openapi.json`.

use fs_err as fs;
use koze_tests::{node_command, node_modules, root, run};
use serde_json::Value;

use crate::http::{bearer, body_of, send};
use crate::server::{Http, TIMEOUT, project};

/// Validates a document with the official schemas of its format, and resolves its references.
const VALIDATE: &str = "
    import { readFileSync } from 'node:fs';
    import { Validator } from '@seriousme/openapi-schema-validator';
    const validator = new Validator();
    const result = await validator.validate(JSON.parse(readFileSync(process.argv[1], 'utf8')));
    validator.resolveRefs();
    console.log(JSON.stringify({ ...result, version: validator.version }));";

#[test]
fn the_description_of_the_routes_is_served_and_valid() {
    let committed = root().join("core/src/http/openapi.json");
    let document: Value =
        serde_json::from_str(&fs::read_to_string(&committed).expect("the document")).expect("JSON");
    let server = Http::start(&project(), &[]);
    let headers = format!("Host: localhost\r\n{}", bearer(&server));
    let (status, answer) = send(&server, "GET /openapi.json", &headers, b"");
    assert_eq!((status, body_of(&answer)), (200, document));
    assert_eq!(send(&server, "POST /openapi.json", &headers, b"").0, 405);

    let validate = |path: &std::path::Path| {
        let mut node = node_command("node");
        let directory = node_modules().parent().expect("a directory").to_owned();
        node.args(["--input-type=module", "--eval", VALIDATE]).arg(path).current_dir(directory);
        let output = run(node, TIMEOUT);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")
    };
    let result = validate(&committed);
    assert!(result["valid"] == true && result["version"] == "3.1", "{result:#}");
    // It would say so if something was wrong.
    let wrong = tempfile::NamedTempFile::new().expect("a file");
    fs::write(wrong.path(), r#"{"openapi": "3.1.1", "info": {"title": "x"}, "paths": {}}"#).expect("a file");
    assert_eq!(validate(wrong.path())["valid"], false);
}
