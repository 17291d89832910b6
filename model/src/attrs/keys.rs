//! The keys of the attributes, with the examples that messages quote.

use crate::kind::Kind;

/// A key of the attribute.
#[derive(Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// An example, as it is written in an attribute.
    pub example: &'static str,
    /// Its meaning, in one line.
    pub meaning: &'static str,
}

/// The keys of `#[sandbox]`, in the order of the documentation.
pub const KEYS: &[Key] = &[
    Key {
        name: "image",
        example: "image = \"./python.Dockerfile\"",
        meaning: "registry reference with a tag or digest, or the path of a Dockerfile relative to the source file",
    },
    Key {
        name: "variant",
        example: "variant = \"python\"",
        meaning: "the default image with `-<variant>`: the tag keeps following the SDK",
    },
    Key {
        name: "instance_type",
        example: "instance_type = \"lite\"",
        meaning: "`lite` (default), `basic`, `standard-1` to `standard-4`",
    },
    Key {
        name: "instance",
        example: "instance(vcpu = 1, memory_mib = 6144, disk_mb = 12000)",
        meaning: "an instance of a size of your own",
    },
    Key {
        name: "max_instances",
        example: "max_instances = 10",
        meaning: "how many containers may run at once, at least 1",
    },
    Key {
        name: "name",
        example: "name = \"my-worker-shell\"",
        meaning: "container application, unique in the account; default `<base>-sandbox`",
    },
    Key {
        name: "sleep_after",
        example: "sleep_after = \"10m\"",
        meaning: "idle time before the container sleeps: a number and `s`, `m` or `h`",
    },
    Key {
        name: "env_vars",
        example: "env_vars(NODE_ENV = \"production\")",
        meaning: "environment variables in the container",
    },
    Key {
        name: "internet",
        example: "internet = true",
        meaning: "whether the sandbox reaches the internet; default `false`",
    },
    Key {
        name: "allowed_hosts",
        example: "allowed_hosts = [\"api.example.com\", \"*.example.org\"]",
        meaning: "the hosts the sandbox may reach, at ports 80 and 443 unless an entry names one; an entry may have a method and a \
                  path pattern: `GET api.example.com/v1/**`",
    },
    Key {
        name: "denied_hosts",
        example: "denied_hosts = [\"*.example.com\"]",
        meaning: "hosts the sandbox may not reach, with the same forms",
    },
    Key {
        name: "credentials",
        example: "credentials(API_KEY(host = \"api.example.com\"), GITHUB_TOKEN(host = \"github.com\", basic = \"x-access-token\"))",
        meaning: "secrets that the sandbox's requests to a host carry, and that the sandbox does not have; it may reach these hosts",
    },
    Key {
        name: "limits",
        example: "limits(requests = \"100/m\", bytes = \"50MB\")",
        meaning: "how many requests the sandbox may send to each host, and how many bytes it may exchange with it",
    },
    Key {
        name: "tools",
        example: "tools = [\"agent\"]",
        meaning: "the tool families this sandbox serves; default `agent`",
    },
    Key {
        name: "workspace",
        example: "workspace(name = \"box\", shell(allow = [\"git\", \"npm\"]))",
        meaning: "the workspace of a sandbox that serves the tools `workspace`: its name, directory and capabilities",
    },
    Key { name: "default", example: "default", meaning: "the sandbox an agent gets when it names none" },
    Key {
        name: "backend",
        example: "backend = \"native\"",
        meaning: "what runs behind the class: `sdk` (default); `native`, koze's own guest in any Linux image; or `managed`, \
                  the same in containers that the Durable Object owns",
    },
    Key {
        name: "images",
        example: "images(python = \"python:3.12-slim\", node = \"./node.Dockerfile\")",
        meaning: "several images, which agents choose from by name; the first one is the default; with `backend = \"managed\"`",
    },
    Key {
        name: "sizes",
        example: "sizes = [\"lite\", \"standard-1\"]",
        meaning: "the instance types that agents may choose from, with `backend = \"managed\"`",
    },
    Key {
        name: "keep_files",
        example: "keep_files = true",
        meaning: "whether the disk is saved before the container sleeps, with `backend = \"managed\"`; default `false`",
    },
    Key {
        name: "processes",
        example: "processes = false",
        meaning: "whether agents can start processes that keep running, and use them; default `true`",
    },
    Key {
        name: "copy_from",
        example: "copy_from = \"python\"",
        meaning: "another sandbox, whose object of the same name gives its files to each new object, with `backend = \"managed\"`",
    },
    Key {
        name: "ssh",
        example: "ssh = true",
        meaning: "whether you can connect with SSH, with `backend = \"managed\"`; default `false`",
    },
    Key {
        name: "entrypoint",
        example: "entrypoint = [\"node\", \"server.js\"]",
        meaning: "a program of the image that runs next to the guest, not with `backend = \"sdk\"`",
    },
    Key {
        name: "renamed_from",
        example: "renamed_from = \"OldSandbox\"",
        meaning: "the former name of the class, whose storage it keeps",
    },
    Key {
        name: "image_build_context",
        example: "image_build_context = \"..\"",
        meaning: "directory a Dockerfile is built in, relative to the source file",
    },
    Key {
        name: "image_vars",
        example: "image_vars(NODE_VERSION = \"22\")",
        meaning: "build arguments of a Dockerfile",
    },
    Key {
        name: "constraints",
        example: "constraints(regions = [\"WEUR\"], jurisdiction = \"eu\")",
        meaning: "where containers may run",
    },
    Key {
        name: "rollout_step_percentage",
        example: "rollout_step_percentage = [10, 100]",
        meaning: "steps of a rollout: 5, 10, 20, 25, 50 or 100, or an ascending list of 10 to 100 that ends in 100",
    },
    Key {
        name: "rollout_active_grace_period",
        example: "rollout_active_grace_period = 60",
        meaning: "seconds an active container is left alone during a rollout",
    },
    Key {
        name: "observability",
        example: "observability(enabled = true)",
        meaning: "whether the container's logs are kept",
    },
];

/// The keys of `#[container]` that `#[sandbox]` does not have, or that have another meaning there.
const OWN_OF_CONTAINERS: &[Key] = &[
    Key { name: "port", example: "port = 80", meaning: "the port of the service in the container; required" },
    Key {
        name: "health",
        example: "health = \"/healthz\"",
        meaning: "the path that has to answer with a status from 200 to 499 before the first request is forwarded; by \
                  default, the port has to accept connections",
    },
    Key {
        name: "entrypoint",
        example: "entrypoint = [\"node\", \"server.js\"]",
        meaning: "the program and its arguments, instead of those of the image; required with `backend = \"managed\"`",
    },
    Key {
        name: "backend",
        example: "backend = \"native\"",
        meaning: "who starts the container: Cloudflare's scheduler with `native` (default), or the Durable Object with \
                  `managed`",
    },
    Key {
        name: "name",
        example: "name = \"my-worker-blog\"",
        meaning: "container application, unique in the account; default `<base>-container`",
    },
    Key {
        name: "internet",
        example: "internet = true",
        meaning: "whether the service reaches the internet; default `false`",
    },
    Key {
        name: "allowed_hosts",
        example: "allowed_hosts = [\"api.example.com\", \"*.example.org\"]",
        meaning: "the hosts the service may reach, at ports 80 and 443 unless an entry names one",
    },
    Key {
        name: "denied_hosts",
        example: "denied_hosts = [\"*.example.com\"]",
        meaning: "hosts the service may not reach",
    },
    Key {
        name: "max_instances",
        example: "max_instances = 10",
        meaning: "how many containers may run at once, at least 1; not with `backend = \"managed\"`",
    },
];

/// The keys of `#[container]` that are those of `#[sandbox]`.
const SHARED: &[&str] = &[
    "image",
    "image_build_context",
    "image_vars",
    "env_vars",
    "sleep_after",
    "instance_type",
    "instance",
    "renamed_from",
    "constraints",
    "rollout_step_percentage",
    "rollout_active_grace_period",
    "observability",
];

impl Key {
    /// Returns the keys of an attribute, in the order of the documentation.
    pub fn all(kind: Kind) -> Vec<&'static Key> {
        match kind {
            Kind::Sandbox => KEYS.iter().collect(),
            Kind::Container => {
                let shared = KEYS.iter().filter(|key| SHARED.contains(&key.name));
                OWN_OF_CONTAINERS.iter().chain(shared).collect()
            }
        }
    }

    /// Returns a key of any attribute.
    pub fn find(name: &str) -> Option<&'static Key> {
        KEYS.iter().chain(OWN_OF_CONTAINERS).find(|key| key.name == name)
    }
}
