//! Encodes the guest of containers as a module, so that builds of projects need not.

use std::path::Path;
use std::{env, fs};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const TEMPLATE: &str = "files/worker/koze-guest.mjs";
const PROGRAM: &str = "files/guest/koze-guest-x86_64.gz";

fn main() {
    for file in [TEMPLATE, PROGRAM] {
        println!("cargo::rerun-if-changed={file}");
    }
    let template = fs::read_to_string(TEMPLATE).expect("the template is in this package");
    let program = fs::read(PROGRAM).expect("the guest is in this package");
    let module = template.replace("__KOZE_PROGRAM__", &STANDARD.encode(program));
    let directory = env::var_os("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&directory).join("koze-guest.mjs"), module)
        .expect("cargo's directory can be written");
}
