//! `cloudflare.config.ts`: the configuration of Cloudflare's program `cf`. koze does not edit TypeScript, but writes a module
//! that it can import.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::blocks::policy::DURABLE_OBJECT;
use super::locate::Config;
use super::scope::Scope;
use crate::discover::Project;
use crate::{generate, paths};

/// The file.
pub const FILE: &str = "cloudflare.config.ts";

/// The generated module, in the directory of generated files.
pub const MODULE: &str = "containers.ts";

/// Returns whether the package has such a file.
pub fn exists(project: &Project) -> bool {
    project.dir.join(FILE).is_file()
}

/// Returns the note for a project that has both configurations. `has_module` says whether koze writes a module for it.
pub fn note(config: &Config, has_module: bool) -> String {
    let shown = &config.shown;
    if has_module {
        format!(
            "note: koze edits {shown}, not `{FILE}`: import `containers` from `./{}/{MODULE}` there",
            generate::DIR
        )
    } else {
        format!("note: koze edits {shown}, not `{FILE}`, which wrangler ignores")
    }
}

/// Renders the module: the containers of these classes at the top level of a configuration that are started by their Durable
/// Objects. Returns `None` if there are none.
pub fn render_containers(
    root: &Value,
    classes: &[&str],
    config_dir: &Path,
    project_dir: &Path,
) -> Option<String> {
    let scope = Scope::top(root);
    let containers = scope.list(&["containers"]);
    let of_class = |class: &str| containers.iter().find(|entry| scope.container_class(entry) == Some(class));
    let rebase = |path: &str| paths::dotted(&paths::normal(&config_dir.join(path)), project_dir);
    let mut body = String::new();
    let mut names = Vec::new();
    for class in classes {
        let Some(entry) = of_class(class).filter(|entry| entry["scheduling_policy"] == DURABLE_OBJECT) else {
            continue;
        };
        let value = to_definition(entry, &rebase);
        let text = serde_json::to_string_pretty(&value).unwrap_or_default();
        let _ = write!(
            body,
            "\n/** The container of the class `{class}`. */\nexport const {class} = defineContainer({text});\n"
        );
        names.push(*class);
    }
    let mark = generate::MARK;
    let all = names.join(", ");
    (!names.is_empty()).then(|| {
        format!(
            "// {mark}\n\nimport {{ defineContainer }} from \"cf/config\";\n{body}\n/** All of them, for `containers` of `defineConfig`. */\nexport const containers = [{all}];\n"
        )
    })
}

/// Converts an entry of `containers` to the argument of `defineContainer`. wrangler's own conversion is the inverse.
fn to_definition(entry: &Value, rebase: &dyn Fn(&str) -> String) -> Value {
    let mut definition = Map::new();
    definition.insert("name".to_owned(), entry["name"].clone());
    definition.insert("schedulingPolicy".to_owned(), json!("durable-object"));
    if let Some(images) = entry.get("images").and_then(Value::as_object) {
        let images = images.iter().map(|(name, image)| (name.clone(), to_image(image, rebase)));
        definition.insert("images".to_owned(), Value::Object(images.collect()));
    }
    for key in ["observability", "ssh", "unsafe"] {
        definition.extend(entry.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    if let Some(keys) = entry.get("authorized_keys").and_then(Value::as_array) {
        let to_key = |key: &Value| json!({ "name": key["name"], "publicKey": key["public_key"] });
        definition.insert("authorizedKeys".to_owned(), keys.iter().map(to_key).collect());
    }
    Value::Object(definition)
}

fn to_image(image: &Value, rebase: &dyn Fn(&str) -> String) -> Value {
    if let Some(reference) = image.get("image") {
        return json!({ "reference": reference });
    }
    let path = |key: &str| image.get(key).and_then(Value::as_str).map(|path| json!(rebase(path)));
    let keys = [
        ("dockerfile", path("dockerfile")),
        ("buildContext", path("build_context")),
        ("buildVars", image.get("build_vars").cloned()),
    ];
    keys.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect::<Map<_, _>>().into()
}
