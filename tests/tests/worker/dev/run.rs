//! A project, and `koze dev --local` on it.

use std::cell::RefCell;
use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use fs_err as fs;
use koze_tests::{eventually, koze, root, run, signal};
use rustix::process::Signal;
use serde_json::Value;

use crate::project::{self, TIMEOUT, Worker};

/// The timeout of an expected line. wrangler has to start and build first.
const START_TIMEOUT: Duration = Duration::from_mins(2);

/// Creates a project with JavaScript in place of the Rust Worker.
pub(crate) fn worker() -> Worker {
    let worker = project::made("local");
    let plain = fs::read(root().join("tests/tests/worker/plain.mjs")).expect("the plain Worker");
    fs::write(worker.build_dir().join("index.js"), plain).expect("it in its place");
    worker
}

/// A running `koze dev`, which is killed on drop.
pub(crate) struct Dev<'w> {
    worker: &'w Worker,
    child: Child,
    lines: Receiver<String>,
    /// The output so far.
    output: RefCell<Vec<String>>,
    /// The Worker's URL.
    pub(crate) url: String,
}

/// Returns koze in the project, with the tools of the tests, sandboxes below the project, and without telemetry.
pub(crate) fn command(worker: &Worker, args: &[&str]) -> Command {
    let mut command = koze();
    for (name, value) in worker.tool("node").get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.args(args).current_dir(worker.project.dir());
    command.env("XDG_STATE_HOME", worker.project.path("state"));
    command
        .env("CLOUDFLARE_CF_FETCH_ENABLED", "false")
        .env("WRANGLER_REGISTRY_PATH", worker.project.path("registry"));
    command
}

impl<'w> Dev<'w> {
    /// Starts it, and waits until the Worker answers.
    pub(crate) fn start(worker: &'w Worker) -> Self {
        Dev::start_with(worker, &[])
    }

    /// Starts it with additional arguments.
    pub(crate) fn start_with(worker: &'w Worker, more: &[&str]) -> Self {
        // Use nothing that requires an account, whatever a project binds.
        let wrangler = ["--local", "--ip", "127.0.0.1", "--inspector-port", "0"];
        let args = [&["dev", "--local", "--port", "0"], more, &["--"], &wrangler].concat();
        Dev::run(worker, command(worker, &args))
    }

    /// Starts it with a custom command, and waits until the Worker answers.
    pub(crate) fn run(worker: &'w Worker, mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0);
        let mut child = command.spawn().expect("koze starts");
        let (send, lines) = mpsc::channel();
        read(child.stdout.take().expect("a pipe"), send.clone());
        read(child.stderr.take().expect("a pipe"), send);
        let mut dev = Dev { worker, child, lines, output: RefCell::default(), url: String::new() };
        let ready = dev.until("Ready on ");
        let url = ready.split("Ready on ").nth(1).and_then(|url| url.split_whitespace().next());
        url.expect("a URL").clone_into(&mut dev.url);
        dev
    }

    /// Waits for a line that contains a text.
    pub(crate) fn until(&self, what: &str) -> String {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            let line = line.unwrap_or_else(|_| panic!("never printed {what:?}:\n{}", self.output()));
            let found = line.contains(what);
            self.output.borrow_mut().push(line.clone());
            if found {
                return line;
            }
        }
    }

    /// Returns the output up to the last line that was waited for.
    pub(crate) fn output(&self) -> String {
        self.output.borrow().join("\n")
    }

    /// Returns all output so far.
    pub(crate) fn all_output(&self) -> String {
        self.output.borrow_mut().extend(self.lines.try_iter());
        self.output()
    }

    pub(crate) fn id(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a process id")
    }

    /// Returns the result of a few lines of JavaScript, which can use `url` and `data`.
    pub(crate) fn ask(&self, script: &str, data: &Value) -> Value {
        self.client().ask(script, data)
    }

    /// Calls methods of an object sequentially, and returns all answers.
    pub(crate) fn call(&self, object: &str, calls: &Value) -> Vec<Value> {
        self.client().call(object, calls)
    }

    /// Returns a client, which can be used from several threads.
    pub(crate) fn client(&self) -> Client<'w> {
        Client { worker: self.worker, url: self.url.clone() }
    }

    /// Stops it as a service manager would, and waits for it.
    pub(crate) fn end(self) {
        signal(self.id(), Signal::TERM);
        self.wait();
    }

    /// Waits until it exits.
    pub(crate) fn wait(mut self) {
        eventually("koze has ended", || self.lines.try_recv() == Err(TryRecvError::Disconnected));
        self.child.wait().expect("a child that can be waited for");
    }
}

/// A client of a running Worker.
#[derive(Clone)]
pub(crate) struct Client<'w> {
    worker: &'w Worker,
    url: String,
}

impl Client<'_> {
    /// Returns the result of a few lines of JavaScript, which can use `url` and `data`.
    pub(crate) fn ask(&self, script: &str, data: &Value) -> Value {
        let mut node = self.worker.tool("node");
        let program = format!(
            "const [url, data] = [process.argv[1], JSON.parse(process.argv[2])]; console.log(JSON.stringify(await (async () => {{ {script} }})() ?? null));"
        );
        node.args(["--input-type=module", "--eval", &program, &self.url, &data.to_string()]);
        let output = run(node, TIMEOUT);
        let [stdout, stderr] =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert!(output.status.success(), "{stdout}{stderr}");
        serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stdout}{stderr}"))
    }

    /// Calls methods of an object sequentially, and returns all answers.
    pub(crate) fn call(&self, object: &str, calls: &Value) -> Vec<Value> {
        let script = "const answers = [];
            for (const [method, input] of data.calls) {
              const body = JSON.stringify(input);
              const response = await fetch(`${url}/call/${data.object}/${method}`, { method: 'POST', body });
              answers.push(response.ok ? await response.json() : await response.text());
            }
            return answers;";
        let answers = self.ask(script, &serde_json::json!({ "object": object, "calls": calls }));
        answers.as_array().expect("a list").clone()
    }
}

impl Drop for Dev<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}", self.all_output());
        }
        // Kill it even if a test has failed, so that nothing is left behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(output: impl Read + Send + 'static, lines: Sender<String>) {
    thread::spawn(move || {
        BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| lines.send(line))
    });
}
