//! Measures a running sandbox for people who look at it.

use std::fs;
use std::sync::atomic::Ordering;
use std::time::Duration;

use koze_state::Measured;

use super::budget::Budget;
use super::usage;
use crate::cgroup::Memory;
use crate::host::disk;
use crate::sandbox::inner::Inner;
use crate::sandbox::running::Running;

/// The state of a listening socket in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// Measures a sandbox. This reads files of `/proc`, and is limited as the checks of the watch are.
pub(crate) fn measure_sandbox(sandbox: &Inner, running: &Running) -> Measured {
    let mut budget = Budget::new();
    let programs = usage::process_tree(running.pid, &mut budget).ok();
    let counted = running.group_memory.as_ref().and_then(Memory::used);
    let memory = counted.or_else(|| {
        let measured = usage::measure_processes(programs.as_deref()?, &mut budget);
        Some(measured.ok()?.memory)
    });
    let disk = match sandbox.disk_used.load(Ordering::Relaxed) {
        disk::TOO_LARGE => None,
        bytes => Some(bytes),
    };
    let (is_in_use, idle) = sandbox.last_use();
    Measured {
        name: sandbox.name.to_string(),
        memory,
        processor_time: programs.map(|programs| processor_time(&programs)),
        disk,
        ports: listening_ports(running.pid),
        is_in_use,
        idle,
        sleeps_in: (!is_in_use).then(|| sandbox.settings.sleep_after.saturating_sub(idle)),
        has_memory_group: running.counted,
        has_processor_group: running.limited,
    }
}

/// Returns the processor time of programs, and of their children that have ended.
fn processor_time(programs: &[u32]) -> Duration {
    let ticks = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The name before them may contain anything. After it, the times are the fields 12 to 15.
        let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().skip(11).take(4);
        fields.filter_map(|field| field.parse::<u64>().ok()).sum::<u64>()
    };
    let ticks: u64 = programs.iter().map(ticks).sum();
    Duration::from_millis(ticks.saturating_mul(1000) / rustix::param::clock_ticks_per_second().max(1))
}

/// Returns the ports on which programs in the network namespace of a process listen, without those of koze's proxies.
fn listening_ports(pid: u32) -> Vec<u16> {
    let tables = ["tcp", "tcp6"].map(|name| fs::read_to_string(format!("/proc/{pid}/net/{name}")));
    let mut ports: Vec<u16> = tables.iter().flatten().flat_map(|table| parse_ports(table)).collect();
    let own = [koze_egress::PORT, koze_egress::transparent::PORT];
    ports.retain(|port| !own.contains(port));
    ports.sort_unstable();
    ports.dedup();
    ports
}

fn parse_ports(table: &str) -> impl Iterator<Item = u16> {
    table.lines().skip(1).filter_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let local = fields.next()?;
        let state = fields.nth(1)?;
        let (_, port) = local.rsplit_once(':')?;
        if state == LISTENING { u16::from_str_radix(port, 16).ok() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listening_ports_are_parsed() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n   \
                     0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000\n   \
                     1: 0100007F:1F91 0100007F:D2A0 01 00000000:00000000 00:00000000 00000000  1000\n   \
                     2: 00000000000000000000000000000000:0050 00000000000000000000000000000000:0000 0A 0\n";
        assert_eq!(parse_ports(table).collect::<Vec<_>>(), [8080, 80]);
        assert_eq!(parse_ports("").count() + parse_ports("head\n1:\n2: x y\n").count(), 0);
    }

    #[test]
    fn processor_time_of_this_process() {
        let started = processor_time(&[std::process::id()]);
        let mut sum = 0_u64;
        while processor_time(&[std::process::id()]) < started + Duration::from_millis(20) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert_eq!(processor_time(&[]), Duration::ZERO);
    }
}
