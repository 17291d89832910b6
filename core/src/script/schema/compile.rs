//! Turns a schema into rules.

use std::collections::BTreeMap;

use regex_lite::Regex;
use serde_json::{Map, Value};

use super::invalid;
use super::rule::{Bound, Kind, Rule, Schema, Sizes};
use crate::error::Result;

/// How many schemas a schema has when each reference is replaced by what it refers to, and how deep they are nested.
const MAX_PARTS: usize = 10_000;
const MAX_DEPTH: usize = 100;
/// Where the definitions are that `$ref` can name.
const DEFINITIONS: &[&str] = &["$defs", "definitions"];
/// Keywords that refer to something else than a definition of the same schema.
const REFERRING: &[&str] =
    &["$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor"];
/// Keywords that restrict values, but that few schemas of tools have.
const UNSUPPORTED: &[&str] =
    &["additionalItems", "dependencies", "dependentSchemas", "unevaluatedItems", "unevaluatedProperties"];

/// Compiles a schema.
pub(super) struct Compiler<'a> {
    root: &'a Value,
    /// The definitions that are being compiled, the outermost first.
    within: Vec<&'a str>,
    parts: usize,
    depth: usize,
}

impl<'a> Compiler<'a> {
    pub(super) fn new(root: &'a Value) -> Self {
        Compiler { root, within: Vec::new(), parts: 0, depth: 0 }
    }

    /// Compiles the schema, or a part of it.
    pub(super) fn compile(&mut self, schema: &'a Value) -> Result<Schema> {
        self.parts += 1;
        if self.parts > MAX_PARTS || self.depth == MAX_DEPTH {
            return Err(invalid("`parameter_schema` is too complex: use fewer references and levels"));
        }
        let keywords = match schema {
            Value::Bool(true) => return Ok(Schema::default()),
            Value::Bool(false) => return Ok(Schema(vec![Rule::Never])),
            Value::Object(keywords) => keywords,
            _ => {
                return Err(invalid(
                    "`parameter_schema` is not a valid JSON schema: a schema is an object or a boolean",
                ));
            }
        };
        self.depth += 1;
        let mut rules = Vec::new();
        for (keyword, value) in keywords {
            rules.extend(self.rule(keyword, value, keywords)?);
        }
        self.depth -= 1;
        Ok(Schema(rules))
    }

    /// Returns the rule of a keyword. Unknown keywords are no rules.
    fn rule(
        &mut self,
        keyword: &'a str,
        value: &'a Value,
        all: &'a Map<String, Value>,
    ) -> Result<Option<Rule>> {
        Ok(Some(match keyword {
            "$ref" => Rule::All(vec![self.referred(text(keyword, value)?)?]),
            _ if REFERRING.contains(&keyword) => {
                return Err(invalid(&format!("`parameter_schema` must not have `{keyword}`")));
            }
            _ if UNSUPPORTED.contains(&keyword) => {
                return Err(invalid(&format!(
                    "`{keyword}` in `parameter_schema` is not supported: describe the arguments without it"
                )));
            }
            "type" => Rule::Type(kinds(value)?),
            "enum" => Rule::OneOf(list(keyword, value)?.to_vec()),
            "const" => Rule::OneOf(vec![value.clone()]),
            "minimum" => Rule::Number(Bound::Least(number(keyword, value)?)),
            "maximum" => Rule::Number(Bound::Most(number(keyword, value)?)),
            "exclusiveMinimum" => Rule::Number(Bound::Above(number(keyword, value)?)),
            "exclusiveMaximum" => Rule::Number(Bound::Below(number(keyword, value)?)),
            "multipleOf" => match number(keyword, value)? {
                step if step > 0.0 => Rule::Number(Bound::MultipleOf(step)),
                _ => return Err(wrong(keyword, "a number greater than 0")),
            },
            "minLength" => Rule::Length(Sizes::at_least(size(keyword, value)?)),
            "maxLength" => Rule::Length(Sizes::at_most(size(keyword, value)?)),
            "pattern" => Rule::Pattern(pattern(keyword, text(keyword, value)?)?),
            "minItems" => Rule::Items(Sizes::at_least(size(keyword, value)?)),
            "maxItems" => Rule::Items(Sizes::at_most(size(keyword, value)?)),
            "uniqueItems" => match value {
                Value::Bool(true) => Rule::UniqueItems,
                Value::Bool(false) => return Ok(None),
                _ => return Err(wrong(keyword, "a boolean")),
            },
            "prefixItems" => Rule::First(self.schemas(keyword, value)?),
            "items" if value.is_array() => {
                return Err(wrong(keyword, "a schema: use `prefixItems` for a list of schemas"));
            }
            "items" => {
                let after = all.get("prefixItems").and_then(Value::as_array).map_or(0, Vec::len);
                Rule::Rest { after, schema: self.compile(value)? }
            }
            "contains" => {
                let count = |keyword: &str| all.get(keyword).map(|value| size(keyword, value)).transpose();
                let sizes = Sizes { least: count("minContains")?.unwrap_or(1), most: count("maxContains")? };
                Rule::Contains { schema: self.compile(value)?, sizes }
            }
            "minProperties" => Rule::Properties(Sizes::at_least(size(keyword, value)?)),
            "maxProperties" => Rule::Properties(Sizes::at_most(size(keyword, value)?)),
            "required" => Rule::Required { if_present: None, names: names(keyword, value)? },
            "dependentRequired" => {
                let each = object(keyword, value)?.iter();
                let rule = |(name, value)| {
                    let rule = Rule::Required {
                        if_present: Some(String::clone(name)),
                        names: names(keyword, value)?,
                    };
                    Ok(Schema(vec![rule]))
                };
                Rule::All(each.map(rule).collect::<Result<_>>()?)
            }
            "propertyNames" => Rule::Names(self.compile(value)?),
            "properties" | "patternProperties" | "additionalProperties" => {
                // One rule for the three of them, where the first one stands.
                let first = ["properties", "patternProperties", "additionalProperties"]
                    .into_iter()
                    .find(|keyword| all.contains_key(*keyword));
                if first != Some(keyword) {
                    return Ok(None);
                }
                self.fields(all)?
            }
            "allOf" => Rule::All(self.some(keyword, value)?),
            "anyOf" => Rule::Any(self.some(keyword, value)?),
            "oneOf" => Rule::One(self.some(keyword, value)?),
            "not" => Rule::Not(self.compile(value)?),
            "if" => {
                let mut branch = |keyword| all.get(keyword).map(|value| self.compile(value)).transpose();
                let [then, otherwise] =
                    [branch("then")?.unwrap_or_default(), branch("else")?.unwrap_or_default()];
                Rule::If { condition: self.compile(value)?, then, otherwise }
            }
            // Checked even if nothing refers to them.
            "$defs" | "definitions" => {
                for schema in object(keyword, value)?.values() {
                    self.compile(schema)?;
                }
                return Ok(None);
            }
            _ => return Ok(None),
        }))
    }

    fn fields(&mut self, all: &'a Map<String, Value>) -> Result<Rule> {
        let mut named = BTreeMap::new();
        if let Some(value) = all.get("properties") {
            for (name, schema) in object("properties", value)? {
                named.insert(name.clone(), self.compile(schema)?);
            }
        }
        let mut matching = Vec::new();
        if let Some(value) = all.get("patternProperties") {
            for (text, schema) in object("patternProperties", value)? {
                matching.push((pattern("patternProperties", text)?, self.compile(schema)?));
            }
        }
        let others = all.get("additionalProperties").map(|schema| self.compile(schema)).transpose()?;
        Ok(Rule::Fields { named, matching, others })
    }

    fn schemas(&mut self, keyword: &str, value: &'a Value) -> Result<Vec<Schema>> {
        list(keyword, value)?.iter().map(|schema| self.compile(schema)).collect()
    }

    /// Like `schemas`, but at least one.
    fn some(&mut self, keyword: &str, value: &'a Value) -> Result<Vec<Schema>> {
        match self.schemas(keyword, value)? {
            schemas if schemas.is_empty() => Err(wrong(keyword, "a list of at least one schema")),
            schemas => Ok(schemas),
        }
    }

    fn referred(&mut self, to: &'a str) -> Result<Schema> {
        if self.within.contains(&to) {
            return Err(invalid(&format!(
                "`$ref` to `{to}` in `parameter_schema` is circular: write the levels out"
            )));
        }
        let name = DEFINITIONS
            .iter()
            .find_map(|place| to.strip_prefix(&format!("#/{place}/")).map(|name| (place, name)));
        let root = self.root;
        let found = name.and_then(|(place, name)| root.get(place)?.get(name));
        let Some(found) = found else {
            let message = format!(
                "`$ref` to `{to}` in `parameter_schema` refers to nothing: it can be `#/$defs/NAME`, and nothing outside of the schema"
            );
            return Err(invalid(&message));
        };
        self.within.push(to);
        let schema = self.compile(found);
        self.within.pop();
        schema
    }
}

fn wrong(keyword: &str, right: &str) -> crate::Error {
    invalid(&format!("`parameter_schema` is not a valid JSON schema: `{keyword}` must be {right}"))
}

fn text<'a>(keyword: &str, value: &'a Value) -> Result<&'a str> {
    value.as_str().ok_or_else(|| wrong(keyword, "a string"))
}

fn number(keyword: &str, value: &Value) -> Result<f64> {
    value.as_f64().ok_or_else(|| wrong(keyword, "a number"))
}

fn size(keyword: &str, value: &Value) -> Result<usize> {
    // 1.0 is an integer, too.
    let whole = value.as_f64().filter(|number| number.fract() == 0.0 && (0.0..9e15).contains(number));
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, and in this range")]
    whole.map(|number| number as usize).ok_or_else(|| wrong(keyword, "a whole number that is not negative"))
}

fn list<'a>(keyword: &str, value: &'a Value) -> Result<&'a [Value]> {
    value.as_array().map(Vec::as_slice).ok_or_else(|| wrong(keyword, "a list"))
}

fn object<'a>(keyword: &str, value: &'a Value) -> Result<&'a Map<String, Value>> {
    value.as_object().ok_or_else(|| wrong(keyword, "an object"))
}

fn names(keyword: &str, value: &Value) -> Result<Vec<String>> {
    let name = |value: &Value| value.as_str().map(str::to_owned);
    let names = value.as_array().and_then(|list| list.iter().map(name).collect());
    names.ok_or_else(|| wrong(keyword, "a list of names"))
}

fn kinds(value: &Value) -> Result<Vec<Kind>> {
    let list = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    let kinds: Option<Vec<Kind>> = list.iter().map(|value| Kind::find(value.as_str()?)).collect();
    kinds.filter(|kinds| !kinds.is_empty()).ok_or_else(|| {
        let names = Kind::ALL.map(|kind| format!("\"{kind}\"")).join(", ");
        wrong("type", &format!("one of {names}, or a list of them"))
    })
}

fn pattern(keyword: &str, text: &str) -> Result<Regex> {
    Regex::new(text).map_err(|error| {
        let right = format!("a regular expression without lookaround, back references and `\\p`, which `{text}` is not ({error})");
        wrong(keyword, &right).with_source(error)
    })
}
