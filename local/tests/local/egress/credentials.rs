//! Credentials that never enter a sandbox, and rules for requests. The internet is test servers with TLS.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use koze_core::egress::{Credential, Placement};
use koze_core::{Provider, Sandbox};
use koze_local::{Internet, Secrets};

use super::scene::{Received, Scene, TOKEN, VALUE, bearer, get, request};
use super::{aws, git};
use crate::Test;
use crate::fetch::Authority;
use crate::stage::{command, id, out, settings, sh, within};

pub(crate) const TESTS: &[Test] = &[
    ("credentials_are_sent_by_common_programs", credentials_are_sent_by_common_programs),
    ("credentials_sign_requests_to_aws", aws::credentials_sign_requests_to_aws),
    ("credentials_go_nowhere_else", credentials_go_nowhere_else),
    ("credentials_are_not_in_the_sandbox", credentials_are_not_in_the_sandbox),
    ("credentials_in_responses_are_masked", credentials_in_responses_are_masked),
    ("credentials_need_a_value_and_a_certificate", credentials_need_a_value_and_a_certificate),
    ("credentials_stay_the_same_for_a_sandbox", credentials_stay_the_same_for_a_sandbox),
    ("egress_by_method_and_path", egress_by_method_and_path),
];

fn credentials_are_sent_by_common_programs() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let authority = Authority::new();
        let received = Received::default();
        let repository = tempfile::tempdir().unwrap();
        git::create_repository(repository.path());
        let (heads, root) = (Arc::clone(&received), repository.path().to_owned());
        let basic = format!("x-access-token:{TOKEN}");
        let basic = format!("Basic {}", data_encoding::BASE64.encode(basic.as_bytes()));
        let echo = move |head: &str, stream: &mut dyn std::io::Write| {
            heads.lock().unwrap().push(head.to_owned());
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine")
        };
        let names = HashMap::from([
            ("api.example".to_owned(), authority.serve("api.example", echo)),
            (
                "git.example".to_owned(),
                authority.serve("git.example", move |head, stream| git::serve(&root, &basic, head, stream)),
            ),
        ]);
        let roots = vec![authority.root.clone()];
        let scene = Scene::with(Internet { names, roots, ..Internet::default() }, received);
        let git = Credential {
            name: "GIT".into(),
            host: "git.example".into(),
            placement: Placement::Basic { user: "x-access-token".into() },
        };
        let sandbox =
            scene.open(&["api.example", "git.example"], &[], &[bearer("API_KEY", "api.example"), git]).await;
        for (program, script) in [
            ("curl", "curl -sS -H \"Authorization: Bearer $API_KEY\" https://api.example/curl"),
            // It reads the system's own file then.
            (
                "curl",
                "env -u CURL_CA_BUNDLE -u SSL_CERT_FILE curl -sS -H \"Authorization: Bearer $API_KEY\" https://api.example/curl",
            ),
            // Without the proxy: the connection is redirected.
            (
                "curl",
                "curl -sS --noproxy '*' -H \"Authorization: Bearer $API_KEY\" https://api.example/redirected",
            ),
            (
                "node",
                "env -u HTTPS_PROXY -u https_proxy -u NODE_USE_ENV_PROXY node -e 'fetch(\"https://api.example/node\", {headers: \
                 {authorization: \"Bearer \" + process.env.API_KEY}}).then(r => r.text()).then(t => console.log(t))'",
            ),
            (
                "python3",
                "python3 -c 'import os, urllib.request as r; print(r.urlopen(r.Request(\"https://api.example/python\", headers={\"Authorization\": \
                 \"Bearer \" + os.environ[\"API_KEY\"]})).read().decode())'",
            ),
        ] {
            if sh(&sandbox, &format!("command -v {program}")).await.exit_code != 0 {
                continue;
            }
            assert_eq!(out(&sandbox, script).await, "fine", "{program}");
            let head = scene.received();
            assert!(head.contains(&format!("Bearer {VALUE}\r\n")), "{program}: {head}");
        }
        assert!(
            scene.journal().contains("true allowed_hosts: api.example; credentials: API_KEY"),
            "{}",
            scene.journal()
        );
        if sh(&sandbox, "command -v git").await.exit_code == 0 {
            for url in
                ["https://git.example/repo.git one", "https://x-access-token:$GIT@git.example/repo.git two"]
            {
                out(&sandbox, &format!("git clone -q {url}")).await;
            }
            assert_eq!(out(&sandbox, "cat one/file two/file").await, "content\ncontent");
        }
    })
}

fn credentials_go_nowhere_else() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let scene = Scene::new();
        let allowed = ["api.example", "other.example", "plain.example"];
        let sandbox = scene.open(&allowed, &[], &[bearer("API_KEY", "api.example")]).await;
        let key = "Authorization: Bearer KEY\\r\\n";
        let control =
            request(&sandbox, "api.example:443", "api.example", &get("/", "api.example", key)).await;
        assert!(control.contains("200 OK") && scene.received().contains(VALUE), "the control: {control}");
        for (what, tunnel, name, bytes, part) in [
            (
                "another header",
                "api.example:443",
                "api.example",
                get("/", "api.example", "X-Meta: KEY\\r\\n"),
                "403",
            ),
            ("the URL", "api.example:443", "api.example", get("/?a=KEY", "api.example", ""), "403"),
            ("another Host", "api.example:443", "api.example", get("/", "other.example", key), "403"),
            ("another port", "api.example:443", "api.example", get("/", "api.example:8443", key), "403"),
            (
                "an absolute URL",
                "api.example:443",
                "api.example",
                get("https://other.example/", "api.example", key),
                "403",
            ),
            (
                "a URL without TLS",
                "api.example:443",
                "api.example",
                get("http://api.example/", "api.example", key),
                "400",
            ),
            (
                "two hosts",
                "api.example:443",
                "api.example",
                get("/", "api.example\\r\\nHost: other.example", key),
                "400",
            ),
            (
                "a folded header",
                "api.example:443",
                "api.example",
                get("/", "api.example", "A: b\\r\\n Authorization: Bearer KEY\\r\\n"),
                "400",
            ),
            ("another server name", "api.example:443", "other.example", get("/", "api.example", key), ""),
            (
                "the host in another tunnel",
                "other.example:443",
                "api.example",
                get("/", "api.example", key),
                "",
            ),
            ("without TLS", "api.example:443", "-", get("/", "api.example", key), "403"),
            ("without TLS, elsewhere", "plain.example:80", "-", get("/echo", "plain.example", key), "403"),
            (
                "a tunnel in it",
                "api.example:443",
                "api.example",
                "CONNECT other.example:443 HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n".into(),
                "400",
            ),
        ] {
            let answer = request(&sandbox, tunnel, name, &bytes).await;
            assert!(answer.contains(part) && !answer.contains("200 OK"), "{what}: {answer}");
            let received = scene.received();
            assert!(!received.contains(VALUE) && !received.contains("koze_cred_"), "{what}: {received}");
        }
        // A tunnel to another host is not read: the placeholder leaves, and is worth nothing.
        let script = "import ssl; ssl._create_default_https_context = ssl._create_unverified_context\n\
                      import os, urllib.request as r\n\
                      r.urlopen(r.Request('https://other.example/', headers={'Authorization': 'Bearer ' + os.environ['API_KEY']}))";
        sandbox.exec(command(&["python3", "-c", script])).await.unwrap();
        let received = scene.received();
        assert!(received.contains("koze_cred_") && !received.contains(VALUE), "{received}");
        // A second request on a connection is judged like the first, and what follows a body is no request.
        let two = get("/one", "api.example", key).replace("Connection: close\\r\\n", "")
            + &get("/two", "other.example", key);
        let answer = request(&sandbox, "api.example:443", "api.example", &two).await;
        let received = scene.received();
        assert!(
            answer.contains("403") && received.contains("/one") && !received.contains("/two"),
            "{answer} {received}"
        );
        let smuggled = get("/", "api.example", "Content-Length: 5\\r\\nTransfer-Encoding: chunked\\r\\n")
            + "0\\r\\n\\r\\nGET /smuggled HTTP/1.1\\r\\nHost: other.example\\r\\nAuthorization: Bearer KEY\\r\\n\\r\\n";
        request(&sandbox, "api.example:443", "api.example", &smuggled).await;
        assert!(!scene.received().contains(VALUE));
        let journal = scene.journal();
        for rule in [
            "credentials: API_KEY is not for this request",
            "server name: ",
            "HTTP host: not that of the connection",
        ] {
            assert!(journal.contains(&format!("false {rule}")), "{rule}: {journal}");
        }
    })
}

fn credentials_in_responses_are_masked() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let scene = Scene::new();
        let credentials = [bearer("API_KEY", "api.example"), bearer("GIT", "gzip.example")];
        let sandbox = scene.open(&["api.example", "gzip.example"], &[], &credentials).await;
        let bytes = get("/", "api.example", "Authorization: Bearer KEY\\r\\nAccept-Encoding: gzip\\r\\n");
        let answer = request(&sandbox, "api.example:443", "api.example", &bytes).await;
        let stars = "*".repeat(VALUE.len());
        // In a header, and in the body.
        assert!(
            answer.contains(&format!("Bearer {stars}")) && answer.matches(&stars).count() == 2,
            "{answer}"
        );
        assert!(answer.ends_with("\r\n\r\n") && !answer.contains(VALUE), "the whole body arrives: {answer}");
        assert!(scene.received().to_ascii_lowercase().contains("accept-encoding: identity"));
        let script = "curl -sS -H \"Authorization: Bearer $GIT\" https://gzip.example/";
        if sh(&sandbox, "command -v curl").await.exit_code == 0 {
            let answer = out(&sandbox, script).await;
            assert!(answer.contains("compressed its response"), "{answer}");
        }
    })
}

fn credentials_are_not_in_the_sandbox() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let scene = Scene::new();
        let sandbox = scene.open(&["api.example"], &[], &[bearer("API_KEY", "api.example")]).await;
        let use_it = get("/", "api.example", "Authorization: Bearer KEY\\r\\n");
        request(&sandbox, "api.example:443", "api.example", &use_it).await;
        assert!(scene.received().contains(VALUE), "the control: the value was sent");
        let env = out(&sandbox, "env").await;
        assert!(env.contains("API_KEY=koze_cred_") && !env.contains(VALUE), "{env}");
        for name in [
            "SSL_CERT_FILE",
            "NODE_EXTRA_CA_CERTS",
            "REQUESTS_CA_BUNDLE",
            "CURL_CA_BUNDLE",
            "GIT_SSL_CAINFO",
            "DENO_CERT",
        ] {
            assert!(env.contains(&format!("{name}=/var/lib/koze/certificates.pem")), "{name}: {env}");
        }
        // All that programs can read: files, environments and memory of all processes. The pattern is split, so that this search does
        // not find itself.
        let search = format!(
            "v=$(printf '%s%s' {} {}); {{ find /etc /home /tmp /workspace /dev/shm /var /run /mnt -xdev -type f -size -2M -print0 2>/dev/null \
             | xargs -0 grep -lF -e \"$v\" -e 'PRIVATE KEY' 2>/dev/null; \
             for p in /proc/[0-9]*; do grep -lF -e \"$v\" $p/environ $p/cmdline 2>/dev/null; done; }}; true",
            &VALUE[..9],
            &VALUE[9..]
        );
        assert_eq!(out(&sandbox, &search).await, "");
        let memory = r"
import glob, sys
value = (sys.argv[1] + sys.argv[2][::-1]).encode()
print('own memory', value in open('/proc/self/mem', 'rb').read(0) or True)
for maps in glob.glob('/proc/[0-9]*/maps'):
    if maps.split('/')[2] == str(__import__('os').getpid()): continue
    try:
        mem = open(maps.replace('maps', 'mem'), 'rb')
        for line in open(maps):
            a, b = (int(x, 16) for x in line.split()[0].split('-'))
            if b - a > 1 << 26: continue
            try:
                mem.seek(a)
                if value in mem.read(b - a): print('FOUND', maps, line)
            except (OSError, ValueError, OverflowError): pass
    except OSError: pass
";
        let reversed: String = VALUE[9..].chars().rev().collect();
        let found = sandbox.exec(command(&["python3", "-c", memory, &VALUE[..9], &reversed])).await.unwrap();
        let found = String::from_utf8_lossy(&found.stdout).into_owned();
        assert!(found.contains("own memory") && !found.contains("FOUND"), "{found}");
        // An error of the proxy is read by programs, and the journal by people.
        let refused =
            request(&sandbox, "api.example:443", "api.example", &get("/", "api.example", "X-A: KEY\\r\\n"))
                .await;
        assert!(refused.contains("403") && !refused.contains(VALUE), "{refused}");
        sandbox.exec(command(&["sh", "-c", "cp /proc/self/environ . ; env > env"])).await.unwrap();
        scene.local.sleep().await.unwrap();
        // Nothing of the state directory has it: sandboxes, snapshots, journals. The control is the file of the secrets.
        let in_files = |directory: &Path| {
            let grep = Command::new("grep").args(["-rlF", "-e", VALUE]).arg(directory).output().unwrap();
            String::from_utf8(grep.stdout).unwrap()
        };
        assert_eq!(in_files(scene.state.path()), "");
        assert!(in_files(scene.secrets.path()).contains("secrets.json"));
        // The key of the authority is where no sandbox is.
        let keys =
            Command::new("grep").args(["-rl", "PRIVATE KEY"]).arg(scene.state.path()).output().unwrap();
        let keys = String::from_utf8(keys.stdout).unwrap();
        assert_eq!(keys.trim_end(), scene.state.path().join("egress-authority.key").display().to_string());
    })
}

fn credentials_need_a_value_and_a_certificate() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let scene = Scene::new();
        let credentials = [bearer("UNSET", "api.example"), bearer("API_KEY", "strange.example")];
        let sandbox = scene.open(&["api.example", "strange.example"], &[], &credentials).await;
        if sh(&sandbox, "command -v curl").await.exit_code != 0 {
            return;
        }
        let unset = "curl -sS -H \"Authorization: Bearer $UNSET\" https://api.example/";
        assert!(out(&sandbox, unset).await.contains("run `koze secret set UNSET`"));
        // It takes effect without a restart.
        Secrets::at(scene.secrets.path()).set("UNSET", "now-it-is-set").unwrap();
        assert!(out(&sandbox, unset).await.contains("200") || scene.received().contains("now-it-is-set"));
        // A server that only looks like the declared one gets nothing.
        let strange =
            out(&sandbox, "curl -sS -H \"Authorization: Bearer $API_KEY\" https://strange.example/").await;
        assert!(strange.contains("cannot be reached with TLS: invalid peer certificate"), "{strange}");
        assert!(!scene.received().contains(VALUE));
        // A program that trusts only its own authorities.
        let pinned =
            sh(&sandbox, "env -u SSL_CERT_FILE curl -sS --cacert /dev/null https://api.example/").await;
        assert_ne!(pinned.exit_code, 0);
        crate::stage::until("the journal says why", async || {
            scene
                .journal()
                .contains("false TLS ends in koze's proxy, whose certificate the program does not accept")
        })
        .await;
    })
}

fn credentials_stay_the_same_for_a_sandbox() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let scene = Scene::new();
        let credentials = [bearer("API_KEY", "api.example")];
        let sandbox = scene.open(&["api.example"], &[], &credentials).await;
        let first = out(&sandbox, "echo $API_KEY").await;
        scene.local.sleep().await.unwrap();
        assert_eq!(out(&sandbox, "echo $API_KEY").await, first);
        let mut settings = settings();
        settings.profile.allowed_hosts = vec!["api.example".to_owned()];
        settings.profile.credentials = credentials.to_vec();
        let other = scene.local.open(&id("other"), &settings).await.unwrap().sandbox;
        assert_ne!(out(&other, "echo $API_KEY").await, first);
        // The placeholder of one sandbox is worth nothing in another.
        let bytes = get("/", "api.example", &format!("Authorization: Bearer {first}\\r\\n"));
        request(&other, "api.example:443", "api.example", &bytes).await;
        let received = scene.received();
        assert!(received.contains(&first) && !received.contains(VALUE), "{received}");
    })
}

fn egress_by_method_and_path() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let scene = Scene::new();
        let allowed = ["GET api.example/v1/**", "other.example", "GET plain.example/echo"];
        let sandbox = scene.open(&allowed, &["other.example/admin/**"], &[]).await;
        let ask = async |host: &str, method: &str, path: &str| {
            let bytes = get(path, host, "").replacen("GET", method, 1);
            request(&sandbox, &format!("{host}:443"), host, &bytes).await
        };
        for (host, method, path, is_allowed) in [
            ("api.example", "GET", "/v1/a", true),
            ("api.example", "POST", "/v1/a", false),
            ("api.example", "GET", "/v2/a", false),
            ("api.example", "GET", "/v1/%2e%2e/v2", false),
            ("other.example", "POST", "/any", true),
            ("other.example", "GET", "/admin/a", false),
            ("other.example", "GET", "/x/..%2fadmin/a", false),
        ] {
            let answer = ask(host, method, path).await;
            assert_eq!(answer.starts_with("HTTP/1.1 200"), is_allowed, "{method} {host}{path}: {answer}");
            assert_eq!(scene.received().contains(path), is_allowed, "{method} {host}{path}");
        }
        // Without TLS, through the proxy and in a tunnel.
        for (path, is_allowed) in [("/echo", true), ("/other", false)] {
            let answer = super::get(&sandbox, &format!("http://plain.example{path}")).await;
            assert_eq!(super::status(&answer) != 403, is_allowed, "{answer}");
            let answer = request(&sandbox, "plain.example:80", "-", &get(path, "plain.example", "")).await;
            assert_eq!(super::status(&answer) != 403, is_allowed, "{answer}");
        }
        // What is not HTTP cannot be checked.
        let answer = request(&sandbox, "api.example:443", "-", "SSH-2.0-x\\r\\n").await;
        assert!(!answer.contains("HTTP"), "{answer}");
        assert!(scene.journal().contains("false neither HTTP/1 nor TLS"), "{}", scene.journal());
    })
}
