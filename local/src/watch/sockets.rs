//! Measures the kernel memory of a sandbox's sockets, which no process maps. The kernel reports it through a
//! `sock_diag` socket, which the first process of the sandbox created in the sandbox's network before it was locked
//! down.

use std::os::fd::OwnedFd;

use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::budget::Budget;
use super::verdict::Over;

/// The approximate size of a socket without its data.
const SOCKET: u64 = 2048;
/// The maximum number of datagrams that a local socket queues. The kernel reports only the length of the first.
const DATAGRAMS: u64 = 10;
/// The size of the receive buffer.
const ROOM: usize = 32 << 10;

const HEAD: usize = 16;
const BY_FAMILY: u16 = 20;
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const DUMP: u16 = 0x301;

/// The request for the memory of one kind of sockets.
struct SocketQuery {
    request: Vec<u8>,
    /// The length of the fixed part of a socket's description.
    fixed: usize,
    unix: bool,
}

/// Returns the memory of all sockets in bytes. `pid` is a process in their network. What the kernel does not report counts
/// as zero: without a `sock_diag` socket, that is all except netlink.
pub(super) fn socket_memory(socket: Option<&OwnedFd>, pid: u32, budget: &Budget) -> Result<u64, Over> {
    let mut sum = netlink_memory(pid, budget)?;
    if let Some(socket) = socket {
        for kind in socket_queries() {
            sum += dump_sockets(socket, &kind, budget)?;
        }
    }
    Ok(sum)
}

/// Returns the memory of netlink sockets, which not every kernel reports through `sock_diag`. No control group counts it.
fn netlink_memory(pid: u32, budget: &Budget) -> Result<u64, Over> {
    let list = std::fs::read_to_string(format!("/proc/{pid}/net/netlink")).unwrap_or_default();
    let mut sum = 0;
    for line in list.lines().skip(1) {
        budget.time()?;
        // The fifth field is the size of the received data.
        let received = line.split_whitespace().nth(4).and_then(|size| size.parse::<u64>().ok());
        sum += SOCKET + received.unwrap_or(0);
    }
    Ok(sum)
}

fn socket_queries() -> Vec<SocketQuery> {
    // unix_diag_req: the family, all states, and the attributes for peers, queues and memory (0x4, 0x10, 0x20).
    let mut unix = vec![1, 0, 0, 0];
    for number in [u32::MAX, 0, 0x34, 0, 0] {
        unix.extend(number.to_ne_bytes());
    }
    let mut all = vec![SocketQuery { request: unix, fixed: 16, unix: true }];
    for family in [2, 10] {
        for protocol in [6, 17] {
            // inet_diag_req_v2: INET_DIAG_SKMEMINFO, all states, any address.
            let mut request = vec![family, protocol, 1 << 6, 0];
            request.extend(u32::MAX.to_ne_bytes());
            request.resize(56, 0);
            all.push(SocketQuery { request, fixed: 72, unix: false });
        }
    }
    all
}

fn dump_sockets(socket: &OwnedFd, kind: &SocketQuery, budget: &Budget) -> Result<u64, Over> {
    let mut part = vec![0; ROOM];
    // Discard the rest of an earlier answer.
    while recv(socket, &mut part, RecvFlags::DONTWAIT).is_ok_and(|(read, _)| read > 0) {
        budget.time()?;
    }
    let length = u32::try_from(HEAD + kind.request.len()).unwrap_or_default();
    let mut request = length.to_ne_bytes().to_vec();
    request.extend([BY_FAMILY.to_ne_bytes(), DUMP.to_ne_bytes()].concat());
    request.extend([0; 8]);
    request.extend(&kind.request);
    if send(socket, &request, SendFlags::DONTWAIT).is_err() {
        return Ok(0);
    }
    let mut sum = 0;
    loop {
        budget.time()?;
        let Ok((read, _)) = recv(socket, &mut part, RecvFlags::DONTWAIT) else { return Ok(sum) };
        let Some(bytes) = decode_messages(&part[..read], kind) else { return Ok(sum) };
        match bytes {
            (more, true) => return Ok(sum + more),
            (more, false) => sum += more,
        }
    }
}

/// Decodes the messages of one part. Returns their sum, and whether it was the last part.
fn decode_messages(mut part: &[u8], kind: &SocketQuery) -> Option<(u64, bool)> {
    let mut sum = 0;
    while part.len() >= HEAD {
        let length = usize::try_from(read_number(part, 0)).ok().filter(|length| *length >= HEAD)?;
        match u16::from_ne_bytes([part[4], part[5]]) {
            ERROR | DONE => return Some((sum, true)),
            _ => sum += SOCKET + held_bytes(part.get(HEAD..length)?, kind),
        }
        part = part.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    (!part.is_empty() || sum > 0).then_some((sum, false))
}

/// Returns the memory of one socket's data in bytes.
fn held_bytes(about: &[u8], kind: &SocketQuery) -> u64 {
    let (mut queued, mut memory, mut has_peer) = (0, None, false);
    let mut attributes = about.get(kind.fixed..).unwrap_or_default();
    while attributes.len() >= 4 {
        let (length, name) = (
            usize::from(u16::from_ne_bytes([attributes[0], attributes[1]])),
            u16::from_ne_bytes([attributes[2], attributes[3]]),
        );
        let Some(value) = attributes.get(4..length) else { break };
        match (kind.unix, name) {
            // UNIX_DIAG_PEER: the inode of the peer, which is zero once the peer is closed.
            (true, 2) => has_peer = read_number(value, 0) > 0,
            // UNIX_DIAG_RQLEN.
            (true, 4) => queued = read_number(value, 0),
            // UNIX_DIAG_MEMINFO and INET_DIAG_SKMEMINFO.
            (true, 5) | (false, 7) => memory = Some(value),
            _ => {}
        }
        attributes = attributes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    let of = |index: usize| memory.map_or(0, |memory| read_number(memory, index * 4));
    // Received data, reserved memory, and data to send.
    let own = of(0) + of(4) + of(2).max(of(5));
    if !kind.unix {
        return own;
    }
    // Data in flight counts for its sender while that is open.
    let stream = about.get(1) != Some(&2);
    match (stream, has_peer) {
        (true, true) => own,
        (true, false) => own + queued,
        (false, _) => own + queued * DATAGRAMS,
    }
}

fn read_number(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..at + 4)
        .and_then(|four| four.try_into().ok())
        .map_or(0, |four| u32::from_ne_bytes(four).into())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use rustix::net::{AddressFamily, SocketFlags, SocketType, netlink, socket_with};

    use super::*;

    #[test]
    fn buffered_data_is_measured() {
        let kernel = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            Some(netlink::SOCK_DIAG),
        )
        .unwrap();
        let before = socket_memory(Some(&kernel), std::process::id(), &Budget::new()).unwrap();
        let pairs: Vec<_> = (0..50).map(|_| UnixStream::pair().unwrap()).collect();
        let mut readers = Vec::new();
        for (number, (mut writer, reader)) in pairs.into_iter().enumerate() {
            writer.set_nonblocking(true).unwrap();
            while writer.write(&[0; 4096]).is_ok() {}
            // Half of the writers are closed.
            readers.push((reader, (number % 2 == 0).then_some(writer)));
        }
        let after = socket_memory(Some(&kernel), std::process::id(), &Budget::new()).unwrap();
        // Other tests have sockets too.
        assert!(after.saturating_sub(before) > 50 * 80_000, "{before} {after}");
    }
}
