//! Attempts of a program in the sandbox to obtain the token. Each prints `taken`, or why it failed.
#![allow(unsafe_code, reason = "ptrace and its relatives have no safe form")]

use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::stage::TOKEN;
use crate::token::contains;

/// The argument that makes this program a probe.
pub(crate) const PROBE: &str = "--probe";

type Outcome = Result<(), String>;

/// Runs the probe that the arguments name.
pub(crate) fn run() -> ExitCode {
    let name = std::env::args().nth(2).unwrap_or_default();
    let outcome = match &*name {
        "environment" => environment(),
        "memory" => memory(),
        "memory_from_a_user_namespace" => user_namespace(),
        "vm_readv" => vm_readv(),
        "ptrace" => ptrace(),
        "descriptors" => descriptors(),
        "files" => files(),
        "network" => network(),
        _ => return ExitCode::FAILURE,
    };
    match outcome {
        Ok(()) => println!("taken"),
        Err(why) => println!("refused: {why}"),
    }
    ExitCode::SUCCESS
}

fn why(error: &io::Error) -> String {
    error.to_string()
}

fn found(bytes: &[u8]) -> Outcome {
    if contains(bytes, TOKEN.as_bytes()) { Ok(()) } else { Err("it is not there".into()) }
}

fn environment() -> Outcome {
    found(&fs::read("/proc/1/environ").map_err(|error| why(&error))?)
}

/// Returns the writable regions of the guest's memory: addresses and lengths.
fn parts() -> Result<Vec<(usize, usize)>, String> {
    let maps = fs::read_to_string("/proc/1/maps").map_err(|error| why(&error))?;
    let part = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let (from, to) = (usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?);
        rest.starts_with("rw").then_some((from, to - from))
    };
    Ok(maps.lines().filter_map(part).collect())
}

fn memory() -> Outcome {
    let mut memory = fs::File::open("/proc/1/mem").map_err(|error| why(&error))?;
    for (from, length) in parts()? {
        let mut bytes = vec![0; length];
        if memory.seek(SeekFrom::Start(from as u64)).is_ok()
            && memory.read_exact(&mut bytes).is_ok()
            && found(&bytes).is_ok()
        {
            return Ok(());
        }
    }
    Err("it is not there".into())
}

fn vm_readv() -> Outcome {
    // If the map is hidden, any address will do.
    let parts = parts().unwrap_or_else(|_| vec![(0x5555_5555_4000, 4096)]);
    let mut last = "it is not there".to_owned();
    for (from, length) in parts {
        let mut bytes = vec![0_u8; length];
        let here = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: length };
        let there = libc::iovec { iov_base: std::ptr::with_exposed_provenance_mut(from), iov_len: length };
        // SAFETY: the kernel writes at most the length of the buffer; the other address belongs to another process.
        let read = unsafe { libc::process_vm_readv(1, &raw const here, 1, &raw const there, 1, 0) };
        if read < 0 {
            last = why(&io::Error::last_os_error());
        } else if found(&bytes).is_ok() {
            return Ok(());
        }
    }
    Err(last)
}

fn ptrace() -> Outcome {
    // SAFETY: none of the arguments is an address.
    let seized = unsafe { libc::ptrace(libc::PTRACE_SEIZE, 1, 0, 0) };
    if seized == 0 { Ok(()) } else { Err(why(&io::Error::last_os_error())) }
}

fn descriptors() -> Outcome {
    // SAFETY: a call without addresses.
    let guest = unsafe { libc::syscall(libc::SYS_pidfd_open, 1, 0) };
    if guest < 0 {
        return Err(why(&io::Error::last_os_error()));
    }
    for number in 0..64 {
        // SAFETY: a call without addresses.
        if unsafe { libc::syscall(libc::SYS_pidfd_getfd, guest, number, 0) } >= 0 {
            return Ok(());
        }
    }
    Err(why(&io::Error::last_os_error()))
}

fn files() -> Outcome {
    let mut last = String::new();
    for path in ["fd/0", "exe", "cwd", "root", "task/1/fd/1", "ns/mnt"] {
        match fs::read_link(format!("/proc/1/{path}")) {
            Ok(_) => return Ok(()),
            Err(error) => last = why(&error),
        }
    }
    Err(last)
}

fn user_namespace() -> Outcome {
    // SAFETY: this process is single-threaded and keeps its descriptors.
    if unsafe { libc::unshare(libc::CLONE_NEWUSER) } != 0 {
        return Err(why(&io::Error::last_os_error()));
    }
    memory().or_else(|_| ptrace())
}

/// Captures packets on all interfaces for some seconds.
fn network() -> Outcome {
    /// `ETH_P_ALL`.
    const ALL: u16 = 3;
    // SAFETY: the socket is open, and the buffer has the given length.
    unsafe {
        let socket =
            libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK, i32::from(ALL.to_be()));
        if socket < 0 {
            return Err(why(&io::Error::last_os_error()));
        }
        let (mut bytes, end) = (vec![0_u8; 1 << 16], Instant::now() + Duration::from_secs(20));
        while Instant::now() < end {
            let length = libc::recv(socket, bytes.as_mut_ptr().cast(), bytes.len(), 0);
            match usize::try_from(length) {
                Ok(length) if found(&bytes[..length]).is_ok() => return Ok(()),
                Ok(_) => {}
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }
    Err("it did not go by".into())
}
