//! Ends an attempt that passes a bound.

use std::fs;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, Signal, setrlimit};

/// How often the processes are measured.
const PAUSE: Duration = Duration::from_millis(10);
/// The kernel's own bound for the memory of each process, in bytes, in case it grows faster than it is measured.
const MOST: u64 = 4 << 30;

/// Watches this process and its children from another thread.
pub(super) fn start(memory_mib: u64, time: Duration) -> io::Result<()> {
    let end_with_parent = Some(Signal::KILL);
    rustix::process::set_parent_process_death_signal(end_with_parent)?;
    setrlimit(Resource::Data, Rlimit { current: Some(MOST), maximum: Some(MOST) })?;
    let most_kib = memory_kib() + (memory_mib << 10);
    let until = Instant::now() + time;
    std::thread::Builder::new().name("koze-bounds".into()).spawn(move || {
        loop {
            if memory_kib() > most_kib {
                end(&format!("taken: it took more than {memory_mib} MiB"));
            }
            if Instant::now() > until {
                end(&format!("taken: it did not end within {} s", time.as_secs()));
            }
            std::thread::sleep(PAUSE);
        }
    })?;
    Ok(())
}

/// Prints the result, and ends this process. Its children end with it.
pub(super) fn end(result: &str) -> ! {
    static ENDING: Mutex<()> = Mutex::new(());
    // Never released: the first result is the only one.
    let _only = ENDING.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = writeln!(io::stdout(), "{}", result.replace('\n', " "));
    std::process::exit(0)
}

/// Returns the memory of this process and its descendants in KiB, without that of files.
fn memory_kib() -> u64 {
    let all: Vec<(u32, u32, u64)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let number = entry.file_name().to_str()?.parse().ok()?;
            let status = fs::read_to_string(entry.path().join("status")).ok()?;
            let field = |name: &str| {
                let value = status.lines().find_map(|line| line.strip_prefix(name))?;
                value.split_whitespace().next()?.parse::<u64>().ok()
            };
            let kept = ["RssAnon:", "RssShmem:", "VmSwap:"].into_iter().filter_map(field).sum();
            Some((number, u32::try_from(field("PPid:")?).ok()?, kept))
        })
        .collect();
    let mut family = vec![std::process::id()];
    let mut at = 0;
    while let Some(parent) = family.get(at).copied() {
        family.extend(all.iter().filter(|(_, of, _)| *of == parent).map(|(number, ..)| *number));
        at += 1;
    }
    all.iter().filter(|(number, ..)| family.contains(number)).map(|(.., kept)| kept).sum()
}
