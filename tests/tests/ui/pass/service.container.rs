use koze::prelude::*;

/// A service with the entrypoint of its image.
#[container(image = "docker.io/library/nginx:1.27", port = 80, health = "/healthz?full=1", sleep_after = "1h")]
pub struct ServiceContainer;
