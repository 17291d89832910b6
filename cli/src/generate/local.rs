//! Generates the Worker's entry point for `koze dev --local`.

use koze_templates::LOCAL_WORKER;
use serde_json::json;

use super::template::{Fill, Template};

/// Renders the entry point of a local run: the project's own, with the sandbox classes replaced. `scripts` says whether it has
/// scripts, whose requests leave from this machine, and `browser` whether these have a browser, which runs on this machine.
pub(super) fn render(main: &str, classes: &[&str], scripts: bool, browser: bool) -> String {
    let main = json!(main).to_string();
    let main = main.trim_matches('"').to_owned();
    let outer = Fill { holes: vec![("__KOZE_MAIN__", main)], regions: Vec::new() };
    let class =
        |class: &&str| Fill { holes: vec![("__KOZE_CLASS__", (*class).to_owned())], regions: Vec::new() };
    let classes: Vec<Fill> = classes.iter().map(class).collect();
    let mut once = outer.clone();
    once.regions.extend(browser.then_some("browser"));
    let standing = [once];
    let once = |wanted: bool| if wanted { &standing[..] } else { &[] };
    Template::new(LOCAL_WORKER).render(&outer, &|region| match region {
        "sandboxes" => once(!classes.is_empty()),
        "scripts" => once(scripts),
        "browser" => once(browser),
        "class" => &classes,
        other => unreachable!("the template has a region {other} that nobody fills"),
    })
}
