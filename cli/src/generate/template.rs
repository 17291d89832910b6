//! Renders a template: placeholders `__KOZE_…__`, and regions between `//#region NAME` and `//#endregion`.

/// The values for one copy of a region.
#[derive(Debug, Clone, Default)]
pub(super) struct Fill {
    /// The value of each placeholder.
    pub(super) holes: Vec<(&'static str, String)>,
    /// The nested regions to include.
    pub(super) regions: Vec<&'static str>,
}

/// A template, parsed into lines and regions.
pub(super) struct Template<'a> {
    parts: Vec<Part<'a>>,
}

enum Part<'a> {
    Line(Vec<Piece<'a>>),
    Region(&'a str, Template<'a>),
}

/// A part of a line. Lines are split once, because a region may have a thousand copies.
enum Piece<'a> {
    Text(&'a str),
    Hole(&'a str),
}

impl<'a> Template<'a> {
    /// Parses a template.
    ///
    /// # Panics
    /// Panics if a region is not closed.
    pub(super) fn new(text: &'a str) -> Self {
        Template { parts: parse_parts(&mut text.lines(), false) }
    }

    /// Renders the template. `outer` fills the text outside regions; `region` returns the values for each copy of a
    /// region.
    pub(super) fn render<'f>(&self, outer: &Fill, region: &dyn Fn(&str) -> &'f [Fill]) -> String {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Line(line) => fill_line(line, outer, &mut text),
                Part::Region(name, inner) => {
                    for filled in region(name) {
                        inner.render_into(filled, &mut text);
                    }
                }
            }
        }
        text
    }

    fn render_into(&self, filled: &Fill, text: &mut String) {
        for part in &self.parts {
            match part {
                Part::Line(line) => fill_line(line, filled, text),
                Part::Region(name, inner) if filled.regions.contains(name) => inner.render_into(filled, text),
                Part::Region(..) => {}
            }
        }
    }
}

/// Fills in a line in a single pass, so that values that look like placeholders are not replaced.
fn fill_line(line: &[Piece], filled: &Fill, text: &mut String) {
    for piece in line {
        match piece {
            Piece::Text(part) => text.push_str(part),
            Piece::Hole(name) => {
                let hole = filled.holes.iter().find(|(hole, _)| hole == name);
                let (_, value) =
                    hole.unwrap_or_else(|| panic!("a template has a placeholder that nobody fills: {name}"));
                text.push_str(value);
            }
        }
    }
    text.push('\n');
}

/// Splits a line at its placeholders.
fn split_placeholders(line: &str) -> Vec<Piece<'_>> {
    const START: &str = "__KOZE_";
    const END: &str = "__";
    let mut pieces = Vec::new();
    let mut rest = line;
    while let Some(start) = rest.find(START) {
        let (before, from) = rest.split_at(start);
        let end = from[START.len()..].find(END).expect("a placeholder of a template ends");
        let (hole, after) = from.split_at(START.len() + end + END.len());
        pieces.extend([Piece::Text(before), Piece::Hole(hole)]);
        rest = after;
    }
    pieces.push(Piece::Text(rest));
    pieces
}

fn parse_parts<'a>(lines: &mut std::str::Lines<'a>, inside: bool) -> Vec<Part<'a>> {
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        match line.trim_start().strip_prefix("//#region ") {
            Some(name) => found.push(Part::Region(name.trim(), Template { parts: parse_parts(lines, true) })),
            None if line.trim() == "//#endregion" => {
                assert!(inside, "a template closes a region it did not open");
                return found;
            }
            None => found.push(Part::Line(split_placeholders(line))),
        }
    }
    assert!(!inside, "a template leaves a region open");
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_repeat_once_per_fill() {
        let template = Template::new(
            "a __KOZE_X__\n//#region r\nb __KOZE_X__\n  //#region s\nc\n  //#endregion\n//#endregion\nd\n",
        );
        let hole = |value: &str| vec![("__KOZE_X__", value.to_owned())];
        let outer = Fill { holes: hole("__KOZE_X__"), ..Fill::default() };
        let fills =
            [Fill { holes: hole("1"), regions: vec![] }, Fill { holes: hole("2"), regions: vec!["s"] }];
        let text = template.render(&outer, &|_| &fills);
        assert_eq!(text, "a __KOZE_X__\nb 1\nb 2\nc\nd\n");
        assert_eq!(template.render(&outer, &|_| &[]), "a __KOZE_X__\nd\n");
    }
}
