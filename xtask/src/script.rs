//! `cargo xtask script`: builds the engine of scripts as a module of WebAssembly, for Workers.
//!
//! The module is committed, because it needs a C compiler for WebAssembly: Zig, as for `cargo xtask platforms`. wasm-opt, from
//! `tests/package-lock.json`, makes it smaller.

mod fuel;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use fs_err as fs;
use wasmparser::{Parser, Payload};

use crate::committed::{self, Args, Committed, NO_RUSTUP};
use crate::platforms::zig::Zig;
use crate::setup::target::WASM;
use crate::{Result, process, setup};

/// The maximum size compressed with gzip, in bytes: the upload of a Worker is limited.
const MAX_SIZE: usize = 320 << 10;
/// The committed module. Next to it is the version of the compiler.
const MODULE: &str = "templates/files/script/koze-script.wasm";
const COMPILER: &str = "templates/files/script/koze-script.rustc";

const COMMITTED: Committed = Committed { task: "script", file: MODULE };

/// The flags of rustc. The stack of C comes first in memory, so that an overflow traps. The memory is that of a script,
/// 64 MiB, and of what the engine has outside of it: its stack, the compiler and messages.
const FLAGS: [&str; 2] = ["-Clink-arg=-zstack-size=1048576", "-Clink-arg=--max-memory=83886080"];

/// The flags of C. Assertions have no place, which would be a path of this machine. Only the shortest functions are inlined:
/// that saves a sixteenth of the size, and costs a twelfth of the speed.
const C_FLAGS: &str =
    "-Wno-builtin-macro-redefined -D__FILE__=0 -mllvm -inline-threshold=5 -mllvm -inlinehint-threshold=50";

/// The options of wasm-opt: those of a new project's Worker, and what the compilers use of WebAssembly.
const OPTIMIZED: [&str; 7] = [
    "-O",
    "--one-caller-inline-max-function-size=20",
    "--enable-bulk-memory",
    "--enable-multivalue",
    "--enable-mutable-globals",
    "--enable-nontrapping-float-to-int",
    "--enable-sign-ext",
];

/// What the module imports, in addition to functions of `Math`.
const IMPORTS: [(&str, &str); 5] = [
    ("env", "__rquickjs_host_now_us"),
    ("koze", "answer"),
    ("koze", "random"),
    ("koze", "send"),
    ("koze", "url"),
];
/// What the module exports.
const EXPORTS: [&str; 5] = ["deliver", "fuel", "memory", "prepare", "room"];

pub(crate) fn run(root: &Path, args: &Args) -> Result<ExitCode> {
    setup::target::install(WASM, false)?;
    let compiler = committed::compiler()?;
    let recorded = fs::read_to_string(root.join(COMPILER)).unwrap_or_default();
    let built = optimized(root, &build(root)?)?;
    let module = fuel::add(&fs::read(&built)?, &EXPORTS)?;
    let packed = committed::packed(&module)?.len();
    if let Some(wrong) = wrong(&module, packed) {
        return Err(format!("{} {wrong}", built.display()).into());
    }
    let same = fs::read(root.join(MODULE)).is_ok_and(|committed| committed == module);
    let size = format!("{} KiB, with gzip {} KiB", module.len().div_ceil(1024), packed.div_ceil(1024));
    if args.check {
        eprintln!("{}", COMMITTED.verdict(same, recorded.trim_end(), &compiler)?);
    } else if same && recorded.trim_end() == compiler {
        eprintln!("script: {MODULE} is what its source builds, {size}");
    } else {
        fs::create_dir_all(root.join(MODULE).parent().ok_or("the path of the module has no directory")?)?;
        fs::write(root.join(MODULE), &module)?;
        fs::write(root.join(COMPILER), format!("{compiler}\n"))?;
        eprintln!("script: wrote {MODULE}, {size}");
    }
    Ok(ExitCode::SUCCESS)
}

fn build(root: &Path) -> Result<PathBuf> {
    let zig = Zig::installed(root)?;
    let out = root.join("target/script");
    let mut cargo = process::cargo(root);
    cargo
        .args(["rustc", "--locked", "--package", "koze-script", "--lib", "--features", "engine"])
        .args(["--crate-type", "cdylib", "--profile", "guest", "--target", WASM, "--target-dir"])
        .arg(&out);
    committed::reproducible(root, &mut cargo, &FLAGS)?;
    let target = WASM.replace('-', "_");
    cargo
        .env(format!("CC_{target}"), zig.cc("wasm32-freestanding")?)
        .env(format!("AR_{target}"), zig.ar())
        .env(format!("CFLAGS_{target}"), C_FLAGS);
    for variable in ["CC", "AR", "CFLAGS", "TARGET_CC", "TARGET_AR", "TARGET_CFLAGS"] {
        cargo.env_remove(variable);
    }
    if !process::status(&mut cargo, NO_RUSTUP)?.success() {
        return Err("the engine of scripts does not build for WebAssembly; cargo says why above".into());
    }
    Ok(out.join(WASM).join("guest/koze_script.wasm"))
}

/// Makes a module smaller with wasm-opt. Returns the path of the result, which is a new file: cargo keeps its own.
fn optimized(root: &Path, module: &Path) -> Result<PathBuf> {
    setup::npm::install(&root.join("tests"))?;
    let result = root.join("target/script/optimized.wasm");
    let mut wasm_opt = setup::npm::tool(root, "wasm-opt")?;
    wasm_opt.arg(module).arg("-o").arg(&result).args(OPTIMIZED);
    process::stdout(&mut wasm_opt, "run `cargo xtask setup`")?;
    Ok(result)
}

/// Returns why a module would not run in every Worker, if so.
fn wrong(module: &[u8], packed: usize) -> Option<String> {
    let Interface { mut imports, mut exports, limits_memory } = match Interface::of(module) {
        Ok(interface) => interface,
        Err(error) => return Some(format!("is no module: {error}")),
    };
    imports.retain(|(module, _)| *module != "Math");
    imports.sort_unstable();
    if imports != IMPORTS {
        return Some(format!("imports {imports:?}, and its hosts have {IMPORTS:?}"));
    }
    exports.sort_unstable();
    if exports != EXPORTS {
        return Some(format!("exports {exports:?}, and its hosts need {EXPORTS:?}"));
    }
    if !limits_memory {
        return Some("has a memory without a limit".to_owned());
    }
    (packed > MAX_SIZE).then(|| format!("has {packed} bytes with gzip, and {MAX_SIZE} are the most"))
}

/// What a module shares with its hosts.
#[derive(Default)]
struct Interface<'a> {
    imports: Vec<(&'a str, &'a str)>,
    exports: Vec<&'a str>,
    limits_memory: bool,
}

impl<'a> Interface<'a> {
    fn of(module: &'a [u8]) -> wasmparser::Result<Self> {
        wasmparser::validate(module)?;
        let mut interface = Interface::default();
        for payload in Parser::new(0).parse_all(module) {
            match payload? {
                Payload::ImportSection(section) => {
                    for import in section.into_imports() {
                        let import = import?;
                        interface.imports.push((import.module, import.name));
                    }
                }
                Payload::ExportSection(section) => {
                    for export in section {
                        interface.exports.push(export?.name);
                    }
                }
                Payload::MemorySection(section) => {
                    for memory in section {
                        interface.limits_memory = memory?.maximum.is_some();
                    }
                }
                _ => {}
            }
        }
        Ok(interface)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use wasm_encoder::reencode::{Error, Reencode, utils};
    use wasm_encoder::{ExportSection, ImportSection, MemoryType, Module};

    use super::*;

    type Reencoded<T> = std::result::Result<T, Error<Infallible>>;

    /// What is changed in a module.
    #[derive(Clone, Copy, PartialEq)]
    enum Change {
        RenameImport,
        RemoveFuel,
        RemoveLimit,
    }

    impl Reencode for Change {
        type Error = Infallible;

        fn parse_import_section(
            &mut self,
            imports: &mut ImportSection,
            section: wasmparser::ImportSectionReader<'_>,
        ) -> Reencoded<()> {
            for import in section.into_imports() {
                let import = import?;
                let renamed = *self == Change::RenameImport && import.name == "send";
                let name = if renamed { "other" } else { import.name };
                utils::parse_import(self, imports, wasmparser::Import { name, ..import })?;
            }
            Ok(())
        }

        fn parse_export(
            &mut self,
            exports: &mut ExportSection,
            export: wasmparser::Export<'_>,
        ) -> Reencoded<()> {
            if *self == Change::RemoveFuel && export.name == "fuel" {
                return Ok(());
            }
            utils::parse_export(self, exports, export)
        }

        fn memory_type(&mut self, memory: wasmparser::MemoryType) -> Reencoded<MemoryType> {
            let memory = utils::memory_type(self, memory);
            let maximum = memory.maximum.filter(|_| *self != Change::RemoveLimit);
            Ok(MemoryType { maximum, ..memory })
        }
    }

    #[test]
    fn a_module_without_the_interface_is_wrong() {
        let why = |module: &[u8]| wrong(module, 0).unwrap_or_default();
        assert!(why(b"").contains("is no module"));
        assert!(why(b"\0asm\x01\0\0\0").contains("imports []"));
        let committed = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(MODULE);
        let committed = fs::read(committed).unwrap();
        assert_eq!(wrong(&committed, 0), None);
        assert!(wrong(&committed, MAX_SIZE + 1).unwrap().contains("are the most"));
        let changed = |mut change: Change| {
            let mut module = Module::new();
            change.parse_core_module(&mut module, Parser::new(0), &committed).unwrap();
            why(&module.finish())
        };
        let renamed = changed(Change::RenameImport);
        assert!(renamed.contains("other"), "{renamed}");
        assert!(changed(Change::RemoveFuel).contains("its hosts need"));
        let unlimited = changed(Change::RemoveLimit);
        assert!(unlimited.contains("without a limit"), "{unlimited}");
    }
}
