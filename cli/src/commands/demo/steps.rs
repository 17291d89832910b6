//! The files and commands of the demo's agent. They need no network and no particular language.

/// The port that the server listens on.
pub(super) const PORT: u16 = 8000;

/// Builds a page.
pub(super) const BUILD: &str = "mkdir -p app/src app/dist/assets && cd app && \
    echo '<link rel=stylesheet href=assets/style.css><h1>TITLE</h1>' > src/index.html && \
    sed 's/TITLE/Built in one sandbox, served by another/' src/index.html > dist/index.html && \
    echo 'h1 { color: teal }' > dist/assets/style.css && find dist -type f";

/// Creates a directory and prints which of the supported languages are installed.
pub(super) const PREPARE: &str = "mkdir -p app && command -v python3 node perl; true";

/// A server for the directory `static` next to it.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) program: &'static str,
    pub(super) file: &'static str,
    pub(super) source: &'static str,
}

const SERVERS: &[Server] = &[
    Server { program: "python3", file: "main.py", source: include_str!("main.py") },
    Server { program: "node", file: "main.mjs", source: include_str!("main.mjs") },
    Server { program: "perl", file: "main.pl", source: include_str!("main.pl") },
];

/// Returns the server for the first installed language.
pub(super) fn server(found: &str) -> Result<&'static Server, String> {
    SERVERS.iter().find(|server| is_installed(found, server.program)).ok_or_else(|| {
        "the sandbox has no interpreter for the demo's server: install python3, node or perl below /usr"
            .to_owned()
    })
}

/// Returns whether a program is among the paths that `command -v` has printed.
pub(super) fn is_installed(found: &str, program: &str) -> bool {
    found.lines().any(|path| path.rsplit('/').next() == Some(program))
}
