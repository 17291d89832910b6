//! Hostile images. `Place` checks that nothing outside of the layers changed; the cases check what is inside.

use std::fs;

use tar::{EntryType, Header};

use crate::archives::{Layer, config, gzip, layout, pack, save_with};
use crate::place::{Place, lines, reference};

#[test]
fn names_that_lead_up_are_refused() {
    for name in ["../escaped", "a/../../escaped", "..", "a/..", "./../../outside/file"] {
        let error = Place::new().refuse(Layer::default().file(name, "hostile"));
        assert!(error.contains(name) && error.contains("leads up"), "{error}");
    }
}

#[test]
fn absolute_names_are_below_the_layer() {
    let place = Place::new();
    let root = place.unpack(Layer::default().file("/outside/file", "inside"));
    assert_eq!(lines(&root), ["outside: directory 755", "outside/file: file 644 inside"]);
}

#[test]
fn whiteouts_of_no_name_are_refused() {
    for name in [".wh.", ".wh..", ".wh...", "a/.wh.", "a/.wh..", "a/.wh..."] {
        let place = Place::new();
        let error = place.refuse(Layer::default().file("a/b", "").file(name, ""));
        assert!(error.contains("whiteout of no name"), "{error}");
    }
}

#[test]
fn links_to_the_host_end_in_the_layer() {
    let place = Place::new();
    let outside = place.path("outside");
    let outside = outside.to_str().unwrap();
    // A link to the host, links that lead up, and a chain of both: whatever is written through them stays inside.
    let layer = Layer::default()
        .link("absolute", outside)
        .file("absolute/file", "inside")
        .link("up", "../../../../../../../..")
        .file("up/file", "inside")
        .link("d/chain", "../up/../absolute")
        .file("d/chain/other", "inside")
        .file("absolute/.wh.file2", "")
        .file("absolute/.wh..wh..opq", "");
    let root = place.unpack(layer);
    assert!(root.join(&outside[1..]).join("file").is_file());
    assert!(root.join(&outside[1..]).join("other").is_file());
    assert_eq!(fs::read_to_string(root.join("file")).unwrap(), "inside");
}

#[test]
fn links_are_replaced_and_not_written_through() {
    let place = Place::new();
    let target = place.path("outside/file");
    let layer = Layer::default()
        .link("a", target.to_str().unwrap())
        .file("a", "inside")
        .link("b", target.parent().unwrap().to_str().unwrap())
        .directory("b", 0o777)
        .file("b/file", "inside")
        .link("c", target.to_str().unwrap())
        .entry(EntryType::Fifo, b"c", 0o666, b"", b"")
        .link("d", target.to_str().unwrap())
        .hard_link("d", "a");
    let root = place.unpack(layer);
    let expected = [
        "a: file 644 inside",
        "b: directory 777",
        "b/file: file 644 inside",
        "c: pipe 666",
        "d: file 644 inside",
    ];
    assert_eq!(lines(&root), expected);
}

#[test]
fn loops_of_links_are_errors() {
    let layer = Layer::default().link("a", "b").link("b", "a").file("a/file", "");
    let error = Place::new().refuse(layer);
    assert!(error.contains("cannot unpack `a/file`"), "{error}");
    // The target of each is missing, so each would have to be created.
    let mut layer = Layer::default();
    for index in 0..30 {
        layer = layer.link(&format!("l{index}"), &format!("l{}/x", index + 1));
    }
    let error = Place::new().refuse(layer.file("l0/file", ""));
    assert!(error.contains("`l0/file`"), "{error}");
}

#[test]
fn hard_links_lead_to_files_of_the_layer_only() {
    let place = Place::new();
    let outside = place.path("outside/file");
    let outside = outside.to_str().unwrap();
    for target in ["/etc/passwd", outside, "link/passwd", "link", "directory", "gone", "", "itself", "a/x"] {
        let place = Place::new();
        let layer = Layer::default()
            .directory("directory", 0o755)
            .file("a", "")
            .link("link", "/etc")
            .file(".wh.gone", "");
        if target == "link" {
            // The link itself has a second name.
            let root = place.unpack(layer.hard_link("itself", target));
            assert_eq!(fs::read_link(root.join("itself")).unwrap().to_str(), Some("/etc"));
            continue;
        }
        let error = place.refuse(layer.hard_link("itself", target));
        assert!(error.contains("`itself`") && error.contains("hard link"), "{target}: {error}");
    }
    let error = place.refuse(Layer::default().hard_link("itself", "../../outside/file"));
    assert!(error.contains("leads up"), "{error}");
}

#[test]
fn devices_never_become_whiteouts() {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Char);
    header.set_path("hidden").unwrap();
    header.set_size(0);
    header.set_mode(0o666);
    header.set_mtime(0);
    header.set_device_major(0).unwrap();
    header.set_device_minor(0).unwrap();
    let place = Place::new();
    let root = place.unpack(Layer::default().raw(&mut header, b"").file("a", ""));
    assert_eq!(lines(&root), ["a: file 644 "]);
}

#[test]
fn extended_attributes_are_dropped() {
    let record = |key: &str, value: &str| {
        let rest = format!(" SCHILY.xattr.{key}={value}\n");
        let length = rest.len() + 2;
        format!("{length}{rest}")
    };
    let records = [record("user.overlay.opaque", "y"), record("user.overlay.whiteout", "y")].concat();
    let layer = Layer::default()
        .entry(EntryType::XHeader, b"pax", 0o644, b"", records.as_bytes())
        .directory("a", 0o755);
    let place = Place::new();
    let root = place.unpack(layer);
    let mut names = vec![0; 1024];
    assert_eq!(rustix::fs::listxattr(root.join("a"), &mut names), Ok(0));
}

#[test]
fn long_names_are_bounded() {
    let part = "a".repeat(255);
    let name = [part.as_str(); 18].join("/");
    let error = Place::new().refuse(Layer::default().file(&name, ""));
    assert!(error.contains("name too long"), "{error}");
    let error = Place::new().refuse(Layer::default().file(&"a".repeat(256), ""));
    assert!(error.contains("name too long"), "{error}");
    // Of such a name, `tar` would keep all in memory.
    for kind in [EntryType::GNULongName, EntryType::GNULongLink, EntryType::XHeader] {
        let layer = Layer::default().entry(kind, b"long", 0o644, b"", &vec![b'a'; 4 << 20]).file("a", "");
        let error = Place::new().refuse(layer);
        assert!(error.contains("a name or header is too long"), "{error}");
    }
}

#[test]
fn zero_bytes_in_names_are_refused() {
    let error = Place::new()
        .refuse(Layer::default().entry(EntryType::GNULongName, b"l", 0, b"", b"a\0b").file("x", ""));
    assert!(error.contains("zero byte"), "{error}");
}

#[test]
fn deep_trees_are_unpacked_and_removed() {
    let deep = "d/".repeat(1500);
    let place = Place::new();
    let layer = Layer::default()
        .entry(EntryType::Regular, format!("{deep}file").as_bytes(), 0o644, b"", b"deep")
        // Removes the whole tree.
        .file("d", "a file now");
    let root = place.unpack(layer);
    assert_eq!(lines(&root), ["d: file 644 a file now"]);
}

#[test]
fn bombs_are_bounded() {
    let place = Place::new().with_limits(|limits| limits.unpacked_bytes = 1 << 20);
    let archive =
        Layer::default().entry(EntryType::Regular, b"zeros", 0o644, b"", &vec![0; 64 << 20]).bytes();
    let config = config(std::slice::from_ref(&archive));
    let file = place.path("image.tar");
    fs::write(&file, save_with(&config, &[gzip(&archive)], Some("test/image:1"))).unwrap();
    let error = place.store.import(&file, None, &|_| ()).unwrap_err().to_string();
    assert!(error.contains("the image takes more than 1048576 bytes unpacked"), "{error}");

    // The limit is that of all layers together, and of what follows the archive.
    let half = |name: &str| {
        Layer::default().entry(EntryType::Regular, name.as_bytes(), 0o644, b"", &vec![0; 700 << 10])
    };
    let place = Place::new().with_limits(|limits| limits.unpacked_bytes = 1 << 20);
    let error = place.import(&[half("a"), half("b")]).unwrap_err().to_string();
    assert!(error.contains("bytes unpacked"), "{error}");
    assert!(place.store.find(&reference()).unwrap().is_none());
    let mut trailing = Layer::default().file("a", "").bytes();
    trailing.resize(2 << 20, 0);
    let error = place.refuse_archive(trailing);
    assert!(error.contains("bytes unpacked"), "{error}");

    let place = Place::new().with_limits(|limits| limits.entries = 10);
    let layer = (0..11).fold(Layer::default(), |layer, index| layer.directory(&format!("{index}"), 0o755));
    let error = place.refuse(layer);
    assert!(error.contains("more than 10 files"), "{error}");
}

#[test]
fn holes_of_sparse_files_are_counted() {
    let place = Place::new().with_limits(|limits| limits.unpacked_bytes = 1 << 20);
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::GNUSparse);
    header.set_path("sparse").unwrap();
    header.set_mode(0o644);
    header.set_mtime(0);
    header.set_size(0);
    let size = 1_u64 << 40;
    let gnu = header.as_gnu_mut().unwrap();
    gnu.realsize
        .copy_from_slice(format!("{size:011o}\0").as_bytes().first_chunk::<12>().unwrap_or(b"77777777777\0"));
    gnu.sparse[0].offset.copy_from_slice(b"77777777777\0");
    gnu.sparse[0].numbytes.copy_from_slice(b"00000000000\0");
    gnu.realsize.copy_from_slice(b"77777777777\0");
    let error = place.refuse(Layer::default().raw(&mut header, b""));
    assert!(error.contains("bytes unpacked"), "{error}");
}

#[test]
fn damaged_layers_are_refused() {
    let archive = Layer::default().file("a", "a").file("b", "b").bytes();
    let expected = config(std::slice::from_ref(&archive));
    let other = Layer::default().file("a", "another").bytes();
    let mut flipped = gzip(&archive);
    let middle = flipped.len() / 2;
    flipped[middle] ^= 0xff;
    let cases = [
        ("another archive", other),
        ("the end is missing", archive[..512].to_vec()),
        ("a compressed end is missing", gzip(&archive)[..30].to_vec()),
        ("a flipped bit", flipped),
        ("garbage", b"\x1f\x8b garbage".to_vec()),
        ("nothing", Vec::new()),
        ("more than the archive", [archive.clone(), b"more".to_vec()].concat()),
    ];
    for (case, blob) in cases {
        let place = Place::new();
        let file = place.path("image.tar");
        fs::write(&file, save_with(&expected, &[blob], Some("test/image:1"))).unwrap();
        let error = place.store.import(&file, None, &|_| ()).expect_err(case).to_string();
        assert!(error.contains("damaged") || error.contains("cannot be read"), "{case}: {error}");
        assert_eq!(fs::read_dir(place.store.layers()).unwrap().count(), 0, "{case}");
        assert!(place.store.find(&reference()).unwrap().is_none(), "{case}");
    }
}

#[test]
fn layouts_that_lie_are_refused() {
    let archive = Layer::default().file("a", "a").bytes();
    let honest =
        layout(std::slice::from_ref(&archive), &config(std::slice::from_ref(&archive)), Some("test/image:1"));
    let import = |files: &[(String, Vec<u8>)]| {
        let place = Place::new();
        fs::write(place.path("layout.tar"), pack(files)).unwrap();
        let imported = place.store.import(&place.path("layout.tar"), None, &|_| ());
        imported.map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(import(&honest), Ok(()));
    // The content of each blob in turn is another one, of the same size and of another one.
    for index in 0..3 {
        let mut files = honest.clone();
        files[index].1[20] ^= 1;
        let error = import(&files).unwrap_err();
        assert!(error.contains("damaged") || error.contains("cannot be read"), "{error}");
        let mut files = honest.clone();
        files[index].1.push(b' ');
        let error = import(&files).unwrap_err();
        assert!(error.contains("and the manifest says"), "{error}");
        let mut files = honest.clone();
        files.remove(index);
        let error = import(&files).unwrap_err();
        assert!(error.contains("lacks its blob"), "{error}");
    }
    // More archives than the configuration has layers.
    let two = layout(
        &[archive.clone(), archive.clone()],
        &config(std::slice::from_ref(&archive)),
        Some("test/image:1"),
    );
    let error = import(&two).unwrap_err();
    assert!(error.contains("names 1 layers, and its manifest 2"), "{error}");
}

#[test]
fn too_many_layers_are_refused() {
    let place = Place::new();
    let diff_ids = vec![format!("sha256:{}", "0".repeat(64)); 100_000];
    let config = serde_json::json!({ "rootfs": { "diff_ids": diff_ids } });
    let file = place.path("image.tar");
    fs::write(&file, save_with(&config, &[], Some("test/image:1"))).unwrap();
    let error = place.store.import(&file, None, &|_| ()).unwrap_err().to_string();
    assert!(error.contains("100000 layers; at most 127") || error.contains("is too large"), "{error}");
    let error = place.refuse_image(&vec![Layer::default(); 128]);
    assert!(error.contains("128 layers; at most 127"), "{error}");
}

#[test]
fn digests_are_no_paths() {
    for digest in ["sha256:../../outside", "sha512:00", "", "sha256:", "../../outside/file"] {
        let place = Place::new();
        let config = serde_json::json!({ "rootfs": { "diff_ids": [digest] } });
        let file = place.path("image.tar");
        fs::write(&file, save_with(&config, &[Vec::new()], Some("test/image:1"))).unwrap();
        let error = place.store.import(&file, None, &|_| ()).unwrap_err().to_string();
        assert!(error.contains("not a digest that koze can verify"), "{error}");
    }
}

#[test]
fn files_of_archives_are_found_only_in_them() {
    let place = Place::new();
    let outside = place.path("outside/file");
    for config in [outside.to_str().unwrap(), "../outside/file", "/etc/passwd"] {
        let manifest = serde_json::json!([{ "Config": config, "RepoTags": ["a:b"], "Layers": [] }]);
        let files = [("manifest.json".to_owned(), manifest.to_string().into_bytes())];
        fs::write(place.path("image.tar"), pack(&files)).unwrap();
        let error = place.store.import(&place.path("image.tar"), None, &|_| ()).unwrap_err().to_string();
        assert!(error.contains("lacks its file"), "{error}");
        fs::create_dir_all(place.path("layout")).unwrap();
        fs::write(place.path("layout/manifest.json"), manifest.to_string()).unwrap();
        let error = place.store.import(&place.path("layout"), None, &|_| ()).unwrap_err().to_string();
        assert!(error.contains("is not a file of the layout"), "{error}");
    }
}

impl Place {
    /// Imports an archive that is refused.
    fn refuse_archive(&self, archive: Vec<u8>) -> String {
        let file = self.path("image.tar");
        let config = config(std::slice::from_ref(&archive));
        fs::write(&file, save_with(&config, &[archive], Some("test/image:1"))).unwrap();
        self.store.import(&file, None, &|_| ()).unwrap_err().to_string()
    }
}
