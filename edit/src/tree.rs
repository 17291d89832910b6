//! The values of a document and their ranges, the same for both formats.

use std::collections::HashMap;
use std::ops::Range;

use crate::edit::Step;

/// The index of a value in its [`Tree`]. A child's is greater than its parent's.
pub(crate) type Id = usize;

/// All values of a document.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
}

/// A value.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) parent: Option<Id>,
    pub(crate) range: Range<usize>,
    pub(crate) key: Option<Range<usize>>,
    pub(crate) name: Option<String>,
    pub(crate) kind: Kind,
}

/// The kind of a value.
#[derive(Debug)]
pub(crate) enum Kind {
    Scalar,
    /// All properties by name, in order. Of duplicate keys, the last one counts.
    Object(HashMap<String, Vec<Id>>),
    Array(Vec<Id>),
}

impl Kind {
    pub(crate) fn object() -> Self {
        Self::Object(HashMap::new())
    }
}

impl Tree {
    /// Adds a value to the container `parent`, as the property `name` if there is one.
    pub(crate) fn add(
        &mut self,
        parent: Option<Id>,
        name: Option<(String, Range<usize>)>,
        range: Range<usize>,
        kind: Kind,
    ) -> Id {
        let id = self.nodes.len();
        let (name, key) = name.unzip();
        match (parent.map(|parent| &mut self.nodes[parent].kind), &name) {
            (Some(Kind::Object(members)), Some(name)) => {
                members.entry(name.clone()).or_default().push(id);
            }
            (Some(Kind::Array(elements)), None) => elements.push(id),
            (None, None) => {}
            _ => unreachable!("a property belongs to an object, an element to an array"),
        }
        self.nodes.push(Node { parent, range, key, name, kind });
        id
    }

    /// Returns the whole document.
    pub(crate) fn root(&self) -> &Node {
        &self.nodes[0]
    }

    pub(crate) fn node(&self, id: Id) -> &Node {
        &self.nodes[id]
    }

    pub(crate) fn node_mut(&mut self, id: Id) -> &mut Node {
        &mut self.nodes[id]
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the children of a value.
    pub(crate) fn children(&self, id: Id) -> Vec<Id> {
        match &self.nodes[id].kind {
            Kind::Scalar => Vec::new(),
            Kind::Object(members) => members.values().flatten().copied().collect(),
            Kind::Array(elements) => elements.clone(),
        }
    }

    /// Returns the value at `path`.
    pub(crate) fn find(&self, path: &[Step]) -> Option<Id> {
        match self.resolve(path) {
            (id, []) => Some(id),
            _ => None,
        }
    }

    /// Returns the deepest existing value on `path`, and the remaining steps.
    pub(crate) fn resolve<'p>(&self, path: &'p [Step]) -> (Id, &'p [Step]) {
        let mut id = 0;
        let mut rest = path;
        while let [step, tail @ ..] = rest {
            let next = match (step, &self.nodes[id].kind) {
                (Step::Key(key), Kind::Object(members)) => members.get(key).and_then(|same| same.last()),
                (Step::Index(index), Kind::Array(elements)) => elements.get(*index),
                _ => None,
            };
            let Some(next) = next else { break };
            (id, rest) = (*next, tail);
        }
        (id, rest)
    }

    /// Returns the property and its duplicates in the same object.
    pub(crate) fn namesakes(&self, id: Id) -> Vec<Id> {
        let node = &self.nodes[id];
        match (node.parent.map(|parent| &self.nodes[parent].kind), &node.name) {
            (Some(Kind::Object(members)), Some(name)) => members[name].clone(),
            _ => vec![id],
        }
    }

    /// Returns the keys from the root to a value, without indices.
    pub(crate) fn keys(&self, mut id: Id) -> Vec<&str> {
        let mut keys = Vec::new();
        while let Some(parent) = self.nodes[id].parent {
            keys.extend(self.nodes[id].name.as_deref());
            id = parent;
        }
        keys.reverse();
        keys
    }
}
