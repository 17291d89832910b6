//! Generates configuration texts in usual and unusual layouts.

use std::fmt::Write as _;

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value};

/// The keys of generated objects. The first ones are keys of real configurations.
pub(crate) const KEYS: [&str; 9] =
    ["containers", "durable_objects", "bindings", "migrations", "env", "a", "b c", "ü", ""];

pub(crate) fn key() -> impl Strategy<Value = String> {
    prop_oneof![4 => prop::sample::select(&KEYS[..]).prop_map(str::to_owned), 1 => "[a-z]{1,3}"]
}

pub(crate) fn scalar() -> impl Strategy<Value = Value> {
    let strings = ["", "x", "/* no */", "// no", "é\n\"\\", "# no", ",}]"];
    prop_oneof![
        any::<i32>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        prop::sample::select(strings.to_vec()).prop_map(Value::from),
    ]
}

pub(crate) fn members(
    value: impl Strategy<Value = Value>,
    count: std::ops::Range<usize>,
) -> impl Strategy<Value = Value> {
    vec((key(), value), count).prop_map(|members| members.into_iter().collect::<Map<_, _>>().into())
}

/// Any value without nulls, which TOML lacks.
pub(crate) fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(3, 24, 4, |inner| {
        prop_oneof![vec(inner.clone(), 0..4).prop_map(Value::from), members(inner, 0..4)]
    })
}

pub(crate) fn object() -> impl Strategy<Value = Value> {
    members(value(), 0..5)
}

/// An endless source of small random choices.
#[derive(Debug)]
pub(crate) struct Dice {
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

pub(crate) fn dice() -> impl Strategy<Value = Dice> {
    vec(any::<u8>(), 97).prop_map(|rolls| Dice { rolls, next: 0 })
}

/// Writes white space and distinct comments, which may separate two tokens of JSONC.
pub(crate) fn gap(dice: &mut Dice, out: &mut String) {
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

/// Writes a value as JSONC, in a usual or unusual layout.
pub(crate) fn write_jsonc(value: &Value, depth: usize, dice: &mut Dice, out: &mut String) {
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
                // A duplicate key, which the next one overrides.
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

pub(crate) fn jsonc(value: &Value, dice: &mut Dice) -> String {
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

pub(crate) fn toml_key(key: &str) -> String {
    let bare = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if bare { key.to_owned() } else { Value::from(key).to_string() }
}

pub(crate) fn toml_inline(value: &Value, dice: &mut Dice) -> String {
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
pub(crate) fn write_toml(object: &Map<String, Value>, path: &str, dice: &mut Dice, out: &mut String) {
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
            // A table that contains only tables needs no header.
            let bare = table.values().all(Value::is_object) && out[body..].trim().starts_with('[');
            if open == "[" && bare && dice.roll(2) == 0 {
                out.replace_range(start..body, "");
            }
        }
    }
}

pub(crate) fn toml(value: &Value, dice: &mut Dice) -> String {
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
