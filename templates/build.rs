//! Decompresses the guest of containers, and encodes it as a module, so that builds of projects need not.

use std::io::Read as _;
use std::path::Path;
use std::{env, fs};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;

const TEMPLATE: &str = "files/generated/koze/koze-guest.mjs";
const PACKED: &str = "files/guest/koze-guest-x86_64.gz";

fn main() {
    for file in [TEMPLATE, PACKED] {
        println!("cargo::rerun-if-changed={file}");
    }
    let template = fs::read_to_string(TEMPLATE).expect("the template is in this package");
    let packed = fs::read(PACKED).expect("the guest is in this package");
    let mut program = Vec::new();
    GzDecoder::new(&packed[..]).read_to_end(&mut program).expect("the guest is compressed with gzip");
    let module = template.replace("__KOZE_PROGRAM__", &STANDARD.encode(packed));
    let directory = env::var_os("OUT_DIR").expect("cargo sets it");
    let write = |name: &str, content: &[u8]| {
        fs::write(Path::new(&directory).join(name), content).expect("cargo's directory can be written");
    };
    write("koze-guest", &program);
    write("koze-guest.mjs", module.as_bytes());
}
