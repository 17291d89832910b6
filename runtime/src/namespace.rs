//! The sandboxes of one class, addressed by key.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use crate::SandboxClass;
use crate::cloudflare::CloudflareSandbox;
use koze_core::error::Result;
use koze_core::handle::{LARGEST, Lifecycle, Observed, State, whole};
use koze_core::path::{HOME, absolute, anywhere};
use koze_core::sandbox::{Output, Sandbox, Write};
use koze_core::shell;

/// The timeout of a command.
const TIMEOUT: Duration = Duration::from_mins(10);

/// The sandboxes of one class, one for each key.
///
/// The generated `Env` has a namespace for each sandbox file.
pub struct Namespace<S> {
    env: worker::Env,
    class: PhantomData<fn() -> S>,
}

impl<S: SandboxClass> Namespace<S> {
    /// Creates the namespace. The binding is looked up when you request a sandbox.
    pub fn new(env: &worker::Env) -> Self {
        Namespace { env: env.clone(), class: PhantomData }
    }

    /// Returns the sandbox with this key. The same key always returns the same container.
    ///
    /// The container starts with the first call. The key is the only boundary between sandboxes of one class, so treat it
    /// like a tenant ID.
    ///
    /// # Errors
    /// If the Worker has no binding [`SandboxClass::BINDING`]: run `koze build` and deploy again.
    pub fn get(&self, key: &str) -> worker::Result<Stub<S>> {
        let sandbox = CloudflareSandbox::of_key(self.env.durable_object(S::BINDING)?, key);
        Ok(Stub { sandbox, observed: Arc::new(Observed::default()), class: PhantomData })
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
    /// Returns the sandbox itself, with all operations of [`Sandbox`].
    pub fn sandbox(&self) -> &CloudflareSandbox {
        &self.sandbox
    }

    /// Runs a bash command with a timeout of ten minutes. Creates the sandbox again if it was destroyed.
    ///
    /// # Errors
    /// The errors of the sandbox. A failing command is not an error.
    pub async fn exec(&self, command: &str) -> Result<Output> {
        let output = shell::run(&self.sandbox, command, HOME, TIMEOUT).await?;
        self.observed.ran(command, &output);
        Ok(output)
    }

    /// Returns whether the sandbox answers, by running `true`.
    pub async fn is_healthy(&self) -> bool {
        shell::run(&self.sandbox, "true", HOME, TIMEOUT).await.is_ok_and(|output| output.exit_code == 0)
    }

    /// Reads a file. A relative path starts at `/home/user`.
    ///
    /// # Errors
    /// The errors of the sandbox; [`Code::TooLarge`](crate::Code::TooLarge) for more than 64 MiB.
    pub async fn read_file(&self, path: &str) -> Result<Vec<u8>> {
        whole(&self.sandbox, path, LARGEST).await
    }

    /// Writes a file and creates missing parent directories.
    ///
    /// # Errors
    /// The errors of the sandbox.
    pub async fn write_file(&self, path: &str, content: impl Into<Vec<u8>>) -> Result<()> {
        let path = absolute(path)?;
        self.sandbox.write(anywhere(&path), content.into(), Write::Replace).await.map(drop)
    }

    /// Returns whether the sandbox runs, and what this handle and its clones have run in it. Does not start it.
    ///
    /// # Errors
    /// The errors of the sandbox.
    pub async fn state(&self) -> Result<State> {
        let status = match self.sandbox.status().await {
            Ok(status) => status.into(),
            Err(error) if error.code == crate::Code::NotFound => Lifecycle::Destroyed,
            Err(error) => return Err(error),
        };
        Ok(State { status, ..self.observed.state() })
    }

    /// Stops the sandbox and deletes its files. The next call creates it again.
    ///
    /// # Errors
    /// The errors of the sandbox.
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
