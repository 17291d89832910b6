use koze::prelude::*;

fn main() {
    #[sandbox]
    struct ShellSandbox;
}
