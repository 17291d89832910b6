use koze::prelude::*;

/// A Linux shell for an agent, in Cloudflare's image with Node. It lacks Python, Git and curl.
#[sandbox(name = "__KOZE_NAME__-shell", backend = "managed", image = "cloudflare/debian-trixie")]
pub struct ShellSandbox;
