//! Generates the Worker's entry point for `koze dev --local`.

use koze_templates::LOCAL_WORKER;
use serde_json::json;

use super::template::{Fill, Template};

/// Renders the entry point of a local run: the project's own, with the sandbox classes replaced.
pub(super) fn render(main: &str, classes: &[&str]) -> String {
    let main = json!(main).to_string();
    let main = main.trim_matches('"').to_owned();
    let outer = Fill { holes: vec![("__KOZE_MAIN__", main)], regions: Vec::new() };
    let class =
        |class: &&str| Fill { holes: vec![("__KOZE_CLASS__", (*class).to_owned())], regions: Vec::new() };
    let classes: Vec<Fill> = classes.iter().map(class).collect();
    Template::new(LOCAL_WORKER).render(&outer, &|_| &classes)
}
