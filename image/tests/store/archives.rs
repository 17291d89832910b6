//! Archives of layers and images, written byte by byte: no library writes hostile ones.

use std::fmt::Write as _;
use std::io::Write as _;

use sha2::{Digest as _, Sha256};
use tar::{EntryType, Header};

/// The archive of a layer.
#[derive(Clone, Default)]
pub(crate) struct Layer(pub(crate) Vec<u8>);

impl Layer {
    /// Adds an entry. The names are not checked.
    pub(crate) fn entry(
        mut self,
        kind: EntryType,
        name: &[u8],
        mode: u32,
        link: &[u8],
        content: &[u8],
    ) -> Self {
        if name.len() > 100 {
            self = self.entry(EntryType::GNULongName, b"././@LongLink", 0o644, b"", name);
        }
        let mut header = Header::new_gnu();
        let gnu = header.as_gnu_mut().unwrap();
        gnu.name[..name.len().min(100)].copy_from_slice(&name[..name.len().min(100)]);
        gnu.linkname[..link.len()].copy_from_slice(link);
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(1_000_000_000);
        header.set_size(content.len() as u64);
        self.raw(&mut header, content)
    }

    /// Adds a header and what follows it.
    pub(crate) fn raw(mut self, header: &mut Header, content: &[u8]) -> Self {
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    pub(crate) fn file(self, name: &str, content: &str) -> Self {
        self.entry(EntryType::Regular, name.as_bytes(), 0o644, b"", content.as_bytes())
    }

    pub(crate) fn directory(self, name: &str, mode: u32) -> Self {
        self.entry(EntryType::Directory, name.as_bytes(), mode, b"", b"")
    }

    pub(crate) fn link(self, name: &str, target: &str) -> Self {
        self.entry(EntryType::Symlink, name.as_bytes(), 0o777, target.as_bytes(), b"")
    }

    pub(crate) fn hard_link(self, name: &str, target: &str) -> Self {
        self.entry(EntryType::Link, name.as_bytes(), 0o644, target.as_bytes(), b"")
    }

    /// Returns the archive with its end.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.0.clone();
        bytes.extend_from_slice(&[0; 1024]);
        bytes
    }
}

pub(crate) fn digest(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().fold("sha256:".to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn architecture() -> &'static str {
    if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }
}

/// Returns the configuration of an image of these archives.
pub(crate) fn config(archives: &[Vec<u8>]) -> serde_json::Value {
    serde_json::json!({
        "os": "linux",
        "architecture": architecture(),
        "config": { "Env": ["PATH=/bin", "EMPTY=", "A=b=c", "broken"], "WorkingDir": "/srv", "User": "1000:1000" },
        "rootfs": { "type": "layers", "diff_ids": archives.iter().map(|archive| digest(archive)).collect::<Vec<_>>() },
    })
}

/// Returns an archive as `docker save` writes it.
pub(crate) fn save(layers: &[Layer], tag: Option<&str>) -> Vec<u8> {
    let archives: Vec<_> = layers.iter().map(Layer::bytes).collect();
    save_with(&config(&archives), &archives, tag)
}

/// The same with any configuration.
pub(crate) fn save_with(config: &serde_json::Value, archives: &[Vec<u8>], tag: Option<&str>) -> Vec<u8> {
    let names: Vec<_> = (0..archives.len()).map(|index| format!("{index}/layer.tar")).collect();
    let manifest = serde_json::json!([{
        "Config": "config.json",
        "RepoTags": tag.map(|tag| vec![tag]),
        "Layers": names,
    }]);
    let mut files = vec![("manifest.json".to_owned(), manifest.to_string().into_bytes())];
    files.push(("config.json".to_owned(), config.to_string().into_bytes()));
    files.extend(names.into_iter().zip(archives.iter().cloned()));
    pack(&files)
}

/// Returns a tar archive of files.
pub(crate) fn pack(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut archive = Layer::default();
    for (name, content) in files {
        archive = archive.entry(EntryType::Regular, name.as_bytes(), 0o644, b"", content);
    }
    archive.bytes()
}

/// Returns the files of an OCI layout with one image, and the digest of its manifest.
pub(crate) fn layout(
    blobs: &[Vec<u8>],
    config: &serde_json::Value,
    name: Option<&str>,
) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let mut add = |content: Vec<u8>| {
        let (digest, size) = (digest(&content), content.len());
        files.push((format!("blobs/sha256/{}", &digest[7..]), content));
        serde_json::json!({ "mediaType": "application/octet-stream", "digest": digest, "size": size })
    };
    let config = add(config.to_string().into_bytes());
    let layers: Vec<_> = blobs.iter().map(|blob| add(blob.clone())).collect();
    let manifest = serde_json::json!({ "schemaVersion": 2, "config": config, "layers": layers });
    let mut manifest = add(manifest.to_string().into_bytes());
    manifest["annotations"] = serde_json::json!({ "org.opencontainers.image.ref.name": name });
    if name.is_none() {
        manifest.as_object_mut().unwrap().remove("annotations");
    }
    let index = serde_json::json!({ "schemaVersion": 2, "manifests": [manifest] });
    files.push(("index.json".to_owned(), index.to_string().into_bytes()));
    files.push(("oci-layout".to_owned(), br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec()));
    files
}
