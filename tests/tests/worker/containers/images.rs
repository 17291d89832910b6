//! The images on which the conformance cases run: they differ in the user of programs and in existing files.

use koze_tests::containers::Engine;

use crate::project::Worker;

/// An image, described by the Dockerfile lines after its base.
pub(super) struct Variant {
    pub(super) name: &'static str,
    dockerfile: &'static str,
    files: &'static [(&'static str, &'static str)],
    /// The keys of the sandboxes' attributes: their backend.
    pub(super) backend: &'static str,
}

const NATIVE: &str = "backend = \"native\"";

/// An unprivileged user with an empty home.
pub(super) const PLAIN: Variant = Variant { name: "plain", dockerfile: "", files: &[], backend: NATIVE };

/// Programs run as root, and there are files of typical images, whose effects shells would show.
pub(super) const ROOT: Variant = Variant {
    name: "root",
    dockerfile: "USER 0\nENV HOME=/root\nCOPY rc /home/user/.bashrc\nCOPY rc /home/user/.profile\nCOPY rc /root/.bashrc\n\
                 COPY --chmod=0640 shadow /etc/shadow\n",
    files: &[RC, SHADOW],
    backend: NATIVE,
};

/// The SDK's class: programs run as root, and `/home/user` is missing.
pub(super) const SDK: Variant = Variant {
    name: "sdk",
    dockerfile: "COPY rc /root/.bashrc\nCOPY --chmod=0640 shadow /etc/shadow\n",
    files: &[RC, SHADOW],
    backend: "",
};

/// Containers that the Durable Object starts, and whose files last.
pub(super) const MANAGED: Variant = Variant {
    name: "managed",
    dockerfile: "",
    files: &[],
    backend: "backend = \"managed\", keep_files = true",
};

/// Images that are only tested if `KOZE_TEST_IMAGE` names them.
const OTHERS: [Variant; 4] = [
    // Like most official images: only root, and nothing below /home.
    Variant { name: "bare-root", dockerfile: "USER 0\nRUN rm -rf /home/user\n", files: &[], backend: NATIVE },
    Variant {
        name: "skeleton",
        dockerfile: "COPY --chown=1000:1000 skeleton /home/user/.bashrc\nCOPY --chown=1000:1000 skeleton /home/user/.profile\n",
        files: &[SKELETON],
        backend: NATIVE,
    },
    Variant {
        name: "bashrc",
        dockerfile: "COPY --chown=1000:1000 rc /home/user/.bashrc\nCOPY --chown=1000:1000 rc /home/user/.profile\n",
        files: &[RC],
        backend: NATIVE,
    },
    Variant {
        name: "shadow",
        dockerfile: "COPY --chmod=0640 shadow /etc/shadow\n",
        files: &[SHADOW],
        backend: NATIVE,
    },
];

/// A startup file that changes the directory, prints, and redefines commands.
const RC: (&str, &str) = (
    "rc",
    "echo read me\necho read me >&2\ncd /\nalias ls=false\nexport LEFT=1 PATH=/nowhere\numask 077\nset -eu\n",
);

/// The beginning of Debian's `.bashrc`.
const SKELETON: (&str, &str) = (
    "skeleton",
    "# ~/.bashrc: executed by bash(1) for non-login shells.\n\
     case $- in\n    *i*) ;;\n      *) return;;\nesac\nHISTCONTROL=ignoreboth\nalias ls='ls --color=auto'\n",
);

const SHADOW: (&str, &str) = ("shadow", "root:*:20000:0:99999:7:::\nuser:*:20000:0:99999:7:::\n");

impl Variant {
    /// Returns the image with a name.
    pub(super) fn asked(name: &str) -> &'static Variant {
        static ALL: [&[Variant]; 2] = [&[PLAIN, ROOT, SDK], &OTHERS];
        let found = ALL.iter().flat_map(|some| some.iter()).find(|variant| variant.name == name);
        found.unwrap_or_else(|| {
            panic!("KOZE_TEST_IMAGE: there is no image `{name}`: see `containers/images.rs`")
        })
    }

    /// Writes the Dockerfile of a sandbox and the files that it copies.
    pub(super) fn write(&self, worker: &Worker, engine: &Engine, sandbox: &str) {
        let base = if self.backend.is_empty() { engine.official() } else { engine.base().clone() };
        let project = &worker.project;
        project.write(
            format!("src/server/{sandbox}.Dockerfile"),
            format!("FROM {}\n{}", base.0, self.dockerfile),
        );
        for (name, content) in self.files {
            project.write(format!("src/server/{name}"), content);
        }
    }
}
