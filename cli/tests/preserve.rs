//! Editing a configuration changes what the edits say and not a byte more, for any file and any batch of edits.

use std::cmp::Reverse;
use std::fmt::Write as _;

use koze_cli::wrangler::document::{Document, Edit, Format, Path, Step};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Keys of generated objects; the first ones are those that a configuration has.
const KEYS: [&str; 8] = ["containers", "durable_objects", "bindings", "migrations", "a", "b c", "ü", ""];

fn key() -> impl Strategy<Value = String> {
    prop_oneof![4 => prop::sample::select(&KEYS[..]).prop_map(str::to_owned), 1 => "[a-z]{1,3}"]
}

fn scalar() -> impl Strategy<Value = Value> {
    let strings = ["", "x", "/* no */", "// no", "é\n\"\\", "# no", ",}]"];
    prop_oneof![
        any::<i32>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        prop::sample::select(strings.to_vec()).prop_map(Value::from),
    ]
}

fn members(
    value: impl Strategy<Value = Value>,
    count: std::ops::Range<usize>,
) -> impl Strategy<Value = Value> {
    vec((key(), value), count).prop_map(|members| members.into_iter().collect::<Map<_, _>>().into())
}

/// Any value without nulls, which TOML lacks.
fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(3, 24, 4, |inner| {
        prop_oneof![vec(inner.clone(), 0..4).prop_map(Value::from), members(inner, 0..4)]
    })
}

/// What is pushed.
fn element() -> impl Strategy<Value = Value> {
    members(value(), 0..3)
}

fn object() -> impl Strategy<Value = Value> {
    members(value(), 0..5)
}

/// An endless source of small choices.
#[derive(Debug)]
struct Dice {
    rolls: Vec<u8>,
    next: usize,
}

impl Dice {
    fn roll(&mut self, sides: u8) -> u8 {
        self.next += 1;
        let round = u8::try_from(self.next / self.rolls.len() % 251).expect("small");
        self.rolls[self.next % self.rolls.len()].wrapping_add(round) % sides
    }

    fn choose(&mut self, choices: [&'static str; 4]) -> &'static str {
        choices[usize::from(self.roll(4))]
    }
}

fn dice() -> impl Strategy<Value = Dice> {
    vec(any::<u8>(), 97).prop_map(|rolls| Dice { rolls, next: 0 })
}

/// White space and comments that may stand between two tokens of JSONC. Each comment is another one.
fn gap(dice: &mut Dice, out: &mut String) {
    for _ in 0..dice.roll(4) {
        let number = out.len();
        match dice.roll(12) {
            0..4 => out.push(' '),
            4 => out.push('\t'),
            5..8 => out.push('\n'),
            8 => *out += "\r\n",
            9 => write!(out, "/*{number}, }} é*/").expect("a string takes all"),
            10 => write!(out, "/*{number}\n * \" */").expect("a string takes all"),
            _ => writeln!(out, "//{number} ] , \"").expect("a string takes all"),
        }
    }
}

/// Writes a value as JSONC, neatly or as nobody would.
fn write_jsonc(value: &Value, depth: usize, dice: &mut Dice, out: &mut String) {
    let (open, close, entries): (_, _, Vec<(Option<&String>, &Value)>) = match value {
        Value::Object(object) => ('{', '}', object.iter().map(|(key, value)| (Some(key), value)).collect()),
        Value::Array(array) => ('[', ']', array.iter().map(|value| (None, value)).collect()),
        Value::String(string) if dice.roll(3) == 0 => {
            out.push('"');
            for unit in string.encode_utf16() {
                write!(out, "\\u{unit:04x}").expect("a string takes all");
            }
            out.push('"');
            return;
        }
        scalar => {
            *out += &scalar.to_string();
            return;
        }
    };
    let neat = dice.roll(2) == 0;
    let blank = |dice: &mut Dice, out: &mut String| {
        if !neat {
            gap(dice, out);
        }
    };
    out.push(open);
    let count = entries.len();
    for (place, (key, value)) in entries.into_iter().enumerate() {
        if neat {
            *out += "\n";
            *out += &"  ".repeat(depth + 1);
        }
        if let Some(key) = key {
            let key = Value::from(key.as_str()).to_string();
            if dice.roll(10) == 0 {
                // A property that the next one hides.
                *out += &key;
                *out += ": [0],";
            }
            blank(dice, out);
            *out += &key;
            blank(dice, out);
            *out += if neat { ": " } else { ":" };
        }
        blank(dice, out);
        write_jsonc(value, depth + 1, dice, out);
        blank(dice, out);
        if place + 1 < count || dice.roll(4) == 0 {
            out.push(',');
        }
        blank(dice, out);
    }
    if neat && count > 0 {
        *out += "\n";
        *out += &"  ".repeat(depth);
    } else {
        gap(dice, out);
    }
    out.push(close);
}

fn jsonc(value: &Value, dice: &mut Dice) -> String {
    let mut text = String::new();
    if dice.roll(4) == 0 {
        text.push('\u{feff}');
    }
    gap(dice, &mut text);
    write_jsonc(value, 0, dice, &mut text);
    gap(dice, &mut text);
    if dice.roll(3) == 0 {
        text = text.replace("\r\n", "\n").replace('\n', "\r\n");
    }
    text
}

fn toml_key(key: &str) -> String {
    let bare = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if bare { key.to_owned() } else { Value::from(key).to_string() }
}

fn toml_inline(value: &Value, dice: &mut Dice) -> String {
    match value {
        Value::Object(object) => {
            let mut entries = Vec::new();
            for (key, value) in object {
                let key = toml_key(key);
                match value.as_object().filter(|inner| !inner.is_empty()) {
                    Some(inner) if dice.roll(2) == 0 => {
                        entries.extend(inner.iter().map(|(name, value)| {
                            format!("{key}. {} = {}", toml_key(name), toml_inline(value, dice))
                        }));
                    }
                    _ => entries.push(format!("{key} ={}", toml_inline(value, dice))),
                }
            }
            format!("{{ {} }}", entries.join(", "))
        }
        Value::Array(array) => {
            let mut text = "[".to_owned();
            for (place, value) in array.iter().enumerate() {
                text += dice.choose(["", " ", "\n  ", "\n# c, ]\n\t"]);
                text += &toml_inline(value, dice);
                text += if place + 1 < array.len() || dice.roll(3) == 0 { "," } else { "" };
            }
            text + dice.choose(["", " ", "\n", " # d\n"]) + "]"
        }
        scalar => scalar.to_string(),
    }
}

/// Writes a table: its lines first, then its sections.
fn write_toml(object: &Map<String, Value>, path: &str, dice: &mut Dice, out: &mut String) {
    let mut sections = Vec::new();
    for (key, value) in object {
        let key = toml_key(key);
        let tables =
            value.as_array().is_some_and(|array| !array.is_empty() && array.iter().all(Value::is_object));
        if (value.is_object() || tables) && dice.roll(3) > 0 {
            sections.push((key, value));
            continue;
        }
        *out += dice.choose(["", "\n", "# note\n", "  "]);
        match value.as_object().filter(|object| !object.is_empty()) {
            Some(inner) if dice.roll(2) == 0 => {
                for (name, value) in inner {
                    let value = toml_inline(value, dice);
                    writeln!(out, "{key} . {}=  {value}", toml_key(name)).expect("fits");
                }
            }
            _ => write!(out, "{key} = {}", toml_inline(value, dice)).expect("fits"),
        }
        *out += dice.choose(["\n", " # c\n", "  \n", "\n\n"]);
    }
    for (key, value) in sections {
        let path = format!("{path}{key}");
        let (open, close) = if value.is_array() { ("[[", "]]") } else { ("[", "]") };
        let tables = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        for table in tables.iter().filter_map(Value::as_object) {
            let start = out.len();
            *out += dice.choose(["", "\n", "# head\n", "\n\n"]);
            write!(out, "{open}{path}{close}").expect("a string takes all");
            *out += dice.choose(["\n", " # h\n", "  \n", "\n\n"]);
            let body = out.len();
            write_toml(table, &format!("{path}."), dice, out);
            // A table of tables needs no header of its own.
            let bare = table.values().all(Value::is_object) && out[body..].trim().starts_with('[');
            if open == "[" && bare && dice.roll(2) == 0 {
                out.replace_range(start..body, "");
            }
        }
    }
}

fn toml(value: &Value, dice: &mut Dice) -> String {
    let mut text = String::new();
    if let Some(object) = value.as_object() {
        write_toml(object, "", dice, &mut text);
    }
    match dice.roll(4) {
        0 => text.truncate(text.trim_end().len()),
        1 => text = text.replace('\n', "\r\n"),
        2 => text += "\n# bye\n",
        _ => {}
    }
    if dice.roll(4) == 0 { format!("\u{feff}{text}") } else { text }
}

/// All paths of a value, the root first.
fn paths(value: &Value) -> Vec<Path> {
    let inner: Vec<(Step, &Value)> = match value {
        Value::Object(object) => {
            object.iter().map(|(key, value)| (Step::from(key.as_str()), value)).collect()
        }
        Value::Array(array) => {
            array.iter().enumerate().map(|(place, value)| (Step::from(place), value)).collect()
        }
        _ => Vec::new(),
    };
    let mut all = vec![Vec::new()];
    for (step, value) in inner {
        let below = paths(value).into_iter();
        all.extend(below.map(|path| [vec![step.clone()], path].concat()));
    }
    all
}

fn find<'v>(value: &'v Value, path: &[Step]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get(key),
        Step::Index(index) => value.get(index),
    })
}

fn path_of(edit: &Edit) -> &Path {
    match edit {
        Edit::Set { path, .. } | Edit::Push { path, .. } | Edit::Remove { path } => path,
    }
}

/// One edit: where, what kind, under which new keys, and with what.
type Seed = (prop::sample::Index, u8, Vec<String>, Value, Value);

fn seeds() -> impl Strategy<Value = Vec<Seed>> {
    let seed = (any::<prop::sample::Index>(), any::<u8>(), vec(key(), 1..3), value(), element());
    vec(seed, 0..7)
}

/// Turns seeds to edits that fit the value and do not contradict each other.
fn edits(root: &Value, seeds: &[Seed], format: Format, only_pushes: bool) -> Vec<Edit> {
    let all = paths(root);
    let mut edits: Vec<Edit> = Vec::new();
    for (place, kind, new, value, element) in seeds {
        let (path, table) = (place.get(&all).clone(), element.clone());
        let here = find(root, &path).expect("the path is one of the value");
        let mut below = path.clone();
        below.extend(new.iter().map(|key| Step::from(key.as_str())));
        let missing = here.is_object() && find(root, &below[..=path.len()]).is_none();
        let edit = match kind % 6 {
            0 if missing => Edit::Push { path: below, value: table },
            1 if missing && !only_pushes => Edit::Set { path: below, value: value.clone() },
            2 if !path.is_empty() && !only_pushes => Edit::Remove { path },
            3 if !path.is_empty() && !only_pushes => {
                // An element of an array of tables can only become another table.
                let table_only = format == Format::Toml && matches!(path.last(), Some(Step::Index(_)));
                Edit::Set { path, value: if table_only { table } else { value.clone() } }
            }
            _ if here.is_array() => Edit::Push { path, value: table },
            _ => continue,
        };
        let path = path_of(&edit);
        let clash = edits.iter().any(|other| {
            let pushes = [&edit, other].iter().all(|edit| matches!(edit, Edit::Push { .. }));
            let other = path_of(other);
            !(pushes && other == path) && (other.starts_with(path) || path.starts_with(other))
        });
        if !clash {
            edits.push(edit);
        }
    }
    edits
}

/// What edits mean, told by plain data.
fn model(root: &Value, edits: &[Edit]) -> Value {
    let mut result = root.clone();
    for edit in edits {
        if matches!(edit, Edit::Remove { .. }) {
            continue;
        }
        let mut here = &mut result;
        for step in path_of(edit) {
            here = match step {
                Step::Key(key) if here.is_null() => {
                    *here = json!({});
                    &mut here[key.as_str()]
                }
                Step::Key(key) => &mut here[key.as_str()],
                Step::Index(index) => &mut here[*index],
            };
        }
        match edit {
            Edit::Push { value, .. } if here.is_null() => *here = json!([value]),
            Edit::Push { value, .. } => here.as_array_mut().expect("an array").push(value.clone()),
            Edit::Set { value, .. } => *here = value.clone(),
            Edit::Remove { .. } => {}
        }
    }
    let mut removals: Vec<_> =
        edits.iter().filter(|edit| matches!(edit, Edit::Remove { .. })).map(path_of).collect();
    // The last element first, so that the others keep their indices.
    removals.sort_by_key(|path| {
        let steps = path.iter().map(|step| match step {
            Step::Index(index) => (*index, String::new()),
            Step::Key(key) => (0, key.clone()),
        });
        Reverse(steps.collect::<Vec<_>>())
    });
    for path in removals {
        let (last, outer) = path.split_last().expect("not the root");
        let mut here = &mut result;
        for step in outer {
            here = match step {
                Step::Key(key) => &mut here[key.as_str()],
                Step::Index(index) => &mut here[*index],
            };
        }
        match (last, here) {
            (Step::Key(key), Value::Object(object)) => drop(object.shift_remove(key)),
            (Step::Index(index), Value::Array(array)) => drop(array.remove(*index)),
            (step, value) => panic!("{step:?} in {value}"),
        }
    }
    result
}

/// Without the empty tables and arrays that TOML cannot keep when their last part goes.
fn without_empty(value: &Value) -> Value {
    let empty = |value: &Value| *value == json!({}) || *value == json!([]);
    match value {
        Value::Object(object) => {
            let inner = object.iter().map(|(key, value)| (key.clone(), without_empty(value)));
            inner.filter(|(_, value)| !empty(value)).collect::<Map<_, _>>().into()
        }
        Value::Array(array) => array.iter().map(without_empty).collect(),
        scalar => scalar.clone(),
    }
}

/// Whether `part` is what is left of `whole` when some characters are taken away.
fn is_within(part: &str, whole: &str) -> bool {
    let mut rest = whole.chars();
    part.chars().all(|wanted| rest.any(|found| found == wanted))
}

/// The comments of a JSONC text that stand outside of the values at `paths`.
fn comments(document: &Document, paths: &[&Path]) -> Vec<String> {
    let gone: Vec<_> = paths.iter().filter_map(|path| document.range(path)).collect();
    let text = document.text();
    let (mut found, mut place, mut string) = (Vec::new(), 0, false);
    while let Some(first) = text[place..].chars().next() {
        let rest = &text[place..];
        let mut length = first.len_utf8();
        match first {
            '\\' if string => length = 2,
            '"' => string = !string,
            '/' if !string => {
                let end = if rest.starts_with("//") {
                    rest.find(['\r', '\n'])
                } else {
                    rest.find("*/").map(|end| end + 2)
                };
                length = end.unwrap_or(rest.len());
                if !gone.iter().any(|range| range.contains(&place)) {
                    found.push(rest[..length].to_owned());
                }
            }
            _ => {}
        }
        place += length;
    }
    found
}

/// Whether an edit touches an empty container, or one that loses all it has: the white space in it may change.
fn fills_empty(root: &Value, edits: &[Edit]) -> bool {
    edits.iter().any(|edit| {
        let path = path_of(edit);
        let deepest = (0..=path.len()).rev().find_map(|length| find(root, &path[..length]));
        deepest.is_some_and(|value| *value == json!({}) || *value == json!([]))
    })
}

/// The text without white space.
fn tight(text: &str) -> String {
    text.split_ascii_whitespace().collect()
}

/// The removals that take back what pushes brought.
fn undo(root: &Value, edits: &[Edit]) -> Vec<Edit> {
    let removal = |(place, edit): (usize, &Edit)| {
        let path = path_of(edit);
        let path = if let Some(array) = find(root, path) {
            let before = edits[..place].iter().filter(|other| path_of(other) == path).count();
            let index = array.as_array().map_or(0, Vec::len) + before;
            [path.clone(), vec![Step::from(index)]].concat()
        } else {
            let known = (0..path.len()).rev().find(|length| find(root, &path[..*length]).is_some());
            path[..=known.expect("the root at least")].to_vec()
        };
        Edit::Remove { path }
    };
    edits.iter().enumerate().map(removal).collect()
}

fn parse(format: Format, text: &str) -> Document {
    Document::parse(format, text).unwrap_or_else(|error| panic!("{error:?} in\n{text}"))
}

/// A batch that only pushes only inserts, and taking the pushed entries away again gives the text back.
fn check_pushes(format: Format, text: &str, root: &Value, seeds: &[Seed]) {
    let document = parse(format, text);
    let edits = edits(root, seeds, format, true);
    let pushed = parse(format, &document.apply(&edits));
    if fills_empty(root, &edits) {
        assert!(is_within(&tight(text), &tight(pushed.text())), "{text}\n---\n{}", pushed.text());
        return;
    }
    assert!(is_within(text, pushed.text()), "{text}\n---\n{}", pushed.text());
    let back = pushed.apply(&undo(root, &edits));
    assert_eq!(back, text, "{}", pushed.text());
}

/// What no edit touches has the very bytes it had.
fn check_untouched(root: &Value, edits: &[Edit], before: &Document, after: &Document) {
    let shifts = edits.iter().any(|edit| match edit {
        Edit::Remove { path } => matches!(path.last(), Some(Step::Index(_))),
        _ => false,
    });
    for path in paths(root) {
        let touched = edits.iter().map(path_of);
        let touched = touched.into_iter().any(|p| p.starts_with(&path) || path.starts_with(p));
        let bytes =
            |document: &Document| document.range(&path).map(|range| document.text()[range].to_owned());
        assert!(shifts || touched || bytes(before) == bytes(after), "{path:?}\n{}", after.text());
    }
}

proptest! {
    #[test]
    fn jsonc_edits_mean_what_they_say(root in object(), mut dice in dice(), seeds in seeds()) {
        let document = parse(Format::Jsonc, &jsonc(&root, &mut dice));
        prop_assert_eq!(document.value(), &root);
        prop_assert_eq!(document.apply(&[]), document.text());
        let edits = edits(&root, &seeds, Format::Jsonc, false);
        let result = parse(Format::Jsonc, &document.apply(&edits));
        let want = model(&root, &edits);
        prop_assert_eq!(result.value(), &want, "{:?}\n{}", edits, result.text());
        check_untouched(&root, &edits, &document, &result);

        // No comment is lost but those inside of the values that go.
        let changed = edits.iter().filter(|edit| !matches!(edit, Edit::Push { .. }));
        let gone: Vec<&Path> = changed.map(path_of).collect();
        let after = comments(&result, &[]);
        let mut rest = after.iter();
        for comment in comments(&document, &gone) {
            prop_assert!(rest.any(|found| *found == comment), "{comment} lost: {}", result.text());
        }
    }

    #[test]
    fn jsonc_pushes_only_insert(root in object(), mut dice in dice(), seeds in seeds()) {
        check_pushes(Format::Jsonc, &jsonc(&root, &mut dice), &root, &seeds);
    }

    #[test]
    fn toml_edits_mean_what_they_say(root in object(), mut dice in dice(), seeds in seeds()) {
        let document = parse(Format::Toml, &toml(&root, &mut dice));
        prop_assert_eq!(document.value(), &root);
        prop_assert_eq!(document.apply(&[]), document.text());
        let edits = edits(&root, &seeds, Format::Toml, false);
        let result = parse(Format::Toml, &document.apply(&edits));
        let (got, want) = (without_empty(result.value()), without_empty(&model(&root, &edits)));
        prop_assert_eq!(got, want, "{:?}\n{}\n---\n{}", edits, document.text(), result.text());
    }

    #[test]
    fn toml_pushes_only_insert(root in object(), mut dice in dice(), seeds in seeds()) {
        check_pushes(Format::Toml, &toml(&root, &mut dice), &root, &seeds);
    }
}
