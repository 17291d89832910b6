/// The Durable Object class that a sandbox is, with the names under which wrangler knows it.
///
/// `#[sandbox]` implements it; written by hand it is the same:
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
    /// The class that the Worker entry exports, and the struct's own name: `ShellSandbox`.
    const CLASS: &'static str;
    /// The container application that a first build makes: `shell-sandbox`. `koze build` puts `-<env>` behind it for a
    /// named environment. One that is there keeps its name when the file gets another: `koze.lock` has it.
    const CONTAINER: &'static str;
    /// The file that declares it, relative to the package, with `/`. Empty where the compiler does not know it.
    const SOURCE: &'static str;
}
