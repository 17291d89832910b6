//! Generates edits, and models their effect on plain data.

use std::cmp::Reverse;

use koze_edit::{Edit, Format, Path, Step};
use serde_json::{Map, Value, json};

/// Returns all paths of a value, the root first.
pub(crate) fn paths(value: &Value) -> Vec<Path> {
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

pub(crate) fn find<'v>(value: &'v Value, path: &[Step]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get(key),
        Step::Index(index) => value.get(index),
    })
}

pub(crate) fn path_of(edit: &Edit) -> &Path {
    match edit {
        Edit::Set { path, .. } | Edit::Push { path, .. } | Edit::Remove { path } => path,
    }
}

/// The seed of an edit: its place (modulo the number of paths), its kind, new keys, and values.
pub(crate) type Seed = (usize, u8, Vec<String>, Value, Value);

/// Converts seeds to edits that fit the value and do not contradict each other.
pub(crate) fn edits(root: &Value, seeds: &[Seed], format: Format, only_pushes: bool) -> Vec<Edit> {
    let all = paths(root);
    let mut edits: Vec<Edit> = Vec::new();
    for (place, kind, new, value, element) in seeds {
        let (path, table) = (all[place % all.len()].clone(), element.clone());
        let here = find(root, &path).expect("the path is one of the value");
        let mut below = path.clone();
        below.extend(new.iter().map(|key| Step::from(key.as_str())));
        let missing = here.is_object() && find(root, &below[..=path.len()]).is_none();
        let edit = match kind % 6 {
            0 if missing => Edit::Push { path: below, value: table },
            1 if missing && !only_pushes => Edit::Set { path: below, value: value.clone() },
            2 if !path.is_empty() && !only_pushes => Edit::Remove { path },
            3 if !path.is_empty() && !only_pushes => {
                // An element of an array of tables can only be replaced by another table.
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

/// Applies edits to plain data.
pub(crate) fn model(root: &Value, edits: &[Edit]) -> Value {
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
    // Remove the last element first, so that the others keep their indices.
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

/// Removes empty tables and arrays, which TOML cannot keep when their last part is removed.
pub(crate) fn without_empty(value: &Value) -> Value {
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
