//! The first process of a container of koze: [`koze_guest::container`].

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    koze_guest::container::main()
}

#[cfg(not(target_os = "linux"))]
fn main() -> std::process::ExitCode {
    eprintln!("koze-guest: runs in containers, on Linux; `koze build` puts it into their images");
    std::process::ExitCode::FAILURE
}
