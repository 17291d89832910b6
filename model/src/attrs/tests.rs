use super::*;

fn read(text: &str) -> Result<Attributes, Vec<String>> {
    read_of(Kind::Sandbox, text)
}

/// Parses an attribute, or returns the codes and messages of its errors.
fn read_of(kind: Kind, text: &str) -> Result<Attributes, Vec<String>> {
    let mut report = Report::new();
    let attributes = parse(&text.parse().unwrap(), kind, &mut report);
    if report.iter().next().is_none() {
        return Ok(attributes);
    }
    Err(report
        .iter()
        .map(|found| format!("{} {}; {}", found.rule.code(), found.rule.message(), found.rule.help()))
        .collect())
}

fn first_error(text: &str) -> String {
    read(text).expect_err(text).remove(0)
}

#[test]
fn an_empty_attribute_is_complete() {
    let attributes = read("").unwrap();
    assert!(attributes.image.is_none() && attributes.env_vars.is_empty() && attributes.default.is_none());
}

#[test]
fn every_key_accepts_its_example() {
    for key in KEYS {
        // These keys need another one.
        let beside = match key.name {
            "entrypoint" => "backend = \"native\", ",
            "images" | "sizes" | "keep_files" | "copy_from" | "ssh" => "backend = \"managed\", ",
            "workspace" => "tools = [\"workspace\"], ",
            _ => "",
        };
        let text = format!("{beside}{}", key.example);
        assert!(read(&text).is_ok(), "{}: {:?}", key.name, read(&text));
    }
}

#[test]
fn duplicate_keys_are_rejected() {
    for key in KEYS {
        assert!(first_error(&format!("{0}, {0}", key.example)).starts_with("K011"), "{}", key.name);
    }
}

#[test]
fn unknown_keys_suggest_the_nearest() {
    assert_eq!(first_error("imgae = \"x:1\""), "K010 `#[sandbox]` has no key `imgae`; did you mean `image`?");
    assert_eq!(
        first_error("instance(vcpus = 1)"),
        "K010 `instance` has no key `vcpus`; did you mean `vcpu`?"
    );
}

#[test]
fn values_must_be_literals() {
    for bad in [
        "image = IMAGE",
        "max_instances = 1 + 1",
        "internet = !true",
        "env_vars(A = X)",
        "tools = [X]",
        "name = concat!(\"a\")",
    ] {
        assert!(first_error(bad).starts_with("K012"), "{bad}: {}", first_error(bad));
    }
    for bad in [
        "image = 1",
        "max_instances = \"1\"",
        "max_instances = 1.5",
        "internet = \"true\"",
        "image",
        "default = true",
        "tools = \"agent\"",
        "env_vars = \"A\"",
        "env_vars(A)",
    ] {
        assert!(first_error(bad).starts_with("K012"), "{bad}: {}", first_error(bad));
    }
}

#[test]
fn values_must_be_in_range() {
    for bad in [
        "max_instances = 0",
        "max_instances = -1",
        "max_instances = 99999999999",
        "instance_type = \"large\"",
        "variant = \"perl\"",
        "name = \"My Shell\"",
        "name = \"\"",
        "sleep_after = \"10\"",
        "sleep_after = \"0m\"",
        "sleep_after = \"m\"",
        "sleep_after = \"10d\"",
        "sleep_after = \"-1m\"",
        "sleep_after = \"9999999999999999999h\"",
        "sleep_after = \"é\"",
        "tools = [\"shell\"]",
        "tools = [\"agent\", \"agent\"]",
        "rollout_step_percentage = 7",
        "rollout_step_percentage = [20, 10, 100]",
        "rollout_step_percentage = [5, 100]",
        "rollout_step_percentage = [10, 50]",
        "rollout_step_percentage = []",
        "max_instances = 1, rollout_step_percentage = [10, 100]",
        "constraints(regions = [\"EU\"])",
        "constraints(jurisdiction = \"EU\")",
        "observability(enabled = true, logs(enabled = false))",
        "allowed_hosts = [\"https://x.org\"]",
        "allowed_hosts = [\"a..b\"]",
        "allowed_hosts = [\"a.b:\"]",
        "allowed_hosts = [\"a.b:0\"]",
        "allowed_hosts = [\"a.b:080\"]",
        "allowed_hosts = [\"a.b:65536\"]",
        "allowed_hosts = [\"a.b:80:80\"]",
        "denied_hosts = [\":80\"]",
        "renamed_from = \"a-b\"",
        "instance(vcpu = 0)",
        "env_vars(A = \"\\0\")",
        "env_vars(KOZE_WRITE_FILE_MAX_BYTES = \"80 KiB\")",
        "env_vars(KOZE_WRITE_FILE_MAX_BYTES = \"0\")",
    ] {
        assert!(first_error(bad).starts_with("K013"), "{bad}: {}", first_error(bad));
    }
}

#[test]
fn keys_may_require_or_exclude_each_other() {
    assert!(first_error("image = \"x\"").starts_with("K015"));
    assert!(first_error("image = \"x:1\", variant = \"python\"").starts_with("K014"));
    assert!(first_error("instance(vcpu = 1), instance_type = \"lite\"").starts_with("K014"));
    assert!(read("tools = [\"workspace\"]").unwrap().serves(Family::Workspace));
    assert!(first_error("instance_type = \"dev\"").starts_with("K018"));
    assert!(first_error("env_vars(é = \"x\")").starts_with("K019"));
    assert!(first_error("backend = \"docker\"").starts_with("K021"));
    assert!(first_error("backend = \"native\", variant = \"python\"").starts_with("K073"));
    assert!(first_error("entrypoint = [\"true\"]").starts_with("K073"));
    assert!(read("backend = \"native\", entrypoint = [\"a\", \"a\", \"\"]").is_ok());
    assert!(first_error("image \"x\"").starts_with("K020"));
    assert!(first_error("a::b = 1").starts_with("K020"));
}

#[test]
fn one_mistake_does_not_hide_the_next() {
    let errors = read("imgae = 1, max_instances = 0, sleep_after = 5").unwrap_err();
    assert_eq!(errors.iter().map(|error| &error[..4]).collect::<Vec<_>>(), ["K010", "K013", "K012"]);
}

#[test]
fn a_workspace_has_a_name_a_directory_and_capabilities() {
    let of = |keys: &str| read(&format!("tools = [\"workspace\"], workspace({keys})"));
    let shell = of(
        "name = \"box\", dir = \"/srv/work\", shell(allow = [\"git\", \"/bin/ls\"], max_duration = \"90s\")",
    );
    let workspace = shell.unwrap().workspace.unwrap().value;
    let programs = ["git", "/bin/ls"].map(str::to_owned).to_vec();
    let declared = Shell { allow: Some(programs), max_duration: Some(Duration::from_secs(90)) };
    assert_eq!((workspace.dir.as_deref(), workspace.shell), (Some("/srv/work"), Some(declared)));
    assert_eq!(of("shell").unwrap().workspace.unwrap().value.shell, Some(Shell::default()));
    assert_eq!(of("code").unwrap().workspace.unwrap().value.code, Some(Code::default()));
    let code =
        of("code(languages = [\"javascript\"], stateful = true)").unwrap().workspace.unwrap().value.code;
    assert_eq!(code, Some(Code { languages: Some(vec!["javascript".to_owned()]), stateful: true }));
    assert_eq!(of("snapshot").unwrap().workspace.unwrap().value.snapshot, Some(Snapshot::default()));
    let kept = of(
        "snapshot_dir = \"/a/b\", snapshot(bucket = \"BACKUPS\", allow_cross_session = true, max_count = 3, max_mb = 50, \
         expires_after = \"48h\")",
    );
    let kept = kept.unwrap().workspace.unwrap().value;
    let declared = Snapshot {
        bucket: Some("BACKUPS".to_owned()),
        allow_cross_session: true,
        max_count: Some(3),
        max_mb: Some(50),
        expires_after: Some(Duration::from_hours(48)),
    };
    assert_eq!((kept.snapshot_dir.as_deref(), kept.snapshot), (Some("/a/b"), Some(declared)));
    let shared = of("id = \"all\", share_across_sessions = true, destroy_on_close = true").unwrap();
    let shared = shared.workspace.unwrap().value;
    assert!(shared.share_across_sessions && shared.destroy_on_close && shared.id.as_deref() == Some("all"));
    for (keys, code) in [
        ("name = \"Box\"", "K013"),
        ("name = \"a_b\"", "K013"),
        ("name = \"\"", "K013"),
        ("dir = \"work\"", "K013"),
        ("dir = \"/\"", "K013"),
        ("dir = \"/a/../b\"", "K013"),
        ("dir = \"/a/\"", "K013"),
        ("id = \"\", share_across_sessions = true", "K013"),
        ("id = \"a\"", "K029"),
        ("id = \"a\", share_across_sessions = false", "K029"),
        ("share_across_sessions = true", "K013"),
        ("destroy_on_close = 1", "K012"),
        ("shell = true", "K012"),
        ("shell(allow = [])", "K013"),
        ("shell(allow = [\"a b\"])", "K013"),
        ("shell(allow = [\"./a\"])", "K013"),
        ("shell(allow = [\"$x\"])", "K013"),
        ("shell(allow = [\"-c\"])", "K013"),
        ("shell(allow = [\"a\", \"a\"])", "K013"),
        ("shell(max_duration = \"11m\")", "K013"),
        ("shell(max_duration = \"0s\")", "K013"),
        ("shell(deny = [])", "K010"),
        ("fs", "K010"),
        ("hostname = \"example.org\"", "K024"),
        ("snapshot = true", "K012"),
        ("snapshot(bucket = \"a-b\")", "K013"),
        ("snapshot(bucket = \"\")", "K013"),
        ("snapshot(max_count = 0)", "K013"),
        ("snapshot(max_count = 1001)", "K013"),
        ("snapshot(max_mb = 0)", "K013"),
        ("snapshot(expires_after = \"1d\")", "K013"),
        ("snapshot(bukcet = \"A\")", "K010"),
        ("snapshot_dir = \"src\"", "K013"),
        ("hostname = \"a\"", "K024"),
        ("code = true", "K012"),
        ("code(languages = [])", "K013"),
        ("code(languages = [\"ruby\"])", "K013"),
        ("code(languages = [\"python\", \"python\"])", "K013"),
        ("code(stateful = 1)", "K012"),
        ("code(language = \"python\")", "K010"),
        ("name = \"a\", name = \"b\"", "K011"),
    ] {
        let error = of(keys).expect_err(keys).remove(0);
        assert!(error.starts_with(code), "{keys}: {error}");
    }
}

#[test]
fn the_size_comes_from_the_type_or_the_custom_size() {
    for (attribute, memory_mib, disk_mb) in [
        ("", 256, 2000),
        ("instance_type = \"basic\"", 1024, 4000),
        ("instance_type = \"standard\"", 4096, 8000),
        ("instance_type = \"standard-4\"", 12_288, 20_000),
        ("instance(vcpu = 1, memory_mib = 6144, disk_mb = 12000)", 6144, 12_000),
        ("instance(memory_mib = 512)", 512, 2000),
    ] {
        // A deprecated type is a warning.
        let mut report = Report::new();
        let attributes = parse(&attribute.parse().unwrap(), Kind::Sandbox, &mut report);
        assert!(!report.has_errors(), "{attribute}");
        assert_eq!(attributes.size(), Size { memory_mib, disk_mb }, "{attribute}");
    }
}

fn first_error_of_container(text: &str) -> String {
    read_of(Kind::Container, text).expect_err(text).remove(0)
}

#[test]
fn every_key_of_a_container_accepts_its_example() {
    for key in Key::all(Kind::Container) {
        let attributes = read_of(Kind::Container, key.example);
        assert!(attributes.is_ok(), "{}: {attributes:?}", key.name);
    }
}

#[test]
fn a_container_serves_no_tools() {
    let attributes = read_of(Kind::Container, "image = \"wordpress:6.8-apache\", port = 80").unwrap();
    assert_eq!(attributes.backend(), Backend::Native);
    assert!(Family::OF_SANDBOXES.into_iter().all(|family| !attributes.serves(family)));
    for key in ["tools = [\"agent\"]", "workspace(name = \"a\")", "default", "variant = \"python\""] {
        let error = first_error_of_container(key);
        assert!(error.starts_with("K010 `#[container]` has no key"), "{error}");
    }
    for key in ["port = 80", "health = \"/\""] {
        let error = first_error(key);
        assert!(error.starts_with("K010 `#[sandbox]` has no key"), "{error}");
    }
}

#[test]
fn ports_and_health_paths_are_checked() {
    let read = |text: &str| read_of(Kind::Container, text).unwrap();
    assert_eq!(read("port = 65535").port.unwrap().value, 65535);
    assert_eq!(read("health = \"/a?b=c\"").health.unwrap().value, "/a?b=c");
    for (text, code) in [
        ("port = 0", "K013"),
        ("port = 65536", "K013"),
        ("port = -1", "K013"),
        ("port = \"80\"", "K012"),
        ("health = \"healthz\"", "K013"),
        ("health = \"//other.example\"", "K013"),
        ("health = \"/a b\"", "K013"),
        ("health = \"/\\\\other\"", "K013"),
        ("health = \"/#a\"", "K013"),
        ("health = true", "K012"),
    ] {
        assert!(first_error_of_container(text).starts_with(code), "{text}");
    }
}

#[test]
fn backends_of_containers_are_checked() {
    let managed = |more: &str| format!("backend = \"managed\", entrypoint = [\"a\"], {more}");
    assert!(read_of(Kind::Container, &managed("image = \"./a.Dockerfile\", port = 80")).is_ok());
    assert!(first_error_of_container("backend = \"sdk\"").starts_with("K013 `sdk`"));
    for more in ["image = \"nginx:1.27\"", "max_instances = 2", "constraints(regions = [\"WEUR\"])"] {
        let error = first_error_of_container(&managed(more));
        assert!(error.starts_with("K073"), "{error}");
    }
}

#[test]
fn limits_have_an_amount_and_a_unit() {
    let limits = read("limits(requests = \"10/s\", bytes = \"1GiB/d\")").unwrap().limits.unwrap().value;
    assert_eq!((limits.requests.as_deref(), limits.bytes.as_deref()), (Some("10/s"), Some("1GiB/d")));
    for (text, code) in [
        ("limits()", "K012"),
        ("limits = \"10/s\"", "K012"),
        ("limits(requests = \"10\")", "K013"),
        ("limits(requests = 10)", "K012"),
        ("limits(bytes = \"50\")", "K013"),
        ("limits(connections = \"10/s\")", "K010"),
    ] {
        assert!(first_error(text).starts_with(code), "{text}: {}", first_error(text));
    }
}

#[test]
fn hosts_of_credentials_are_allowed() {
    for (text, expected) in [
        ("credentials(A(host = \"a.example\"))", Some(vec!["a.example"])),
        ("internet = true, credentials(A(host = \"a.example\"))", None),
        ("allowed_hosts = [\"b.example\"]", Some(vec!["b.example"])),
        (
            "allowed_hosts = [\"b.example\"], credentials(A(host = \"GET a.example/v1\"))",
            Some(vec!["b.example", "GET a.example/v1"]),
        ),
        // Its entry is narrower.
        (
            "allowed_hosts = [\"GET a.example/v1\"], credentials(A(host = \"a.example\"))",
            Some(vec!["GET a.example/v1"]),
        ),
        (
            "allowed_hosts = [\"a.example\", \"*.a.example\"], credentials(A(host = \"a.example:8443\"))",
            Some(vec!["a.example", "*.a.example", "a.example:8443"]),
        ),
    ] {
        let allowlist = read(text).unwrap().allowlist();
        let allowlist = allowlist.as_ref().map(|list| list.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(allowlist, expected, "{text}");
    }
}

#[test]
fn credentials_have_a_host_and_a_place() {
    let attributes = read(
        "allowed_hosts = [\"api.example.com:8443\", \"*.example.org\", \"GET a.example/v1/**\"], credentials( \
         A(host = \"GET api.example.com:8443/v1/**\"), B(host = \"x.example.org\", basic = \"user\"), \
         C(host = \"a.example\", header = \"x-api-key\"), D(host = \"a.example\", query = \"key\"), \
         E(host = \"*.s3.example\", sigv4(region = \"eu-1\", service = \"s3\")))",
    )
    .unwrap();
    let placements = attributes.credentials.unwrap().value.into_iter().map(|one| (one.name, one.placement));
    let expected = [
        ("A".to_owned(), Placement::Bearer),
        ("B".to_owned(), Placement::Basic("user".to_owned())),
        ("C".to_owned(), Placement::Header("x-api-key".to_owned())),
        ("D".to_owned(), Placement::Query("key".to_owned())),
        ("E".to_owned(), Placement::Sigv4 { region: "eu-1".to_owned(), service: "s3".to_owned() }),
    ];
    assert_eq!(placements.collect::<Vec<_>>(), expected);
    for (text, code) in [
        ("internet = true, credentials()", "K012"),
        ("internet = true, credentials(A)", "K012"),
        ("internet = true, credentials(A = \"a.example\")", "K012"),
        ("internet = true, credentials(A(basic = \"a\"))", "K012"),
        ("internet = true, credentials(A(host = \"https://a.example\"))", "K013"),
        ("internet = true, credentials(A(host = \"a.example\", basic = \"a:b\"))", "K013"),
        ("internet = true, credentials(A(host = \"a.example\", header = \"Host\"))", "K013"),
        ("internet = true, credentials(A(host = \"a.example\", header = \"content-length\"))", "K013"),
        ("internet = true, credentials(A(host = \"a.example\", basic = \"a\", query = \"b\"))", "K014"),
        ("internet = true, credentials(A(host = \"a.example\", sigv4(region = \"eu\")))", "K012"),
        ("internet = true, credentials(A(host = \"a.example\", sigv5 = \"eu\"))", "K010"),
        ("internet = true, credentials(A(host = \"a.example\"), A(host = \"b.example\"))", "K011"),
        ("internet = true, env_vars(A = \"1\"), credentials(A(host = \"a.example\"))", "K013"),
        ("credentials(A(host = \"a.example\", sigv4(region = \"eu\", service = \"S3\")))", "K013"),
        ("credentials(A(host = \"a.example\", sigv4(region = \"eu\", zone = \"a\")))", "K010"),
        ("credentials(A(host = \"a.example\", sigv4 = \"eu\"))", "K012"),
    ] {
        assert!(first_error(text).starts_with(code), "{text}: {}", first_error(text));
    }
}

#[test]
fn entries_of_hosts_may_have_a_method_and_a_path() {
    let attributes =
        read("allowed_hosts = [\"GET a.example/v1/*\"], denied_hosts = [\"DELETE *.b.example:81/**\"]");
    assert_eq!(attributes.unwrap().allowed_hosts.unwrap().value, ["GET a.example/v1/*"]);
    for bad in ["get a.example", "GET  a.example", "a.example//", "a.example/../b", "a.example/a?b"] {
        assert!(first_error(&format!("allowed_hosts = [{bad:?}]")).starts_with("K013"), "{bad}");
    }
    // A service runs only in a Worker.
    let error = read_of(Kind::Container, "port = 80, allowed_hosts = [\"GET a.example\"]").unwrap_err();
    assert!(error[0].starts_with("K013"), "{error:?}");
}
