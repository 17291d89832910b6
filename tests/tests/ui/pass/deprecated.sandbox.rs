use koze::prelude::*;

// K018 is a warning: a macro has no way to give one, `koze build` has.
#[sandbox(instance_type = "standard")]
pub struct OldSandbox;
