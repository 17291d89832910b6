//! What the store reports while it adds an image.

/// A step of adding an image. Layers are named by the first digits of their digest.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// The store has the layer already.
    Present(&'a str),
    /// The layer is read, from the registry or a file. Its size in bytes is that of the archive.
    Started(&'a str, u64),
    /// This many more bytes were read.
    Read(&'a str, u64),
    /// The layer is complete in the store.
    Finished(&'a str),
}

/// Receives the steps, from several threads at a time.
pub type Progress<'a> = dyn Fn(Event) + Sync + 'a;
