//! The addresses that stand for names.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};

/// The first address. No server on the internet has an address of this network, which is for benchmarks.
/// Source: <https://www.rfc-editor.org/rfc/rfc2544>.
const FIRST: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
/// How many addresses the network has.
const SIZE: u32 = 1 << 17;
/// The maximum number of names. A name is never forgotten, because a program may use its address at any time.
const MAX_NAMES: usize = 16_384;

/// The names of a sandbox that have an address.
#[derive(Debug, Default)]
pub struct Names(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    addresses: HashMap<Arc<str>, Ipv4Addr>,
    names: HashMap<Ipv4Addr, Arc<str>>,
}

impl Names {
    /// Returns the address of a lowercase name, which stays the same. Returns `None` if there are too many names.
    pub(super) fn address_of(&self, name: &str) -> Option<Ipv4Addr> {
        let mut table = self.lock();
        if let Some(known) = table.addresses.get(name) {
            return Some(*known);
        }
        if table.addresses.len() >= MAX_NAMES {
            return None;
        }
        let address = table.free_address(name);
        let name: Arc<str> = name.into();
        table.addresses.insert(Arc::clone(&name), address);
        table.names.insert(address, name);
        Some(address)
    }

    /// Returns the name that an address stands for.
    pub(super) fn name_of(&self, address: IpAddr) -> Option<Arc<str>> {
        let IpAddr::V4(address) = address else { return None };
        self.lock().names.get(&address).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Returns an address that stands for no name yet. It depends on the name, so that a program which keeps an address while the sandbox
    /// sleeps hardly ever reaches another host with it.
    fn free_address(&self, name: &str) -> Ipv4Addr {
        let hash = Sha256::digest(name);
        let start = u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]);
        let mut number = start % SIZE;
        loop {
            let address = Ipv4Addr::from_bits(FIRST.to_bits() + number);
            // Some programs take these for the addresses of networks and for broadcasts. The sandbox has the first one.
            let is_usual = !matches!(address.octets()[3], 0 | 255);
            if is_usual && !self.names.contains_key(&address) {
                return address;
            }
            number = (number + 1) % SIZE;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::transparent::OWN_ADDRESS;

    #[test]
    fn an_address_leads_to_its_name_only() {
        let names = Names::default();
        let one = names.address_of("one.example").unwrap();
        assert_eq!(names.address_of("one.example"), Some(one));
        assert_eq!(Names::default().address_of("one.example"), Some(one), "it depends on the name");
        assert_eq!(names.name_of(one.into()).as_deref(), Some("one.example"));
        assert_eq!(names.name_of("192.0.2.1".parse().unwrap()), None);
        assert_eq!(names.name_of("::1".parse().unwrap()), None);
    }

    #[test]
    fn names_past_the_maximum_get_no_address() {
        let names = Names::default();
        let mut seen = HashSet::new();
        for number in 0..100_000 {
            let name = format!("{number}.example");
            let Some(address) = names.address_of(&name) else {
                assert_eq!(seen.len(), MAX_NAMES);
                continue;
            };
            assert!(seen.insert(address), "{address}");
            assert_eq!(address.octets()[0], 198);
            assert!(matches!(address.octets()[1], 18 | 19) && address != OWN_ADDRESS, "{address}");
        }
        assert_eq!(seen.len(), MAX_NAMES);
        let first = names.address_of("0.example").unwrap();
        assert_eq!(names.name_of(first.into()).as_deref(), Some("0.example"));
        assert_eq!(names.lock().names.len(), MAX_NAMES);
    }
}
