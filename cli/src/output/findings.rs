//! Renders findings in the style of rustc: the source location underlined, then the help.

use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use koze_model::Level as Badness;

use crate::finding::{Finding, Findings, Place};

/// Renders all findings, each followed by an empty line.
pub fn render(findings: &Findings, colour: bool, width: usize) -> String {
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() }.term_width(width);
    findings
        .iter()
        .fold(String::new(), |text, finding| text + &render_finding(finding, findings, &renderer) + "\n\n")
}

fn render_finding(finding: &Finding, findings: &Findings, renderer: &Renderer) -> String {
    let level = match findings.level(finding) {
        Badness::Error => Level::ERROR,
        Badness::Warning => Level::WARNING,
    };
    let title = level.primary_title(finding.rule.message()).id(finding.rule.code());
    let mut group = match &finding.place {
        Some(place) => add_snippets(Group::with_title(title), place, &finding.also),
        None => Group::with_title(title),
    };
    group = group.element(Level::HELP.message(finding.rule.help()));
    renderer.render(&[group])
}

/// Adds the snippets of all locations, one per file, starting with that of the first location.
fn add_snippets<'a>(mut group: Group<'a>, first: &'a Place, also: &'a [(Place, String)]) -> Group<'a> {
    let mut files: Vec<(&Place, Vec<Annotation>)> = Vec::new();
    let also = also.iter().map(|(place, label)| (place, AnnotationKind::Context, Some(label.as_str())));
    for (place, kind, label) in std::iter::once((first, AnnotationKind::Primary, None)).chain(also) {
        let known = files.iter().position(|(other, _)| other.file == place.file);
        let index = known.unwrap_or_else(|| {
            files.push((place, Vec::new()));
            files.len() - 1
        });
        files[index].1.extend(place.range.clone().map(|range| kind.span(range).label(label)));
    }
    for (place, annotations) in files {
        group = if annotations.is_empty() {
            group.element(Origin::path(place.file.as_str()))
        } else {
            let text: &str = &place.text;
            group.element(Snippet::source(text).path(place.file.as_str()).annotations(annotations))
        };
    }
    group
}
