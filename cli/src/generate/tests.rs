use std::collections::HashSet;

use koze_model::image::ImageSource;
use koze_model::{Report, Sandbox};
use serde_json::{Map, Value, json};

use super::*;
use crate::images::{Resolved, offered, serves};
use crate::wrangler::bindings;

fn sandbox(file: &str, text: &str) -> Sandbox {
    let mut report = Report::new();
    Sandbox::read(file, text, &|_| true, &mut report).unwrap_or_else(|| panic!("{report:?}"))
}

/// Renders the files. Each sandbox gets an image whose reference is its directory.
fn render_files(sandboxes: &[Sandbox], kept: &[&str], root: &Value) -> Vec<(String, String)> {
    let text = |(path, content): (PathBuf, Content)| {
        let text = String::from_utf8(content.into_owned()).expect("text");
        (path.display().to_string(), text)
    };
    let image = |sandbox: &Sandbox| {
        vec![Resolved::new(&sandbox.names.base, sandbox.file.clone(), ImageSource::Attribute)]
    };
    let first = sandboxes.iter().find(|sandbox| serves(sandbox)).map(|sandbox| sandbox.names.base.as_str());
    let offered = offered(sandboxes.iter().map(|sandbox| (sandbox, image(sandbox))), first);
    files(Inputs {
        sandboxes,
        kept,
        bindings: &bindings::all(root),
        offered: offered.as_ref(),
        registry: true,
    })
    .into_iter()
    .map(text)
    .collect()
}

/// Directory names that would end a comment or a string if they were not escaped.
const NASTY: [&str; 5] = ["a*/b", "q\"q", "n\nl", "b\\s", "ü 'x'"];

#[test]
fn generated_rust_parses_with_any_directory_name() {
    for (index, dir) in NASTY.iter().enumerate() {
        let file = format!("src/{dir}/type.sandbox.rs");
        let text = format!("#[sandbox] {} struct T{index};", ["pub", ""][index % 2]);
        for (name, text) in render_files(&[sandbox(&file, &text)], &[], &json!({})) {
            if ["mod.rs", "env.rs", "tools.rs"].contains(&name.as_str()) {
                let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
                if name == "mod.rs" {
                    let paths: Vec<String> = parsed.items.iter().filter_map(path).collect();
                    assert_eq!(
                        paths,
                        ["env.rs".to_owned(), "tools.rs".to_owned(), format!("../{dir}/type.sandbox.rs")]
                    );
                }
            }
        }
    }
}

#[test]
fn generated_rust_parses_with_any_binding_name() {
    let names = NASTY.into_iter().chain([
        "type",
        "self",
        "",
        "`",
        "*/",
        "\u{202e}x",
        "__KOZE_TYPE__",
        "{}",
        "日本",
        "\\",
    ]);
    let vars: Map<String, Value> = names.clone().map(|name| (name.to_owned(), json!(name))).collect();
    let lists: Vec<Value> = names.clone().map(|name| json!({ "binding": format!("{name}!") })).collect();
    let environments: Map<String, Value> =
        names.clone().map(|name| (name.to_owned(), json!({ "vars": { name: 1 } }))).collect();
    let root = json!({ "vars": vars, "kv_namespaces": lists, "a`\n/*": lists, "env": environments });
    let files = render_files(&[], &[], &root);
    let (_, text) = files.iter().find(|(name, _)| *name == "env.rs").unwrap();
    let parsed = syn::parse_file(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let methods: Vec<String> = parsed.items.iter().flat_map(methods).collect();
    let distinct: HashSet<&String> = methods.iter().collect();
    // `inner`, and an accessor for each variable with a name.
    assert_eq!((methods.len(), distinct.len()), (2 * names.count(), methods.len()), "{text}");
    let strings = literals(text);
    for name in NASTY {
        assert!(strings.contains(name) && strings.contains(&format!("{name}!")), "{name:?} in {strings:?}");
    }
    assert!(!text.contains('\u{202e}'), "a letter that turns the text about");
}

proptest::proptest! {
    #[test]
    fn every_binding_has_a_distinct_accessor(
        names in proptest::collection::btree_set("[aAbx1_.\\-`é\n]{1,6}|kv_[aA_]{1,3}|(type|self|inner|session|t_sandbox)", 1..16),
        split in 0_usize..16,
    ) {
        let (kv, r2): (Vec<_>, Vec<_>) = names.iter().enumerate().partition(|(index, _)| *index < split);
        let entries = |list: &[(usize, &String)]| -> Vec<Value> {
            list.iter().map(|(_, name)| json!({ "binding": name })).collect()
        };
        let root = json!({ "kv_namespaces": entries(&kv), "r2_buckets": entries(&r2) });
        let sandboxes = [sandbox("src/t.sandbox.rs", "#[sandbox] pub struct T;")];
        let files = render_files(&sandboxes, &[], &root);
        let (_, text) = files.iter().find(|(name, _)| *name == "env.rs").unwrap();
        let methods: Vec<String> = syn::parse_file(text).unwrap().items.iter().flat_map(methods).collect();
        let distinct: HashSet<&String> = methods.iter().collect();
        // `inner`, `session`, and the accessor of the sandbox.
        assert_eq!((methods.len(), distinct.len()), (names.len() + 3, methods.len()), "{text}");
        let strings = literals(text);
        assert!(names.iter().all(|name| strings.contains(name)), "{text}");
    }
}

/// Returns the methods of an `impl` block.
fn methods(item: &syn::Item) -> Vec<String> {
    let syn::Item::Impl(item) = item else { return Vec::new() };
    let name = |item: &syn::ImplItem| match item {
        syn::ImplItem::Fn(method) if method.sig.receiver().is_some() => Some(method.sig.ident.to_string()),
        _ => None,
    };
    item.items.iter().filter_map(name).collect()
}

/// Returns the values of the string literals in a source, except those in attributes.
fn literals(text: &str) -> HashSet<String> {
    struct Literals(HashSet<String>);
    impl<'ast> syn::visit::Visit<'ast> for Literals {
        fn visit_lit_str(&mut self, literal: &'ast syn::LitStr) {
            self.0.insert(literal.value());
        }
    }
    let mut found = Literals(HashSet::new());
    syn::visit::Visit::visit_file(&mut found, &syn::parse_file(text).unwrap());
    found.0
}

/// Returns the value of a module's `#[path]`.
fn path(item: &syn::Item) -> Option<String> {
    let syn::Item::Mod(item) = item else { return None };
    let attribute = item.attrs.iter().find(|attribute| attribute.path().is_ident("path"))?;
    let syn::Meta::NameValue(pair) = &attribute.meta else { return None };
    let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &pair.value else { return None };
    Some(text.value())
}

#[test]
fn the_templates_are_valid_rust() {
    for template in [koze_templates::MODULE, koze_templates::ENV, koze_templates::TOOLS] {
        syn::parse_file(template).unwrap();
    }
}

#[test]
fn every_file_starts_with_the_mark() {
    for (name, text) in render_files(&[], &["Kept"], &json!({})) {
        let first = match name.as_str() {
            "tools.json" => format!("{{\n  \"$comment\": \"{MARK}\",\n"),
            ".gitattributes" => format!("# {MARK}\n"),
            _ => format!("// {MARK}\n"),
        };
        assert!(text.starts_with(&first), "{name}");
    }
}

#[test]
fn files_of_earlier_versions_are_ours() {
    let earlier =
        b"// Generated by `koze build`. Do not edit: the next build overwrites this file.\nmod a;\n";
    let is_ours = |name: &str, content: &[u8]| super::is_ours(name.as_ref(), content);
    assert!(is_ours("mod.rs", earlier));
    assert!(is_ours("mod.rs", format!("// {MARK}\n").as_bytes()));
    assert!(!is_ours("mod.rs", b"mod a;\n"));
    // The engine has no mark, and is only the engine under its name.
    let engine = koze_templates::SCRIPT_ENGINE;
    assert!(is_ours(super::ENGINE, engine));
    assert!(!is_ours("mod.rs", engine) && !is_ours(super::ENGINE, b"mine"));
}

#[test]
fn attribute_text_about_images_reaches_the_tools() {
    let all = r#"#[sandbox(
        instance(memory_mib = 512), sleep_after = "120s", internet = true, allowed_hosts = ["a.example"],
        denied_hosts = ["b.example"], env_vars(A = "q\"\n\\")
    )] pub struct A;"#;
    let served = sandbox("src/a-1.sandbox.rs", all);
    let default = sandbox("src/b.sandbox.rs", "#[sandbox(default)] pub struct B;");
    let none = sandbox("src/c.sandbox.rs", "#[sandbox(tools = [])] pub struct C;");
    let files = render_files(&[served, default, none], &[], &json!({}));
    let text = |wanted: &str| files.iter().find(|(name, _)| *name == wanted).unwrap().1.as_str();
    let tools = text("tools.rs");
    syn::parse_file(tools).unwrap_or_else(|error| panic!("{error}\n{tools}"));
    for line in [
        "pub const ALL: [Profile; 2] = [",
        "    #[default]\n    B,\n",
        r#""a-1" => Ok(Profile::A_1),"#,
        "internet: true,",
        r#"allowed_hosts: ["a.example"].map"#,
        r#"denied_hosts: ["b.example"].map"#,
        r#"env: [("A", "q\"\n\\")].map"#,
        "from_mins(2)",
        "memory_mib: 512, disk_mb: 2000",
    ] {
        assert!(tools.contains(line), "{line} in {tools}");
    }
    let definitions: Value = serde_json::from_str(text("tools.json")).unwrap();
    let create =
        definitions["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "sandbox_create");
    let image = &create.unwrap()["inputSchema"]["properties"]["image"];
    assert_eq!(image["default"], "b");
    assert_eq!(image["enum"], json!(["a-1", "src/a-1.sandbox.rs", "b", "src/b.sandbox.rs"]));
}

#[test]
fn no_tools_without_a_sandbox_that_serves_agents() {
    let none = [sandbox("src/c.sandbox.rs", "#[sandbox(tools = [])] pub struct C;")];
    for sandboxes in [&none[..], &[]] {
        for (name, text) in render_files(sandboxes, &[], &json!({})) {
            match name.as_str() {
                "tools.rs" => assert!(syn::parse_file(&text).unwrap().items.is_empty(), "{text}"),
                "tools.json" => assert!(text.ends_with("\"tools\": []\n}\n"), "{text}"),
                _ => assert!(!text.contains("handle_tool_call"), "{text}"),
            }
        }
    }
}
