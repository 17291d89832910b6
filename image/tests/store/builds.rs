//! Images that are built in the store, and their files without a mount.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use koze_image::{EntryKind, Error, Image, StepKey, Tree};
use serde_json::Map;

use crate::archives::Layer;
use crate::place::{Place, lines, reference};

/// Reads a file of an image.
fn read(tree: &Tree, path: &str) -> String {
    let real = tree.resolve(Path::new(path)).unwrap();
    let entry = tree.find(&real).unwrap().unwrap_or_else(|| panic!("no {path}"));
    let mut text = String::new();
    tree.open_file(&entry).unwrap().read_to_string(&mut text).unwrap();
    text
}

fn names(tree: &Tree, path: &str) -> Vec<String> {
    let entry = tree.find(Path::new(path)).unwrap().unwrap();
    tree.list(&entry).unwrap().into_iter().map(|name| name.into_string().unwrap()).collect()
}

/// Returns the tree of an image with these layers.
fn tree(place: &Place, layers: &[Layer]) -> Tree {
    let image = place.import(layers).unwrap();
    place.store.begin_build().unwrap().open_tree(Some(&image)).unwrap()
}

#[test]
fn upper_layers_hide_lower_ones() {
    let place = Place::new();
    let tree = tree(
        &place,
        &[
            Layer::default()
                .file("a/lower", "1")
                .file("a/both", "1")
                .file("b/x", "1")
                .file("c/y", "1")
                .file("d", "1"),
            Layer::default()
                .file("a/both", "2")
                .file("b/.wh.x", "")
                .file("c/.wh..wh..opq", "")
                .file("c/z", "2"),
            Layer::default().file(".wh.d", ""),
        ],
    );
    assert_eq!(names(&tree, ""), ["a", "b", "c"]);
    assert_eq!(names(&tree, "a"), ["both", "lower"]);
    assert_eq!(names(&tree, "b"), [""; 0]);
    assert_eq!(names(&tree, "c"), ["z"]);
    assert_eq!((read(&tree, "a/both"), read(&tree, "a/lower")), ("2".to_owned(), "1".to_owned()));
    for path in ["b/x", "c/y", "d", "d/below", "a/both/below"] {
        assert!(tree.find(Path::new(path)).unwrap().is_none(), "{path}");
    }
}

#[test]
fn links_stay_in_the_image() {
    let place = Place::new();
    let outside = place.path("outside");
    let outside = outside.to_str().unwrap();
    // What is a link to the host in one layer is a directory in another.
    let tree = tree(
        &place,
        &[
            Layer::default()
                .link("both", outside)
                .link("absolute", outside)
                .link("up", "../../../../..")
                .link("loop", "loop"),
            Layer::default().directory("both", 0o755).file("real/x", "inside").link("rel", "real"),
        ],
    );
    assert_eq!(names(&tree, "both"), [""; 0]);
    assert!(tree.find(Path::new("both/file")).unwrap().is_none());
    // A path without links is not followed, and a resolved one is in the image.
    assert!(tree.find(Path::new("absolute/file")).unwrap().is_none());
    assert_eq!(tree.resolve(Path::new("absolute/file")).unwrap(), Path::new(&outside[1..]).join("file"));
    assert_eq!(tree.resolve(Path::new("up/rel/../rel/x")).unwrap(), Path::new("real/x"));
    assert_eq!(read(&tree, "/up/rel/x"), "inside");
    assert!(tree.resolve(Path::new("loop/x")).is_err());
    assert_eq!(tree.find(Path::new("absolute")).unwrap().unwrap().kind, EntryKind::Link);
}

#[test]
fn a_build_adds_layers_and_remembers_its_steps() {
    let place = Place::new();
    let base = place.import(&[Layer::default().file("etc/x", "base")]).unwrap();
    let building = place.store.begin_build().unwrap();
    let (key, other) = (StepKey::new(["a", "b"]), StepKey::new(["ab", ""]));
    assert_ne!(key, other);
    let build = || -> Image {
        let mut layer = building.new_layer().unwrap();
        layer.add_directory(Path::new("etc"), 0o750, 0).unwrap();
        layer.add_file(Path::new("etc/y"), 0o4755, 7, 3, &b"new"[..]).unwrap();
        layer.add_link(Path::new("etc/z"), Path::new("/y"), 7).unwrap();
        let mut settings = Map::new();
        settings.insert("Env".to_owned(), serde_json::json!(["A=1"]));
        building.commit(Some(&base), Some(layer), settings, "COPY").unwrap()
    };
    let image = build();
    assert_eq!(image.layers.len(), 2);
    assert_eq!(image.config.env, [("A".to_owned(), "1".to_owned())]);
    let root = place.store.layers().join(&image.layers[1]);
    // Without the set-user-ID bit.
    assert_eq!(lines(&root), ["etc: directory 750", "etc/y: file 755 new", "etc/z: link /y"]);
    // The same build is the same image.
    assert_eq!(build(), image);
    assert_eq!(building.find_step(&key).unwrap(), None);
    building.record_step(&key, &image).unwrap();
    assert_eq!(building.find_step(&key).unwrap().as_ref(), Some(&image));
    assert_eq!(building.find_step(&other).unwrap(), None);
    // An empty layer is none.
    let empty =
        building.commit(Some(&image), Some(building.new_layer().unwrap()), Map::new(), "RUN").unwrap();
    assert_eq!(empty.layers, image.layers);
    // Nothing is removed meanwhile.
    assert!(matches!(place.store.prune(None, None), Err(Error::Busy(_))));
    building.name(&reference(), &image).unwrap();
    drop(building);
    place.store.prune(None, None).unwrap();
    let building = place.store.begin_build().unwrap();
    assert_eq!(building.find_step(&key).unwrap().as_ref(), Some(&image), "its image has a name");
    drop(building);
    place.store.remove(&reference()).unwrap().unwrap();
    assert_eq!(place.store.begin_build().unwrap().find_step(&key).unwrap(), None);
    for directory in ["layers", "images", "steps", "staging"] {
        assert_eq!(fs::read_dir(place.path("store").join(directory)).unwrap().count(), 0, "{directory}");
    }
}

#[test]
fn what_does_not_belong_into_a_layer_is_refused() {
    let place = Place::new();
    let building = place.store.begin_build().unwrap();
    let mut layer = building.new_layer().unwrap();
    assert!(layer.add_file(Path::new("a/.wh.b"), 0o644, 0, 0, &b""[..]).is_err());
    assert!(layer.add_file(Path::new("../b"), 0o644, 0, 0, &b""[..]).is_err());
    // A file that is shorter than it was.
    assert!(building.new_layer().unwrap().add_file(Path::new("b"), 0o644, 0, 3, &b"x"[..]).is_err());
}

#[test]
fn changes_of_an_overlay_become_a_layer() {
    let place = Place::new();
    let base = place.import(&[Layer::default().file("a", "1").file("d/x", "1")]).unwrap();
    let building = place.store.begin_build().unwrap();
    let scratch = building.create_scratch().unwrap();
    let upper = scratch.path();
    fs::create_dir(upper.join("etc")).unwrap();
    fs::write(upper.join("etc/hosts"), "of the sandbox").unwrap();
    fs::write(upper.join("etc/own"), "new").unwrap();
    // Its owner may not read it, nor the directory.
    fs::set_permissions(upper.join("etc/own"), fs::Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(upper.join("etc"), fs::Permissions::from_mode(0o555)).unwrap();
    fs::hard_link(upper.join("etc/own"), upper.join("linked")).unwrap();
    let device = rustix::fs::FileType::CharacterDevice;
    rustix::fs::mknodat(rustix::fs::CWD, upper.join("a"), device, rustix::fs::Mode::empty(), 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(upper.join("socket")).unwrap();
    let mut layer = building.new_layer().unwrap();
    layer.add_changes(upper, &|path| path == Path::new("etc/hosts")).unwrap();
    let image = building.commit(Some(&base), Some(layer), Map::new(), "RUN").unwrap();
    let root = place.store.layers().join(&image.layers[1]);
    let expected = ["a: device 0", "etc: directory 555", "etc/own: file 0 ", "linked: file 0 "];
    let found = lines(&root);
    let modes: Vec<_> = found.iter().map(|line| line.trim_end_matches("new").to_owned()).collect();
    assert_eq!(modes, expected);
    let tree = building.open_tree(Some(&image)).unwrap();
    assert!(tree.find(Path::new("a")).unwrap().is_none());
    assert_eq!(read(&tree, "d/x"), "1");
}
