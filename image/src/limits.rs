//! What an image may take.

/// The limits of one image.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The number of layers.
    pub layers: usize,
    /// The number of entries in all layers.
    pub entries: u64,
    /// The size of all unpacked layers, in bytes.
    pub unpacked_bytes: u64,
    /// The size of a manifest or an index, in bytes.
    pub manifest_bytes: u64,
    /// The size of the configuration, in bytes.
    pub config_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            layers: 127,
            entries: 4_000_000,
            unpacked_bytes: 32 << 30,
            manifest_bytes: 4 << 20,
            config_bytes: 8 << 20,
        }
    }
}
