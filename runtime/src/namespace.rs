//! The sandboxes of one class, by keys of any kind.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use crate::SandboxClass;
use crate::error::Result;
use crate::handle::{LARGEST, Life, Observed, State, whole};
use crate::path::{HOME, absolute, anywhere};
use crate::provider::cloudflare::CloudflareSandbox;
use crate::sandbox::{Output, Sandbox, Write};
use crate::tool::agent::shell;

/// How long a command may run.
const TIMEOUT: Duration = Duration::from_mins(10);

/// The sandboxes of one class: as many as there are keys.
///
/// The generated `Env` gives one for each sandbox file.
pub struct Namespace<S> {
    env: worker::Env,
    class: PhantomData<fn() -> S>,
}

impl<S: SandboxClass> Namespace<S> {
    /// The namespace of the class in an environment. The binding is looked up when a sandbox is asked for.
    pub fn new(env: &worker::Env) -> Self {
        Namespace { env: env.clone(), class: PhantomData }
    }

    /// The sandbox with this key: the same key gives the same container, a fresh key a fresh one.
    ///
    /// Nothing is started yet: the container starts with the first call. The key is the only boundary between
    /// sandboxes of one class, so treat it like any identifier of a tenant.
    ///
    /// # Errors
    /// Where the Worker has no binding [`SandboxClass::BINDING`]: run `koze build` and deploy again.
    pub fn get(&self, key: &str) -> worker::Result<Stub<S>> {
        let sandbox = CloudflareSandbox::of_key(self.env.durable_object(S::BINDING)?, key);
        Ok(Stub { sandbox, observed: Arc::new(Observed::new()), class: PhantomData })
    }
}

impl<S> Clone for Namespace<S> {
    fn clone(&self) -> Self {
        Namespace { env: self.env.clone(), class: PhantomData }
    }
}

impl<S: SandboxClass> fmt::Debug for Namespace<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Namespace").field(&S::BINDING).finish()
    }
}

/// One sandbox, addressed by its key.
///
/// ```no_run
/// # async fn example(env: worker::Env) -> Result<(), Box<dyn std::error::Error>> {
/// # struct ShellSandbox;
/// # impl koze::SandboxClass for ShellSandbox {
/// #     const BINDING: &'static str = "SHELL_SANDBOX";
/// #     const CLASS: &'static str = "ShellSandbox";
/// #     const CONTAINER: &'static str = "shell-sandbox";
/// #     const SOURCE: &'static str = "";
/// # }
/// let sandbox = koze::Namespace::<ShellSandbox>::new(&env).get("user-42")?;
/// let output = sandbox.exec("uname -s").await?;
/// assert_eq!(output.stdout, b"Linux\n");
/// # Ok(())
/// # }
/// ```
pub struct Stub<S> {
    sandbox: CloudflareSandbox,
    observed: Arc<Observed>,
    class: PhantomData<fn() -> S>,
}

impl<S: SandboxClass> Stub<S> {
    /// The sandbox itself, for all that a [`Sandbox`] can do.
    pub fn sandbox(&self) -> &CloudflareSandbox {
        &self.sandbox
    }

    /// Runs a command with bash, for ten minutes at most. A sandbox that was destroyed is made anew.
    ///
    /// # Errors
    /// Those of the sandbox; a command that fails is none.
    pub async fn exec(&self, command: &str) -> Result<Output> {
        let output = shell::run(&self.sandbox, command, HOME, TIMEOUT).await?;
        self.observed.ran(command, &output);
        Ok(output)
    }

    /// Whether it answers: runs `true`.
    pub async fn is_healthy(&self) -> bool {
        shell::run(&self.sandbox, "true", HOME, TIMEOUT).await.is_ok_and(|output| output.exit_code == 0)
    }

    /// The content of a file; a relative path starts at `/home/user`.
    ///
    /// # Errors
    /// Those of the sandbox; [`Code::TooLarge`](crate::Code::TooLarge) for more than 64 MiB.
    pub async fn read_file(&self, path: &str) -> Result<Vec<u8>> {
        whole(&self.sandbox, path, LARGEST).await
    }

    /// Writes a file, and the directories above it.
    ///
    /// # Errors
    /// Those of the sandbox.
    pub async fn write_file(&self, path: &str, content: impl Into<Vec<u8>>) -> Result<()> {
        let path = absolute(path)?;
        self.sandbox.write(anywhere(&path), content.into(), Write::Replace).await.map(drop)
    }

    /// Whether it runs now, and what this handle and its clones have run in it. It starts nothing.
    ///
    /// # Errors
    /// Those of the sandbox.
    pub async fn state(&self) -> Result<State> {
        let status = match self.sandbox.status().await {
            Ok(status) => status.into(),
            Err(error) if error.code == crate::Code::NotFound => Life::Destroyed,
            Err(error) => return Err(error),
        };
        Ok(State { status, ..self.observed.state() })
    }

    /// Ends it, and takes its files away. The next call makes it anew.
    ///
    /// # Errors
    /// Those of the sandbox.
    pub async fn destroy(&self) -> Result<()> {
        self.sandbox.destroy().await
    }
}

impl<S> Clone for Stub<S> {
    fn clone(&self) -> Self {
        let (sandbox, observed) = (self.sandbox.clone(), Arc::clone(&self.observed));
        Stub { sandbox, observed, class: PhantomData }
    }
}

impl<S: SandboxClass> fmt::Debug for Stub<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stub").field(&S::CLASS).finish()
    }
}
