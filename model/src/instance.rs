//! Instance types: the sizes of the instances that Cloudflare runs containers on.

/// The memory and disk of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Disk in MB.
    pub disk_mb: u32,
}

/// The default size.
pub(crate) const LITE: Size = Size { memory_mib: 256, disk_mb: 2000 };

/// wrangler's instance types.
const TYPES: [(&str, Size); 6] = [
    ("lite", LITE),
    ("basic", Size { memory_mib: 1024, disk_mb: 4000 }),
    ("standard-1", Size { memory_mib: 4096, disk_mb: 8000 }),
    ("standard-2", Size { memory_mib: 6144, disk_mb: 12_000 }),
    ("standard-3", Size { memory_mib: 8192, disk_mb: 16_000 }),
    ("standard-4", Size { memory_mib: 12_288, disk_mb: 20_000 }),
];

/// Deprecated instance types, with their successors.
const DEPRECATED: [(&str, &str); 2] = [("dev", "lite"), ("standard", "standard-1")];

/// Returns the names of the instance types.
pub fn types() -> Vec<&'static str> {
    TYPES.iter().map(|(name, _)| *name).collect()
}

/// Returns the successor of a deprecated instance type.
pub fn successor(name: &str) -> Option<&'static str> {
    DEPRECATED.iter().find(|(old, _)| *old == name).map(|(_, new)| *new)
}

/// Returns the size of an instance type, or of `lite` if wrangler has none of this name.
pub fn size(name: &str) -> Size {
    let name = successor(name).unwrap_or(name);
    TYPES.iter().find(|(known, _)| *known == name).map_or(LITE, |(_, size)| *size)
}

/// The limits of a custom size of Durable Object-managed Containers, from Cloudflare's limits of 2026-09-29.
pub(crate) mod managed {
    use std::ops::RangeInclusive;

    /// Processors.
    pub(crate) const VCPU: RangeInclusive<f64> = 1.0..=4.0;
    /// The minimum memory for each processor, in MiB.
    pub(crate) const MEMORY_MIB_PER_VCPU: u32 = 3072;
    /// The maximum memory, in MiB.
    pub(crate) const MAX_MEMORY_MIB: u32 = 12_288;
    /// Disk, in MB.
    pub(crate) const DISK_MB: RangeInclusive<u32> = 2000..=20_000;
}
