//! Distinguishes public addresses from those that lead to this machine or its surroundings.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Networks that no sandbox can reach: the first address, and the prefix length.
const CLOSED: &[(Ipv4Addr, u32)] = &[
    // This network, and the unspecified address, which connects to this machine.
    (Ipv4Addr::UNSPECIFIED, 8),
    // Private.
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    // Shared address space of carriers (CGNAT); some clouds have their metadata here.
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    // Loopback.
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    // Link-local, including the metadata of most clouds.
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    // Azure's virtual machine agent.
    (Ipv4Addr::new(168, 63, 129, 16), 32),
    // Protocol assignments, which include metadata services.
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    // 6to4 relays.
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    // Benchmarking.
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    // Multicast; reserved, including broadcast.
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

const CLOSED_6: &[(Ipv6Addr, u32)] = &[
    // Discard-only.
    (Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 0), 64),
    // Local-use NAT64.
    (Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48),
    // Teredo, which embeds IPv4 addresses.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32),
    // Private: unique local, and the former site-local.
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10),
    // Link-local.
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10),
    // Multicast.
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8),
];

/// Returns whether an address may be public. Documentation addresses are allowed, because some networks use them.
pub fn is_open(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_open_4(address),
        IpAddr::V6(address) => is_open_6(address),
    }
}

fn is_open_4(address: Ipv4Addr) -> bool {
    !CLOSED.iter().any(|(first, bits)| (address.to_bits() ^ first.to_bits()) >> (32 - bits) == 0)
}

fn is_open_6(address: Ipv6Addr) -> bool {
    !CLOSED_6.iter().any(|(first, bits)| is_within(address, *first, *bits))
        && embedded_addresses(address).into_iter().all(is_open_4)
}

fn is_within(address: Ipv6Addr, first: Ipv6Addr, bits: u32) -> bool {
    (address.to_bits() ^ first.to_bits()) >> (128 - bits) == 0
}

/// Returns the addresses that a connection may lead to: the address itself, and the IPv4 addresses that it embeds.
/// Rules about addresses are always compared with all of them.
pub(super) fn reachable_addresses(address: IpAddr) -> Vec<IpAddr> {
    let held = match address {
        IpAddr::V4(_) => Vec::new(),
        IpAddr::V6(address) => embedded_addresses(address),
    };
    std::iter::once(address).chain(held.into_iter().map(IpAddr::V4)).collect()
}

/// Returns the IPv4 addresses that an IPv6 address embeds. `KozeEgress` in a Worker does the same, tested with the same
/// cases.
fn embedded_addresses(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let bytes = address.octets();
    // Four bytes from an offset on, skipping the reserved byte in the middle (RFC 6052).
    let from = |first: usize| {
        let mut four = (first..16).filter(|at| *at != 8).map(|at| bytes[at]);
        Ipv4Addr::from(std::array::from_fn(|_| four.next().unwrap_or(0)))
    };
    let is_in = |first: [u16; 8], length| is_within(address, first.into(), length);
    let mut held = Vec::new();
    // IPv4-compatible, IPv4-mapped, IPv4-translated, and NAT64.
    if is_in([0; 8], 96)
        || is_in([0, 0, 0, 0, 0, 0xffff, 0, 0], 96)
        || is_in([0, 0, 0, 0, 0xffff, 0, 0, 0], 96)
        || is_in([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96)
    {
        held.push(from(12));
    }
    // Local-use NAT64, with any prefix length that fits.
    if is_in([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48) {
        held.extend([from(6), from(7), from(9), from(12)]);
    }
    // 6to4.
    if is_in([0x2002, 0, 0, 0, 0, 0, 0, 0], 16) {
        held.push(from(2));
    }
    // Teredo: the server, and the client with all bits inverted.
    if is_in([0x2001, 0, 0, 0, 0, 0, 0, 0], 32) {
        held.extend([from(4), Ipv4Addr::from_bits(!from(12).to_bits())]);
    }
    // ISATAP, in any network.
    if matches!(address.segments()[4..6], [0 | 0x200, 0x5efe]) {
        held.push(from(12));
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cases that `fetch` of a Worker's scripts is tested with, too.
    #[test]
    fn addresses() {
        let cases: serde_json::Value = serde_json::from_str(include_str!("public.json")).unwrap();
        for (list, expected) in [("open", true), ("closed", false)] {
            for address in cases[list].as_array().unwrap() {
                let address = address.as_str().unwrap();
                assert_eq!(is_open(address.parse().unwrap()), expected, "{address}");
            }
        }
    }

    /// The cases that `KozeEgress` is tested with, too.
    #[test]
    fn addresses_that_hold_others() {
        let cases: serde_json::Value = serde_json::from_str(include_str!("addresses.json")).unwrap();
        for case in cases.as_array().unwrap() {
            let address: IpAddr = case["address"].as_str().unwrap().parse().unwrap();
            let mut wanted: Vec<IpAddr> = vec![address];
            wanted.extend(
                case["holds"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|held| held.as_str().unwrap().parse::<IpAddr>().unwrap()),
            );
            assert_eq!(reachable_addresses(address), wanted, "{address}");
        }
    }
}
