//! Images from files, and what ends up in the store.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};

use koze_image::{OWNER, Reference, Store};
use tar::EntryType;

use crate::archives::{Layer, config, gzip, layout, pack, save, save_with};
use crate::place::{Place, lines, reference};

#[test]
fn layers_are_unpacked_as_overlays_know_them() {
    let place = Place::new();
    let layer = Layer::default()
        .directory("usr/bin", 0o755)
        .file("usr/bin/tool", "tool")
        .link("bin", "usr/bin")
        .file("bin/through-link", "in usr/bin")
        .hard_link("usr/bin/same", "bin/tool")
        .link("absolute", "/usr/bin")
        .file("absolute/through-root", "in usr/bin")
        .directory("tmp", 0o1777)
        .directory("closed", 0o000)
        .file("closed/secret", "secret")
        .entry(EntryType::Fifo, b"pipe", 0o600, b"", b"")
        .entry(EntryType::Char, b"dev/null", 0o666, b"", b"")
        .entry(EntryType::Block, b"dev/sda", 0o666, b"", b"")
        .entry(EntryType::Regular, b"setuid", 0o6755, b"", b"root?")
        .file(".wh.gone", "")
        .file("etc/.wh.gone", "")
        .directory("opaque", 0o755)
        .file("opaque/.wh..wh..opq", "")
        .file(".wh..wh.plnk", "");
    let root = place.unpack(layer);
    // A plain user cannot look into it otherwise.
    assert_eq!(root.join("closed").symlink_metadata().unwrap().mode() & 0o7777, 0);
    fs::set_permissions(root.join("closed"), PermissionsExt::from_mode(0o700)).unwrap();
    let found = lines(&root);
    let expected = [
        "absolute: link /usr/bin",
        "bin: link usr/bin",
        "closed: directory 700",
        "closed/secret: file 644 secret",
        "etc: directory 755",
        "etc/gone: device 0",
        "gone: device 0",
        "opaque: directory 755",
        "pipe: pipe 600",
        "setuid: file 755 root?",
        "tmp: directory 1777",
        "usr: directory 755",
        "usr/bin: directory 755",
        "usr/bin/same: file 644 tool",
        "usr/bin/through-link: file 644 in usr/bin",
        "usr/bin/through-root: file 644 in usr/bin",
        "usr/bin/tool: file 644 tool",
    ];
    assert_eq!(found, expected);
    let mut value = [0; 8];
    let length = rustix::fs::getxattr(root.join("opaque"), "user.overlay.opaque", &mut value).unwrap();
    assert_eq!(&value[..length], b"y");
    let owner = if rustix::process::geteuid().is_root() { OWNER } else { 65534 };
    for name in ["usr/bin/tool", "bin", "tmp", "pipe", "gone", "etc", "setuid", "."] {
        let metadata = root.join(name).symlink_metadata().unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (owner, owner), "{name}");
    }
    let metadata = |name| root.join(name).symlink_metadata().unwrap();
    assert_eq!(metadata("usr/bin/tool").ino(), metadata("usr/bin/same").ino());
    for name in ["usr/bin/tool", "usr/bin", "bin", "pipe"] {
        assert_eq!(metadata(name).mtime(), 1_000_000_000, "{name}");
    }
}

#[test]
fn entries_replace_earlier_ones_and_whiteouts_apply_only_below() {
    let place = Place::new();
    let layer = Layer::default()
        // A directory becomes a file, and a link a directory.
        .directory("a/b/c", 0o700)
        .file("a/b/c/d", "deep")
        .file("a", "file")
        .link("l", "/nowhere")
        .directory("l", 0o700)
        .file("l/x", "x")
        // The whiteout of a name hides what is below, and not what this layer has.
        .file("kept", "kept")
        .file(".wh.kept", "")
        .directory("before", 0o755)
        .file("before/x", "x")
        .file(".wh.before", "")
        .file(".wh.after", "")
        .file("after/x", "x")
        .link("dangling", "missing/there")
        .file("dangling/x", "x");
    let root = place.unpack(layer);
    let expected = [
        "a: file 644 file",
        "after: directory 755",
        "after/x: file 644 x",
        "before: directory 755",
        "before/x: file 644 x",
        "dangling: link missing/there",
        "kept: file 644 kept",
        "l: directory 700",
        "l/x: file 644 x",
        "missing: directory 755",
        "missing/there: directory 755",
        "missing/there/x: file 644 x",
    ];
    assert_eq!(lines(&root), expected);
    for name in ["before", "after"] {
        let mut value = [0; 8];
        assert_eq!(rustix::fs::getxattr(root.join(name), "user.overlay.opaque", &mut value), Ok(1), "{name}");
    }
}

#[test]
fn layers_that_add_nothing_are_left_out() {
    let place = Place::new();
    let hidden = Layer::default().file("hidden", "");
    let top = Layer::default().file(".wh..wh..opq", "").file("a", "");
    let again = Layer::default().file("b", "");
    let layers = [hidden, top, again.clone(), Layer::default(), Layer::default().file("c", ""), again];
    let image = place.import(&layers).unwrap();
    assert_eq!(image.layers.len(), 3, "hidden by an opaque root, empty, and there twice: {:?}", image.layers);
    let content = |index: usize| lines(&place.store.layers().join(&image.layers[index]));
    assert_eq!(
        [content(0), content(1), content(2)].concat(),
        ["a: file 644 ", "c: file 644 ", "b: file 644 "]
    );
    assert_eq!(
        image.config.env,
        [("PATH", "/bin"), ("EMPTY", ""), ("A", "b=c")].map(|(a, b)| (a.into(), b.into()))
    );
    assert_eq!((image.config.working_dir.as_str(), image.config.user.as_str()), ("/srv", "1000:1000"));
}

#[test]
fn layouts_are_read_from_directories_and_archives() {
    let plain = Layer::default().file("plain", "plain").bytes();
    let zipped = Layer::default().file("zipped", "zipped").bytes();
    let packed = Layer::default().file("packed", "packed").bytes();
    let config = config(&[plain.clone(), zipped.clone(), packed.clone()]);
    // Two gzip members are one archive.
    let (start, end) = zipped.split_at(100);
    let blobs = [plain, [gzip(start), gzip(end)].concat(), zstd::encode_all(&packed[..], 1).unwrap()];
    let files = layout(&blobs, &config, Some("registry.example/team/tool:2"));
    let place = Place::new();
    let directory = place.path("layout");
    for (name, content) in &files {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    fs::write(place.path("layout.tar"), pack(&files)).unwrap();
    let name: Reference = "registry.example/team/tool:2".parse().unwrap();
    for file in ["layout", "layout.tar"] {
        let store = Store::open(&place.path(&format!("store-{file}"))).unwrap();
        let imported = store.import(&place.path(file), None, &|_| ()).unwrap();
        assert_eq!(imported.len(), 1);
        assert_eq!(imported[0].0, name);
        let image = store.find(&name).unwrap().unwrap();
        let found: Vec<_> =
            image.layers.iter().flat_map(|layer| lines(&store.layers().join(layer))).collect();
        assert_eq!(found, ["plain: file 644 plain", "zipped: file 644 zipped", "packed: file 644 packed"]);
    }
}

#[test]
fn an_image_needs_a_name() {
    let place = Place::new();
    let file = place.path("image.tar");
    fs::write(&file, save(&[Layer::default().file("a", "")], None)).unwrap();
    let error = place.store.import(&file, None, &|_| ()).unwrap_err().to_string();
    assert_eq!(error, "the file does not say which name the image has: pass one");
    place.store.import(&file, Some(&reference()), &|_| ()).unwrap();
    assert!(place.store.find(&reference()).unwrap().is_some());
}

#[test]
fn an_image_with_a_missing_layer_is_not_found() {
    let place = Place::new();
    let root = place.unpack(Layer::default().file("a", ""));
    fs::remove_file(root.join("a")).unwrap();
    fs::remove_dir(root).unwrap();
    assert!(place.store.find(&reference()).unwrap().is_none());
}

#[test]
fn images_of_other_platforms_are_refused_by_name() {
    let place = Place::new();
    let archive = Layer::default().file("a", "").bytes();
    let mut config = config(std::slice::from_ref(&archive));
    config["architecture"] = "riscv64".into();
    let file = place.path("image.tar");
    fs::write(&file, save_with(&config, &[archive], Some("a/b:1"))).unwrap();
    let error = place.store.import(&file, None, &|_| ()).unwrap_err().to_string();
    assert!(error.starts_with("the image is for linux/riscv64, and this machine needs linux/"), "{error}");
}

#[test]
fn what_a_killed_process_left_is_removed_when_the_store_is_opened() {
    let place = Place::new();
    let left = place.path("store/staging/new-killed");
    fs::create_dir_all(left.join("files/a/b")).unwrap();
    fs::write(left.join("files/a/b/c"), "half").unwrap();
    fs::set_permissions(left.join("files/a"), PermissionsExt::from_mode(0o000)).unwrap();
    fs::write(place.path("store/staging/.tmp"), "half a record").unwrap();
    Store::open(&place.path("store")).unwrap();
    assert_eq!(fs::read_dir(place.path("store/staging")).unwrap().count(), 0);
}

#[test]
fn a_store_of_others_is_refused() {
    let place = Place::new();
    let shared = place.path("shared");
    fs::create_dir(&shared).unwrap();
    crate::place::open_to_all(&shared);
    let error = Store::open(&shared).unwrap_err().to_string();
    assert!(error.contains("set `KOZE_IMAGES` to a directory of your own"), "{error}");
}

#[test]
fn images_are_listed_removed_and_pruned() {
    let place = Place::new();
    let import = |name: &str, layers: &[Layer]| {
        let file = place.path("image.tar");
        fs::write(&file, save(layers, Some(name))).unwrap();
        place.store.import(&file, None, &|_| ()).unwrap().remove(0)
    };
    let base = Layer::default()
        .entry(EntryType::Regular, b"base", 0o644, b"", &vec![1; 100_000])
        .directory("shut", 0);
    let layers = || fs::read_dir(place.store.layers()).unwrap().count();
    let (first, _) = import("test/first:1", &[base.clone(), Layer::default().file("first", "")]);
    let (second, image) = import("test/second:1", &[base, Layer::default().file("second", "")]);
    let (third, _) = import("test/third:1", &[Layer::default().file("third", "")]);
    let listed = place.store.list().unwrap();
    let found: Vec<_> =
        listed.iter().map(|image| (&*image.reference, image.layers, image.is_complete)).collect();
    let name = |name| format!("docker.io/test/{name}:1");
    let names = [name("first"), name("second"), name("third")];
    assert_eq!(found, [(&*names[0], 2, true), (&*names[1], 2, true), (&*names[2], 1, true)]);
    assert!((100_000..200_000).contains(&listed[0].bytes), "{}", listed[0].bytes);
    assert_eq!(layers(), 4);

    // The other image keeps the layer that both have.
    let removed = place.store.remove(&first).unwrap().unwrap();
    assert_eq!((removed.references, removed.layers), (vec![name("first")], 1));
    assert_eq!(place.store.remove(&first).unwrap(), None);
    assert_eq!(layers(), 3);
    assert!(place.store.find(&second).unwrap().is_some());

    // A layer in use stays.
    let hold = place.store.hold(&image).unwrap();
    let removed = place.store.remove(&second).unwrap().unwrap();
    assert_eq!((removed.layers, removed.held), (0, 2));
    assert!(place.store.find(&second).unwrap().is_none());
    drop(hold);
    let removed = place.store.prune(None, None).unwrap();
    assert_eq!((removed.layers, removed.held, removed.references), (2, 0, vec![]));
    assert!(place.store.hold(&image).is_err());

    // The least recently used image is removed first.
    let (fourth, _) = import("test/fourth:1", &[Layer::default().file("fourth", "4")]);
    std::thread::sleep(std::time::Duration::from_millis(20));
    place.store.find(&third).unwrap();
    let removed = place.store.prune(Some(1), Some(std::time::Duration::from_hours(1))).unwrap();
    assert_eq!(removed.references, [name("fourth")]);
    assert!(place.store.find(&fourth).unwrap().is_none());
    let removed = place.store.prune(None, Some(std::time::Duration::ZERO)).unwrap();
    assert_eq!(removed.references, [name("third")]);
    assert_eq!(layers(), 0);
    for name in ["images", "references", "diffs", "staging"] {
        assert_eq!(fs::read_dir(place.path("store").join(name)).unwrap().count(), 0, "{name}");
    }
}

#[test]
fn nothing_is_removed_while_something_is_added() {
    let place = Place::new();
    let file = place.path("image.tar");
    fs::write(&file, save(&[Layer::default().file("a", ""), Layer::default().file("b", "")], Some("a/b:1")))
        .unwrap();
    let removed = std::sync::Mutex::new(None);
    // In the middle, another process opens the store and tries to remove everything.
    let progress = |event: koze_image::Event| {
        if let koze_image::Event::Finished(_) = event {
            let other = Store::open(&place.path("store")).unwrap();
            let mut removed = removed.lock().unwrap();
            if removed.is_none() {
                *removed = Some(other.prune(Some(0), None).unwrap_err().to_string());
            }
        }
    };
    place.store.import(&file, None, &progress).unwrap();
    assert!(removed.into_inner().unwrap().unwrap().starts_with("another koze process is adding an image"));
    assert!(place.store.find(&"a/b:1".parse().unwrap()).unwrap().is_some());
}

#[test]
fn exported_images_are_the_same_again() {
    let place = Place::new();
    let long = "long/".repeat(40);
    let first = Layer::default()
        .directory("d", 0o750)
        .file("d/a", "a")
        .hard_link("same", "d/a")
        .link("link", "d/a")
        .directory("sticky", 0o1777)
        .file(".wh.gone", "")
        .file("d/.wh..wh..opq", "")
        .entry(EntryType::Fifo, b"pipe", 0o600, b"", b"")
        .entry(EntryType::Regular, format!("{long}file").as_bytes(), 0o600, b"", b"long");
    let second = Layer::default().file(".wh..wh..opq", "").file("b", "b");
    place.import(std::slice::from_ref(&first)).unwrap();
    fs::write(place.path("image.tar"), save(&[first, second], Some("opaque:1"))).unwrap();
    place.store.import(&place.path("image.tar"), None, &|_| ()).unwrap();
    let store = Store::open(&place.path("other")).unwrap();
    for name in ["test/image:1", "opaque:1"] {
        let reference: Reference = name.parse().unwrap();
        let file = place.path("exported.tar");
        place.store.export(&reference, &file).unwrap();
        let imported = store.import(&file, None, &|_| ()).unwrap();
        assert_eq!(imported[0].0, reference);
        let before = place.store.find(&reference).unwrap().unwrap();
        let after = &imported[0].1;
        assert_eq!((&before.config, before.layers.len()), (&after.config, after.layers.len()));
        for (before, after) in before.layers.iter().zip(&after.layers) {
            let (before, after) = (place.store.layers().join(before), store.layers().join(after));
            assert_eq!(lines(&before), lines(&after));
            let opaque = |root: &std::path::Path| {
                rustix::fs::getxattr(root.join("d"), "user.overlay.opaque", &mut [0; 8][..])
            };
            assert_eq!(opaque(&before), opaque(&after));
            let inode = |name| after.join(name).symlink_metadata().map(|metadata| metadata.ino()).ok();
            assert_eq!(inode("d/a"), inode("same"));
        }
    }
    let error =
        place.store.export(&"none:1".parse().unwrap(), &place.path("none.tar")).unwrap_err().to_string();
    assert_eq!(error, "the store does not have all of `docker.io/library/none:1`");
    assert!(!place.path("none.tar").exists());
}
