//! Exports images as OCI layouts.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter, Seek as _, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use oci_client::Reference;
use rustix::io::Errno;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};

use crate::digest::Digest;
use crate::errors::{Error, Result, at};
use crate::store::{LayerRecord, Store};

/// A blob that was written to the archive.
struct Written {
    digest: Digest,
    size: u64,
}

impl Written {
    fn descriptor(&self, media_type: &str) -> Value {
        json!({ "mediaType": media_type, "digest": self.digest, "size": self.size })
    }
}

impl Store {
    /// Writes an image to a file, as a tar archive of an OCI layout. An existing file is replaced. The store does not keep the
    /// archives of layers, so new ones are created: every file belongs to root, and the digests differ from those of the
    /// registry.
    ///
    /// # Errors
    /// Returns [`Error::Missing`] if the store does not have the image.
    pub fn export(&self, reference: &Reference, file: &Path) -> Result<()> {
        let missing = || Error::Missing(format!("the store does not have all of `{reference}`"));
        let _lock = self.lock_shared()?;
        let record = self.reference(reference)?.ok_or_else(missing)?;
        let config = self.config_file(&record.image)?.ok_or_else(missing)?;
        let text = self.config_path(&record.image);
        let text = fs::read(&text).map_err(at("read", &text))?;
        let layers = config.diff_ids().iter().map(|diff_id| self.layer(diff_id)?.ok_or_else(missing));
        let layers = layers.collect::<Result<Vec<LayerRecord>>>()?;
        let directory = file.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let write = || -> io::Result<()> {
            // Next to the file, so that it can be renamed.
            let mut temporary = tempfile::NamedTempFile::new_in(directory)?;
            self.write_layout(reference, &text, &layers, BufWriter::new(temporary.as_file_mut()))?;
            temporary.as_file().sync_all()?;
            temporary.persist(file)?;
            Ok(())
        };
        write().map_err(at("write", file))
    }

    fn write_layout(
        &self,
        reference: &Reference,
        config: &[u8],
        layers: &[LayerRecord],
        out: impl Write,
    ) -> io::Result<()> {
        let mut archive = Builder::new(out);
        let mut written = Vec::new();
        for layer in layers {
            written.push(self.write_layer(&mut archive, layer)?);
        }
        let mut config: Value = serde_json::from_slice(config)?;
        config["rootfs"]["diff_ids"] = written.iter().map(|layer| json!(layer.digest)).collect();
        let config = write_blob(&mut archive, config.to_string().as_bytes())?;
        let media_type = "application/vnd.oci.image.layer.v1.tar";
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config.descriptor("application/vnd.oci.image.config.v1+json"),
            "layers": written.iter().map(|layer| layer.descriptor(media_type)).collect::<Vec<_>>(),
        });
        let manifest = write_blob(&mut archive, manifest.to_string().as_bytes())?;
        let mut descriptor = manifest.descriptor("application/vnd.oci.image.manifest.v1+json");
        let name = reference.whole();
        descriptor["annotations"] = json!({
            "io.containerd.image.name": name,
            "org.opencontainers.image.ref.name": reference.tag().unwrap_or(&name),
        });
        let index = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": [descriptor],
        });
        write_file(&mut archive, "index.json", index.to_string().as_bytes())?;
        write_file(&mut archive, "oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        archive.into_inner()?.flush()
    }

    /// Writes a layer. Its size must be known before its content, so it is written to a file of its own first.
    fn write_layer(&self, archive: &mut Builder<impl Write>, layer: &LayerRecord) -> io::Result<Written> {
        let file = tempfile::tempfile_in(self.staging())?;
        let mut hashed = Hashed { inner: BufWriter::new(&file), hasher: Sha256::new() };
        let mut content = Builder::new(&mut hashed);
        pack(&mut content, &self.layers().join(layer.diff_id.short()), layer.opaque)?;
        content.into_inner()?.flush()?;
        let digest = Digest::finish(hashed.hasher);
        let mut file = &file;
        let size = file.seek(SeekFrom::End(0))?;
        file.seek(SeekFrom::Start(0))?;
        let mut header = header(EntryType::Regular, 0o644, 0, size);
        archive.append_data(&mut header, format!("blobs/sha256/{}", digest.digits()), file)?;
        Ok(Written { digest, size })
    }
}

/// Writes the files of a layer, in the order of their names.
fn pack(archive: &mut Builder<impl Write>, root: &Path, is_opaque: bool) -> io::Result<()> {
    if is_opaque {
        write_file(archive, ".wh..wh..opq", b"")?;
    }
    pack_files(archive, root, &|_| false, false)?;
    Ok(())
}

/// Writes the files below a directory that are not left out, in the order of their names. Returns their number. If the directory is
/// `temporary`, files that their owner may not read become readable.
pub(crate) fn pack_files(
    archive: &mut Builder<impl Write>,
    root: &Path,
    is_left_out: &dyn Fn(&Path) -> bool,
    temporary: bool,
) -> io::Result<u64> {
    archive.follow_symlinks(false);
    let mut count = 0;
    let mut linked: HashMap<u64, PathBuf> = HashMap::new();
    // Not recursive: images decide how deep their trees are.
    let mut pending = list_directory(root, Path::new(""))?;
    while let Some(path) = pending.pop() {
        let from = root.join(&path);
        let metadata = from.symlink_metadata()?;
        let kind = metadata.file_type();
        // Nobody serves a socket of an image.
        if is_left_out(&path) || kind.is_socket() {
            continue;
        }
        count += 1;
        if temporary && (kind.is_dir() || kind.is_file()) && metadata.mode() & 0o700 != 0o700 {
            fs::set_permissions(&from, fs::Permissions::from_mode(metadata.mode() & 0o777 | 0o700))?;
        }
        let mtime = u64::try_from(metadata.mtime()).unwrap_or(0);
        let new = |kind, size| header(kind, metadata.mode() & 0o1777, mtime, size);
        if kind.is_dir() {
            archive.append_data(&mut new(EntryType::Directory, 0), &path, io::empty())?;
            if is_marked_opaque(&from)? {
                write_file(archive, path.join(".wh..wh..opq"), b"")?;
            }
            pending.extend(list_directory(root, &path)?);
        } else if kind.is_symlink() {
            archive.append_link(&mut new(EntryType::Symlink, 0), &path, fs::read_link(&from)?)?;
        } else if kind.is_char_device() {
            let mut name = b".wh.".to_vec();
            name.extend_from_slice(path.file_name().unwrap_or_default().as_bytes());
            write_file(archive, path.with_file_name(OsStr::from_bytes(&name)), b"")?;
        } else if let Some(first) = linked.get(&metadata.ino()).filter(|_| metadata.nlink() > 1) {
            archive.append_link(&mut new(EntryType::Link, 0), &path, first)?;
        } else if kind.is_fifo() {
            archive.append_data(&mut new(EntryType::Fifo, 0), &path, io::empty())?;
        } else {
            archive.append_data(&mut new(EntryType::Regular, metadata.len()), &path, File::open(&from)?)?;
            if metadata.nlink() > 1 {
                linked.insert(metadata.ino(), path);
            }
        }
    }
    Ok(count)
}

/// Returns the paths in a directory below a root, the first one last.
fn list_directory(root: &Path, directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(root.join(directory))?;
    let mut paths =
        entries.map(|entry| Ok(directory.join(entry?.file_name()))).collect::<io::Result<Vec<_>>>()?;
    paths.sort_by(|a, b| b.cmp(a));
    Ok(paths)
}

fn is_marked_opaque(directory: &Path) -> io::Result<bool> {
    let mut value = [0; 1];
    match rustix::fs::getxattr(directory, crate::OPAQUE, &mut value) {
        Ok(length) => Ok(value[..length] == *b"y"),
        Err(Errno::NODATA | Errno::NOTSUP) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn write_blob(archive: &mut Builder<impl Write>, content: &[u8]) -> io::Result<Written> {
    let digest = Digest::compute(content);
    write_file(archive, format!("blobs/sha256/{}", digest.digits()), content)?;
    Ok(Written { digest, size: content.len() as u64 })
}

fn write_file(archive: &mut Builder<impl Write>, path: impl AsRef<Path>, content: &[u8]) -> io::Result<()> {
    let mut header = header(EntryType::Regular, 0o644, 0, content.len() as u64);
    archive.append_data(&mut header, path, content)
}

pub(crate) fn header(kind: EntryType, mode: u32, mtime: u64, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_mtime(mtime);
    header.set_size(size);
    header.set_uid(0);
    header.set_gid(0);
    header
}

/// Hashes what is written.
pub(crate) struct Hashed<W> {
    pub(crate) inner: W,
    pub(crate) hasher: Sha256,
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(buffer)?;
        self.hasher.update(&buffer[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
