//! The operations on a project, and the strategy that generates them.

use proptest::collection::vec;
use proptest::prelude::*;

/// An operation. Small numbers select from what exists at that time, so that every part of a history is a valid
/// history, and a failing one can shrink.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    /// Adds a sandbox file.
    Add { file: u8, class: u8, attributes: u8 },
    /// Moves a file and keeps its class.
    Move { which: u8, file: u8 },
    /// Renames the struct; `said` adds `renamed_from`.
    RenameClass { which: u8, class: u8, declared: bool },
    /// Renames the struct and the file.
    RenameBoth { which: u8, class: u8, file: u8, declared: bool },
    /// Removes `renamed_from`, or adds one for an unknown class.
    RenamedFrom { which: u8 },
    /// Deletes a file.
    Delete { which: u8 },
    /// Restores a deleted file.
    Restore { which: u8 },
    /// Changes the other keys of the attribute.
    Attributes { which: u8, attributes: u8 },
    /// Adds a named environment, with or without its own list.
    AddEnvironment { own: bool },
    /// Removes an environment and its Worker.
    RemoveEnvironment { which: u8 },
    /// Copies the inherited list of classes into an environment.
    OwnList { which: u8 },
    /// Sets or removes `[package.metadata.koze] environments`.
    Restrict { which: u8 },
    /// The user edits the configuration.
    Hand { kind: u8, place: u8 },
    /// Runs `koze build`, and answers its questions until it succeeds.
    Build { way: u8 },
    /// Runs `koze build --check` or `--dry-run`, or a dry run of `koze remove`.
    Look { kind: u8 },
    /// Runs `koze remove` on some of the deleted sandboxes.
    Remove { which: u8, delete: bool, by_class: bool },
    /// Deploys the top level or an environment if the project is up to date.
    Deploy { which: u8 },
    /// Reverts the last build, as version control would.
    Revert,
    /// Loses `koze.lock`.
    LoseLock,
}

/// A history: the seed of the initial configuration, and the operations.
pub(crate) type History = (u16, Vec<Op>);

pub(crate) fn history() -> impl Strategy<Value = History> {
    // Start with a few sandboxes, because most operations need one.
    (any::<u16>(), vec(add(), 1..4), vec(op(), 6..30))
        .prop_map(|(dice, first, then)| (dice, [first, then].concat()))
}

fn add() -> impl Strategy<Value = Op> {
    let attributes = any::<u8>();
    (0..12_u8, 0..12_u8, attributes).prop_map(|(file, class, attributes)| Op::Add { file, class, attributes })
}

fn op() -> impl Strategy<Value = Op> {
    let n = || 0..12_u8;
    prop_oneof![
        4 => add(),
        2 => (n(), n()).prop_map(|(which, file)| Op::Move { which, file }),
        6 => (n(), n(), any::<bool>()).prop_map(|(which, class, declared)| Op::RenameClass { which, class, declared }),
        2 => (n(), n(), n(), any::<bool>())
            .prop_map(|(which, class, file, declared)| Op::RenameBoth { which, class, file, declared }),
        1 => n().prop_map(|which| Op::RenamedFrom { which }),
        3 => n().prop_map(|which| Op::Delete { which }),
        1 => n().prop_map(|which| Op::Restore { which }),
        2 => (n(), any::<u8>()).prop_map(|(which, attributes)| Op::Attributes { which, attributes }),
        2 => any::<bool>().prop_map(|own| Op::AddEnvironment { own }),
        1 => n().prop_map(|which| Op::RemoveEnvironment { which }),
        2 => n().prop_map(|which| Op::OwnList { which }),
        3 => n().prop_map(|which| Op::Restrict { which }),
        3 => (n(), any::<u8>()).prop_map(|(kind, place)| Op::Hand { kind, place }),
        10 => any::<u8>().prop_map(|way| Op::Build { way }),
        1 => n().prop_map(|kind| Op::Look { kind }),
        3 => (any::<u8>(), any::<bool>(), any::<bool>())
            .prop_map(|(which, delete, by_class)| Op::Remove { which, delete, by_class }),
        4 => n().prop_map(|which| Op::Deploy { which }),
        1 => Just(Op::Revert),
        1 => Just(Op::LoseLock),
    ]
}
