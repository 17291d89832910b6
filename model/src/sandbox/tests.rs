use super::*;

fn read(file: &str, text: &str) -> Result<Sandbox, Vec<&'static str>> {
    let mut report = Report::new();
    let sandbox = Sandbox::read(file, text, &|_| false, &mut report);
    sandbox.ok_or_else(|| report.iter().map(|found| found.rule.code()).collect())
}

#[test]
fn a_bare_sandbox_is_complete() {
    let sandbox =
        read("src/server/shell.sandbox.rs", "use koze::prelude::*;\n#[sandbox]\npub struct ShellSandbox;")
            .unwrap();
    assert_eq!(sandbox.class.value, "ShellSandbox");
    assert_eq!(sandbox.container(), "shell-sandbox");
    assert!(sandbox.public);
    assert!(!read("a.sandbox.rs", "#[koze::sandbox] struct A;").unwrap().public);
    assert_eq!(read("a.sandbox.rs", "#[sandbox(name = \"n\")] struct A;").unwrap().container(), "n");
}

#[test]
fn invalid_items_are_rejected() {
    for (text, code) in [
        ("", "K002"),
        ("struct A;", "K002"),
        ("// #[sandbox] struct A;", "K002"),
        ("#[sandbox] struct A; #[sandbox] struct B;", "K003"),
        ("#[sandbox] enum A {}", "K004"),
        ("#[sandbox] fn a() {}", "K004"),
        ("#[sandbox] impl A {}", "K004"),
        ("#[sandbox] struct A<T>(T);", "K005"),
        ("mod m { #[sandbox] struct A; }", "K006"),
        ("fn f() { #[sandbox] struct A; }", "K006"),
        ("#[sandbox] struct Sandbox;", "K009"),
        ("#[sandbox] struct r#await;", "K009"),
        ("#[sandbox(image = \"./x.Dockerfile\")] struct A;", "K016"),
        ("#[sandbox = 1] struct A;", "K020"),
        ("#[sandbox] struct", "K001"),
        ("#[sandbox(image = \"me/a:1\", image_vars(A = \"1\"))] struct A;", "K014"),
    ] {
        // K003 still returns the first sandbox, but stops the build.
        let mut report = Report::new();
        let _ = Sandbox::read("a.sandbox.rs", text, &|_| false, &mut report);
        assert_eq!(report.iter().map(|found| found.rule.code()).collect::<Vec<_>>(), [code], "{text}");
    }
}

#[test]
fn a_bad_file_name_does_not_hide_other_errors() {
    assert_eq!(read("My Tool.sandbox.rs", "#[sandbox(nme = 1)] struct A;").unwrap_err(), ["K007", "K010"]);
    assert_eq!(read("3d.sandbox.rs", "").unwrap_err(), ["K002", "K007"]);
}

#[test]
fn spans_are_byte_ranges_of_the_text() {
    let text = "/* ä */ #[sandbox(nme = 1)] struct A;";
    let mut report = Report::new();
    Sandbox::read("a.sandbox.rs", text, &|_| false, &mut report);
    let range = report.iter().next().unwrap().at.span.unwrap().byte_range();
    assert_eq!(&text[range], "nme");
}

#[test]
fn a_container_is_declared_in_its_own_kind_of_file() {
    let attribute = "#[container(image = \"wordpress:6.8-apache\", port = 80)]";
    let container = read("src/blog.container.rs", &format!("{attribute} pub struct BlogContainer;")).unwrap();
    assert_eq!(container.kind(), Kind::Container);
    assert_eq!(container.container(), "blog-container");
    assert!(!container.has_guest() && container.workspace().is_none());
    for (file, text, codes) in [
        ("a.container.rs", "struct A;".to_owned(), ["K002"]),
        ("a.container.rs", "#[sandbox] struct A;".to_owned(), ["K002"]),
        ("a.sandbox.rs", format!("{attribute} struct A;"), ["K002"]),
        ("A.container.rs", format!("{attribute} struct A;"), ["K007"]),
        ("a.container.rs", format!("{attribute} enum A {{}}"), ["K004"]),
        ("a.container.rs", format!("{attribute} struct KozeService;"), ["K009"]),
        ("a.container.rs", "#[container(image = \"a:1\")] struct A;".to_owned(), ["K103"]),
        ("a.container.rs", "#[container(port = 1, backend = \"managed\")] struct A;".to_owned(), ["K103"]),
    ] {
        assert_eq!(read(file, &text).unwrap_err(), codes, "{file}: {text}");
    }
}
