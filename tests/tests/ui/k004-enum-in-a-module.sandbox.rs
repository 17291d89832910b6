mod inner {
    use koze::prelude::*;

    #[sandbox]
    pub enum ShellSandbox {}
}

fn main() {}
