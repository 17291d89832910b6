#[koze::sandbox(name = "by-its-path")]
pub struct PathSandbox;
