/// The Durable Object class of a sandbox, with its names in the wrangler configuration.
///
/// `#[sandbox]` implements this trait. Written by hand, it looks like this:
///
/// ```
/// use koze::SandboxClass;
///
/// pub struct ShellSandbox;
///
/// impl SandboxClass for ShellSandbox {
///     const BINDING: &'static str = "SHELL_SANDBOX";
///     const CLASS: &'static str = "ShellSandbox";
///     const CONTAINER: &'static str = "shell-sandbox";
///     const SOURCE: &'static str = "src/server/shell.sandbox.rs";
/// }
/// ```
pub trait SandboxClass {
    /// The Durable Object binding in the wrangler configuration: `SHELL_SANDBOX`.
    const BINDING: &'static str;
    /// The class that the Worker's entry point exports, which is the name of the struct: `ShellSandbox`.
    const CLASS: &'static str;
    /// The container application that the first build creates: `shell-sandbox`. For a named environment, `koze build` appends
    /// `-<env>`. An existing application keeps its name when the file is renamed: `koze.lock` records it.
    const CONTAINER: &'static str;
    /// The file that declares it, relative to the package, with `/`. Empty if the compiler does not know it.
    const SOURCE: &'static str;
}
