//! Checks the links of the pages: every relative link leads to a file, and every anchor to a heading.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use koze_tests::root;
use percent_encoding::percent_decode_str;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use walkdir::WalkDir;

/// The pages outside `docs`.
const PAGES: [&str; 4] = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"];

/// The links of a page, and the anchors of its headings.
#[derive(Debug, Default)]
struct Page {
    links: Vec<String>,
    anchors: BTreeSet<String>,
}

impl Page {
    fn of(text: &str) -> Self {
        let mut page = Self::default();
        let mut heading: Option<String> = None;
        for event in Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES) {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(dest_url.into_string());
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => page.heading(&heading.take().unwrap_or_default()),
                Event::Text(text) | Event::Code(text) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                _ => {}
            }
        }
        page
    }

    /// Adds the anchor of a heading, named as by GitHub and mdBook.
    fn heading(&mut self, text: &str) {
        let kept = |letter: char| match letter {
            ' ' => Some('-'),
            letter => (letter.is_alphanumeric() || matches!(letter, '-' | '_')).then_some(letter),
        };
        let anchor: String = text.to_lowercase().chars().filter_map(kept).collect();
        let another = (1..).map(|count| format!("{anchor}-{count}"));
        let free =
            std::iter::once(anchor.clone()).chain(another).find(|anchor| !self.anchors.contains(anchor));
        self.anchors.extend(free);
    }
}

/// Returns all pages below a directory, by relative path.
fn pages(root: &Path) -> BTreeMap<PathBuf, Page> {
    let docs = WalkDir::new(root.join("docs"))
        .into_iter()
        .map(|entry| entry.expect("a readable directory").into_path());
    let docs = docs.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let all = PAGES.iter().map(|page| root.join(page)).filter(|path| path.exists()).chain(docs);
    all.map(|path| {
        let text = fs_err::read_to_string(&path).expect("a page");
        (path.strip_prefix(root).expect("below the root").to_owned(), Page::of(&text))
    })
    .collect()
}

/// Normalizes a path; `None` if it leads out of the root.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => normal.pop().then_some(())?,
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    Some(normal)
}

/// Returns the broken links of all pages.
fn broken(root: &Path) -> Vec<String> {
    let pages = pages(root);
    let mut broken = Vec::new();
    for (name, page) in &pages {
        for link in page.links.iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
            let mut wrong = |why: &str| broken.push(format!("{}: `{link}` {why}", name.display()));
            let (path, anchor) =
                link.split_once('#').map_or((&**link, None), |(path, anchor)| (path, Some(anchor)));
            let path = percent_decode_str(path).decode_utf8_lossy();
            let beside = name.parent().unwrap_or(Path::new(""));
            let target = if path.is_empty() { Some(name.clone()) } else { normal(&beside.join(&*path)) };
            let Some(target) = target.filter(|target| root.join(target).exists()) else {
                wrong("does not exist");
                continue;
            };
            if name.starts_with("docs") && !target.starts_with("docs") {
                wrong("leads out of `docs`, and would be broken in the book: write the path as code instead");
            }
            if let Some(anchor) = anchor
                && !pages.get(&target).is_some_and(|page| {
                    page.anchors.contains(&*percent_decode_str(anchor).decode_utf8_lossy())
                })
            {
                wrong("names no heading");
            }
        }
    }
    broken
}

#[test]
fn every_link_leads_somewhere() {
    let broken = broken(&root());
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn the_book_has_every_page_once() {
    let pages = pages(&root());
    let summary = &pages[Path::new("docs/SUMMARY.md")];
    let mut listed: Vec<PathBuf> = summary.links.iter().map(|link| Path::new("docs").join(link)).collect();
    listed.sort();
    let there = pages.keys().filter(|name| name.starts_with("docs") && !name.ends_with("SUMMARY.md"));
    assert_eq!(listed, there.cloned().collect::<Vec<_>>());
}

/// The control: broken links are found.
#[test]
fn a_broken_link_is_found() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs_err::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs_err::write(path, text).expect("a page");
    };
    write(
        "README.md",
        "# A `b.c`, d_e\n## Same\n## Same\n[1](#a-bc-d_e) [2](#same-1) [3](docs/one.md#t%C3%A4g) [4](https://x.example/#y) [5](docs)\n\
         ```md\n# Not a heading\n[x](y)\n```\n[6](#not-a-heading) [7](#same-2) [8](docs/two.md) ![9](../x.png) [10](docs/one.md#nothing)\n",
    );
    write("docs/one.md", "# Täg\n[1](../README.md) [2](one.md)\n[3]\n\n[3]: three.md\n");
    let found = broken(dir.path());
    let expected = [
        "README.md: `#not-a-heading` names no heading",
        "README.md: `#same-2` names no heading",
        "README.md: `docs/two.md` does not exist",
        "README.md: `../x.png` does not exist",
        "README.md: `docs/one.md#nothing` names no heading",
        "docs/one.md: `../README.md` leads out of `docs`, and would be broken in the book: write the path as code instead",
        "docs/one.md: `three.md` does not exist",
    ];
    assert_eq!(found, expected);
}
