//! Which addresses are on the internet, and which lead to something near this machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// Networks that no sandbox reaches: the first address, and how many bits of it count.
const CLOSED: &[(Ipv4Addr, u32)] = &[
    // This network, and "any address", which connects to this machine.
    (Ipv4Addr::UNSPECIFIED, 8),
    // Private.
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    // Shared by the customers of a provider; some clouds have their metadata here.
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    // Loopback.
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    // Link-local: the metadata of most clouds.
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    // Azure's agent of the virtual machine.
    (Ipv4Addr::new(168, 63, 129, 16), 32),
    // Assigned by protocols, and once more metadata.
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    // Relays to the other kind of address.
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    // Tests of networks.
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    // Multicast; reserved, and broadcast.
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

const CLOSED_6: &[(Ipv6Addr, u32)] = &[
    // Discarded.
    (Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 0), 64),
    // Translated to IPv4 as a network of its own sees fit.
    (Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48),
    // Teredo: an IPv4 address in disguise.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32),
    // Private: unique local, and what they were before.
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10),
    // Link-local.
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10),
    // Multicast.
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8),
];

/// Whether an address may be on the internet. Addresses of documentation are let through: some networks use them.
pub(super) fn is_open(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_open_4(address),
        IpAddr::V6(address) => is_open_6(address),
    }
}

fn is_open_4(address: Ipv4Addr) -> bool {
    !CLOSED.iter().any(|(first, bits)| (address.to_bits() ^ first.to_bits()) >> (32 - bits) == 0)
}

fn is_open_6(address: Ipv6Addr) -> bool {
    !CLOSED_6.iter().any(|(first, bits)| within(address, *first, *bits))
        && embedded(address).into_iter().all(is_open_4)
}

fn within(address: Ipv6Addr, first: Ipv6Addr, bits: u32) -> bool {
    (address.to_bits() ^ first.to_bits()) >> (128 - bits) == 0
}

/// The addresses that a connection to this one may lead to: itself, and those of IPv4 that it holds. Rules about an
/// address are compared with all of them, everywhere.
pub(super) fn forms(address: IpAddr) -> Vec<IpAddr> {
    let held = match address {
        IpAddr::V4(_) => Vec::new(),
        IpAddr::V6(address) => embedded(address),
    };
    std::iter::once(address).chain(held.into_iter().map(IpAddr::V4)).collect()
}

/// The addresses of IPv4 that one of IPv6 holds. `KozeEgress` in a Worker does the same, on the same cases.
fn embedded(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let bytes = address.octets();
    // Four bytes from one on, without the one in the middle, which is no part of an address (RFC 6052).
    let from = |first: usize| {
        let mut four = (first..16).filter(|at| *at != 8).map(|at| bytes[at]);
        Ipv4Addr::from(std::array::from_fn(|_| four.next().unwrap_or(0)))
    };
    let is_in = |first: [u16; 8], length| within(address, first.into(), length);
    let mut held = Vec::new();
    // Compatible, mapped, translated, and NAT64.
    if is_in([0; 8], 96)
        || is_in([0, 0, 0, 0, 0, 0xffff, 0, 0], 96)
        || is_in([0, 0, 0, 0, 0xffff, 0, 0, 0], 96)
        || is_in([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96)
    {
        held.push(from(12));
    }
    // NAT64 as a network of its own sees fit: by a prefix of any length that fits in.
    if is_in([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48) {
        held.extend([from(6), from(7), from(9), from(12)]);
    }
    // 6to4.
    if is_in([0x2002, 0, 0, 0, 0, 0, 0, 0], 16) {
        held.push(from(2));
    }
    // Teredo: the server, and the client with every bit turned round.
    if is_in([0x2001, 0, 0, 0, 0, 0, 0, 0], 32) {
        held.extend([from(4), Ipv4Addr::from_bits(!from(12).to_bits())]);
    }
    // ISATAP, in any network.
    if matches!(address.segments()[4..6], [0 | 0x200, 0x5efe]) {
        held.push(from(12));
    }
    held
}

/// Whether an address is one of this machine's own. Behind it everything listens that a firewall keeps from the
/// internet, and such a connection would pass no firewall.
pub(super) fn is_own(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for open in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "168.63.129.15",
            "169.253.255.255",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.167.255.255",
            "198.17.255.255",
            "198.20.0.0",
            "203.0.113.80",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00::1",
            "::ffff:1.1.1.1",
            "64:ff9b::1.1.1.1",
            "2002:101:101::1",
            "::cb00:7150",
            "2606:4700::5efe:1.1.1.1",
        ] {
            assert!(is_open(open.parse().unwrap()), "{open}");
        }
        for closed in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "10.255.255.255",
            "100.64.0.1",
            "100.100.100.200",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.255",
            "168.63.129.16",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:0:10.0.0.1",
            "64:ff9b::192.168.0.1",
            "64:ff9b:1::1.1.1.1",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
            "2001::1",
            "2606:4700::5efe:10.0.0.1",
            "100::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_open(closed.parse().unwrap()), "{closed}");
        }
    }

    /// The cases that `KozeEgress` is tested with as well.
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
            assert_eq!(forms(address), wanted, "{address}");
        }
    }

    #[test]
    fn own_addresses() {
        assert!(is_own("127.0.0.1".parse().unwrap()));
        assert!(!is_own("192.0.2.1".parse().unwrap()));
    }
}
