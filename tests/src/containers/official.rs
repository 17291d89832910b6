//! A stand-in for the official image of `@cloudflare/sandbox`: programs run as root, and there is no `/home/user`.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::process::Command;

use fs_err as fs;
use tempfile::TempDir;

use super::root::{libraries, succeeds};
use super::{Engine, Image};
use crate::{node_modules, root as workspace};

/// The files of its server, which are shared with the tests of the SDK's class.
const SERVER: [&str; 2] = ["container.mjs", "door.mjs"];
const SERVER_DIR: &str = "tests/tests/worker/sdk";

/// The npm packages that the server imports.
const MODULES: [&str; 2] = ["capnweb", "ws"];
const NODE: &str = "node/bin/node";

/// The instructions on top of the base image. The server's separate entrance for the JavaScript engine is not used
/// here.
const DOCKERFILE: &str = "USER 0
RUN rm -rf /home/user
COPY opt /opt
COPY usr /usr
EXPOSE 3000
ENTRYPOINT [\"/opt/node\", \"/opt/container.mjs\"]
";

/// Builds the image unless the engine has it.
pub(super) fn official(engine: &Engine) -> Image {
    let (server, modules) = (workspace().join(SERVER_DIR), node_modules());
    let mut hasher = DefaultHasher::new();
    (DOCKERFILE, &engine.base().0, fs::read(modules.join(".koze-lock")).expect("the lock file"))
        .hash(&mut hasher);
    SERVER.map(|name| fs::read(server.join(name)).expect("the server")).hash(&mut hasher);
    let image = Image(format!("localhost/koze-tests/official:{:016x}", hasher.finish()));
    if engine.has(&image) {
        return image;
    }
    let context = TempDir::new_in(engine.dir()).expect("a temporary directory");
    let place = |name: &str| context.path().join(name);
    for dir in ["opt/door", "opt/node_modules", "usr"] {
        fs::create_dir_all(place(dir)).expect("a directory");
    }
    let node = modules.join(NODE);
    fs::copy(&node, place("opt/node")).expect("a copy");
    for name in SERVER {
        fs::copy(server.join(name), place("opt").join(name)).expect("a copy");
    }
    for name in MODULES {
        let mut copy = Command::new("cp");
        copy.arg("-RL").arg(modules.join(name)).arg(place("opt/node_modules"));
        succeeds(copy);
    }
    for (from, to) in libraries([&*node]) {
        let to = context.path().join(to);
        fs::create_dir_all(to.parent().expect("a directory above")).expect("a directory");
        fs::copy(from, to).expect("a copy");
    }
    engine.build(&image.0, &format!("FROM {}\n{DOCKERFILE}", engine.base().0), context.path())
}
