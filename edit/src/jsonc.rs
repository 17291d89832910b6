//! The JSONC editor: turns a plan into splices of the text.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::list::{Habit, Shape};
use crate::plan::{Fate, Growth, Plan};
use crate::source::{Source, Splices};
use crate::tree::{Id, Kind, Tree};
use render::Render;

mod layout;
mod parse;
mod render;

pub(crate) use layout::Layout;
pub(crate) use parse::{read, structure};

/// Computes the splices that apply the plan.
pub(crate) fn splices(layout: &Layout, source: &Source, tree: &Tree, plan: &Plan) -> Splices {
    let mut out = Splices::default();
    let mut changed: BTreeSet<Id> = plan.growth().map(|(id, _)| id).collect();
    for (id, fate) in plan.fates() {
        match fate {
            Fate::Keep => {}
            Fate::Remove => changed.extend(tree.node(id).parent),
            Fate::Replace(value) => replace(layout, source, tree, id, value, &mut out),
        }
    }
    for id in changed {
        let list = &layout.lists[&id];
        let Render { unit, trailing, .. } = layout.render(source, tree, id);
        // In a document on one line, everything stays there, unless it was empty.
        let is_root = tree.node(id).parent.is_none();
        let habit = Habit { unit, trailing, open: is_root || !source.one_line(&tree.root().range) };
        let shape = list.shape(source, |item| !plan.removes(item.id), &habit);
        let added = plan
            .growth_of(id)
            .map_or_else(Vec::new, |growth| entries(layout, source, tree, id, growth, &shape));
        list.edit(source, &shape, |id| plan.removes(id), &added, &mut out);
    }
    out
}

/// Replaces a value. The new value is spread over lines if the old one or its surroundings are.
fn replace(layout: &Layout, source: &Source, tree: &Tree, id: Id, value: &Value, out: &mut Splices) {
    let node = tree.node(id);
    let example = match (layout.lists.get(&id), node.parent) {
        (Some(list), _) if !list.items.is_empty() => Some(id),
        (_, parent) => parent,
    };
    let lines = example.is_none_or(|example| !source.one_line(&tree.node(example).range));
    let mut text = String::new();
    layout.render(source, tree, id).value(&mut text, value, source.indent(node.range.start), lines);
    out.replace(node.range.clone(), text);
}

/// Renders the new entries of a list.
fn entries(
    layout: &Layout,
    source: &Source,
    tree: &Tree,
    id: Id,
    growth: &Growth,
    shape: &Shape,
) -> Vec<String> {
    let render = layout.render(source, tree, id);
    let lines = shape.lines || !source.one_line(&tree.node(id).range);
    match growth {
        Growth::Members(members) => members
            .iter()
            .map(|(key, new)| {
                let mut text = format!("{}: ", Value::from(key));
                render.value(&mut text, &new.to_value(), &shape.indent, lines);
                text
            })
            .collect(),
        Growth::Elements(values) => {
            let mut objects = tree
                .children(id)
                .into_iter()
                .map(|id| tree.node(id))
                .filter(|node| matches!(node.kind, Kind::Object(_)))
                .peekable();
            let lines = match objects.peek() {
                Some(_) => objects.any(|object| !source.one_line(&object.range)),
                None => lines,
            };
            values
                .iter()
                .map(|value| {
                    let mut text = String::new();
                    render.value(&mut text, value, &shape.indent, lines);
                    text
                })
                .collect()
        }
    }
}
