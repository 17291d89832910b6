//! `cargo xtask guest`: builds the program that `koze build` adds to images, for the only architecture of Cloudflare's
//! containers.
//!
//! The program is committed, because `cargo install koze-cli` builds for no other target. The build is reproducible
//! wherever the checkout is: it uses no linker or library of the host and contains no path of it.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use flate2::read::GzDecoder;
use fs_err as fs;
use object::LittleEndian;
use object::elf::{EM_X86_64, FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader as _, ProgramHeader as _};

use crate::committed::{self, Args, Committed, NO_RUSTUP};
use crate::setup::target::GUEST;
use crate::{Result, process, setup};

/// The maximum size in bytes, because it is part of every image.
const MAX_SIZE: usize = 2 << 20;
/// The committed program, compressed. Next to it is the version of the compiler.
const PACKED: &str = "templates/files/guest/koze-guest-x86_64.gz";
const COMPILER: &str = "templates/files/guest/koze-guest-x86_64.rustc";

const COMMITTED: Committed = Committed { task: "guest", file: PACKED };

pub(crate) fn run(root: &Path, args: &Args) -> Result<ExitCode> {
    setup::target::install(GUEST, false)?;
    let compiler = committed::compiler()?;
    let recorded = fs::read_to_string(root.join(COMPILER)).unwrap_or_default();
    let built = build(root)?;
    let bytes = fs::read(&built)?;
    if let Some(wrong) = wrong(&bytes) {
        return Err(format!("{} {wrong}", built.display()).into());
    }
    let same = unpacked(&root.join(PACKED)).is_ok_and(|committed| committed == bytes);
    let size = format!("{} KiB", bytes.len().div_ceil(1024));
    if args.check {
        eprintln!("{}", COMMITTED.verdict(same, recorded.trim_end(), &compiler)?);
    } else if same && recorded.trim_end() == compiler {
        eprintln!("guest: {PACKED} is what its source builds, {size}");
    } else {
        fs::create_dir_all(root.join(PACKED).parent().ok_or("the path of the program has no directory")?)?;
        fs::write(root.join(PACKED), committed::packed(&bytes)?)?;
        fs::write(root.join(COMPILER), format!("{compiler}\n"))?;
        eprintln!("guest: wrote {PACKED}, {size}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds the program separately, because it has its own flags.
fn build(root: &Path) -> Result<PathBuf> {
    let out = root.join("target/guest");
    let mut cargo = process::cargo(root);
    cargo
        .args(["build", "--locked", "--package", "koze-guest", "--bin", "koze-guest"])
        .args(["--profile", "guest", "--target", GUEST, "--target-dir"])
        .arg(&out);
    committed::reproducible(root, &mut cargo, &["-Clinker=rust-lld", "-Clink-self-contained=yes"])?;
    let status = process::status(&mut cargo, NO_RUSTUP)?;
    if !status.success() {
        return Err("the guest does not build".into());
    }
    Ok(out.join(GUEST).join("guest/koze-guest"))
}

/// Decompresses the program. Other versions of the library may produce other bytes for the same program.
fn unpacked(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut program = Vec::new();
    GzDecoder::new(&fs::read(path)?[..]).read_to_end(&mut program)?;
    Ok(program)
}

/// Returns why a program would not run in every image, if so.
fn wrong(program: &[u8]) -> Option<String> {
    let foreign = || format!("is no program for {GUEST}");
    let parsed = FileHeader64::<LittleEndian>::parse(program)
        .and_then(|header| Ok((header, header.endian()?)))
        .and_then(|(header, endian)| Ok((header, endian, header.program_headers(endian, program)?)));
    let Ok((header, endian, segments)) = parsed else { return Some(foreign()) };
    if header.e_machine(endian) != EM_X86_64 {
        return Some(foreign());
    }
    if program.len() > MAX_SIZE {
        return Some(format!("has {} bytes, and {MAX_SIZE} are the most", program.len()));
    }
    let is_dynamic = segments.iter().any(|segment| segment.p_type(endian) == PT_INTERP);
    is_dynamic.then(|| "is not static: it needs a loader".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{MAX_SIZE, wrong};

    /// A program of one segment of this type, for a machine.
    fn program(machine: u8, segment: u8) -> Vec<u8> {
        let mut program = b"\x7fELF\x02\x01\x01".to_vec();
        program.resize(120, 0);
        for (at, byte) in
            [(16, 2), (18, machine), (20, 1), (32, 64), (52, 64), (54, 56), (56, 1), (64, segment)]
        {
            program[at] = byte;
        }
        program
    }

    #[test]
    fn only_static_programs_for_the_containers_are_right() {
        let (x86_64, aarch64) = (62, 183);
        let (load, interp) = (1, 3);
        assert_eq!(wrong(&program(x86_64, load)), None);
        let why = |program: &[u8]| wrong(program).unwrap_or_default();
        assert!(why(&program(x86_64, interp)).contains("not static"));
        assert!(why(&program(aarch64, load)).contains("no program for"));
        let mut large = program(x86_64, load);
        large.resize(MAX_SIZE + 1, 0);
        assert!(why(&large).contains("are the most"));
        for broken in [&b""[..], b"#!/bin/sh\n", &program(x86_64, load)[..100]] {
            assert!(why(broken).contains("no program for"), "{broken:?}");
        }
        // Of 32 bits, and with the most significant byte first.
        for (at, byte) in [(4, 1), (5, 2)] {
            let mut other = program(x86_64, load);
            other[at] = byte;
            assert!(why(&other).contains("no program for"), "{at}");
        }
    }
}
