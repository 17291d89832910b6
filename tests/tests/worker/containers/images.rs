//! The images that the agent's cases are played on: who runs programs in them, and what is there already.

use koze_tests::containers::Engine;

use crate::project::Worker;

/// An image, by what its Dockerfile does after its base.
pub(super) struct Variant {
    pub(super) name: &'static str,
    dockerfile: &'static str,
    files: &'static [(&'static str, &'static str)],
    /// Whether the base is that of the SDK, whose class the sandboxes have then.
    pub(super) sdk: bool,
}

/// A plain user whose home is empty.
pub(super) const PLAIN: Variant = Variant { name: "plain", dockerfile: "", files: &[], sdk: false };

/// Programs as root, where files are that people's images have, and shells that read them would show it.
pub(super) const ROOT: Variant = Variant {
    name: "root",
    dockerfile: "USER 0\nENV HOME=/root\nCOPY rc /home/user/.bashrc\nCOPY rc /home/user/.profile\nCOPY rc /root/.bashrc\n\
                 COPY --chmod=0640 shadow /etc/shadow\n",
    files: &[RC, SHADOW],
    sdk: false,
};

/// The SDK's class, where programs are root's and `/home/user` is missing.
pub(super) const SDK: Variant = Variant {
    name: "sdk",
    dockerfile: "COPY rc /root/.bashrc\nCOPY --chmod=0640 shadow /etc/shadow\n",
    files: &[RC, SHADOW],
    sdk: true,
};

/// What the tests of every commit leave to somebody who sets `KOZE_TEST_IMAGE` to a name.
const OTHERS: [Variant; 4] = [
    // As most official images: nobody but root, and nothing below /home.
    Variant { name: "bare-root", dockerfile: "USER 0\nRUN rm -rf /home/user\n", files: &[], sdk: false },
    Variant {
        name: "skeleton",
        dockerfile: "COPY --chown=1000:1000 skeleton /home/user/.bashrc\nCOPY --chown=1000:1000 skeleton /home/user/.profile\n",
        files: &[SKELETON],
        sdk: false,
    },
    Variant {
        name: "bashrc",
        dockerfile: "COPY --chown=1000:1000 rc /home/user/.bashrc\nCOPY --chown=1000:1000 rc /home/user/.profile\n",
        files: &[RC],
        sdk: false,
    },
    Variant {
        name: "shadow",
        dockerfile: "COPY --chmod=0640 shadow /etc/shadow\n",
        files: &[SHADOW],
        sdk: false,
    },
];

/// A shell that reads this is not where it was, prints, and runs something else than what it was told to.
const RC: (&str, &str) = (
    "rc",
    "echo read me\necho read me >&2\ncd /\nalias ls=false\nexport LEFT=1 PATH=/nowhere\numask 077\nset -eu\n",
);

/// The beginning of Debian's.
const SKELETON: (&str, &str) = (
    "skeleton",
    "# ~/.bashrc: executed by bash(1) for non-login shells.\n\
     case $- in\n    *i*) ;;\n      *) return;;\nesac\nHISTCONTROL=ignoreboth\nalias ls='ls --color=auto'\n",
);

const SHADOW: (&str, &str) = ("shadow", "root:*:20000:0:99999:7:::\nuser:*:20000:0:99999:7:::\n");

impl Variant {
    /// The one that somebody asks for by name.
    pub(super) fn asked(name: &str) -> &'static Variant {
        static ALL: [&[Variant]; 2] = [&[PLAIN, ROOT, SDK], &OTHERS];
        let found = ALL.iter().flat_map(|some| some.iter()).find(|variant| variant.name == name);
        found.unwrap_or_else(|| {
            panic!("KOZE_TEST_IMAGE: there is no image `{name}`: see `containers/images.rs`")
        })
    }

    /// Writes the Dockerfile of a sandbox, and what it copies.
    pub(super) fn write(&self, worker: &Worker, engine: &Engine, sandbox: &str) {
        let base = if self.sdk { engine.official() } else { engine.base().clone() };
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
