//! Applies the rules of a schema to a value.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use regex_lite::Regex;
use serde_json::{Map, Value};

/// How many steps the arguments of one call may take: about a tenth of a second.
const STEPS: usize = 20_000_000;

/// A schema: all rules must hold.
#[derive(Debug, Default)]
pub(super) struct Schema(pub(super) Vec<Rule>);

/// A rule for values of one kind. Values of other kinds satisfy it.
#[derive(Debug)]
pub(super) enum Rule {
    /// No value satisfies it.
    Never,
    Type(Vec<Kind>),
    /// The value is one of these.
    OneOf(Vec<Value>),
    Number(Bound),
    /// The characters of a string.
    Length(Sizes),
    Pattern(Regex),
    /// The items of an array.
    Items(Sizes),
    UniqueItems,
    /// Schemas of the first items.
    First(Vec<Schema>),
    /// The schema of the items after the first ones.
    Rest {
        after: usize,
        schema: Schema,
    },
    /// How many items satisfy a schema.
    Contains {
        schema: Schema,
        sizes: Sizes,
    },
    /// The properties of an object.
    Properties(Sizes),
    Required {
        if_present: Option<String>,
        names: Vec<String>,
    },
    Names(Schema),
    Fields {
        named: BTreeMap<String, Schema>,
        matching: Vec<(Regex, Schema)>,
        others: Option<Schema>,
    },
    All(Vec<Schema>),
    Any(Vec<Schema>),
    One(Vec<Schema>),
    Not(Schema),
    If {
        condition: Schema,
        then: Schema,
        otherwise: Schema,
    },
}

/// A kind of value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Boolean,
    Object,
    Array,
    Number,
    Integer,
    String,
}

/// A bound of numbers.
#[derive(Debug, Clone, Copy)]
pub(super) enum Bound {
    Least(f64),
    Most(f64),
    Above(f64),
    Below(f64),
    MultipleOf(f64),
}

/// A range of sizes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) least: usize,
    pub(super) most: Option<usize>,
}

/// The outcome of a check.
#[derive(Debug)]
pub(super) struct Checked {
    /// What is wrong, with its place.
    pub(super) errors: Vec<String>,
    /// Whether the steps were not enough.
    pub(super) spent: bool,
}

impl Kind {
    pub(super) const ALL: [Kind; 7] =
        [Kind::Null, Kind::Boolean, Kind::Object, Kind::Array, Kind::Number, Kind::Integer, Kind::String];

    pub(super) fn find(name: &str) -> Option<Self> {
        Kind::ALL.into_iter().find(|kind| kind.to_string() == name)
    }

    fn is_of(self, value: &Value) -> bool {
        match self {
            Kind::Null => value.is_null(),
            Kind::Boolean => value.is_boolean(),
            Kind::Object => value.is_object(),
            Kind::Array => value.is_array(),
            Kind::Number => value.is_number(),
            // 1.0 is an integer, too.
            Kind::Integer => value.as_f64().is_some_and(|number| number.fract() == 0.0),
            Kind::String => value.is_string(),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Null => "null",
            Kind::Boolean => "boolean",
            Kind::Object => "object",
            Kind::Array => "array",
            Kind::Number => "number",
            Kind::Integer => "integer",
            Kind::String => "string",
        })
    }
}

impl Bound {
    /// Returns what is wrong with a number.
    fn wrong(self, number: f64) -> Option<String> {
        let (right, text) = match self {
            Bound::Least(bound) => (number >= bound, format!("is less than the minimum of {bound}")),
            Bound::Most(bound) => (number <= bound, format!("is greater than the maximum of {bound}")),
            Bound::Above(bound) => (number > bound, format!("is not greater than {bound}")),
            Bound::Below(bound) => (number < bound, format!("is not less than {bound}")),
            Bound::MultipleOf(step) => {
                let times = number / step;
                // 0.3 is a multiple of 0.1, although not of the binary number next to it.
                let right = if number.fract() == 0.0 && step.fract() == 0.0 {
                    number % step == 0.0
                } else {
                    (times - times.round()).abs() <= 1e-9 * times.abs().max(1.0)
                };
                (right, format!("is not a multiple of {step}"))
            }
        };
        (!right).then_some(text)
    }
}

impl Sizes {
    pub(super) fn at_least(least: usize) -> Self {
        Sizes { least, most: None }
    }

    pub(super) fn at_most(most: usize) -> Self {
        Sizes { least: 0, most: Some(most) }
    }

    /// Returns what is wrong with a number of things.
    fn wrong(self, count: usize, things: &str) -> Option<String> {
        let Sizes { least, most } = self;
        if count < least {
            return Some(format!("has {count} {things}, but needs at least {least}"));
        }
        let most = most.filter(|most| count > *most)?;
        Some(format!("has {count} {things}, but may have at most {most}"))
    }
}

impl Schema {
    /// Checks a value.
    pub(super) fn check(&self, value: &Value) -> Checked {
        let mut run = Run { path: Vec::new(), errors: Vec::new(), failed: false, quiet: false, steps: STEPS };
        run.schema(self, value);
        Checked { errors: run.errors, spent: run.steps == 0 }
    }
}

/// A check in progress.
struct Run<'a> {
    /// Where the value is that is checked.
    path: Vec<Part<'a>>,
    errors: Vec<String>,
    failed: bool,
    /// Whether only `failed` matters.
    quiet: bool,
    steps: usize,
}

#[derive(Clone, Copy)]
enum Part<'a> {
    Name(&'a str),
    Index(usize),
}

impl<'a> Run<'a> {
    fn schema(&mut self, schema: &Schema, value: &'a Value) {
        for rule in &schema.0 {
            if !self.step(1) || (self.quiet && self.failed) {
                return;
            }
            self.rule(rule, value);
        }
    }

    /// Spends steps. Returns whether there are enough.
    fn step(&mut self, steps: usize) -> bool {
        self.steps = self.steps.saturating_sub(steps);
        self.steps > 0
    }

    fn rule(&mut self, rule: &Rule, value: &'a Value) {
        match rule {
            Rule::Never => self.wrong(|| format!("{} is not allowed", short(value))),
            Rule::Type(kinds) => {
                if !kinds.iter().any(|kind| kind.is_of(value)) {
                    let names: Vec<String> = kinds.iter().map(|kind| format!("\"{kind}\"")).collect();
                    let types = if names.len() == 1 { "type" } else { "types" };
                    self.wrong(|| format!("{} is not of {types} {}", short(value), names.join(", ")));
                }
            }
            Rule::OneOf(values) => self.one_of(values, value),
            Rule::Number(bound) => {
                let wrong = value.as_f64().and_then(|number| bound.wrong(number));
                self.wrong_if(wrong.map(|wrong| format!("{} {wrong}", short(value))));
            }
            Rule::Length(sizes) => {
                let wrong = value.as_str().and_then(|text| sizes.wrong(text.chars().count(), "characters"));
                self.wrong_if(wrong.map(|wrong| format!("{} {wrong}", short(value))));
            }
            Rule::Pattern(pattern) => {
                if let Some(text) = value.as_str().filter(|text| !self.matches(pattern, text)) {
                    self.wrong(|| format!("{} does not match \"{pattern}\"", short(&text.into())));
                }
            }
            Rule::All(schemas) => schemas.iter().for_each(|schema| self.schema(schema, value)),
            Rule::Any(schemas) => {
                if !schemas.iter().any(|schema| self.holds(schema, value)) {
                    self.wrong(|| {
                        format!("{} is not valid under any of the schemas of `anyOf`", short(value))
                    });
                }
            }
            Rule::One(schemas) => {
                let count = schemas.iter().filter(|schema| self.holds(schema, value)).count();
                if count != 1 {
                    let which = if count == 0 { "none" } else { "more than one" };
                    self.wrong(|| {
                        format!("{} is valid under {which} of the schemas of `oneOf`", short(value))
                    });
                }
            }
            Rule::Not(schema) => {
                if self.holds(schema, value) {
                    self.wrong(|| format!("{} is what `not` excludes", short(value)));
                }
            }
            Rule::If { condition, then, otherwise } => {
                let schema = if self.holds(condition, value) { then } else { otherwise };
                self.schema(schema, value);
            }
            rule => match value {
                Value::Array(items) => self.array(rule, items),
                Value::Object(fields) => self.object(rule, fields),
                _ => {}
            },
        }
    }

    fn one_of(&mut self, values: &[Value], value: &Value) {
        // Each value may be as long as the arguments.
        let canonical = canonical(value);
        if !self.step(canonical.len()) || values.iter().any(|one| self::canonical(one) == canonical) {
            return;
        }
        let text = if let [only] = values {
            format!("{} was expected, and not {}", short(only), short(value))
        } else {
            let names: Vec<String> = values.iter().take(20).map(short).collect();
            format!("{} is not one of {}", short(value), names.join(", "))
        };
        self.wrong(|| text);
    }

    fn array(&mut self, rule: &Rule, items: &'a [Value]) {
        match rule {
            Rule::Items(sizes) => {
                self.wrong_if(sizes.wrong(items.len(), "items").map(|wrong| format!("the array {wrong}")));
            }
            Rule::UniqueItems => {
                let all: Vec<String> = items.iter().map(canonical).collect();
                let mut seen = BTreeSet::new();
                if self.step(all.iter().map(String::len).sum()) && !all.iter().all(|item| seen.insert(item)) {
                    self.wrong(|| "the array has equal items".to_owned());
                }
            }
            Rule::First(schemas) => {
                for (index, (schema, item)) in schemas.iter().zip(items).enumerate() {
                    self.at(Part::Index(index), schema, item);
                }
            }
            Rule::Rest { after, schema } => {
                for (index, item) in items.iter().enumerate().skip(*after) {
                    self.at(Part::Index(index), schema, item);
                }
            }
            Rule::Contains { schema, sizes } => {
                let count = items.iter().filter(|item| self.holds(schema, item)).count();
                let wrong = sizes.wrong(count, "items that match `contains`");
                self.wrong_if(wrong.map(|wrong| format!("the array {wrong}")));
            }
            _ => {}
        }
    }

    fn object(&mut self, rule: &Rule, fields: &'a Map<String, Value>) {
        match rule {
            Rule::Properties(sizes) => {
                self.wrong_if(
                    sizes.wrong(fields.len(), "properties").map(|wrong| format!("the object {wrong}")),
                );
            }
            Rule::Required { if_present, names } => {
                if if_present.as_ref().is_some_and(|name| !fields.contains_key(name)) {
                    return;
                }
                for name in names.iter().filter(|name| !fields.contains_key(*name)) {
                    self.wrong(|| format!("\"{name}\" is a required property"));
                }
            }
            Rule::Names(schema) => {
                for name in fields.keys() {
                    if !self.holds(schema, &Value::from(name.as_str())) {
                        self.wrong(|| {
                            format!("the property name {} is not allowed", short(&name.as_str().into()))
                        });
                    }
                }
            }
            Rule::Fields { named, matching, others } => {
                let mut unexpected = Vec::new();
                for (name, value) in fields {
                    let mut known = false;
                    if let Some(schema) = named.get(name) {
                        known = true;
                        self.at(Part::Name(name), schema, value);
                    }
                    for (pattern, schema) in matching {
                        if self.matches(pattern, name) {
                            known = true;
                            self.at(Part::Name(name), schema, value);
                        }
                    }
                    match others {
                        Some(Schema(rules)) if !known && matches!(rules[..], [Rule::Never]) => {
                            unexpected.push(name);
                        }
                        Some(schema) if !known => self.at(Part::Name(name), schema, value),
                        _ => {}
                    }
                }
                if !unexpected.is_empty() {
                    let names: Vec<String> =
                        unexpected.iter().take(20).map(|name| format!("'{name}'")).collect();
                    let were = if unexpected.len() == 1 { "was" } else { "were" };
                    self.wrong(|| {
                        format!(
                            "Additional properties are not allowed ({} {were} unexpected)",
                            names.join(", ")
                        )
                    });
                }
            }
            _ => {}
        }
    }

    fn at(&mut self, part: Part<'a>, schema: &Schema, value: &'a Value) {
        self.path.push(part);
        self.schema(schema, value);
        self.path.pop();
    }

    /// Returns whether a value satisfies a schema, with the steps of this check.
    fn holds(&mut self, schema: &Schema, value: &Value) -> bool {
        let mut run =
            Run { path: Vec::new(), errors: Vec::new(), failed: false, quiet: true, steps: self.steps };
        run.schema(schema, value);
        self.steps = run.steps;
        !run.failed
    }

    /// Searches a text. The time of a search is proportional to the lengths of both.
    fn matches(&mut self, pattern: &Regex, text: &str) -> bool {
        self.step(pattern.as_str().len() * (text.len() / 8 + 1)) && pattern.is_match(text)
    }

    fn wrong_if(&mut self, text: Option<String>) {
        if let Some(text) = text {
            self.wrong(|| text);
        }
    }

    fn wrong(&mut self, text: impl FnOnce() -> String) {
        self.failed = true;
        if self.quiet {
            return;
        }
        let place: String = self
            .path
            .iter()
            .map(|part| match part {
                // As in a JSON pointer.
                Part::Name(name) => format!("/{}", name.replace('~', "~0").replace('/', "~1")),
                Part::Index(index) => format!("/{index}"),
            })
            .collect();
        let text = text();
        self.errors.push(if place.is_empty() { text } else { format!("{place}: {text}") });
    }
}

/// Returns a value for a message, cut if it is long.
fn short(value: &Value) -> String {
    const LONGEST: usize = 100;
    let text = value.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Returns a text that is the same for equal values: 1 and 1.0, and objects with other orders, are equal.
fn canonical(value: &Value) -> String {
    match value {
        #[allow(clippy::cast_possible_truncation, reason = "a whole number in this range")]
        Value::Number(number) => match number.as_f64() {
            Some(whole) if number.is_f64() && whole.fract() == 0.0 && whole.abs() < 9e15 => {
                (whole as i64).to_string()
            }
            _ => number.to_string(),
        },
        Value::Array(items) => format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(",")),
        Value::Object(fields) => {
            // Not collected, as in `Secrets`.
            let mut sorted = BTreeMap::new();
            sorted.extend(fields.iter().map(|(name, value)| (name, canonical(value))));
            let fields: Vec<String> = sorted
                .iter()
                .map(|(name, value)| format!("{}:{value}", Value::from(name.as_str())))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        value => value.to_string(),
    }
}
