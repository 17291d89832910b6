//! Groups a batch of edits by the value of the document that each of them changes.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

use crate::edit::{Edit, Step};
use crate::tree::{Id, Kind, Tree};

/// The changes to the values of a document.
#[derive(Debug, Default)]
pub(crate) struct Plan<'e> {
    fates: BTreeMap<Id, Fate<'e>>,
    growth: BTreeMap<Id, Growth<'e>>,
}

/// A change to a value as a whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fate<'e> {
    /// It is set to its current value.
    Keep,
    Replace(&'e Value),
    Remove,
}

/// The additions to a container.
#[derive(Debug)]
pub(crate) enum Growth<'e> {
    Members(Members),
    Elements(Vec<&'e Value>),
}

/// New properties of one object, in order.
#[derive(Debug, Default)]
pub(crate) struct Members {
    list: Vec<(String, New)>,
    places: HashMap<String, usize>,
}

/// A new property's value.
#[derive(Debug)]
pub(crate) enum New {
    /// A value from an edit.
    Value(Value),
    /// An object that is created because an edit's path leads through it.
    Parent(Members),
    /// An array that is created because an edit pushes to it.
    Array(Vec<Value>),
}

impl<'e> Plan<'e> {
    /// Groups `edits` to a document with this tree and value.
    pub(crate) fn new(tree: &Tree, value: &Value, edits: &'e [Edit]) -> Self {
        let mut plan = Self::default();
        for edit in edits {
            match edit {
                Edit::Set { path, value: new } => match tree.resolve(path) {
                    (id, []) => {
                        let fate = if at(value, path) == Some(new) { Fate::Keep } else { Fate::Replace(new) };
                        plan.fates.insert(id, fate);
                    }
                    (id, rest) => plan.add(tree, id, rest, |slot| *slot = New::Value(new.clone())),
                },
                Edit::Push { path, value: new } => match tree.resolve(path) {
                    (id, []) => plan.push(tree, id, new),
                    (id, rest) => plan.add(tree, id, rest, |slot| slot.push(new.clone())),
                },
                Edit::Remove { path } => {
                    debug_assert!(!path.is_empty(), "the root cannot be removed");
                    if let (id @ 1.., []) = tree.resolve(path) {
                        plan.fates.extend(tree.namesakes(id).into_iter().map(|id| (id, Fate::Remove)));
                    }
                }
            }
        }
        plan.drop_inner(tree);
        plan
    }

    fn add(&mut self, tree: &Tree, id: Id, rest: &[Step], change: impl FnOnce(&mut New)) {
        let fits = matches!(tree.node(id).kind, Kind::Object(_))
            && rest.iter().all(|step| matches!(step, Step::Key(_)));
        debug_assert!(fits, "{rest:?} leads nowhere from {:?}", tree.node(id).kind);
        if !fits {
            return;
        }
        let growth = self.growth.entry(id).or_insert_with(|| Growth::Members(Members::default()));
        if let Growth::Members(members) = growth {
            members.change(rest, change);
        }
    }

    fn push(&mut self, tree: &Tree, id: Id, value: &'e Value) {
        let fits = matches!(tree.node(id).kind, Kind::Array(_));
        debug_assert!(fits, "a push onto {:?}", tree.node(id).kind);
        if !fits {
            return;
        }
        if let Growth::Elements(elements) =
            self.growth.entry(id).or_insert_with(|| Growth::Elements(Vec::new()))
        {
            elements.push(value);
        }
    }

    /// Drops the edits inside values that other edits replace or remove.
    fn drop_inner(&mut self, tree: &Tree) {
        let Self { fates, growth } = self;
        let covered = |id: Id| std::iter::successors(tree.node(id).parent, |id| tree.node(*id).parent);
        growth.retain(|id, _| !fates.contains_key(id) && !covered(*id).any(|id| fates.contains_key(&id)));
        let inner: Vec<Id> =
            fates.keys().copied().filter(|id| covered(*id).any(|id| fates.contains_key(&id))).collect();
        for id in inner {
            fates.remove(&id);
        }
    }

    /// Returns all values that are replaced or removed, in the order of the document.
    pub(crate) fn fates(&self) -> impl Iterator<Item = (Id, Fate<'e>)> {
        self.fates.iter().map(|(id, fate)| (*id, *fate))
    }

    /// Returns all containers with additions, in the order of the document.
    pub(crate) fn growth(&self) -> impl Iterator<Item = (Id, &Growth<'e>)> {
        self.growth.iter().map(|(id, growth)| (*id, growth))
    }

    /// Returns the additions to a container.
    pub(crate) fn growth_of(&self, id: Id) -> Option<&Growth<'e>> {
        self.growth.get(&id)
    }

    pub(crate) fn removes(&self, id: Id) -> bool {
        self.fates.get(&id) == Some(&Fate::Remove)
    }
}

/// Returns the value at `path` in plain data.
pub(crate) fn at<'v>(value: &'v Value, path: &[Step]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get(key),
        Step::Index(index) => value.get(index),
    })
}

impl Members {
    /// Changes the value at the end of `path`, creating it if necessary.
    fn change(&mut self, path: &[Step], change: impl FnOnce(&mut New)) {
        let [Step::Key(key), rest @ ..] = path else {
            unreachable!("the plan lets only keys through");
        };
        let slot = self.slot(key);
        if rest.is_empty() {
            return change(slot);
        }
        if let New::Value(Value::Object(object)) = slot {
            let mut members = Self::default();
            for (key, value) in std::mem::take(object) {
                *members.slot(&key) = New::Value(value);
            }
            *slot = New::Parent(members);
        }
        debug_assert!(matches!(slot, New::Parent(_) | New::Value(Value::Null)), "{key} is no object");
        if !matches!(slot, New::Parent(_)) {
            *slot = New::Parent(Self::default());
        }
        if let New::Parent(members) = slot {
            members.change(rest, change);
        }
    }

    fn slot(&mut self, key: &str) -> &mut New {
        let place = *self.places.entry(key.to_owned()).or_insert_with(|| {
            self.list.push((key.to_owned(), New::Value(Value::Null)));
            self.list.len() - 1
        });
        &mut self.list[place].1
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &New)> {
        self.list.iter().map(|(key, new)| (key.as_str(), new))
    }
}

impl New {
    fn push(&mut self, value: Value) {
        match self {
            Self::Array(elements) | Self::Value(Value::Array(elements)) => elements.push(value),
            Self::Value(Value::Null) => *self = Self::Array(vec![value]),
            other => debug_assert!(false, "a push onto {other:?}"),
        }
    }

    /// Returns the value as plain data.
    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Value(value) => value.clone(),
            Self::Parent(members) => Value::Object(
                members.iter().map(|(key, new)| (key.to_owned(), new.to_value())).collect::<Map<_, _>>(),
            ),
            Self::Array(elements) => Value::Array(elements.clone()),
        }
    }
}
