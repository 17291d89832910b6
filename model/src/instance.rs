//! Instance types: the sizes of the instances that Cloudflare runs containers on.

use crate::attrs::Attributes;

/// The memory and disk of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Disk in MB.
    pub disk_mb: u32,
}

/// The default size.
const LITE: Size = Size { memory_mib: 256, disk_mb: 2000 };

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

/// Returns the size of the sandbox with these attributes. Values that a custom size omits are those of `lite`.
pub fn size(attributes: &Attributes) -> Size {
    if let Some(own) = &attributes.instance {
        let (memory, disk) = (own.value.memory_mib, own.value.disk_mb);
        return Size { memory_mib: memory.unwrap_or(LITE.memory_mib), disk_mb: disk.unwrap_or(LITE.disk_mb) };
    }
    let named = attributes.instance_type.as_ref().map_or("lite", |named| named.value.as_str());
    let named = successor(named).unwrap_or(named);
    TYPES.iter().find(|(name, _)| *name == named).map_or(LITE, |(_, size)| *size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Report;

    #[test]
    fn the_size_comes_from_the_type_or_the_custom_size() {
        for (attribute, memory_mib, disk_mb) in [
            ("", 256, 2000),
            ("instance_type = \"basic\"", 1024, 4000),
            ("instance_type = \"standard\"", 4096, 8000),
            ("instance_type = \"standard-4\"", 12_288, 20_000),
            ("instance(vcpu = 1, memory_mib = 6144, disk_mb = 12000)", 6144, 12_000),
            ("instance(memory_mib = 512)", 512, 2000),
        ] {
            let mut report = Report::new();
            let attributes = crate::attrs::parse(&attribute.parse().unwrap(), &mut report);
            assert!(!report.has_errors(), "{attribute}");
            assert_eq!(size(&attributes), Size { memory_mib, disk_mb }, "{attribute}");
        }
    }
}
