use koze::prelude::*;

/// koze's own guest, with a program of the image beside it.
#[sandbox(
    backend = "native",
    image = "docker.io/library/debian:12-slim",
    entrypoint = ["sleep", "infinity", "", "sleep"],
    sleep_after = "24h"
)]
pub struct NativeSandbox;
