//! Findings as rustc shows its own: the place underlined, then the help.

use std::collections::BTreeMap;

use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use koze_model::Level as Badness;

use crate::finding::{Finding, Findings, Place};

/// All findings, each followed by an empty line.
pub fn render(findings: &Findings, colour: bool, width: usize) -> String {
    let renderer = if colour {
        Renderer::styled()
    } else {
        Renderer::plain()
    }
    .term_width(width);
    findings
        .iter()
        .map(|finding| format!("{}\n\n", one(finding, findings, &renderer)))
        .collect()
}

fn one(finding: &Finding, findings: &Findings, renderer: &Renderer) -> String {
    let level = match findings.level(finding) {
        Badness::Error => Level::ERROR,
        Badness::Warning => Level::WARNING,
    };
    let title = level
        .primary_title(finding.rule.message())
        .id(finding.rule.code());
    let mut group = match &finding.place {
        Some(place) => places(Group::with_title(title), place, &finding.also),
        None => Group::with_title(title),
    };
    group = group.element(Level::HELP.message(finding.rule.help()));
    renderer.render(&[group])
}

/// The snippets of all places, one for each file.
fn places<'a>(mut group: Group<'a>, first: &'a Place, also: &'a [(Place, String)]) -> Group<'a> {
    let mut by_file: BTreeMap<(usize, &str), Vec<(&Place, Option<&str>)>> = BTreeMap::new();
    let all = std::iter::once((first, None)).chain(
        also.iter()
            .map(|(place, label)| (place, Some(label.as_str()))),
    );
    let mut order: Vec<&str> = Vec::new();
    for (place, label) in all {
        let index = order
            .iter()
            .position(|file| *file == place.file)
            .unwrap_or_else(|| {
                order.push(&place.file);
                order.len() - 1
            });
        by_file
            .entry((index, place.file.as_str()))
            .or_default()
            .push((place, label));
    }
    for ((index, file), places) in by_file {
        let annotations: Vec<Annotation> = places
            .iter()
            .filter_map(|(place, label)| {
                let range = place.range.clone()?;
                let kind = if index == 0 && label.is_none() {
                    AnnotationKind::Primary
                } else {
                    AnnotationKind::Context
                };
                Some(kind.span(range).label(*label))
            })
            .collect();
        group = if annotations.is_empty() {
            group.element(Origin::path(file))
        } else {
            let text: &str = &places[0].0.text;
            group.element(Snippet::source(text).path(file).annotations(annotations))
        };
    }
    group
}
