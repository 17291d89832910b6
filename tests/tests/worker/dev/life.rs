//! The life cycle of a run.

use std::path::Path;

use koze_tests::{STARTED, eventually, processes, root, signal, sleeps};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use super::run::{Dev, command, worker};
use crate::project::{self, STUB, Worker};

fn exec(script: &str) -> Value {
    json!(["exec", {
        "argv": ["sh", "-c", script], "workingDir": "/workspace", "env": [], "timeoutMs": 20_000, "maxOutput": 1000,
    }])
}

fn open() -> Value {
    json!(["open", { "sleepAfterMs": null }])
}

fn env(dev: &Dev, name: &str) -> Value {
    dev.ask("return (await fetch(`${url}/env/${data}`)).json()", &json!(name))
}

/// Returns the processes of a project: the arguments of wrangler, workerd and their descendants contain its path.
fn running(worker: &Worker) -> Vec<i32> {
    let here = worker.project.dir().to_string_lossy().into_owned();
    processes(|args| args.iter().any(|arg| arg.contains(&here)))
}

#[test]
fn files_and_ports_persist_between_runs() {
    let worker = worker();
    let dev = Dev::start(&worker);
    let write = json!([open(), exec("echo kept > file"), ["expose", { "port": 8080 }]]);
    let exposed = dev.call("a", &write)[2].clone();
    assert_eq!(exposed["ok"], true);
    let first = env(&dev, "KOZE_TOKEN");
    assert!(
        dev.output().contains(first.as_str().expect("a token")),
        "the token was not printed: {}",
        dev.output()
    );
    let staged = worker.project.path(".wrangler/koze-dev/wrangler.json");
    assert!(staged.is_file());
    dev.end();
    assert!(!staged.exists(), "the run left its configuration behind");
    assert_eq!(running(&worker), Vec::<i32>::new());

    let dev = Dev::start(&worker);
    let answers = dev.call("a", &json!([exec("cat file"), open()]));
    assert_eq!(answers[0]["value"]["stdout"]["base64"], "a2VwdAo=", "{answers:?}");
    assert_eq!(answers[1]["value"]["created"], false);
    let port =
        dev.ask("return (await fetch(`${url}/port/a/8080.${data}/`)).status", &exposed["value"]["nonce"]);
    assert_eq!(port, 502, "the port is still exposed, and nothing listens there");
    assert_eq!(env(&dev, "KOZE_TOKEN"), first, "clients would have to be told another token");
    // The sandboxes of a run are listed and destroyed like others, but only this process can use them meanwhile.
    let list = worker.project.run(command(&worker, &["sandboxes", "--session", "dev"]));
    assert!(list.stdout.contains("running"), "{list:?}");
}

#[test]
fn nothing_outlives_koze() {
    let worker = worker();
    let dev = Dev::start(&worker);
    let background = json!([open(), exec(&format!("sleep 86398 > /dev/null 2>&1 & {STARTED}"))]);
    assert_eq!(dev.call("a", &background)[1]["value"]["exitCode"], 0);
    assert!(sleeps("86398"));
    let workerd = processes(|args| args[0].ends_with("/workerd"));
    assert!(!workerd.is_empty() && running(&worker).len() > 2);
    signal(dev.id(), Signal::KILL);
    eventually("the guest is gone", || !sleeps("86398"));
    eventually("wrangler, and what it has started, is gone", || running(&worker).is_empty());
    drop(dev);
    // Files that it left in the project do not disturb the next run.
    let dev = Dev::start(&worker);
    assert_eq!(dev.call("a", &json!([["status", {}]]))[0]["value"]["opened"], true);
}

#[test]
fn ctrl_c_stops_everything() {
    let worker = worker();
    let dev = Dev::start(&worker);
    let background = exec(&format!("sleep 86395 > /dev/null 2>&1 & {STARTED}"));
    assert_eq!(dev.call("a", &json!([open(), background]))[1]["ok"], true);
    // A terminal sends the signal to the whole foreground group.
    let group = Pid::from_raw(dev.id()).expect("a process id");
    kill_process_group(group, Signal::INT).expect("a process group");
    dev.wait();
    // The kernel ends the sandbox because koze has ended: soon, but not at once.
    eventually("the sandbox is gone", || !sleeps("86395"));
    eventually("all processes are gone", || running(&worker).is_empty());
    assert!(!worker.project.path(".wrangler/koze-dev").exists());
}

#[test]
fn only_the_worker_can_use_the_sandbox_server() {
    let worker = worker();
    let dev = Dev::start(&worker);
    let server = env(&dev, "KOZE_LOCAL");
    let object = format!("ShellSandbox/{}", "0".repeat(64));
    let frame =
        "const body = new Uint8Array([0, 0, 0, 21, ...new TextEncoder().encode('{\"sleepAfterMs\": null}')]);
        body[3] = body.length - 4;
        const response = await fetch(data.url, { method: 'POST', body, headers: data.headers });
        return [response.status, await response.text()];";
    let ask = |token: &Value, object: &str| {
        let headers = json!({ "koze-token": token, "koze-object": object, "koze-operation": "open" });
        dev.ask(frame, &json!({ "url": server["url"], "headers": headers }))
    };
    let token = server["token"].as_str().expect("a token");
    for wrong in [
        "",
        "x",
        &token[1..],
        &token.replace(&token[..1], "g"),
        &token.to_uppercase().replace(char::is_numeric, "A"),
    ] {
        let answer = ask(&json!(wrong), &object);
        assert_eq!(answer[0], 401, "{wrong}: {answer}");
        assert!(!answer.to_string().contains(token));
    }
    for wrong in [
        "",
        "ShellSandbox",
        "ShellSandbox/x",
        "Other/0",
        &object.replace("Shell", "Other"),
        &format!("{object}0"),
    ] {
        assert_eq!(ask(&server["token"], wrong)[0], 400, "{wrong}");
    }
    let answer = ask(&server["token"], &object);
    assert_eq!(answer[0], 200, "{answer}");
    // Aborting a request kills its command: other commands in the sandbox wait for it.
    let mut exec = exec("sleep 86391")[1].clone();
    exec["timeoutMs"] = json!(600_000);
    let given_up = "const json = new TextEncoder().encode(JSON.stringify(data.input));
        const body = new Uint8Array([0, 0, 0, 0, ...json]);
        new DataView(body.buffer).setUint32(0, json.length);
        const signal = AbortSignal.timeout(2000);
        return await fetch(data.url, { method: 'POST', body, headers: data.headers, signal }).catch((error) => error.name);";
    let headers = json!({ "koze-token": token, "koze-object": object, "koze-operation": "exec" });
    let data = json!({ "url": server["url"], "headers": headers, "input": exec });
    assert_eq!(dev.ask(given_up, &data), "TimeoutError");
    eventually("the command is killed", || !sleeps("86391"));
    // It listens only on the loopback interface.
    assert!(server["url"].as_str().is_some_and(|url| url.starts_with("http://127.0.0.1:")), "{server}");
    // The file with the tokens is only readable by this user.
    let mode = |path: &Path| {
        use std::os::unix::fs::PermissionsExt as _;
        path.metadata().expect("a directory").permissions().mode() & 0o777
    };
    assert_eq!(mode(&worker.project.path(".wrangler/koze-dev")), 0o700);
    assert_eq!(mode(&worker.project.path(".wrangler/koze-dev/wrangler.json")), 0o600);
    assert!(!dev.output().contains(token), "the token of the server was shown: {}", dev.output());
}

#[test]
fn only_one_run_at_a_time() {
    let worker = worker();
    let dev = Dev::start(&worker);
    let second = worker.project.run(command(&worker, &["dev", "--local"]));
    assert_eq!(second.code, 1, "{second:?}");
    assert_eq!(
        second.stderr,
        "error: another `koze dev --local` is running in this project: stop it first\n"
    );
    assert_eq!(dev.call("a", &json!([open()]))[0]["ok"], true);
}

#[test]
fn a_run_follows_the_sandbox_files() {
    let worker = worker();
    worker.project.write(".dev.vars", "KOZE_TOKEN=\"mine, $HOME\"\n");
    // wrangler's build does not run `koze build --check`, because a file that was just written may be outdated for a
    // moment.
    worker.replace_tool("koze", "echo \"koze $*: asked by wrangler\"; exit 1");
    let dev = Dev::start(&worker);
    assert_eq!(env(&dev, "KOZE_TOKEN"), "mine, $HOME");
    assert!(dev.output().contains("the bearer token is the one in the project"), "{}", dev.output());
    assert_eq!(dev.call("a", &json!([open()]))[0]["ok"], true);
    let greeting = || {
        let answer = &dev.call("a", &json!([exec("printf %s \"$GREETING\"")]))[0];
        answer["value"]["stdout"]["base64"].clone()
    };
    assert_eq!(greeting(), "");
    let file = "src/server/shell.sandbox.rs";
    let before = worker.project.read(file);
    let changed = before.replacen("#[sandbox", "#[sandbox(env_vars(GREETING = \"hello\"))]\n//", 1);
    worker.project.write(file, changed);
    eventually("the sandbox has the variable", || greeting() == "aGVsbG8=");
    // A class that is added during the run is bound and served.
    worker
        .project
        .write("src/server/other.sandbox.rs", "use koze::prelude::*;\n\n#[sandbox]\npub struct Other;\n");
    eventually("the new class is bound", || env(&dev, "OTHER_SANDBOX") != Value::Null);
}

/// The user's own Durable Object, which some projects bind.
const COUNTER: &str = "export class Counter extends DurableObject {}\n";

/// Whatever a configuration contains, its paths lead to the same files in a local run, and wrangler accepts it.
#[test]
fn all_kinds_of_projects_run() {
    for worker in ["bindings", "environments", "keyword-names", "toml"].map(project::fixture) {
        let stub = format!("import {{ DurableObject }} from \"cloudflare:workers\";\n{STUB}{COUNTER}");
        // Some projects have a command that calls worker-build, and some have none.
        worker.project.write("build/index.js", &stub);
        fs_err::write(worker.build_dir().join("index.js"), stub).expect("the stub");
        let dev = Dev::start(&worker);
        let body = dev.ask("return (await fetch(url + '/no-asset')).text()", &json!(null));
        assert_eq!(body, "ok", "{}: {}", worker.name, dev.output());
    }
}

#[test]
fn an_environment_runs_with_its_own_variables() {
    let worker = project::fixture("environments");
    let plain =
        fs_err::read_to_string(root().join("tests/tests/worker/plain.mjs")).expect("the plain Worker");
    worker.project.write("build/index.js", plain + COUNTER);
    let config = worker.project.read("wrangler.jsonc");
    let main = "\"vars\": { \"STAGE\": \"staging\" },";
    assert!(config.contains(main), "{config}");
    worker.project.write("wrangler.jsonc", config.replace(main, &format!("{main} \"main\": \"./own.mjs\",")));
    worker.project.write(
        "own.mjs",
        "export * from \"./src/generated/worker.mjs\";\n\
         import worker from \"./src/generated/worker.mjs\";\n\
         export default { fetch: (request, env) => worker.fetch(request, { ...env, OWN: 1 }) };\n",
    );
    let dev = Dev::start_with(&worker, &["--env", "staging"]);
    assert_eq!(env(&dev, "STAGE"), "staging");
    assert_eq!(env(&dev, "OWN"), 1);
    let answers = dev.call("a", &json!([open(), exec("exit 5")]));
    assert_eq!(answers[1]["value"]["exitCode"], 5, "{answers:?}");
}
